"""Validation of values, of the models and dataclasses inside them, and of their fields.

Pydantic makes new containers of validated values, even if nothing in them has changed.

pydantic accepts an instance as valid, whatever happened to it since it was made, and `revalidate_instances`
would replace it by a copy without its private attributes, and convert its fields again. Here an instance is
checked: its fields hold converted values (see `converted_schemas`), and the functions that check the whole
object run on a copy. It stays the same object, unless a field holds a value of the wrong type: then a copy,
with that value converted, replaces it.
"""

import copy
import dataclasses
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from operator import is_
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, cast
from uuid import UUID

from pydantic import BaseModel, ValidationError

from .schemas import (
    adapted_core_schema,
    changed,
    converted_ref,
    converted_schema,
    schema_validator,
    with_inner,
)
from .snapshots import NEVER_CHANGED, Snapshot, copy_attributes

_SCALARS = (
    *(str, bytes, bytearray, int, float, complex, bool, type(None), Decimal, UUID),
    *(date, datetime, time, timedelta),
)
_SPECIAL = (bool, datetime)
"""Subclasses with another meaning than their bases, `int` and `date`."""
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_LAZY = "ValidatorIterator"


def kept(value: object, validated: object) -> object:
    """Return the value itself if validation changed nothing, else the result of validation.

    An instance of a subclass, of `dict` for example, is kept too if only its class was changed. So is an
    iterable whose items pydantic would validate only on iteration.

    Args:
        value: The value.
        validated: The result of its validation.
    """
    try:
        return value if _is_same(value, validated) else validated
    except Exception:  # operators of user objects may raise anything; deep nesting raises too
        return validated


def _is_same(before: object, after: object) -> bool:
    if before is after or type(after).__name__ == _LAZY:
        return True
    if isinstance(before, MappingProxyType):
        before = dict(cast("Mapping[object, object]", before))
    kind = type(after)
    if not isinstance(before, kind) or any(
        isinstance(before, special) and not issubclass(kind, special) for special in _SPECIAL
    ):
        return False
    if kind in _SCALARS or issubclass(kind, PurePath):
        return cast("Any", kind).__eq__(before, after) is True  # as pydantic compares subclass instances
    if kind in _SEQUENCES or issubclass(kind, tuple):  # including named tuples
        return _are_same(cast("list[object]", before), cast("list[object]", after))
    if kind in _SETS:
        items = {item: item for item in cast("set[object]", before)}
        others = cast("set[object]", after)
        return len(items) == len(others) and all(
            other in items and _is_same(items[other], other) for other in others
        )
    if kind in _MAPPINGS:
        first, second = (cast("dict[object, object]", each) for each in (before, after))
        return _are_same(first, second) and _are_same(first.values(), second.values())
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        return _are_same_models(before, after)
    if is_dataclass(before):
        names = [each.name for each in fields(cast("Any", before))]
        return _are_same(*([getattr(each, name) for name in names] for each in (before, after)))
    return False


def _are_same(before: Iterable[object], after: Iterable[object]) -> bool:
    first, second = list(before), list(after)
    return len(first) == len(second) and all(map(_is_same, first, second))


def _are_same_models(before: BaseModel, after: BaseModel) -> bool:
    return all(
        _is_same(getattr(before, name), getattr(after, name))
        for name in ("__dict__", "__pydantic_extra__", "__pydantic_private__", "model_fields_set")
    )


def is_alike(held: object, result: object) -> bool:
    """Whether the result of a field counts as unchanged: containers of the same kinds, with similar items.

    Args:
        held: The value that the field holds.
        result: The result of its validation.
    """
    if held is result:
        return True
    kind = type(held)
    if kind is not type(result):
        return False
    if issubclass(kind, list | tuple | deque):
        one, other = cast("tuple[list[object], list[object]]", (held, result))
        if len(one) != len(other) or all(map(is_, one, other)):
            return len(one) == len(other)
        return all(is_alike(*pair) for pair in zip(one, other, strict=True))
    if issubclass(kind, dict):
        one, other = cast("tuple[dict[object, object], dict[object, object]]", (held, result))
        return is_alike(list(one), list(other)) and is_alike(list(one.values()), list(other.values()))
    if issubclass(kind, set | frozenset):
        one, other = ({(type(item), item) for item in cast("set[object]", each)} for each in (held, result))
        return one == other
    return _may_stay(held)


def _may_stay(held: object) -> bool:
    """Whether an item stays if its result has the same type, even if validators changed the value.

    An object was validated when it was made. A validator that must not see its own results, one that hashes
    a password for example, would otherwise change it again and again.
    """
    return not isinstance(held, BaseModel) and not is_dataclass(held)


_UNSET = object()
_NO_DEFAULT = object()


class FieldSchemas(Protocol):
    """The schemas that the schema of a class belongs to."""

    def guard_converted(self, schema: Any) -> Any:
        """The schema of a converted value, in which checks wrap all classes."""
        ...

    def converted_validator(self, schema: Any, config: Any = None) -> Any:
        """Compile the schema of a converted value."""
        ...


_EXTRA = ("extras_schema", "extras_keys_schema")


class InstanceFields:
    """The fields of a class, validated by name, not by alias.

    As in pydantic, defaults that were never replaced are not validated.

    Args:
        schemas: The schemas that the schema of the class belongs to.
        schema: The schema of the class.
    """

    def __init__(self, schemas: FieldSchemas, schema: dict[str, Any]) -> None:
        self._schemas = schemas
        self._is_root = bool(schema.get("root_model"))
        self._is_model = schema["type"] == "model"
        self._defaults: dict[str, object] = {}
        self._takes_more = False  # extra arguments of the constructor
        self._is_known = True
        given = schema["schema"]
        inner = schemas.guard_converted(given) if self._is_root else self._by_name(given)
        self._validator = schemas.converted_validator(inner, schema.get("config"))
        self.has_post_init = bool(schema.get("post_init")) and self._is_made_of_fields(schema["cls"])

    def converted(self, value: Any) -> dict[str, object]:
        """The new values of the fields that must be converted, by name.

        Raises:
            pydantic.ValidationError: A field holds an invalid value.
        """
        if self._is_root:
            result = self._validator.validate_python(value.root)
            return {} if is_alike(value.root, result) else {"root": result}
        if not self._is_known:  # a class with a custom schema
            return {}
        held, defaults = self._held(value), self._defaults
        given = {name: each for name, each in held.items() if each is not defaults.get(name, _UNSET)}
        results: Any = self._validator.validate_python(given)
        fields: dict[str, object] = results[0]
        if self._is_model and results[1]:
            fields = fields | results[1]
        return {
            name: each
            for name, each in fields.items()
            if (before := held.get(name, _UNSET)) is not each and not is_alike(before, each)
        }

    def _held(self, value: Any) -> dict[str, object]:
        if self._is_model:
            variables = cast("dict[str, object]", vars(value))
            extra: dict[str, object] = value.__pydantic_extra__ or {}
            if not extra and variables.keys() <= self._defaults.keys():
                return variables
            variables = {**variables, **extra}
            return {name: each for name, each in variables.items() if name in self._defaults or name in extra}
        held = {name: getattr(value, name, _UNSET) for name in self._defaults}
        return {name: each for name, each in held.items() if each is not _UNSET}

    def _is_made_of_fields(self, kind: type[Any]) -> bool:
        """Whether the code after `__init__` can run again: it takes and sets nothing besides the fields."""
        return (
            not self._is_model
            and not self._takes_more
            and all(each.init for each in dataclasses.fields(kind))
        )

    def _by_name(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of the fields by name, without those that only `__init__` takes."""
        if schema["type"] == "model-fields":
            named: dict[str, dict[str, Any]] = schema["fields"]
            extra = {name: self._schemas.guard_converted(schema[name]) for name in _EXTRA if name in schema}
            return (
                schema | {"fields": {name: self._field(name, each) for name, each in named.items()}} | extra
            )
        if schema["type"] == "dataclass-args":
            fields = [each for each in schema["fields"] if not each.get("init_only")]
            self._takes_more = len(fields) < len(schema["fields"])
            listed = [self._field(each["name"], each) for each in fields]
            return schema | {"fields": listed, "collect_init_only": False}
        if schema["type"] == "function-before":  # it takes data
            return self._by_name(schema["schema"])
        if "schema" in schema:
            return schema | {"schema": self._by_name(schema["schema"])}
        self._is_known = False
        return schema

    def _field(self, name: str, field: dict[str, Any]) -> dict[str, Any]:
        schema = field["schema"]
        self._defaults[name] = (
            schema.get("default", _NO_DEFAULT) if schema["type"] == "default" else _NO_DEFAULT
        )
        kept_keys = {key: each for key, each in field.items() if key not in ("validation_alias", "init")}
        return kept_keys | {"schema": self._schemas.guard_converted(schema)}


def copied(value: Any, converted: Mapping[str, object]) -> Any:
    """A shallow copy with some fields replaced; avoids running user code."""
    if isinstance(value, BaseModel):
        model = BaseModel.__copy__(value)
        extra: dict[str, object] = model.__pydantic_extra__ or {}
        variables = cast("dict[str, object]", model.__dict__)
        for name, each in converted.items():
            (extra if name in extra else variables)[name] = each
        return model
    made: Any
    try:
        made = object.__new__(cast("type[Any]", type(value)))
    except TypeError:  # a dataclass that is also an exception or a list
        made = copy.copy(value)
    else:
        copy_attributes(value, made)
    for name, each in converted.items():
        object.__setattr__(made, name, each)
    return made


Validate: TypeAlias = Callable[[object], object]


_NO_VERDICT = (TypeError, AttributeError, LookupError)
"""Errors of code that was not made for what it is given; a check raises others."""

_MAX_NESTED = 30
"""The greatest depth of nested checks; deeper instances, as in a linked list, are checked afterwards."""


class _Progress:
    """The instances that the validation in progress has met.

    Args:
        is_changed: Whether code has changed the value since it was converted.

    Attributes:
        results: The result of each, so that cycles end.
        depth: The depth of nested checks.
        refusals: The number of verdicts of checks, as opposed to failures that are no evidence.
        is_doubtful: Whether a part may not have been converted: validation before its functions changes it.
        postponed: The checks to run afterwards, with their instances.
    """

    __slots__ = ("depth", "is_changed", "is_doubtful", "postponed", "refusals", "results")

    def __init__(self, *, is_changed: bool = False) -> None:
        self.is_changed = is_changed
        self.is_doubtful = False
        self.results: dict[tuple[int, int], object] = {}
        self.depth = 0
        self.refusals = 0
        self.postponed: list[tuple[_InstanceCheck, object]] = []

    def finish(self) -> None:
        """Run the postponed checks.

        Raises:
            Exception: An error of a check; ValueError if an instance would have to be replaced.
        """
        while self.postponed:
            check, value = self.postponed.pop()
            if check.checked(value) is not value:
                raise ValueError(f"a field of {check.name} has another type than it should, too deep inside")


class _InProgress(threading.local):
    """The validation in progress on this thread; validation never waits."""

    progress: _Progress | None = None


_IN_PROGRESS = _InProgress()


def _progress() -> _Progress:
    """The validation in progress; a new one if a user's validator kept its handler and calls it later."""
    return _IN_PROGRESS.progress or _Progress()


def compiled(annotation: object, *, is_converted: bool = False) -> "Validator":
    """The validator of a type; the same hashable type gets the same validator.

    Args:
        annotation: The type.
        is_converted: Whether its values were converted already.

    Raises:
        Exception: pydantic, or code of the user's type, cannot make one.
    """
    try:
        return _cached(annotation, is_converted)
    except TypeError:  # not hashable: Annotated[int, {}]
        return _build(annotation, is_converted)


@lru_cache(maxsize=1024)
def _cached(annotation: Hashable, is_converted: bool) -> "Validator":
    return _build(annotation, is_converted)


def _build(annotation: object, is_converted: bool) -> "Validator":
    schema, definitions = adapted_core_schema(annotation)
    guarded = _GuardedSchemas(definitions)
    if is_converted:
        return guarded.converted_validator(guarded.guard_converted(schema))
    return guarded.validator(guarded.guard(schema))


class Validated(NamedTuple):
    """A validated value.

    Attributes:
        value: The value.
        is_doubtful: Whether it may not have been converted, although it should have been.
    """

    value: object
    is_doubtful: bool


class Validator:
    """A compiled schema, whose validations remember the instances that they have met.

    Args:
        schema: The schema.
        config: The configuration of pydantic's core for it.

    Attributes:
        validate_python: Validates inside another validation.
    """

    __slots__ = ("validate_python",)

    def __init__(self, schema: Any, config: Any = None) -> None:
        # The validators stored on the classes themselves do not check instances, so they are not reused.
        validator = schema_validator(schema, config)
        self.validate_python: Validate = validator.validate_python

    def validated(self, value: object, *, is_changed: bool = False) -> "Validated":
        """Return the value, converted where its type demands it; the same object if nothing was converted.

        Args:
            value: The value.
            is_changed: Whether code has changed the value since it was converted.

        Raises:
            pydantic.ValidationError: It does not match.
            Exception: A user's validator raised something else.
        """
        before, _IN_PROGRESS.progress = _IN_PROGRESS.progress, _Progress(is_changed=is_changed)
        progress = _IN_PROGRESS.progress
        try:
            result = self.validate_python(value)
            progress.finish()
        finally:
            _IN_PROGRESS.progress = before
        return Validated(kept(value, result), is_doubtful=progress.is_doubtful)


class _Judge:
    """Decides by the validation in progress which failures are evidence; see `converted_schemas.Judge`."""

    __slots__ = ()

    def checking(self, function: Callable[..., object], *, is_check: bool) -> Callable[..., object]:
        def check(value: object, *info: object) -> object:
            progress = _progress()
            if is_check or progress.is_changed:
                try:
                    _run_unchanged(lambda: function(value, *info), value)
                except Exception:
                    progress.refusals += 1
                    raise
            return value

        return check

    def lenient(self, value: object, handler: Validate) -> object:
        progress = _progress()
        before = progress.refusals
        try:
            result = handler(value)
        except ValidationError as error:
            if progress.refusals > before or (progress.is_changed and _is_inside(error)):
                raise
            progress.is_doubtful = True
        else:
            progress.is_doubtful = progress.is_doubtful or not _is_equal(value, result)
        return value


_JUDGE = _Judge()


def _is_inside(error: ValidationError) -> bool:
    """Whether an error is about parts of a value, which as a whole is of the right kind."""
    return all(each["loc"] for each in error.errors(include_url=False, include_context=False))


def _is_equal(value: object, result: object) -> bool:
    try:
        return value is result or kept(value, result) is value or bool(value == result)
    except Exception:  # code of the user's class
        return False


def _run_unchanged(check: Callable[[], object], value: object) -> None:
    """Run a check of an object without effect on the object; raises only what is a verdict."""
    snapshot = None if type(value) in NEVER_CHANGED else Snapshot(value)
    try:
        check()
    except _NO_VERDICT:
        return
    finally:
        if snapshot is not None:
            snapshot.restore()


class _GuardedSchemas:
    """The schemas of one type, changed so that every model and dataclass checks instances given for it.

    Args:
        definitions: The schemas that others refer to.
    """

    def __init__(self, definitions: list[Any]) -> None:
        self._given = definitions
        self._definitions = [self.guard(each) for each in definitions]

    @cached_property
    def _all_definitions(self) -> list[Any]:
        """The definitions, and those of converted values."""
        return [*self._definitions, *map(self.guard_converted, self._given)]

    def validator(self, schema: Any, config: Any = None) -> Validator:
        """Compile one of them."""
        return _with_definitions(schema, self._definitions, config)

    def converted_validator(self, schema: Any, config: Any = None) -> Validator:
        """Compile the schema of a converted value."""
        return _with_definitions(schema, self._all_definitions, config)

    def guard(self, schema: Any) -> Any:
        """A schema in which checks wrap all classes."""
        return changed(schema, self._guard)

    def guard_converted(self, schema: Any) -> Any:
        """The schema of a converted value, in which checks wrap all classes."""
        return changed(schema, self._guard_converted)

    def _guard(self, schema: dict[str, Any]) -> dict[str, Any]:
        layers = _layers(schema)
        if layers is not None:
            return self._guard_class(layers)
        guarded = with_inner(schema, self._guard)
        if schema["type"] == "union":
            guarded["choices"] = [_labelled(each) for each in guarded["choices"]]
        elif schema["type"] == "tagged-union" and callable(schema["discriminator"]):
            return self._guard_tagged(schema, guarded)
        return guarded

    def _guard_converted(self, schema: dict[str, Any]) -> dict[str, Any]:
        layers = _layers(schema)
        if layers is not None:
            guarded = self._guard_class(layers)
            return guarded | {"ref": converted_ref(guarded["ref"])} if "ref" in guarded else guarded
        converted = converted_schema(schema, self._guard_converted, _JUDGE)
        if converted["type"] == "union":
            converted["choices"] = [_labelled(each) for each in converted["choices"]]
        return converted

    def _guard_class(self, layers: list[dict[str, Any]]) -> dict[str, Any]:
        """The schema of a class with its own validators, wrapped in a check of instances."""
        class_schema = {**layers[-1], "schema": self.guard(layers[-1]["schema"])}
        check = _InstanceCheck(self, layers[-1], layers[:-1])
        ref = {"ref": layers[0]["ref"]} if "ref" in layers[0] else {}
        whole = _wrapped(class_schema, layers[:-1])
        return {"type": "function-wrap", "function": _plain(check), "schema": whole, **ref}

    def _guard_tagged(self, schema: dict[str, Any], guarded: dict[str, Any]) -> dict[str, Any]:
        """The schema of a union whose discriminator may know nothing but data."""
        ref = {"ref": schema["ref"]} if "ref" in schema else {}
        choice = _ChosenInstance(self, schema, {each["ref"]: each for each in self._given if "ref" in each})
        whole = {name: each for name, each in guarded.items() if name != "ref"}
        return {"type": "function-wrap", "function": _plain(choice), "schema": whole, **ref}


def _with_definitions(schema: Any, definitions: list[Any], config: Any) -> Validator:
    if definitions:
        schema = {"type": "definitions", "schema": schema, "definitions": definitions}
    return Validator(schema, config)


def _labelled(choice: Any) -> Any:
    """A choice of a union, labelled in errors with the name of its class."""
    if not isinstance(choice, tuple) and choice["type"] == "function-wrap":
        check: object = choice["function"]["function"]
        if isinstance(check, _InstanceCheck):
            return choice, check.name
    return cast("Any", choice)


_LAYERS = ("function-before", "function-after", "function-wrap")


def _layers(schema: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The class's validators and its schema, outermost first; None if one of them is not the class's own."""
    if schema["type"] not in ("model", "dataclass", *_LAYERS):
        return None
    layers = [schema]
    while (node := layers[-1])["type"] in _LAYERS:
        layers.append(node["schema"])
    if node["type"] not in ("model", "dataclass"):
        return None
    decorators = getattr(node["cls"], "__pydantic_decorators__", None)
    own = [each.func for each in decorators.model_validators.values()] if decorators else []
    return layers if all(each["function"]["function"] in own for each in layers[:-1]) else None


def _wrapped(schema: dict[str, Any], layers: list[dict[str, Any]]) -> dict[str, Any]:
    for layer in reversed(layers):
        schema = {**layer, "schema": schema}
    return {name: each for name, each in schema.items() if name != "ref"}


def _plain(function: Callable[..., object]) -> dict[str, Any]:
    return {"type": "no-info", "function": function}


class _InstanceCheck:
    """Checks instances of one class; passes everything else to the schema of the class.

    Args:
        schemas: The schemas that the schema of the class belongs to.
        schema: The schema of the class.
        layers: The class's own validators that wrap it, outermost first. Of an instance, those run that were
            made for instances: `after`.
    """

    def __init__(
        self, schemas: _GuardedSchemas, schema: dict[str, Any], layers: list[dict[str, Any]]
    ) -> None:
        self._schemas = schemas
        self._schema = schema
        self._layers = [each for each in layers if each["type"] == "function-after"]
        self._class: type[Any] = schema["cls"]
        self.name = self._class.__name__
        self._fields: InstanceFields | None = None
        self._validators: Validator | None = None

    def __call__(self, value: object, handler: Validate) -> object:
        if not issubclass(type(value), self._class):
            return handler(value)
        progress = _progress()
        results, key = progress.results, (id(self), id(value))
        if key in results:
            return results[key]
        results[key] = value
        if progress.depth >= _MAX_NESTED:
            progress.postponed.append((self, value))
            return value
        progress.depth += 1
        try:
            results[key] = result = self.checked(value)
        except BaseException:
            progress.refusals += 1
            del results[key]
            raise
        finally:
            progress.depth -= 1
        return result

    def checked(self, value: object) -> object:
        """Check an instance for the first time; return it, or the copy that replaces it."""
        own = type(value)
        if own is not self._class and (validate := _find_validator(own)) is not None:
            return validate(value)  # a subclass has fields and validators of its own
        if self._fields is None:
            self._fields = InstanceFields(self._schemas, self._schema)
            if self._layers:
                self._validators = self._schemas.validator(_wrapped({"type": "any"}, self._layers))
        converted = self._fields.converted(value)
        if self._fields.has_post_init or self._validators is not None:
            made = copied(value, converted)
            _run_unchanged(lambda: self._check_whole(made), made)
        return copied(value, converted) if converted else value

    def _check_whole(self, made: Any) -> None:
        """Run the code that checks a whole object when it is made."""
        if self._fields is not None and self._fields.has_post_init:
            made.__post_init__()
        if self._validators is not None:
            self._validators.validate_python(made)


class _ChosenInstance:
    """Checks instances for a tagged union as one of its classes; passes everything else to the union.

    Args:
        schemas: The schemas that the union belongs to.
        schema: The union.
        definitions: The schemas that it may refer to, by reference.
    """

    def __init__(
        self, schemas: _GuardedSchemas, schema: dict[str, Any], definitions: Mapping[str, dict[str, Any]]
    ) -> None:
        self._schemas = schemas
        self._schema = schema
        self._classes = tuple(_classes(schema, definitions))
        self._validator: Validator | None = None

    def __call__(self, value: object, handler: Validate) -> object:
        if not issubclass(type(value), self._classes):
            return handler(value)
        if self._validator is None:
            converted = self._schemas.guard_converted(self._schema)
            self._validator = self._schemas.converted_validator(converted)
        return self._validator.validate_python(value)


def _classes(union: dict[str, Any], definitions: Mapping[str, dict[str, Any]]) -> Iterator[type[Any]]:
    """The models and dataclasses among the choices of a tagged union."""
    for choice in union["choices"].values():
        schema = definitions.get(choice["schema_ref"], choice) if "schema_ref" in choice else choice
        layers = _layers(schema)
        if layers is not None:
            yield layers[-1]["cls"]


@lru_cache(maxsize=256)
def _find_validator(kind: type[Any]) -> Validate | None:
    """The validator of a subclass, for use inside another validation; None if it cannot be made."""
    try:
        return compiled(kind).validate_python
    except Exception:  # in what the subclass adds; what it inherits is still checked
        return None
