"""Types as text: type annotations and default values, by the names that the expressions of a block can use.

For ordinary annotations the text is that of `inspect`; `repr` is called only on objects whose class belongs
to the standard library. Anything that cannot be shown that way is `...`, as in a stub file.
"""

import ast
import builtins
import collections.abc
import json
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any, ForwardRef, cast

import typing_extensions

from .plain_text import (
    class_dictionary,
    class_of,
    clean_text,
    find_class_attribute,
    has_base,
    instance_dictionary,
    is_class,
    is_module,
    is_one_of,
    single_line,
    type_module,
    type_name,
)
from .scalars import find_scalar_text

_NAME_CHARACTERS = 120
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_MISSING = object()

_qualified_name_of_type = type.__dict__["__qualname__"].__get__


class TypeNames:
    """Names of types in one block, and the types written so far.

    A type is written by the nearest of the names under which the block's expressions reach it: its own name,
    another name bound to it, the name of an enclosing class or of a module that holds it. A type that is out
    of reach keeps its own name, with a number if that name means something else.

    Args:
        scopes: The names that expressions can use with their values, the innermost scope first. Builtins
            come after them.
    """

    __slots__ = (
        *("_by_identity", "_modules", "_scopes", "_texts", "_written"),
        *("declared", "described", "mentioned", "met"),
    )

    def __init__(self, *scopes: Mapping[str, object]) -> None:
        self._scopes = (*scopes, vars(builtins))
        self._by_identity: dict[int, str] | None = None
        self._modules: dict[str, types.ModuleType] = {}
        self._written: dict[int, tuple[object, str, bool]] = {}
        self._texts: dict[str, object] = {}
        self.mentioned: dict[int, object] = {}
        """The types that were written, by identity, in order."""
        self.met: dict[int, object] = {}
        """The classes of values that are shown, likewise."""
        self.described: dict[int, object] = {}
        """Those of them whose methods and fields are shown with a value."""
        self.declared: dict[str, str] = {}
        """The declared types of the function's parameters, by their names."""

    def written(self, named: object) -> str:
        """The name of a class, a `NewType` or a type alias in this block, which is noted as mentioned.

        Args:
            named: The class, `NewType` or alias.
        """
        self.mentioned[id(named)] = named
        return self._known(named)[1]

    def text_of(self, named: object) -> str:
        """The same name, without noting the type as mentioned.

        Args:
            named: The class, `NewType` or alias.
        """
        return self._known(named)[1]

    def leads_to(self, text: str, named: object) -> bool:
        """Whether a name, with or without dots, means a type.

        Args:
            text: The name.
            named: The class, `NewType` or alias.
        """
        root, *path = text.split(".")
        value = self._value(root)
        return _path_to(named, root, value, path) == text

    def is_reachable(self, named: object) -> bool:
        """Whether the block's expressions reach a class, a `NewType` or a type alias.

        Args:
            named: The class, `NewType` or alias.
        """
        return self._known(named)[2]

    def apart(self) -> "TypeNames":
        """The same names, with separate notes of mentioned types."""
        other = TypeNames.__new__(TypeNames)
        other._scopes, other._by_identity, other._modules = self._scopes, self._by_identity, self._modules
        other._written, other._texts = self._written, self._texts
        other.mentioned, other.met, other.described = {}, self.met, self.described
        other.declared = self.declared
        return other

    def looked_up(self, name: str) -> object:
        """The value of a name; the `Ellipsis` object when there is none.

        Args:
            name: The name.
        """
        value = self._value(name)
        return ... if value is _MISSING else value

    def find(self, named: object) -> str | None:
        """The nearest name under which the block's expressions reach a type; None when there is none.

        Args:
            named: The class, `NewType` or alias.
        """
        path = own_name(named).split(".")
        if self._value(path[-1]) is named and path[-1].isidentifier():
            return path[-1]
        if self._by_identity is None:
            self._index()
        alias = cast("dict[int, str]", self._by_identity).get(id(named))
        if alias is not None:
            return alias
        dotted = [text for text in self._dotted(named, path) if text]
        return min(dotted, key=lambda text: (text.count("."), len(text), text), default=None)

    def _known(self, named: object) -> tuple[object, str, bool]:
        known = self._written.get(id(named))
        if known is None:
            found = self.find(named)
            text = self._free_text(named) if found is None else found
            self._texts[text] = named
            known = self._written[id(named)] = (named, text, found is not None)
        return known

    def _free_text(self, named: object) -> str:
        """The name of a type out of reach, which must not be the name of another."""
        name = own_name(named).rpartition(".")[2]
        number, text = 1, name
        while self._texts.get(text, named) is not named or _is_type(self._value(text)):
            number += 1
            text = f"{name}{number}"
        return text

    def _value(self, name: str) -> object:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        return _MISSING

    def _index(self) -> None:
        """Record the names of types and modules; of several, the shortest of the innermost scope."""
        self._by_identity = index = {}
        seen: set[str] = set()
        for scope in self._scopes[:-1]:
            for name in sorted(scope.keys() - seen, key=lambda name: (len(name), name)):
                value = scope[name]
                if name.startswith("__") or not name.isidentifier():
                    continue
                if is_module(value):
                    self._modules.setdefault(name, value)
                elif id(value) not in index and _is_type(value):
                    index[id(value)] = name
            seen.update(scope)

    def _dotted(self, named: object, path: list[str]) -> Iterator[str]:
        """The paths to a type through a class or a module, empty texts among them."""
        if not all(map(str.isidentifier, path)):
            return  # a generic model with arguments, or a class made by a call with such a name
        yield _path_to(named, path[0], self._value(path[0]), path[1:])
        module = _module_name(named).split(".")
        for name, reached in self._modules.items():
            yield _path_to(named, name, reached, path)
            package = str(instance_dictionary(reached).get("__name__")).split(".")
            if module[: len(package)] == package:
                yield _path_to(named, name, reached, [*module[len(package) :], *path])


def own_name(named: object) -> str:
    """The name of a type where it is defined, with those of the enclosing classes.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    if is_class(named):
        qualified = _qualified_name_of_type(named)
        return single_line(qualified.rpartition("<locals>.")[2], _NAME_CHARACTERS)
    name: object = cast(Any, named).__name__
    return single_line(name, _NAME_CHARACTERS) if type(name) is str else "..."


def is_standard(named: object) -> bool:
    """Whether a type belongs to the standard library.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    return _module_name(named).partition(".")[0] in sys.stdlib_module_names


def _module_name(named: object) -> str:
    if is_class(named):
        return type_module(named)
    module = cast(Any, named).__module__
    return module if type(module) is str else ""


def is_of_library(named: object) -> bool:
    """Whether a type belongs to the standard library or to an installed one.

    Args:
        named: A class, a `NewType` or a type alias.
    """
    name = _module_name(named)
    return is_standard(named) or _is_installed(_file_of(sys.modules.get(name)))


def is_library_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to the standard library or to an installed one.

    Args:
        module: The module. No code of it runs.
    """
    name = instance_dictionary(module).get("__name__")
    root = name.partition(".")[0] if type(name) is str else ""
    return root in sys.stdlib_module_names or _is_installed(_file_of(module))


@lru_cache(maxsize=1_024)
def _is_installed(file: str) -> bool:
    return _INSTALLED.search(file) is not None


def _file_of(module: types.ModuleType | None) -> str:
    file = None if module is None else instance_dictionary(module).get("__file__")
    return file if type(file) is str else ""


def _is_type(value: object) -> bool:
    # Names of modules and functions are no types; aliases and `NewType` are named like classes.
    return has_base(type(value), type) or type_name(type(value)) in ("NewType", "TypeAliasType")


def _path_to(named: object, root: str, value: object, path: list[str]) -> str:
    """Names with dots from a value to a type; empty when they do not lead to it."""
    for name in path:
        if is_module(value):
            value = instance_dictionary(value).get(name)
        elif is_class(value):
            value = class_dictionary(value).get(name)
        else:
            return ""
    return ".".join((root, *path)) if value is named else ""


_UNKNOWN = "..."
_TEXT_CHARACTERS = 2_000
_DEFAULT_CHARACTERS = 60
_DEFAULT_TEXT_CHARACTERS = 200
_MAX_DEPTH = 12
_MAX_PARTS = 32
_MAX_LITERALS = 256


_PARAMETERIZED_EXAMPLES: tuple[Any, ...] = (
    list[int],
    int | str,
    collections.abc.Callable[[int], str],
    *(getattr(typing, name)[int] for name in ("List", "Optional", "Type", "Literal", "ClassVar")),
    *(getattr(typing, name)[int, str] for name in ("Tuple", "Union", "Annotated")),
    typing.Callable[[int], str],
    typing_extensions.Annotated[int, 1],
    typing_extensions.Literal[1],
    typing.Unpack[tuple[int, ...]],
    typing_extensions.Unpack[tuple[int, ...]],
)
"""One example of each way to write a parameterized type; the older ways give objects of other classes."""

_PARAMETERIZED_TYPES = {id(class_of(example)) for example in _PARAMETERIZED_EXAMPLES}
_BARE_EXAMPLES: tuple[object, ...] = tuple(
    getattr(typing, name) for name in ("ClassVar", "List", "Tuple", "Callable", "Never")
)
_BARE_TYPES = {id(type(example)) for example in _BARE_EXAMPLES}
_NAMED_TYPES = {id(typing.TypeVar), id(typing.ParamSpec), id(typing.TypeVarTuple)}
_ALIAS_TYPES = {id(typing_extensions.TypeAliasType), id(getattr(typing, "TypeAliasType", None))}
_CALLABLE_ORIGIN = typing_extensions.get_origin(typing.Callable[[int], str])
_UNQUALIFIED_MODULES = frozenset({"builtins", "typing", "typing_extensions"})
_DOTTED_NAME = re.compile(r"(?P<text>'[^']*'|\"[^\"]*\")|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_EMPTY_SHOWN = (list, tuple, dict, set, frozenset)
_LITERAL_TYPES = {id(kind) for kind in (str, bytes, int, float, complex, bool, type(None))}


def is_type_alias(value: object) -> bool:
    """Whether a value was made by a `type` statement (PEP 695)."""
    return id(type(value)) in _ALIAS_TYPES


def is_type_expression(value: object) -> bool:
    """Whether a value is a parameterized type such as `list[int]` or `int | None`."""
    return id(type(value)) in _PARAMETERIZED_TYPES


def written_type(
    annotation: object, names: TypeNames | None = None, namespace: Mapping[str, object] | None = None
) -> str:
    """Write a type on one line, as an annotation in the block would be written.

    Args:
        annotation: The type; metadata of `Annotated` is left out. The names in a text are looked up and
            rewritten; a text in which that is not possible is kept.
        names: The names by which the block writes types; None for the names that they have where they are
            defined.
        namespace: The values of names in texts, those of the module of the annotation.
    """
    return _TypeWriter(names or TypeNames(), namespace or {}).text(annotation)


class _TypeWriter:
    """Writes types; `depth` is the nesting depth of a type."""

    def __init__(self, names: TypeNames, namespace: Mapping[str, object]) -> None:
        self._names = names
        self._namespace = namespace

    def text(self, annotation: object, depth: int = 0) -> str:
        kind = type(annotation)
        if depth > _MAX_DEPTH:
            return _UNKNOWN
        if type(annotation) is str:
            return self._of_text(annotation)
        if annotation is None or annotation is type(None):
            return "None"
        if is_class(annotation):
            return self._of_class(annotation, depth)
        if id(kind) in _PARAMETERIZED_TYPES:
            return single_line(self._parameterized(annotation, depth + 1), _TEXT_CHARACTERS)
        return self._special(annotation, kind, depth + 1)

    def _of_class(self, cls: type, depth: int) -> str:
        if type_module(cls) in _UNQUALIFIED_MODULES:
            return single_line(_qualified_name_of_type(cls), _TEXT_CHARACTERS)
        generic = class_dictionary(cls).get("__pydantic_generic_metadata__")
        if type(generic) is dict and (arguments := cast("dict[str, Any]", generic).get("args")):
            if self._names.find(cls) is not None:
                return self._names.written(cls)
            origin = cast("dict[str, object]", generic)["origin"]
            return f"{self.text(origin, depth)}[{self._arguments(arguments, depth + 1)}]"
        return self._names.written(cls)

    def _parameterized(self, annotation: object, depth: int) -> str:
        origin: Any = typing_extensions.get_origin(annotation)
        arguments: tuple[Any, ...] = typing_extensions.get_args(annotation)
        if origin is typing.Union or origin is types.UnionType:
            return " | ".join(self.text(argument, depth) for argument in arguments[:_MAX_PARTS])
        if origin is typing.Annotated or origin is typing_extensions.Annotated:
            return self.text(arguments[0], depth)
        if origin is typing.Literal or origin is typing_extensions.Literal:
            return f"Literal[{', '.join(map(self._literal, arguments[:_MAX_LITERALS]))}]"
        shown = self._arguments(arguments, depth)
        if origin is typing.Unpack or origin is typing_extensions.Unpack:
            return f"*{shown}"
        name = "Callable" if origin is _CALLABLE_ORIGIN else self.text(origin, depth)
        is_unpacked = type(annotation) is types.GenericAlias and annotation.__unpacked__
        return f"{'*' if is_unpacked else ''}{name}[{shown}]"

    def _arguments(self, arguments: tuple[Any, ...], depth: int) -> str:
        return ", ".join(self._argument(argument, depth) for argument in arguments[:_MAX_PARTS]) or "()"

    def _argument(self, argument: object, depth: int) -> str:
        if type(argument) is list:
            return f"[{self._arguments(tuple(cast('list[Any]', argument)), depth).removesuffix('()')}]"
        return self.text(argument, depth)

    def _literal(self, value: object) -> str:
        kind = type(value)
        if has_base(kind, Enum):
            name = instance_dictionary(value).get("_name_")
            return f"{self._names.written(kind)}.{single_line(name, 120) if type(name) is str else '?'}"
        return literal_text(value)

    def _special(self, annotation: object, kind: type, depth: int) -> str:
        if id(kind) in _BARE_TYPES:
            return repr(annotation).removeprefix("typing.").removeprefix("typing_extensions.")
        if id(kind) in _ALIAS_TYPES or kind is typing.NewType:
            return self._names.written(annotation)
        if id(kind) in _NAMED_TYPES:
            return own_name(annotation)
        if type(annotation) is ForwardRef:
            return self.text(annotation.__forward_arg__, depth)
        return _UNKNOWN

    def _of_text(self, text: str) -> str:
        """A text with its names written as the block writes them."""
        shown = single_line(text, _TEXT_CHARACTERS)
        if "Annotated" in shown:
            shown = _without_metadata(shown)
        return _DOTTED_NAME.sub(self._of_name, shown)

    def _of_name(self, match: re.Match[str]) -> str:
        if match["text"]:
            return match[0]
        root, *path = match["name"].split(".")
        named = _member(self._namespace.get(root, self._names.looked_up(root)), path)
        is_written = is_type_alias(named) or type(named) is typing.NewType or has_base(type(named), type)
        if not is_written or named is type(None):
            return match[0]
        return self.text(named)


class _MetadataRemover(ast.NodeTransformer):
    """Replaces `Annotated[…]` by the type in it."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        return node.slice.elts[0] if name == "Annotated" and isinstance(node.slice, ast.Tuple) else node


@lru_cache(maxsize=256)
def _without_metadata(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return ast.unparse(_MetadataRemover().visit(tree))


def literal_text(value: object) -> str:
    """A value of a `Literal` as text, strings in double quotes.

    Args:
        value: The value.
    """
    if type(value) is str:
        return single_line(json.dumps(clean_text(value), ensure_ascii=False), _TEXT_CHARACTERS)
    return default_text(value)


def _member(value: object, path: list[str]) -> object:
    """Resolve a dotted name below a value, without running an object's attribute access."""
    for name in path:
        members = class_dictionary(value) if is_class(value) else instance_dictionary(value)
        value = members.get(name)
    return value


def default_text(value: object) -> str:
    """Render the default value of a parameter on one line."""
    kind = type(value)
    if id(kind) in _LITERAL_TYPES:
        return _literal_text(value)
    if has_base(kind, Enum):
        render = find_scalar_text(kind)
        return _UNKNOWN if render is None else str(render(value, _DEFAULT_CHARACTERS))
    if is_class(value):
        return type_name(value)
    if is_one_of(kind, _EMPTY_SHOWN) and not value:
        return repr(value)
    return _flat_sequence_text(cast("list[object]", value)) if kind is list or kind is tuple else _UNKNOWN


def _flat_sequence_text(value: list[object] | tuple[object, ...]) -> str:
    if len(value) > _MAX_PARTS or any(id(type(item)) not in _LITERAL_TYPES for item in value):
        return _UNKNOWN
    shown = ", ".join(map(_literal_text, value))
    return single_line(f"[{shown}]" if type(value) is list else f"({shown})", _DEFAULT_TEXT_CHARACTERS)


def _literal_text(value: object) -> str:
    if type(value) is int and value.bit_length() > _DEFAULT_CHARACTERS:
        return f"{value:#x}" if value.bit_length() <= _DEFAULT_TEXT_CHARACTERS else _UNKNOWN
    if (type(value) is str or type(value) is bytes) and len(value) > _DEFAULT_CHARACTERS:
        return f"{value[:_DEFAULT_CHARACTERS]!r}…"
    return single_line(repr(value), _DEFAULT_TEXT_CHARACTERS)


def underlying_type(alias: object, names: TypeNames | None) -> str:
    """Return the value of a type alias; this evaluates the right-hand side of its `type` statement."""
    try:
        return written_type(cast(Any, alias).__value__, names)
    except Exception:
        # The expression is the program's own and may fail in any way; the name is still worth showing.
        return "<unresolvable>"


_NOTED_DEPTH = 3
_NOTED_ITEMS = 3
"""The number of items of a container whose classes are noted; later items mostly have the same."""

_UNIONS = (typing.Union, types.UnionType)
_NOTED_SEQUENCES = (list, tuple, set, frozenset)


def note_described(annotation: object, names: TypeNames) -> None:
    """Note the classes of which a parameter may hold an instance, whose methods are shown with the value.

    Args:
        annotation: The type of the parameter, resolved.
        names: Gets the notes.
    """
    origin = typing_extensions.get_origin(annotation)
    if origin is typing_extensions.Annotated:
        note_described(typing_extensions.get_args(annotation)[0], names)
    elif origin in _UNIONS:
        for each in typing_extensions.get_args(annotation):
            note_described(each, names)
    elif is_class(annotation) and not find_class_attribute(annotation, "__call__")[0]:
        names.described[id(annotation)] = annotation


def note_exception(cls: type, names: TypeNames) -> None:
    """Note an exception whose constructor a block has to know, because the program wrote it.

    Args:
        cls: The class of the exception.
        names: Gets the notes.
    """
    _, start = find_class_attribute(cls, "__init__")
    if type(start) is types.FunctionType and not is_of_library(cls):
        note_class(cls, names)


def note_contents(value: object, names: TypeNames, depth: int = 0) -> None:
    """Note the class of a value, or of what a container holds."""
    kind = type(value)
    if type_module(kind) != "builtins":
        note_class(kind, names)
    elif depth < _NOTED_DEPTH:
        for item in _items(value, kind):
            note_contents(item, names, depth + 1)


def note_class(cls: type, names: TypeNames) -> None:
    """Note a class; for a generic one with arguments, the class without them and the arguments."""
    if type_module(cls) == "builtins" or id(cls) in names.met:
        return
    if "__pydantic_generic_metadata__" not in class_dictionary(cls):
        names.met[id(cls)] = cls
        return
    noted = names.apart()
    written_type(cls, noted)
    names.met.update(noted.mentioned)


def _items(value: object, kind: type) -> Iterator[object]:
    if kind is dict:
        return islice(cast("dict[object, object]", value).values(), _NOTED_ITEMS)
    if is_one_of(kind, _NOTED_SEQUENCES):
        return islice(cast("Iterable[object]", value), _NOTED_ITEMS)
    return iter(())
