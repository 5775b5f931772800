"""Stubs of types, a few lines of Python that show how to make a value, and the section that holds them.

The TYPES section of a prompt has stubs of the types that a block produces and uses, within a budget. Its text
is cached for the same types, written in the same way, so equal types mean equal bytes and no type is
inspected a second time.
"""

import dataclasses
import json
import re
import typing
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from operator import itemgetter
from types import FunctionType
from typing import Any, cast

import typing_extensions
from msgspec import Struct

from ...secret_names import HIDDEN, hides_value
from ..callables import CallableDescription, describe_callable, summary_of
from ..comments import comment_of
from ..objects import class_methods, class_properties, is_public_name, special_methods
from ..plain_text import (
    break_delimiters,
    class_dictionary,
    class_value,
    clean_text,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_class,
    resolution_order,
    type_module,
    type_name,
)
from ..scalars import describe_enumeration
from ..tokens import TokenCounter
from ..types import (
    TypeNames,
    default_text,
    is_of_library,
    is_standard,
    is_type_alias,
    literal_text,
    own_name,
    written_type,
)
from .fields import NO_DEFAULT, RecordField, Records, find_records, namespace_of, type_hints

AS_DATA = "give as data"
"""The comment on a class that the block's expressions do not reach."""

_LINE_CHARACTERS = 100
_INDENT = "    "
_MAX_METHODS = 16
_MAX_MEMBERS = 1_000


def stub_of(annotation: object, names: TypeNames) -> str:
    """The stubs of the types that an annotation mentions, for a message about a value; empty without any.

    Args:
        annotation: The type: that of a write binding for example.
        names: The names by which the block writes types.
    """
    mentioned = names.apart()
    written_type(annotation, mentioned)
    stubs = ["\n".join(stub_lines(named, names)) for named in mentioned.mentioned.values()]
    return break_delimiters(clean_text("\n".join(filter(None, stubs))))


def stub_lines(named: object, names: TypeNames, *, is_described: bool = False) -> list[str]:
    """The stub of a class, a `NewType` or a type alias, line by line; empty when it needs none.

    No code of the type runs, except annotations that are evaluated late.

    Args:
        named: The class, `NewType` or alias. Types of the standard library and of other libraries need no
            stub, unless they declare the data that their instances hold.
        names: The names by which the block writes types.
        is_described: Whether the methods and fields of an object of this class are shown with a value.
    """
    if is_standard(named):
        return []
    if is_type_alias(named):
        return [_alias_line(named, names)]
    if type(named) is typing.NewType:
        comment = _comment(comment_of(named.__supertype__, (), names))
        name = names.written(named)
        return [f'{name} = NewType("{name}", {written_type(named.__supertype__, names)}){comment}']
    if not is_class(named):
        return []
    if describe_enumeration(named) is not None:
        return _enumeration_lines(named, names)
    if class_value(named, "__pydantic_root_model__") is True:
        return [_root_model_line(named, names)]
    records = find_records(named)
    if records is not None:
        return _record_lines(named, records, names, has_methods=not is_described)
    return [] if is_described or is_of_library(named) else _plain_lines(named, names)


def _alias_line(alias: Any, names: TypeNames) -> str:
    parameters = _parameters(getattr(alias, "__type_params__", ()))
    try:
        value = alias.__value__
    except Exception:
        # The right-hand side is the program's own expression and may fail in any way.
        return f"type {names.written(alias)}{parameters} = ..."
    comment = _comment(comment_of(value, (), names))
    return f"type {names.written(alias)}{parameters} = {written_type(value, names)}{comment}"


def _enumeration_lines(cls: type, names: TypeNames) -> list[str]:
    description = describe_enumeration(cls)
    assert description is not None
    members = cast("dict[str, Enum]", class_dictionary(cls).get("_member_map_"))
    shown = [
        f"{name} = {literal_text(instance_dictionary(members[name]).get('_value_'))}"
        for name in islice(description.member_names, _MAX_MEMBERS)
    ]
    head = f"class {names.written(cls)}({description.kind}):"
    comment = _comment(_about(cls, names))
    line = f"{head} {'; '.join(shown)}"
    if not comment and len(line) <= _LINE_CHARACTERS:
        return [line]
    return [head + comment, *_wrapped(shown)]


def _wrapped(statements: list[str]) -> Iterator[str]:
    line = ""
    for statement in statements:
        if line and len(line) + len(statement) > _LINE_CHARACTERS:
            yield _INDENT + line
            line = ""
        line += f"; {statement}" if line else statement
    yield _INDENT + line


def _root_model_line(cls: Any, names: TypeNames) -> str:
    root = class_value(cls, "__pydantic_fields__")["root"]
    said = filter(None, (_about(cls, names), comment_of(root.annotation, (root,), names)))
    head = f"class {names.written(cls)}{_type_parameters(cls)}"
    return f"{head}(RootModel[{written_type(root.annotation, names)}]): ...{_comment('; '.join(said))}"


def _record_lines(cls: type, records: Records, names: TypeNames, *, has_methods: bool) -> list[str]:
    base = f"({records.base})" if records.base else ""
    head = f"class {names.written(cls)}{_type_parameters(cls)}{base}:"
    is_partial = records.base.endswith("total=False")
    body = [
        *(_field_line(field, records, names, is_partial) for field in records.fields),
        *(_property_lines(cls, names, {field.name for field in records.fields}) if has_methods else ()),
        *(_method_lines(cls, names) if has_methods else ()),
    ]
    comment = _comment(summary_of(cls) if records.base.startswith("TypedDict") else _about(cls, names))
    return [head + comment, *body] if body else [f"{head} ...{comment}"]


def _field_line(field: RecordField, records: Records, names: TypeNames, is_partial: bool) -> str:
    text = written_type(field.annotation, names, records.namespace)
    if field.is_optional and not is_partial:
        text = f"NotRequired[{text}]"
    if field.default is not NO_DEFAULT:
        text += f" = {_default_text(field, names)}"
    name = field.name if field.name.isidentifier() else literal_text(field.name)
    return f"{_INDENT}{name}: {text}{_comment(comment_of(field.annotation, field.metadata, names))}"


def _default_text(field: RecordField, names: TypeNames) -> str:
    value = field.default
    if hides_value(field.name, value):
        return HIDDEN
    if has_base(type(value), Enum):
        return written_type(typing_extensions.Literal[value], names)[len("Literal[") : -1]  # pyright: ignore[reportInvalidTypeForm]
    return literal_text(value) if type(value) is str and len(value) <= 60 else default_text(value)


def _plain_lines(cls: type, names: TypeNames) -> list[str]:
    """The stub of a class that declares no data: its constructor and its methods."""
    is_protocol = class_dictionary(cls).get("_is_protocol") is True
    base = "(Protocol)" if is_protocol else _exception_base(cls)
    head = f"class {names.written(cls)}{_type_parameters(cls)}{base}:"
    comment = _comment(summary_of(cls))
    body = [*(_attribute_lines(cls, names) if is_protocol else _start_lines(cls, names))]
    body.extend(_property_lines(cls, names, ()))
    body.extend(_method_lines(cls, names))
    return [head + comment, *body] if body else [f"{head} ...{comment}"]


def _exception_base(cls: type) -> str:
    """The exception of Python that a program's exception is; empty for other classes."""
    if not has_base(cls, BaseException):
        return ""
    standard = next(base for base in resolution_order(cls) if type_module(base) == "builtins")
    return f"({type_name(standard)})"


def _start_lines(cls: type, names: TypeNames) -> Iterator[str]:
    _, start = find_class_attribute(cls, "__init__")
    if type(start) is FunctionType:
        yield _method_line("__init__", describe_callable(start, names=names, is_bound=True))


def _attribute_lines(cls: type, names: TypeNames) -> Iterator[str]:
    """The attributes that a protocol requires."""
    for name, annotation in type_hints(cls).items():
        if is_public_name(name):
            yield f"{_INDENT}{name}: {written_type(annotation, names, namespace_of(cls))}"


def _property_lines(cls: type, names: TypeNames, hidden: Collection[str]) -> Iterator[str]:
    properties = class_properties(cls, hidden=hidden)
    for name, each in islice(sorted(properties.items(), key=itemgetter(0)), _MAX_METHODS):
        yield f"{_INDENT}{name}: {each.described(names)}"
    if len(properties) > _MAX_METHODS:
        yield f"{_INDENT}# {len(properties) - _MAX_METHODS} more properties"


def _method_lines(cls: type, names: TypeNames) -> Iterator[str]:
    own = [base for base in resolution_order(cls) if not is_of_library(base)]
    inner = {
        name for base in own for name, each in class_dictionary(base).items() if has_base(type(each), type)
    }
    methods = class_methods(cls, hidden=_validators(cls) | inner, bases=own)
    for name, method in islice(sorted(methods.items(), key=itemgetter(0)), _MAX_METHODS):
        yield _method_line(name, method.described(names))
    if len(methods) > _MAX_METHODS:
        yield f"{_INDENT}# {len(methods) - _MAX_METHODS} more methods"
    for name, method in special_methods(cls, own).items():
        yield _method_line(name, method.described(names))


def _validators(cls: type) -> set[str]:
    """The names of methods that pydantic calls."""
    decorators = class_dictionary(cls).get("__pydantic_decorators__")
    if type_module(type(decorators)).partition(".")[0] != "pydantic":
        return set()
    kinds = [getattr(decorators, field.name) for field in dataclasses.fields(cast(Any, decorators))]
    return {name for kind in kinds if type(kind) is dict for name in cast("dict[str, Any]", kind)}


def _method_line(name: str, description: CallableDescription) -> str:
    start = "async def" if description.asynchrony else "def"
    signature = (description.signature or "(...)").removeprefix("(")
    separator = "" if signature.startswith(")") else ", "
    said = "; ".join(filter(None, (description.summary, description.notes)))
    return f"{_INDENT}{start} {name}(self{separator}{signature}: ...{_comment(said)}"


def _about(cls: type, names: TypeNames) -> str:
    summary = summary_of(cls)
    if names.is_reachable(cls):
        return summary
    return f"{summary} ({AS_DATA})" if summary else AS_DATA


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""


def _type_parameters(cls: type) -> str:
    generic = class_dictionary(cls).get("__pydantic_generic_metadata__")
    if type(generic) is dict:
        return _parameters(cast("dict[str, Any]", generic)["parameters"])
    return _parameters(class_value(cls, "__parameters__"))


def _parameters(parameters: object) -> str:
    if type(parameters) is not tuple or not parameters:
        return ""
    return f"[{', '.join(map(own_name, cast('tuple[object, ...]', parameters)))}]"


HEADING = "TYPES: give instances, or plain data that validates."

TERSE_HEADING = "TYPES:"

_MAX_TYPES = 256
"""The number of types inspected for one section; far above what a budget can show."""

_MAX_SECTIONS = 512
_MAX_NAMES_LEFT_OUT = 20


class _Stub(Struct, frozen=True):
    """A stub and the name of its type."""

    name: str
    lines: tuple[str, ...]


class TypesSection:
    """The stubs of a block's types, those to be produced first; fitted into budgets.

    Args:
        stubs: The stubs in order.
        written: Every type that was inspected, its written form, and whether the block reaches it.

    Attributes:
        types: The types that were inspected.
    """

    def __init__(
        self, stubs: list[_Stub], written: Sequence[tuple[object, str, bool]], *, heading: str = HEADING
    ) -> None:
        self._stubs = stubs
        self._written = written
        self.types = tuple([each for each, *_ in written])
        self._whole = _text(["\n".join(stub.lines) for stub in stubs], heading) if stubs else ""
        self._said: dict[int, tuple[Mapping[str, Mapping[str, Any]], TypesSection]] = {}
        self._bytes = len(self._whole.encode("utf-8", "replace"))
        self._fitted: dict[tuple[int, TokenCounter], str] = {}

    def _without_said(self, schemas: Mapping[str, Mapping[str, Any]]) -> "TypesSection":
        """The section without the types of which JSON Schemas say all that their stubs say.

        Args:
            schemas: The schemas by the names of the types.
        """
        known = self._said.get(id(schemas))
        if known is None or known[0] is not schemas:
            kept = [
                stub for stub in self._stubs if not _says(schemas.get(stub.name.rpartition(".")[2]), stub)
            ]
            if len(self._said) >= _MAX_SECTIONS:
                self._said.clear()
            section = TypesSection(kept, self._written, heading=TERSE_HEADING)
            known = self._said[id(schemas)] = schemas, section
        return known[1]

    def is_written_with(self, names: TypeNames) -> bool:
        """Whether the types are still written in the same way.

        Args:
            names: The names by which the block writes types.
        """
        return all(names.leads_to(text, named) is is_reachable for named, text, is_reachable in self._written)

    def needs_counting(self, max_tokens: int, counter: TokenCounter) -> bool:
        """Whether fitting the budget needs the tokenizer.

        Args:
            max_tokens: The budget.
            counter: Counts tokens.
        """
        is_known = (max_tokens, counter) in self._fitted
        return 0 < max_tokens < self._bytes and not is_known

    def text(
        self, max_tokens: int, counter: TokenCounter, *, said: Mapping[str, Mapping[str, Any]] | None = None
    ) -> str:
        """The section within a budget; empty when there is nothing to show.

        Args:
            max_tokens: The number of tokens that it may have; 0 for no section.
            counter: Counts tokens.
            said: JSON Schemas by the names of types; a type is left out if its schema says all that its stub
                says. None for all types.
        """
        if said is not None and self._stubs:
            return self._without_said(said).text(max_tokens, counter)
        if max_tokens == 0 or self._bytes <= max_tokens:
            return self._whole if max_tokens else ""
        key = (max_tokens, counter)
        if key not in self._fitted:
            self._fitted[key] = self._fitting(max_tokens, counter)
        return self._fitted[key]

    def _fitting(self, max_tokens: int, counter: TokenCounter) -> str:
        """As many stubs as fit, the nearest first; only the very first is cut when it alone is too long."""
        shown: list[_Stub] = []
        for stub in self._stubs:
            if not counter.exceeds(_shown_text([*shown, stub], []), max_tokens):
                shown.append(stub)
        while shown and counter.exceeds(_shown_text(shown, self._others(shown)), max_tokens):
            shown.pop()
        if shown[:1] != self._stubs[:1]:
            shown = _cut(self._stubs, max_tokens, counter)
        return _shown_text(shown, self._others(shown)) if shown else ""

    def _others(self, shown: Sequence[_Stub]) -> list[_Stub]:
        names = {stub.name for stub in shown}
        return [stub for stub in self._stubs if stub.name not in names]


_sections: dict[tuple[object, ...], TypesSection] = {}


def types_section(names: TypeNames) -> TypesSection:
    """The section of a block whose types have been noted.

    Args:
        names: The names by which the block writes types, with the notes of the mentioned types and of the
            values' classes.
    """
    key = (*names.mentioned, None, *names.met, None, *names.described)
    section = _sections.get(key)
    if section is None or not section.is_written_with(names):
        section = _made_section(names)
        if len(_sections) >= _MAX_SECTIONS:
            _sections.pop(next(iter(_sections)), None)
        _sections[key] = section  # keeps the types alive, so their identities stay unique
    return section


def _made_section(names: TypeNames) -> TypesSection:
    """Stubs of mentioned types, each once, and then of the classes of values that are not among them.

    So values of mentioned types change nothing.
    """
    found: dict[int, object] = {}
    stubs = [
        stub for roots in (names.mentioned, names.met) for stub in _stubs_from(roots.values(), found, names)
    ]
    written = [(each, names.text_of(each), names.is_reachable(each)) for each in found.values()]
    return TypesSection(stubs, written)


def _stubs_from(roots: Iterable[object], found: dict[int, object], names: TypeNames) -> Iterator[_Stub]:
    """Stubs of types and then of the types that they mention, breadth first, without those found before."""
    waiting = deque[object]()
    for named in roots:
        if id(named) not in found:
            found[id(named)] = named
            waiting.append(named)
    while waiting:
        named = waiting.popleft()
        noted = names.apart()
        lines = stub_lines(named, noted, is_described=id(named) in names.described)
        if lines:
            yield _Stub(names.text_of(named), tuple(lines))
        for key, each in noted.mentioned.items():
            if lines and key not in found and len(found) < _MAX_TYPES:
                found[key] = each
                waiting.append(each)


def _cut(stubs: Sequence[_Stub], max_tokens: int, counter: TokenCounter) -> list[_Stub]:
    """The first stub with as many of its lines as fit; none when not even one line does."""
    first, *others = stubs
    for count in range(len(first.lines) - 1, 0, -1):
        cut = _Stub(first.name, (*first.lines[:count], "    ..."))
        if not counter.exceeds(_shown_text([cut], others), max_tokens):
            return [cut]
    return []


def _shown_text(shown: Sequence[_Stub], left_out: Sequence[_Stub]) -> str:
    pieces = ["\n".join(stub.lines) for stub in shown]
    if left_out:
        named = ", ".join(stub.name for stub in left_out[:_MAX_NAMES_LEFT_OUT])
        more = len(left_out) - _MAX_NAMES_LEFT_OUT
        pieces.append(f"# not shown: {named}" + (f" and {more} more" if more > 0 else ""))
    return _text(pieces)


def _text(pieces: Sequence[str], heading: str = HEADING) -> str:
    return break_delimiters(clean_text("\n".join((heading, *pieces))))


_CONSTRAINT = re.compile(r"[<>]=? |len |matches |multiple of |.+: (?:[<>]=? |len )|[Kk]ey ")
"""A comment that a keyword of a JSON Schema says."""


_ENUMERATION = re.compile(r"class \S+\(\w*(?:Enum|Flag)\):")
_MEMBER = re.compile(r"(\w+) = (.*)")


def _says_members(stub: _Stub) -> bool:
    """Whether the values of an enumeration, all that a schema has of it, say what their names say."""
    head, *rest = stub.lines
    if (match := _ENUMERATION.match(head)) is None:
        return True
    lines = [head[match.end() :].partition("  # ")[0], *rest]
    found = (_MEMBER.fullmatch(each.strip()) for line in lines for each in line.split("; ") if each.strip())
    return all(
        each is not None and re.sub(r"\W|_", "", each[1]).lower() == re.sub(r"\W|_", "", each[2]).lower()
        for each in found
    )


def _says(schema: Mapping[str, Any] | None, stub: _Stub) -> bool:
    """Whether a schema says what the comments of a stub say; its fields and their types it says anyway."""
    if schema is None or not _says_members(stub):
        return False
    text = json.dumps(schema, ensure_ascii=False, default=str)
    comments = (line.partition("  # ")[2] for line in stub.lines)
    parts = (part for each in comments for part in each.removesuffix(f" ({AS_DATA})").split("; "))
    return all(
        part in ("", AS_DATA) or json.dumps(part, ensure_ascii=False)[1:-1] in text or _CONSTRAINT.match(part)
        for part in parts
    )
