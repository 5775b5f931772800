"""Validation of values, and of the models and dataclasses inside them.

pydantic accepts an instance as valid, whatever happened to it since it was made, and `revalidate_instances`
would replace it by a copy without its private attributes, and convert its fields again. Here an instance is
checked: its fields hold converted values (see `converted_schemas`), and the functions that check the whole
object run on a copy. It stays the same object, unless a field holds a value of the wrong type: then a copy,
with that value converted, replaces it.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic import ValidationError

from .converted_schemas import converted_ref, converted_schema
from .core_schemas import adapted_core_schema, changed, schema_validator, with_inner
from .instance_fields import InstanceFields, copied
from .snapshot import NEVER_CHANGED, Snapshot
from .unchanged import kept

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
        return _cached(cast("Hashable", annotation), is_converted)
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
        self._class = cast("type[Any]", schema["cls"])
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
