"""Checking the models and dataclasses that a value is made of, as pydantic would check new ones.

pydantic takes an instance for valid, whatever happened to it since it was made, and `revalidate_instances`
would replace it by a copy without its private attributes. Here an instance is checked on a copy, with the
validators of its own class, each of which runs once. It stays the same object, unless one of its fields holds
a value of another type than it should: then the copy, with that value converted, takes its place.
"""

import copy
import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from operator import is_
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from .core_schemas import adapted_core_schema, changed, schema_validator, with_inner
from .mutable_state import copy_attributes
from .unchanged import kept

Validate: TypeAlias = Callable[[object], object]

_UNSET = object()
_NO_DEFAULT = object()

_MAX_NESTED = 30
"""How deep checks stand within each other; what is nested deeper, in a linked list say, is checked after."""


class _Progress:
    """The instances that the validation in progress met.

    Attributes:
        results: The result of each, so that cycles end.
        depth: The depth of checks within each other.
        postponed: The checks that come after, with their instances.
    """

    __slots__ = ("depth", "postponed", "results")

    def __init__(self) -> None:
        self.results: dict[tuple[int, int], object] = {}
        self.depth = 0
        self.postponed: list[tuple[_InstanceCheck, object]] = []

    def finish(self) -> None:
        """Carry out the checks that were postponed.

        Raises:
            Exception: An error of a check; ValueError when an instance would have to be replaced.
        """
        while self.postponed:
            check, value = self.postponed.pop()
            if check.checked(value) is not value:
                raise ValueError(f"a field of {check.name} has another type than it should, too deep inside")


class _InProgress(threading.local):
    """The validation in progress on this thread: it waits for nothing."""

    progress: _Progress | None = None


_IN_PROGRESS = _InProgress()


def compiled(annotation: object) -> "Validator":
    """The validator of a type; the same hashable type gets the same validator.

    Raises:
        Exception: pydantic, or code of the user's types, cannot make one.
    """
    try:
        return _cached(cast("Hashable", annotation))
    except TypeError:  # not hashable: Annotated[int, {}]
        return _build(annotation)


@lru_cache(maxsize=1024)
def _cached(annotation: Hashable) -> "Validator":
    return _build(annotation)


def _build(annotation: object) -> "Validator":
    schema, definitions = adapted_core_schema(annotation)
    guarded = _GuardedSchemas(definitions)
    return guarded.validator(guarded.guard(schema))


class Validator:
    """A compiled schema, whose validations remember the instances that they met.

    Args:
        schema: The schema.
        config: The configuration of pydantic's core for it.

    Attributes:
        validate_python: Validates inside of another validation.
    """

    __slots__ = ("validate_python",)

    def __init__(self, schema: Any, config: Any = None) -> None:
        # Not the validators that the classes themselves hold: those do not check instances.
        validator = schema_validator(schema, config)
        self.validate_python: Validate = validator.validate_python

    def validated(self, value: object) -> object:
        """The value, converted where its type demands it; the very same object where nothing had to be.

        Args:
            value: The value.

        Raises:
            pydantic.ValidationError: It does not match.
            Exception: A validator of the user's raised something else.
        """
        before, _IN_PROGRESS.progress = _IN_PROGRESS.progress, (progress := _Progress())
        try:
            result = self.validate_python(value)
            progress.finish()
        finally:
            _IN_PROGRESS.progress = before
        return kept(value, result)


class _GuardedSchemas:
    """The schemas of one type, in which every model and dataclass checks the instances that it is given.

    Args:
        definitions: The schemas to which others refer.
    """

    def __init__(self, definitions: list[Any]) -> None:
        self._definitions: list[Any] = []
        self._definitions.extend(self.guard(each) for each in definitions)

    def validator(self, schema: Any, config: Any = None) -> Validator:
        """Compile one of them."""
        if self._definitions:
            schema = {"type": "definitions", "schema": schema, "definitions": self._definitions}
        return Validator(schema, config)

    def guard(self, schema: Any) -> Any:
        """A schema, and all inside of it, with checks around the classes."""
        return changed(schema, self._guard)

    def _guard(self, schema: dict[str, Any]) -> dict[str, Any]:
        if schema["type"] in ("model", "dataclass", "function-after", "function-wrap"):
            layers = _layers(schema)
            if layers is not None:
                return self._guard_class(layers)
        guarded = with_inner(schema, self._guard)
        if schema["type"] == "union":
            guarded["choices"] = [_labelled(each) for each in guarded["choices"]]
        return guarded

    def _guard_class(self, layers: list[dict[str, Any]]) -> dict[str, Any]:
        """The schema of a class, its own validators around it included, behind a check of instances."""
        class_schema = {**layers[-1], "schema": self.guard(layers[-1]["schema"])}
        check = _InstanceCheck(self, class_schema, layers[:-1])
        ref = {"ref": layers[0]["ref"]} if "ref" in layers[0] else {}
        whole = _wrapped(class_schema, layers[:-1])
        return {"type": "function-wrap", "function": _plain(check), "schema": whole, **ref}


def _labelled(choice: Any) -> Any:
    """A choice of a union, under the name of its class in errors."""
    if not isinstance(choice, tuple) and choice["type"] == "function-wrap":
        check: object = choice["function"]["function"]
        if isinstance(check, _InstanceCheck):
            return choice, check.name
    return cast("Any", choice)


def _layers(schema: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The schema of a class behind the validators around it; None if others than its own stand there."""
    layers = [schema]
    while (node := layers[-1])["type"] in ("function-after", "function-wrap"):
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
    """Checks instances of one class; everything else goes on to the schema of the class.

    Args:
        schemas: The schemas to which that of the class belongs.
        schema: The schema of the class.
        layers: The validators of the class around it, outermost first.
    """

    def __init__(
        self, schemas: _GuardedSchemas, schema: dict[str, Any], layers: list[dict[str, Any]]
    ) -> None:
        self._schemas = schemas
        self._schema = schema
        self._layers = layers
        self._class = cast("type[Any]", schema["cls"])
        self.name = self._class.__name__
        self._fields: _Fields | None = None
        self._validators: Validator | None = None

    def __call__(self, value: object, handler: Validate) -> object:
        if not issubclass(type(value), self._class):
            return handler(value)
        progress = _IN_PROGRESS.progress
        if progress is None:  # a validator of the user's keeps a handler for later
            progress = _Progress()
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
            del results[key]
            raise
        finally:
            progress.depth -= 1
        return result

    def checked(self, value: object) -> object:
        """An instance that has not been met yet, or the copy that takes its place."""
        own = type(value)
        if own is not self._class and (validate := _find_validator(own)) is not None:
            return validate(value)  # a subclass has fields and validators of its own
        if self._fields is None:
            self._fields = _Fields(self._schemas, self._schema)
            if self._layers:
                self._validators = self._schemas.validator(_wrapped({"type": "any"}, self._layers))
        converted = self._fields.converted(value)
        if self._fields.has_post_init:
            _copied(value, converted).__post_init__()
        if self._validators is not None:
            made = self._validators.validate_python(_copied(value, converted))
        else:
            made = _copied(value, converted) if converted else value
        return made if converted else value


@lru_cache(maxsize=256)
def _find_validator(kind: type[Any]) -> Validate | None:
    """The validator of a subclass, for use inside of another validation; None when it cannot be had."""
    try:
        return compiled(kind).validate_python
    except Exception:  # of what the subclass adds; what it inherits is checked all the same
        return None


class _Fields:
    """The fields of a class. They are validated by their names, whatever their aliases.

    Defaults that were never replaced are not validated, as pydantic does not validate them.

    Args:
        schemas: The schemas to which that of the class belongs.
        schema: The schema of the class.
    """

    def __init__(self, schemas: _GuardedSchemas, schema: dict[str, Any]) -> None:
        self._is_root = bool(schema.get("root_model"))
        self._is_model = schema["type"] == "model"
        self._defaults: dict[str, object] = {}
        self._takes_more = False  # than its fields, when it is made
        self._is_known = True
        inner = schema["schema"] if self._is_root else self._by_name(schema["schema"])
        self._validator = schemas.validator(inner, schema.get("config"))
        self.has_post_init = bool(schema.get("post_init")) and self._is_made_of_fields(schema["cls"])

    def converted(self, value: Any) -> dict[str, object]:
        """The fields that must hold another value, and which.

        Raises:
            pydantic.ValidationError: A field holds what it must not.
        """
        if self._is_root:
            result = self._validator.validate_python(value.root)
            return {} if _is_alike(value.root, result) else {"root": result}
        if not self._is_known:  # a class that makes its schema itself
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
            if (before := held.get(name, _UNSET)) is not each and not _is_alike(before, each)
        }

    def _held(self, value: Any) -> dict[str, object]:
        if self._is_model:
            variables = cast("dict[str, object]", vars(value))
            extra = cast("dict[str, object]", value.__pydantic_extra__ or {})
            if not extra and variables.keys() <= self._defaults.keys():
                return variables
            variables = {**variables, **extra}
            return {name: each for name, each in variables.items() if name in self._defaults or name in extra}
        held = {name: getattr(value, name, _UNSET) for name in self._defaults}
        return {name: each for name, each in held.items() if each is not _UNSET}

    def _is_made_of_fields(self, kind: type[Any]) -> bool:
        """Whether what runs after `__init__` can run again: it takes and makes nothing beside the fields."""
        return (
            not self._is_model
            and not self._takes_more
            and all(each.init for each in dataclasses.fields(kind))
        )

    def _by_name(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of the fields, by their names, without those that only `__init__` takes."""
        if schema["type"] == "model-fields":
            named = cast("dict[str, dict[str, Any]]", schema["fields"])
            return schema | {"fields": {name: self._field(name, each) for name, each in named.items()}}
        if schema["type"] == "dataclass-args":
            fields = [each for each in schema["fields"] if not each.get("init_only")]
            self._takes_more = len(fields) < len(schema["fields"])
            listed = [self._field(each["name"], each) for each in fields]
            return schema | {"fields": listed, "collect_init_only": False}
        if "schema" in schema:
            return schema | {"schema": self._by_name(schema["schema"])}
        self._is_known = False
        return schema

    def _field(self, name: str, field: dict[str, Any]) -> dict[str, Any]:
        schema = field["schema"]
        self._defaults[name] = (
            schema.get("default", _NO_DEFAULT) if schema["type"] == "default" else _NO_DEFAULT
        )
        return {key: each for key, each in field.items() if key not in ("validation_alias", "init")}


def _copied(value: Any, converted: Mapping[str, object]) -> Any:
    """A shallow copy, with some fields replaced; no code of the user's runs if that can be avoided."""
    if isinstance(value, BaseModel):
        model = BaseModel.__copy__(value)
        extra = cast("dict[str, object]", model.__pydantic_extra__ or {})
        variables = cast("dict[str, object]", model.__dict__)
        for name, each in converted.items():
            (extra if name in extra else variables)[name] = each
        return model
    made: Any
    try:
        made = object.__new__(cast("type[Any]", type(value)))
    except TypeError:  # a dataclass that is an exception or a list, too
        made = copy.copy(value)
    else:
        copy_attributes(value, made)
    for name, each in converted.items():
        object.__setattr__(made, name, each)
    return made


def _is_alike(held: object, result: object) -> bool:
    """Whether a result is what was held: containers of the same kinds, and items that may stay."""
    if held is result:
        return True
    kind = type(held)
    if kind is not type(result):
        return False
    if issubclass(kind, list | tuple | deque):
        one, other = cast("tuple[list[object], list[object]]", (held, result))
        if len(one) != len(other) or all(map(is_, one, other)):
            return len(one) == len(other)
        return all(_is_alike(*pair) for pair in zip(one, other, strict=True))
    if issubclass(kind, dict):
        one, other = cast("tuple[dict[object, object], dict[object, object]]", (held, result))
        return _is_alike(list(one), list(other)) and _is_alike(list(one.values()), list(other.values()))
    if issubclass(kind, set | frozenset):
        one, other = ({(type(item), item) for item in cast("set[object]", each)} for each in (held, result))
        return one == other
    return _may_stay(held)


def _may_stay(held: object) -> bool:
    """Whether an item may stay whose result has its type; what validators made of it does not count.

    An object was validated when it was made, and validators that are not meant to see their own results,
    one that hashes a password for example, would otherwise change it again and again.
    """
    return not isinstance(held, BaseModel) and not dataclasses.is_dataclass(held)
