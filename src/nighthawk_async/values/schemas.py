"""pydantic's core schema of a type, with what pydantic leaves out, and schemas of converted values.

Pydantic reads only the offset, which does not say when it changes.

Instances of attrs classes and msgspec structs may be given as dicts of their fields, and a member of an
enumeration by its name.

attrs is optional, so it is never imported here.

A validator that converts must not see its own result: it would convert it again, or refuse it. So the schema
of a converted value leaves out what ran before pydantic's own validation, JSON and encodings included, and
takes the result of any other function as it is. Functions that only check, because they give back what they
are given, keep their place: what they refuse was changed after it was made.

Guarded by `tests/specification/test_7_converted_once.py` and `tests/unit/values/test_converted_schemas.py`.
"""

import datetime as dt
import dis
import enum
import functools
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from inspect import cleandoc
from types import CodeType, FunctionType, MethodType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from zoneinfo import ZoneInfo

import msgspec
from pydantic import ConfigDict, EncodedBytes, EncodedStr, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema, to_jsonable_python

from ..types.json import is_json_object, is_list_or_tuple
from .error_text import describe_error

_DATETIMES = TypeAdapter(dt.datetime)


def read_datetime(value: object, handler: Callable[[Any], Any]) -> object:
    """Validate a date and time, which may name its zone: `2026-03-29T03:30:00+02:00[Europe/Berlin]`."""
    if type(value) is not str or not value.endswith("]"):
        return handler(value)
    text, zone = _split(value)
    given = _DATETIMES.validate_python(text)
    placed = given.replace(tzinfo=zone) if given.tzinfo is None else given.astimezone(zone)
    if given.tzinfo is not None and given.utcoffset() != placed.utcoffset() and text[-1] not in "Zz":
        at, not_at = (each.isoformat()[-6:] for each in (placed, given))
        raise _refused(f"{zone.key} is at {at} then, not at {not_at}")
    moment = handler(placed.isoformat())
    return moment.astimezone(zone) if isinstance(moment, dt.datetime) else moment


def read_time(value: object, handler: Callable[[Any], Any]) -> object:
    """Validate a time, which may name its zone: `03:30:00[Europe/Berlin]`."""
    if type(value) is not str or not value.endswith("]"):
        return handler(value)
    text, zone = _split(value)
    time = handler(text)
    if not isinstance(time, dt.time):
        return time
    if time.tzinfo is not None:
        raise _refused(f"a time has an offset or the zone {zone.key}, not both")
    return time.replace(tzinfo=zone)


def _split(value: str) -> tuple[str, ZoneInfo]:
    text, _, name = value[:-1].partition("[")
    try:
        return text, ZoneInfo(name)
    except Exception as error:  # the name is any text
        raise _refused(f"{name!r} is no known time zone") from error


def _refused(reason: str) -> PydanticCustomError:
    return PydanticCustomError("time_zone", "{reason}", {"reason": reason})


_ZONED: Mapping[str, Callable[..., object]] = {"datetime": read_datetime, "time": read_time}
"""The kinds of core schemas whose texts may name a time zone."""

NO_DEFAULT: Any = object()
"""Marks a field without a default, or with a default that is made anew for every object."""


class RecordField(NamedTuple):
    """One field of a class, as its constructor takes it.

    Attributes:
        name: The keyword of the constructor.
        key: The name in data.
        annotation: The type that the constructor takes.
        is_required: Whether the constructor has no default for it.
        default: The default, or `NO_DEFAULT`.
    """

    name: str
    key: str
    annotation: object
    is_required: bool
    default: object = NO_DEFAULT


class Record(NamedTuple):
    """A class whose constructor takes its fields by name.

    Attributes:
        fields: The fields.
        takes_more: Whether data may have keys that are not fields; they are ignored.
        tag: The key and value that distinguish data of this class from data of others; None for none.
    """

    fields: tuple[RecordField, ...]
    takes_more: bool
    tag: tuple[str, str | int] | None = None


def record_of(kind: type) -> Record | None:
    """The fields of a class; None when it is neither an attrs class nor a msgspec struct.

    Args:
        kind: The class.

    Raises:
        Exception: An annotation of the class cannot be resolved.
    """
    if "__attrs_attrs__" in vars(kind):
        return _attrs_class(kind)
    return _struct(kind) if issubclass(kind, msgspec.Struct) else None


def _attrs_class(kind: Any) -> Record:
    types = get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    fields = tuple(_attribute(each, types) for each in kind.__attrs_attrs__ if each.init)
    return Record(fields, takes_more=False)


def _attribute(attribute: Any, types: Mapping[str, object]) -> RecordField:
    attrs: Any = sys.modules["attr"]
    default: object = attribute.default
    is_required = default is attrs.NOTHING
    has_value = not is_required and not isinstance(default, attrs.Factory)
    return RecordField(
        name=attribute.alias,
        key=attribute.alias,
        annotation=_converted_from(attribute.converter, types.get(attribute.name, attribute.type or Any)),
        is_required=is_required,
        default=default if has_value else NO_DEFAULT,
    )


def _converted_from(converter: Any, annotation: object) -> object:
    """The annotated parameter type of a converter; without annotations, the type of the field."""
    if converter is None or isinstance(converter, type):
        return annotation
    attrs: Any = sys.modules["attr"]
    if isinstance(converter, getattr(attrs, "Converter", ())):
        converter = converter.converter
    try:
        taken = get_type_hints(converter, include_extras=True)
    except (NameError, TypeError):
        return annotation
    taken.pop("return", None)
    return next(iter(taken.values()), annotation)


def _struct(kind: type[msgspec.Struct]) -> Record:
    config = kind.__struct_config__
    fields = tuple(_struct_field(each) for each in msgspec.structs.fields(kind))
    tag = None if config.tag_field is None else (config.tag_field, cast("str | int", config.tag))
    return Record(fields, takes_more=not config.forbid_unknown_fields, tag=tag)


def _struct_field(field: msgspec.structs.FieldInfo) -> RecordField:
    has_value = field.default not in (msgspec.NODEFAULT, msgspec.UNSET)
    return RecordField(
        name=field.name,
        key=field.encode_name,
        annotation=_as_pydantic_type(field.type),
        is_required=field.required,
        default=field.default if has_value else NO_DEFAULT,
    )


_CONSTRAINTS = ("description", "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "pattern")


def _as_pydantic_type(annotation: Any) -> Any:
    """A type with `msgspec.Meta` as pydantic's constraints, and without `msgspec.UnsetType`."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *metadata = arguments
        return Annotated[(_as_pydantic_type(base), *map(_constraint, metadata))]
    if origin in (Union, UnionType):
        left = tuple(_as_pydantic_type(each) for each in arguments if each is not msgspec.UnsetType)
        return Union[left]  # noqa: UP007 - of members that are known at run time only
    changed = tuple(map(_as_pydantic_type, arguments))
    if all(one is other for one, other in zip(changed, arguments, strict=True)):
        return annotation
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]


def _constraint(metadata: object) -> object:
    if not isinstance(metadata, msgspec.Meta):
        return metadata
    given = {name: value for name in _CONSTRAINTS if (value := getattr(metadata, name)) is not None}
    return Field(**given)


Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

_OPAQUE = frozenset(
    {"cls", "computed_fields", "config", "custom_error_context", "default", "expected", "function"}
    | {"generic_origin", "members", "metadata", "serialization", "values"}
)
"""Keys of a core schema that contain no schemas for validation."""


class CoreSchema(NamedTuple):
    """The core schema of a type.

    Attributes:
        schema: The schema.
        definitions: The schemas to which it refers.
    """

    schema: dict[str, Any]
    definitions: list[dict[str, Any]]

    @property
    def whole(self) -> dict[str, Any]:
        """The schema with its definitions, as one schema."""
        if not self.definitions:
            return self.schema
        return {"type": "definitions", "schema": self.schema, "definitions": self.definitions}


def adapted_core_schema(annotation: object) -> CoreSchema:
    """The core schema of a type.

    Args:
        annotation: The type.

    Raises:
        Exception: pydantic, or code of the user's types, cannot make one.
    """
    adaptation = _Adaptation()
    return CoreSchema(adaptation.schema_of(annotation), list(adaptation.definitions.values()))


Made = TypeVar("Made")


def made_once(make: Callable[[object], Made | None]) -> Callable[[object], Made | None]:
    """Keep what is made of a type; nothing can be made of a type whose own code raises.

    Args:
        make: Makes something of a type; None if there is nothing to make.
    """

    def attempt(annotation: object) -> Made | None:
        try:
            return make(annotation)
        except Exception:  # code of the user's types may raise anything
            return None

    kept = functools.lru_cache(maxsize=1024)(attempt)

    @functools.wraps(make)
    def find(annotation: object) -> Made | None:
        try:
            return kept(annotation)
        except TypeError:  # not hashable: Annotated[int, {}]
            return attempt(annotation)

    return find


def _core_schema(annotation: object) -> CoreSchema:
    """Pydantic's own core schema of a type."""
    if annotation is Self:  # pydantic supports it only inside models
        annotation = Any
    # Inside a tuple, the configuration also applies to dataclasses that have none of their own.
    holder = cast("type[tuple[object]]", tuple.__class_getitem__((annotation,)))
    with warnings.catch_warnings():  # about types that do not restrict values, such as LiteralString
        warnings.filterwarnings("ignore", r"(?s).* is not a Python type", UserWarning)
        adapter = TypeAdapter(holder, config=ConfigDict(arbitrary_types_allowed=True))
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)  # the error names what is missing
    schema = cast("dict[str, Any]", adapter.core_schema)
    definitions: list[dict[str, Any]] = []
    if schema["type"] == "definitions":
        definitions, schema = schema["definitions"], schema["schema"]
    return CoreSchema(schema["items_schema"][0], definitions)


def schema_validator(schema: Any, config: Any = None) -> SchemaValidator:
    """Compile a core schema, without reusing the validators stored on the classes in it.

    Args:
        schema: The schema.
        config: The configuration of pydantic's core for it.
    """
    try:
        return SchemaValidator(schema, config, _use_prebuilt=False)  # pyright: ignore[reportCallIssue]
    except TypeError:  # a version of pydantic that never reuses validators
        return SchemaValidator(schema, config)


def changed(schema: Any, change: Change) -> Any:
    """Apply a change to every schema in a part of a core schema.

    Args:
        schema: A schema, a list or mapping of schemas, or any other part of one.
        change: Returns the changed schema; it calls `with_inner` for the schemas inside.
    """
    if is_list_or_tuple(schema):
        return type(schema)(changed(each, change) for each in schema)
    if not is_json_object(schema):
        return schema
    if isinstance(schema.get("type"), str):
        return change(schema)
    return {name: changed(each, change) for name, each in schema.items()}


def with_inner(schema: dict[str, Any], change: Change) -> dict[str, Any]:
    """Apply a change to the schemas inside a schema."""
    return {name: each if name in _OPAQUE else changed(each, change) for name, each in schema.items()}


class _Adaptation:
    """Adds what pydantic leaves out to the schema of one type.

    Attributes:
        definitions: The schemas that others refer to, by reference.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}

    def schema_of(self, annotation: object) -> dict[str, Any]:
        """The schema of a type; the schemas it refers to are added to the definitions."""
        schema, definitions = _core_schema(annotation)
        self.definitions.update((each["ref"], changed(each, self._adapted)) for each in definitions)
        return changed(schema, self._adapted)

    def _adapted(self, schema: dict[str, Any]) -> dict[str, Any]:
        match schema["type"]:
            case "enum":
                return _accepting_names(schema)
            case "literal":
                return _accepting_data(schema)
            case "tagged-union":
                return schema | {"choices": self._tagged(schema["choices"])}
            case "is-instance":
                return self._record(schema)
            case "datetime" | "time":
                return _wrapped(schema, _ZONED[schema["type"]])
            case "union":
                return schema | {"choices": [self._choice(each) for each in schema["choices"]]}
            case _:
                return with_inner(schema, self._adapted)

    def _tagged(self, choices: Mapping[Any, Any]) -> dict[Any, Any]:
        """The choices of a discriminated union; enumeration members as tags also get their data form."""
        adapted = {tag: changed(each, self._adapted) for tag, each in choices.items()}
        return {_data_of(tag): each for tag, each in adapted.items() if isinstance(tag, enum.Enum)} | adapted

    def _choice(self, choice: Any) -> Any:
        if isinstance(choice, tuple):
            return changed(cast("tuple[Any, ...]", choice), self._adapted)
        if choice["type"] == "enum" and not is_given_by_name(choice["cls"]):
            return choice  # other texts may be meant for another choice
        adapted = self._adapted(choice)
        if choice["type"] in _ZONED:
            return adapted, choice["type"]  # the name is for errors
        is_record = choice["type"] == "is-instance" and adapted is not choice
        return (adapted, choice["cls"].__name__) if is_record else adapted

    def _record(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of a class for which pydantic only checks instances."""
        kind = schema["cls"]
        record = _record_of(kind)
        if record is None:
            return schema
        ref = f"{kind.__module__}.{kind.__qualname__}:{id(kind)}"
        if ref not in self.definitions:
            self.definitions[ref] = schema | {"ref": ref}  # a field may be of the same class
            with suppress(Exception):  # a field type that pydantic does not support: instances only
                self.definitions[ref] = self._record_schema(kind, record) | {"ref": ref}
        return {"type": "definition-ref", "schema_ref": ref}

    def _record_schema(self, kind: type, record: Record) -> dict[str, Any]:
        fields = {each.name: self._record_field(each) for each in record.fields}
        if record.tag is not None:
            key, tag = record.tag
            # The empty name cannot clash with a field.
            fields[""] = core_schema.typed_dict_field(core_schema.literal_schema([tag]), validation_alias=key)
        documentation: str | None = vars(kind).get("__doc__")
        updates = {"description": cleandoc(documentation)} if documentation else {}
        data = core_schema.typed_dict_schema(
            fields,
            cls_name=kind.__name__,
            extra_behavior="ignore" if record.takes_more else "forbid",
            metadata={"pydantic_js_updates": updates},
        )
        return _wrapped(cast("dict[str, Any]", data), _MadeRecord(kind))

    def _record_field(self, field: RecordField) -> core_schema.TypedDictField:
        updates = {} if field.default is NO_DEFAULT else default_as_data(field.default)
        return core_schema.typed_dict_field(
            cast("core_schema.CoreSchema", self.schema_of(field.annotation)),
            required=field.is_required,
            validation_alias=[[field.key], [field.name]] if field.key != field.name else None,
            metadata={"pydantic_js_updates": updates},
        )


def _record_of(kind: object) -> Record | None:
    try:
        return record_of(kind) if isinstance(kind, type) else None
    except Exception:  # an annotation that cannot be resolved
        return None


def _accepting_names(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an enumeration that also accepts the names of its members."""
    return _wrapped(schema, _NamedMember(schema["cls"]))


def _accepting_data(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a literal type that also accepts the JSON form of enumeration members in it."""
    members = {_data_of(each): each for each in schema["expected"] if isinstance(each, enum.Enum)}
    return _wrapped(schema, _GivenMember(members)) if members else schema


def default_as_data(default: object) -> dict[str, Any]:
    """Return the `default` entry of a JSON Schema; empty if JSON cannot represent the default."""
    if isinstance(default, enum.Enum):
        return {"default": _data_of(default)}
    with suppress(ValueError):
        data = to_jsonable_python(default)
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
        return {"default": data}
    return {}


def _data_of(member: enum.Enum) -> Any:
    """Return the JSON form of a member of an enumeration."""
    return member.name if is_given_by_name(type(member)) else member.value


def _wrapped(schema: dict[str, Any], function: Callable[..., object]) -> dict[str, Any]:
    """The schema wrapped in a function; its reference moves to the wrapper."""
    ref = {"ref": schema["ref"]} if "ref" in schema else {}
    inner = {name: each for name, each in schema.items() if name != "ref"}
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": function},
        "schema": inner,
    } | ref


class _MadeRecord:
    """Accepts an instance of a class, or makes one from the data of its fields."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __call__(self, value: object, handler: Callable[[object], object]) -> object:
        if isinstance(value, self._kind):
            return value
        fields = cast("dict[str, object]", handler(value))
        fields.pop("", None)
        try:
            return self._kind(**fields)
        except Exception as error:  # user code may raise anything
            raise PydanticCustomError("record", "{reason}", {"reason": describe_error(error)}) from error


def is_given_by_name(kind: type[enum.Enum]) -> bool:
    """Whether members of an enumeration are given by name, because JSON cannot represent their values."""
    return not all(isinstance(each.value, str | int | float | None) for each in kind)


class _GivenMember:
    """Validates a value for a literal type; the JSON form of an enumeration member becomes the member."""

    def __init__(self, members: Mapping[Any, enum.Enum]) -> None:
        self._members = members

    def __call__(self, value: object, handler: Callable[[object], object]) -> object:
        try:
            return handler(value)
        except ValidationError:
            for data, member in self._members.items():
                if type(data) is type(value) and data == value:
                    return member
            raise


class _NamedMember:
    """Validates a value for an enumeration; a text that is not one of its values is taken as a name.

    Flags may combine several names: `READ|WRITE`.
    """

    def __init__(self, kind: type[enum.Enum]) -> None:
        self._members: Mapping[str, Any] = kind.__members__
        self._is_flag = issubclass(kind, enum.Flag)

    def __call__(self, value: object, handler: Callable[[object], object]) -> object:
        try:
            return handler(value)
        except ValidationError:
            if not isinstance(value, str):
                raise
            names = value.split("|") if self._is_flag else [value]
            if not all(name in self._members for name in names):
                raise
            return reduce(lambda one, other: one | other, (self._members[name] for name in names))


class Judge(Protocol):
    """Decides what the validations of a converted value are evidence for."""

    def checking(self, function: Callable[..., object], *, is_check: bool) -> Callable[..., object]:
        """Make a function that runs a user's where its verdict counts, and gives back the value.

        Args:
            function: The user's function.
            is_check: Whether it certainly gives back what it is given.
        """
        ...

    def lenient(self, value: object, handler: Callable[[object], object]) -> object:
        """Return a value that a user's function has made, and ignore a validation that says nothing of it."""
        ...


_SUFFIX = ":converted"
_OWN_PACKAGES = ("pydantic", "pydantic_core", "annotated_types", __name__.partition(".")[0])
_OWN_CONVERTERS = ("pydantic.experimental",)  # transformations of the user, in closures of pydantic
_SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_STORING_FIRST = "STORE_FAST_LOAD_FAST"
_LOADING = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", _STORING_FIRST}
    | {"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"}
)
"""Instructions of CPython 3.11 to 3.14 that leave a variable on the stack, the last that they name."""


def converted_schema(schema: dict[str, Any], change: Change, judge: Judge) -> dict[str, Any]:
    """The schema of a value that a core schema has converted.

    Args:
        schema: The core schema.
        change: The same for the schemas inside.
        judge: Decides which failures count.
    """
    match schema["type"]:
        case "definition-ref":
            return schema | {"schema_ref": schema["schema_ref"] + _SUFFIX}
        case "json":
            inner = change(schema["schema"]) if "schema" in schema else {"type": "any"}
        case "chain":
            inner = change(schema["steps"][-1])
        case "tagged-union" if callable(schema["discriminator"]):  # it may know nothing but data
            inner = {"type": "union", "choices": [change(each) for each in schema["choices"].values()]}
        case "function-before" if _is_of_user(schema):
            inner = change(schema["schema"])
        case "function-plain" if _is_of_user(schema):
            inner = {"type": "any"}
        case "function-wrap" if _is_of_user(schema):
            inner = _lenient(change(schema["schema"]), judge)
        case "function-after" if _is_of_user(schema):
            inner = _after(schema, change(schema["schema"]), judge)
        case _:
            changed = with_inner(schema, change)
            return changed | {"ref": schema["ref"] + _SUFFIX} if "ref" in schema else changed
    return {"type": "chain", "steps": [inner], "ref": schema["ref"] + _SUFFIX} if "ref" in schema else inner


def converted_ref(ref: str) -> str:
    """The reference to the schema of converted values."""
    return ref + _SUFFIX


def _after(schema: dict[str, Any], inner: dict[str, Any], judge: Judge) -> dict[str, Any]:
    function: dict[str, Any] = schema["function"]
    is_check = gives_back(function["function"])
    checking = function | {"function": judge.checking(function["function"], is_check=is_check)}
    checked = {name: each for name, each in schema.items() if name != "ref"}
    checked |= {"schema": inner, "function": checking}
    return checked if is_check else _lenient(checked, judge)


def _lenient(inner: dict[str, Any], judge: Judge) -> dict[str, Any]:
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": judge.lenient},
        "schema": inner,
    }


def _is_of_user(schema: dict[str, Any]) -> bool:
    """Whether a function schema has a function of the user, or one of pydantic that converts for the user."""
    function: Any = schema["function"]["function"]
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(getattr(function, "__self__", None), EncodedBytes | EncodedStr):
        return True
    module: object = getattr(function, "__module__", None)
    if not isinstance(module, str):
        module = type(function).__module__
    return module.partition(".")[0] not in _OWN_PACKAGES or module.startswith(_OWN_CONVERTERS)


def gives_back(function: Any) -> bool:
    """Whether a function certainly returns the value that it is given, whenever it returns.

    Args:
        function: A function that is called with the value, perhaps as a bound method.
    """
    position = 0
    while not isinstance(function, FunctionType):
        if isinstance(function, MethodType):
            function, position = function.__func__, 1
        elif isinstance(function, functools.partial) and not function.args:
            function = function.func
        else:
            return False
    code = function.__code__
    return code.co_argcount > position and _returns_only(code, code.co_varnames[position])


@functools.lru_cache(maxsize=1024)
def _returns_only(code: CodeType, name: str) -> bool:
    """Whether code certainly returns one variable, never set again; no for instructions that are unknown."""
    if code.co_flags & _SUSPENDING or name in code.co_cellvars:
        return False
    returns, loaded = 0, None
    for each in dis.get_instructions(code):
        named: object = each.argval
        *others, last = cast("tuple[object, ...]", named) or (None,) if isinstance(named, tuple) else (named,)
        if each.opname in _LOADING:
            if name in others and each.opname == _STORING_FIRST:
                return False
        elif "_FAST" in each.opname and name in (*others, last):
            return False  # sets or deletes it
        elif "RETURN" in each.opname:
            if each.opname != "RETURN_VALUE" or each.is_jump_target or loaded != name:
                return False
            returns += 1
        loaded = last if each.opname in _LOADING else None
    return returns > 0
