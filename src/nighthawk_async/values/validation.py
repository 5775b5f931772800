"""Validation of values against types, with pydantic; every adapter is built once.

It includes the types of `*args` and `**options`, and tuples with an unpacked tuple inside.
"""

import types
import typing
from collections.abc import Hashable, Iterator
from contextlib import suppress
from functools import lru_cache, reduce
from typing import (
    Annotated,
    Any,
    Literal,
    Never,
    NoReturn,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

import typing_extensions
from msgspec import Struct
from pydantic import (
    ConfigDict,
    GetCoreSchemaHandler,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import core_schema

from ..errors import AnnotationError, ToolValidationError
from ..prompt.types import written_type
from ..types.unset import UNSET
from .error_text import describe_error, describe_validation_error
from .instance_checks import Validator, compiled

_UNPACKINGS = (typing.Unpack, typing_extensions.Unpack)


class ItemsAnnotation(Struct, frozen=True, kw_only=True):
    """The annotation of a variadic parameter: the type of each item, or an unpacked type.

    Args:
        annotation: The annotation, or its text.
        kind: Whether the parameter is `*args` or `**options`.
    """

    annotation: object
    kind: Literal["positional", "keyword"]

    @property
    def resolvable(self) -> object:
        """The annotation in a form that can be evaluated; `*tuple[int, str]` alone is not an expression."""
        if isinstance(self.annotation, str) and self.annotation.lstrip().startswith("*"):
            return f"tuple[{self.annotation}]"
        return self.annotation

    def type_of(self, resolved: object) -> object:
        """The type of all arguments together.

        Args:
            resolved: The type that `resolvable` evaluates to.
        """
        if self.resolvable is not self.annotation:
            return with_unpacked(resolved)
        return type_of_items(resolved, self.kind)


class UnpackedTuple(Struct, frozen=True):
    """The types of a tuple's items, one of which may repeat; metadata of `Annotated`.

    Args:
        items: The types of the items.
        variadic: The position of the one that may repeat any number of times.
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
    """Marks a typed dictionary as keyword arguments: other keys are refused.

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
    """The type as it was written, without the additions for pydantic.

    Args:
        annotation: A type, perhaps made by `type_of_items` or `with_unpacked`.
    """
    if get_origin(annotation) is Annotated:
        for each in getattr(annotation, "__metadata__", ()):
            if isinstance(each, KeywordItems):
                return each.typed_dict
            if isinstance(each, UnpackedTuple):
                items: list[Any] = list(each.items)
                repeated: Any = items[each.variadic]
                items[each.variadic] = typing.Unpack[tuple[repeated, ...]]
                return tuple[tuple(items)]  # pyright: ignore[reportInvalidTypeForm]
    return annotation


def positional_types(item: object, count: int) -> list[object] | None:
    """The type of each argument of `*args`; None if so many are not allowed.

    Args:
        item: The annotation of the parameter.
        count: The number of arguments.
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
    """The typed dictionary that `**options` unpacks; None if it unpacks none.

    Args:
        item: The annotation of the parameter.
    """
    return _unpacked(item)


def with_unpacked(annotation: object) -> object:
    """A type in which tuples with an unpacked tuple inside are replaced by tuples that pydantic supports.

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
    """The types of a tuple's items, and whether each may repeat any number of times."""
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
    """Return the type that an annotation unpacks; None if it unpacks nothing."""
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


_WITHOUT_PARTS = frozenset[object](
    {str, int, float, bool, bytes, complex, type(None), list, dict, set, frozenset, tuple, bytearray}
)
"""Types that restrict no parts of their instances."""


def type_adapter(annotation: object) -> TypeAdapter[Any]:
    """The adapter of a type; the same hashable type gets the same adapter.

    Raises:
        pydantic.PydanticUserError: pydantic cannot make a schema of the annotation.
    """
    try:
        return _cached_adapter(annotation)
    except TypeError:  # not hashable: Annotated[int, {}]
        return _build_adapter(annotation)


def _build_adapter(annotation: object) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(cast("Any", annotation), config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(cast("Any", annotation))


@lru_cache(maxsize=1024)
def _cached_adapter(annotation: Hashable) -> TypeAdapter[Any]:
    return _build_adapter(annotation)


def check_type(annotation: object, *, subject: str) -> None:
    """Check that values can be validated against a type, before there is one.

    Args:
        annotation: The type.
        subject: The annotated thing, for the error: "write binding 'x'".

    Raises:
        AnnotationError: They cannot.
    """
    if not _accepts_everything(annotation) and not _is_without_parts(annotation):
        _validator_of(annotation, subject)


def _validator_of(annotation: object, subject: str, *, is_converted: bool = False) -> Validator:
    try:
        return compiled(annotation, is_converted=is_converted)
    except Exception as error:  # code of the user's types may raise anything
        raise AnnotationError(
            f"{subject} has the type {type_name(annotation)}, which cannot be validated: "
            f"{reason_without_schema(error)} Use a type that pydantic can validate, or object, which takes "
            "every value."
        ) from error


def can_validate(annotation: object) -> bool:
    """Whether values can be validated against a type.

    Args:
        annotation: The type.
    """
    try:
        check_type(annotation, subject="")
    except AnnotationError:
        return False
    return True


Origin: TypeAlias = Literal["new", "declared", "converted", "changed"]
"""The origin of a value.

- new: it may have to be converted, as data is.
- declared: a variable or field of this type holds it, or a function promises it. Python does not check that,
  so a value that was evidently not converted is new.
- converted: it was converted to this type.
- changed: it was converted, and code has changed it in place since.

See `converted_schemas`.
"""


def validate_value(
    value: object,
    annotation: object,
    *,
    subject: str,
    origin: Origin = "new",
) -> object:
    """Validate a value against a type, coercing as pydantic does.

    Instances of pydantic models and dataclasses are checked too, those inside of the value included. A value
    that already matches is returned as the same object, and so is each of those instances.

    Args:
        value: The value.
        annotation: The type; `object` accepts everything.
        subject: The name of the value in the error: "write binding 'x'".
        origin: The origin of the value; only a new one is converted by the validators of its type.

    Raises:
        ToolValidationError: The value does not match.
        AnnotationError: No value can be validated against the type.
    """
    if _accepts_everything(annotation):
        return value
    if annotation is NoReturn or annotation is Never:
        raise mismatch_error(subject, annotation, "no value is one")
    if cast("object", type(value)) is annotation and _is_without_parts(annotation):
        return value
    validator = _validator_of(annotation, subject, is_converted=origin != "new")
    try:
        result = validator.validated(value, is_changed=origin == "changed")
    except ValidationError as error:
        paths = [each["loc"] for each in error.errors(include_url=False, include_input=False)]
        raise mismatch_error(subject, annotation, describe_validation_error(error), *paths) from error
    except Exception as error:  # a user's validator may raise anything
        raise mismatch_error(subject, annotation, describe_error(error)) from error
    if result.is_doubtful and origin == "declared":
        with suppress(ToolValidationError):  # then it was converted
            return validate_value(value, annotation, subject=subject)
    return result.value


class Declared(Struct, frozen=True):
    """The declared type of the value of an expression.

    Args:
        annotation: The type; UNSET for none.
        is_converted: Whether the value was certainly converted to it.
        values: The only values that have the type, if the expression may have others too; None for all.
    """

    annotation: object = UNSET
    is_converted: bool = False
    values: tuple[object, ...] | None = None

    def origin(self, annotation: object, value: object) -> Origin:
        """The origin of the value, where it must have a type: the same, or a union with it.

        Args:
            annotation: The type.
            value: The value.
        """
        if self.annotation is UNSET:
            return "new"
        if self.values is not None and not any(value is each for each in self.values):
            return "new"
        members = _members(annotation)
        if not all(each in members for each in _members(self.annotation)):
            return "new"
        return "converted" if self.is_converted else "declared"


NEW = Declared()
"""The value of an expression without a declared type."""


def _members(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(member for each in get_args(annotation) for member in _members(each))
    return (type(None),) if annotation is None else (annotation,)


def _accepts_everything(annotation: object) -> bool:
    return annotation is object or annotation is Any or annotation is Self


def _is_without_parts(annotation: object) -> bool:
    return isinstance(annotation, type) and annotation in _WITHOUT_PARTS


def reason_without_schema(error: Exception) -> str:
    """Return the reason why a type has no validator or no JSON Schema, as one sentence.

    Args:
        error: An error of pydantic, or of code of the user's types.
    """
    is_pydantic = isinstance(error, PydanticUserError | PydanticUndefinedAnnotation)
    text = error.message if is_pydantic else describe_error(error)
    lines = text.splitlines() or [type(error).__name__]
    said = lines[-1].strip() if lines[0].endswith(":") else lines[0]  # pydantic's core puts the reason last
    return f"{said.rstrip('.')}."


def mismatch_error(
    subject: str, annotation: object, reason: str, *paths: tuple[str | int, ...]
) -> ToolValidationError:
    """The error of a value that does not match its type."""
    what = f"{subject} must be {type_name(annotation)}"
    return ToolValidationError(f"{what}: {reason}").without_content(what).about(annotation, *paths)


def type_name(annotation: object) -> str:
    """A type as in source code, with short names."""
    return written_type(as_written(annotation))
