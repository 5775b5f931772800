"""Types of `*args` and `**options`, and of tuples with an unpacked tuple inside."""

import types
import typing
from collections.abc import Iterator
from functools import reduce
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import typing_extensions
from msgspec import Struct
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

__all__ = [
    "ItemsAnnotation",
    "KeywordItems",
    "UnpackedTuple",
    "as_written",
    "keyword_types",
    "positional_types",
    "type_of_items",
    "with_unpacked",
]

_UNPACKINGS = (typing.Unpack, typing_extensions.Unpack)


class ItemsAnnotation(Struct, frozen=True, kw_only=True):
    """The annotation of a variadic parameter, which is that of each of its items, or an unpacked type.

    Args:
        annotation: The annotation, or its text.
        kind: Whether the parameter is `*args` or `**options`.
    """

    annotation: object
    kind: Literal["positional", "keyword"]

    @property
    def resolvable(self) -> object:
        """The annotation in a form that can be evaluated: `*tuple[int, str]` is no expression by itself."""
        if isinstance(self.annotation, str) and self.annotation.lstrip().startswith("*"):
            return f"tuple[{self.annotation}]"
        return self.annotation

    def type_of(self, resolved: object) -> object:
        """The type of all arguments together.

        Args:
            resolved: What `resolvable` means.
        """
        if self.resolvable is not self.annotation:
            return with_unpacked(resolved)
        return type_of_items(resolved, self.kind)


class UnpackedTuple(Struct, frozen=True):
    """The items of a tuple, one of which stands for any number of items; metadata of `Annotated`.

    Args:
        items: The types of the items.
        variadic: The position of the one that stands for any number.
    """

    items: tuple[Any, ...]
    variadic: int

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schemas = [handler.generate_schema(each) for each in self.items]
        return core_schema.tuple_schema(schemas, variadic_item_index=self.variadic)

    def __str__(self) -> str:
        shown = [
            each.__qualname__ if isinstance(each, type) and not get_args(each) else str(each)
            for each in self.items
        ]
        shown[self.variadic] = f"*tuple[{shown[self.variadic]}, ...]"
        return f"tuple[{', '.join(shown)}]"


class KeywordItems(Struct, frozen=True):
    """Says of a typed dictionary that it holds keyword arguments: other keys are refused.

    Args:
        typed_dict: The typed dictionary.
    """

    typed_dict: Any

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = cast("dict[str, Any]", handler.resolve_ref_schema(handler(source)))
        if schema["type"] == "typed-dict" and "extra" not in getattr(source, "__pydantic_config__", {}):
            schema = {name: each for name, each in schema.items() if name != "ref"}
            schema["extra_behavior"] = "forbid"
        return cast("core_schema.CoreSchema", schema)

    def __str__(self) -> str:
        return str(getattr(self.typed_dict, "__qualname__", self.typed_dict))


def type_of_items(item: object, kind: Literal["positional", "keyword"]) -> object:
    """The type of the arguments of a variadic parameter, all together.

    Args:
        item: The type of each of them, or an unpacked type: `Unpack[tuple[int, str]]`.
        kind: Whether the parameter is `*args` or `**options`.
    """
    unpacked = _unpacked(item)
    if kind == "keyword":
        if unpacked is not None:
            return Annotated[unpacked, KeywordItems(unpacked)]  # pyright: ignore[reportInvalidTypeForm]
        return dict[str, item]  # pyright: ignore[reportInvalidTypeForm]
    whole: Any = tuple[item, ...] if unpacked is None else tuple[item]  # pyright: ignore[reportInvalidTypeForm]
    return with_unpacked(whole)


def as_written(annotation: object) -> object:
    """The type as somebody would write it, without what was put into it for pydantic.

    Args:
        annotation: A type that `type_of_items` or `with_unpacked` may have made.
    """
    if get_origin(annotation) is Annotated:
        for each in cast("Any", annotation).__metadata__:
            if isinstance(each, KeywordItems):
                return each.typed_dict
            if isinstance(each, UnpackedTuple):
                items: list[Any] = list(each.items)
                repeated: Any = items[each.variadic]
                items[each.variadic] = typing.Unpack[tuple[repeated, ...]]
                return tuple[tuple(items)]  # pyright: ignore[reportInvalidTypeForm]
    return annotation


def positional_types(item: object, count: int) -> list[object] | None:
    """The type of each argument of `*args`; None when there may not be so many.

    Args:
        item: The annotation of the parameter.
        count: How many arguments there are.
    """
    unpacked = _unpacked(item)
    if unpacked is None:
        return [item] * count
    items = list(_items((item,)))
    variadic = next((position for position, (_, is_many) in enumerate(items) if is_many), None)
    types_of = [each for each, _ in items]
    if variadic is None:
        return types_of if len(types_of) == count else None
    missing = count - len(types_of) + 1
    if missing < 0:
        return None
    return types_of[:variadic] + [types_of[variadic]] * missing + types_of[variadic + 1 :]


def keyword_types(item: object) -> Any:
    """The typed dictionary that `**options` unpacks; None when it unpacks none.

    Args:
        item: The annotation of the parameter.
    """
    return _unpacked(item)


def with_unpacked(annotation: object) -> object:
    """A type in which tuples with an unpacked tuple inside are ones that pydantic knows.

    Args:
        annotation: The type.
    """
    arguments = get_args(annotation)
    if not arguments or get_origin(annotation) is Literal:
        return annotation
    if get_origin(annotation) is tuple and any(_unpacked(each) is not None for each in arguments):
        return _flat_tuple(arguments)
    changed = tuple(with_unpacked(each) for each in arguments)
    if all(map(lambda one, other: one is other, changed, arguments)):
        return annotation
    return _with_arguments(annotation, changed)


def _flat_tuple(arguments: tuple[object, ...]) -> object:
    items = tuple(_items(arguments))
    variadic = [position for position, (_, is_many) in enumerate(items) if is_many]
    kinds = tuple(with_unpacked(each) for each, _ in items)
    if not variadic:
        return tuple[kinds]  # pyright: ignore[reportInvalidTypeForm]
    if len(items) == 1:
        return tuple[kinds[0], ...]  # pyright: ignore[reportInvalidTypeForm]
    return Annotated[tuple[Any, ...], UnpackedTuple(kinds, variadic[0])]


def _items(arguments: tuple[object, ...]) -> Iterator[tuple[object, bool]]:
    """The types of a tuple's items, and whether each stands for any number of items."""
    for each in arguments:
        unpacked = _unpacked(each)
        if unpacked is None:
            yield each, False
        elif get_origin(unpacked) is not tuple:  # a TypeVarTuple
            yield Any, True
        else:
            inner = get_args(unpacked)
            if len(inner) == 2 and inner[1] is Ellipsis:
                yield inner[0], True
            else:
                yield from _items(inner)


def _unpacked(annotation: object) -> object | None:
    """Return the type that an annotation unpacks; None when it unpacks nothing."""
    if get_origin(annotation) in _UNPACKINGS:
        return get_args(annotation)[0]
    if isinstance(annotation, types.GenericAlias) and annotation.__unpacked__:
        return cast("Any", annotation.__origin__)[annotation.__args__]
    return None


def _with_arguments(annotation: Any, arguments: tuple[Any, ...]) -> object:
    if isinstance(annotation, types.UnionType):
        return reduce(lambda one, other: one | other, arguments)
    if get_origin(annotation) is Annotated:
        return Annotated[(arguments[0], *annotation.__metadata__)]  # pyright: ignore[reportInvalidTypeArguments]
    copy_with = getattr(annotation, "copy_with", None)
    return get_origin(annotation)[arguments] if copy_with is None else copy_with(arguments)
