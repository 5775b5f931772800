"""Comments on types, made from their metadata."""

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ForwardRef

import annotated_types
import msgspec
import typing_extensions
from msgspec import Struct
from pydantic import AliasChoices, AliasPath, Discriminator
from pydantic.fields import FieldInfo

from ..signatures import resolve_references
from .plain_text import class_of, has_base, single_line, type_module
from .types import TypeNames, is_type_expression, literal_text, written_type

_DESCRIPTION_CHARACTERS = 300
_PATTERN_CHARACTERS = 200
_MAX_DEPTH = 4
_MAX_DESCRIBED = 1_024

_BOUNDS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}
_LENGTHS = {"min_length": "len >= {}", "max_length": "len <= {}"}


class DataKey(Struct, frozen=True):
    """The key of a field in plain data; metadata of a field."""

    key: str


class InData(Struct, frozen=True):
    """Marks a field that exists only in plain data; metadata of a field."""


def comments_on_parameters(
    signature: inspect.Signature, names: TypeNames, namespace: Mapping[str, object]
) -> str:
    """Return the comments on the parameters and the result of a function; empty for none.

    Args:
        signature: Its signature.
        names: The names by which the block writes types.
        namespace: The values of names in annotations that are texts.
    """
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    said = (
        (name, comment_of(_with_metadata(annotation, namespace), (), names).replace("; ", ", "))
        for name, annotation in {**annotations, "result": signature.return_annotation}.items()
        if annotation is not signature.empty and _may_have_metadata(annotation)
    )
    return "; ".join(f"{name}: {comment}" for name, comment in said if comment)


def _may_have_metadata(annotation: object) -> bool:
    return type(annotation) in (str, ForwardRef) or is_type_expression(annotation)


def _with_metadata(annotation: object, namespace: Mapping[str, object]) -> object:
    """The type that a text names, if it may have metadata; other texts are not evaluated."""
    if type(annotation) is ForwardRef:
        annotation = annotation.__forward_arg__
    if type(annotation) is not str or not _mentions_metadata(annotation, namespace):
        return annotation
    try:
        return resolve_references(annotation, {**namespace}, {})
    except Exception:  # any expression; its names may be defined later
        return annotation


def _mentions_metadata(text: str, namespace: Mapping[str, object]) -> bool:
    words = re.findall(r"\w+", text[:_PATTERN_CHARACTERS])
    return "Annotated" in words or any(_is_annotated(namespace.get(each)) for each in words)


def _is_annotated(annotation: object) -> bool:
    return id(type(annotation)) == _ANNOTATED  # the value is not asked


_ANNOTATED = id(type(typing_extensions.Annotated[int, 0]))


def described_type(annotation: object, names: TypeNames) -> str:
    """A type on one line, with the constraints of its values in parentheses.

    Args:
        annotation: The type.
        names: The names by which the block writes types.
    """
    known = _find_known(annotation)
    if known is not None and all(names.leads_to(text, named) is is_ for named, text, is_ in known.written):
        for named, _, _ in known.written:
            names.written(named)
        return known.text
    noted = names.apart()
    text, comment = written_type(annotation, noted), comment_of(annotation, (), noted)
    described = f"{text} ({comment})" if comment else text
    mentioned = noted.mentioned.values()
    written = tuple((each, names.written(each), names.is_reachable(each)) for each in mentioned)
    _remember(annotation, _Described(described, written))
    return described


class _Described(Struct, frozen=True):
    """A type that was described, and the written forms of the types that it mentions."""

    text: str
    written: tuple[tuple[object, str, bool], ...]


_described: dict[object, _Described] = {}


def _find_known(annotation: object) -> _Described | None:
    try:
        return _described.get(annotation)
    except TypeError:  # not hashable: Annotated[int, {}]
        return None


def _remember(annotation: object, described: _Described) -> None:
    try:
        _described[annotation] = described
    except TypeError:
        return
    if len(_described) > _MAX_DESCRIBED:
        _described.pop(next(iter(_described)), None)


def comment_of(annotation: object, metadata: Iterable[object], names: TypeNames) -> str:
    """Return the comment on values of a type; empty for none.

    Args:
        annotation: The type.
        metadata: The metadata of this use of it: the constraints of a field for example.
        names: The names by which the block writes types.
    """
    facts = _Facts()
    for each in metadata:
        facts.add(each)
    facts.add_annotation(annotation)
    nested = _constraints_of(annotation, names)
    return "; ".join(dict.fromkeys([*facts.descriptions, *facts.phrases(), *nested, *facts.keys]))


def _constraints_of(annotation: object, names: TypeNames, depth: int = 0) -> Iterator[str]:
    """Return the constraints of the parts of a type, each with the type of the part.

    Args:
        annotation: The type.
        names: The names by which the block writes types.
        depth: The nesting depth of the type.
    """
    if depth > _MAX_DEPTH or _is_literal(annotation):
        return
    is_annotated = typing_extensions.get_origin(annotation) is typing_extensions.Annotated
    arguments: tuple[Any, ...] = typing_extensions.get_args(annotation)
    for argument in arguments[:1] if is_annotated else arguments:
        facts = _Facts()
        if not is_annotated:
            facts.add_annotation(argument)
        said = [*facts.descriptions, *facts.phrases()]
        if said:
            yield f"{written_type(argument, names)}: {', '.join(said)}"
        yield from _constraints_of(argument, names, depth + 1)


class _Facts:
    """Facts about a value, collected from metadata of several libraries."""

    def __init__(self) -> None:
        self.descriptions: list[str] = []
        self.keys: list[str] = []
        self._bounds: dict[str, str] = {}
        self._others: list[str] = []

    def phrases(self) -> list[str]:
        """The constraints, each in a few words."""
        bounds = [_BOUNDS[name].format(self._bounds[name]) for name in _BOUNDS if name in self._bounds]
        lengths = [_LENGTHS[name].format(self._bounds[name]) for name in _LENGTHS if name in self._bounds]
        if len(lengths) == 2:
            least, most = self._bounds["min_length"], self._bounds["max_length"]
            lengths = [f"len {least}" if least == most else f"len {least} to {most}"]
        return [*([", ".join(bounds)] if bounds else []), *lengths, *self._others]

    def add_annotation(self, annotation: object) -> None:
        """Add the metadata of `Annotated`."""
        if typing_extensions.get_origin(annotation) is typing_extensions.Annotated:
            for each in getattr(annotation, "__metadata__", ()):
                self.add(each)

    def add(self, item: object) -> None:
        """Add one item of metadata; one of an unknown class is ignored."""
        kind = type(item)
        if type(item) is FieldInfo:
            self._add_info(item)
        elif type(item) is msgspec.Meta:
            self._add_meta(item)
        elif type(item) is DataKey:
            self.keys.append(f"key {literal_text(item.key)}")
        elif kind is InData:
            self.keys.append("in data only")
        elif kind is Discriminator:
            self._add_discriminator(item)
        elif type_module(kind) in _KNOWN_MODULES:
            self._add_constraint(item)

    def _add_info(self, info: FieldInfo) -> None:
        self._describe(info.description)
        self._add_discriminator(info.discriminator)
        for each in info.metadata:
            self.add(each)
        alias = info.validation_alias if info.validation_alias is not None else info.alias
        if alias is not None:
            self.keys.append(f"key {_alias_text(alias)}")

    def _add_meta(self, meta: msgspec.Meta) -> None:
        self._describe(meta.description)
        for name in (*_BOUNDS, *_LENGTHS):
            if (bound := getattr(meta, name)) is not None:
                self._bounds[name] = _bound_text(bound)
        self._add_others(meta)

    def _add_discriminator(self, discriminator: object) -> None:
        if type(discriminator) is Discriminator:
            discriminator = discriminator.discriminator
        if isinstance(discriminator, str):
            self._others.append(f"told apart by {single_line(discriminator, 80)}")

    def _add_constraint(self, item: Any) -> None:
        if has_base(class_of(item), _GROUPED):
            for each in item:
                self.add(each)
            return
        if type(item) is annotated_types.Timezone:
            self._others.append("without time zone" if item.tz is None else "with time zone")
        elif type(item) is annotated_types.Predicate:
            self._add_predicate(item.func)
        for name in (*_BOUNDS, *_LENGTHS):
            bound: object = _attribute(item, name)
            if bound is not None:
                self._bounds[name] = _bound_text(bound)
        self._describe(_attribute(item, "documentation"))
        self._add_others(item)

    def _add_others(self, item: object) -> None:
        multiple, pattern = _attribute(item, "multiple_of"), _attribute(item, "pattern")
        if multiple is not None:
            self._others.append(f"multiple of {_bound_text(multiple)}")
        if pattern is not None:
            pattern = _attribute(pattern, "pattern") or pattern
            if isinstance(pattern, str):
                self._others.append(f"matches {single_line(pattern, _PATTERN_CHARACTERS)}")
        for name, text in (("max_digits", "at most {} digits"), ("decimal_places", "{} decimal places")):
            if (number := _attribute(item, name)) is not None:
                self._others.append(text.format(_bound_text(number)))
        if type(zone := _attribute(item, "tz")) is bool:
            self._others.append("with time zone" if zone else "without time zone")

    def _add_predicate(self, function: object) -> None:
        name = getattr(function, "__name__", "") if type(function) in _NAMED_IN_C else ""
        if name:
            self._others.append(single_line(name, 80))

    def _describe(self, description: object) -> None:
        if type(description) is str and (text := " ".join(description.split())):
            self.descriptions.append(single_line(text, _DESCRIPTION_CHARACTERS))


_KNOWN_MODULES = frozenset(
    {
        "annotated_types",
        "pydantic.types",
        "pydantic._internal._fields",
        "pydantic._internal._known_annotated_metadata",
    }
    | {"typing_extensions", "annotated_doc", "pydantic.annotated_handlers"}
)
"""Modules whose objects' attributes may be read."""

_READABLE_MODULES = _KNOWN_MODULES | {"msgspec", "msgspec._core", "re"}

_GROUPED: type = annotated_types.GroupedMetadata
_NAMED_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType)


def _attribute(item: object, name: str) -> object:
    """An attribute of a metadata object; None without one."""
    return getattr(item, name, None) if type_module(type(item)) in _READABLE_MODULES else None


def _is_literal(annotation: object) -> bool:
    return typing_extensions.get_origin(annotation) is typing_extensions.Literal


def _bound_text(bound: object) -> str:
    if type(bound) is float and bound.is_integer():
        return str(int(bound))
    return single_line(str(bound), 80) if type_module(type(bound)) in _PLAIN_MODULES else "..."


_PLAIN_MODULES = frozenset({"builtins", "decimal", "datetime", "fractions"})


def _alias_text(alias: object) -> str:
    if type(alias) is AliasChoices:
        return " or ".join(map(_alias_text, alias.choices))
    if type(alias) is AliasPath:
        root, *path = alias.path
        return literal_text(root) + "".join(f"[{literal_text(step)}]" for step in path)
    return literal_text(alias)
