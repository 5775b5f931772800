"""Results and failures of served calls, as the protocol sends them: in JSON, for models to read.

The schema says what pydantic serializes, by alias, and nothing that a value of the type may break: a format
is left out where the type also has other values, and regular expressions are, because each language has its
own. What user code does when it serializes is checked with each result.

A result has one form only: clients that get both a text and structured content show models the one or the
other. So a text is content and nothing else; an object of a declared type is structured content, with the
same JSON as content for older clients.
"""

import base64
import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import Flag
from importlib import import_module
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from ..asgi.admission import RefusedError
from ..asgi.problems import Problem, exact_cause, find_problem, log_problem
from ..causes import leaves_of
from ..errors import ErrorKind, NighthawkError, ToolBoundaryError
from ..pickling import PicklableError
from ..prompt.multimodal import as_user_content, project_to_text
from ..prompt.plain_text import single_line
from ..threads import call_in_thread
from ..types.json import is_json_list, is_json_object
from ..types.messages import BinaryContent, FileUrl, UserContent
from ..values.error_text import message_without_content
from ..values.validation import type_adapter
from .json_data import characters, checked_data, fields_of, json_data, shown_fields_of
from .schemas import LISTED, NAMED, SINGLE, checked_schema
from .values import ERROR_KIND, IS_JSON

_MAX_REASON_CHARACTERS = 500
_ELSE = "The function has returned something else than it declares"


class UnsendableResultError(PicklableError):
    """The result of a function has no JSON form, or is not of the declared type."""


def unsendable(error: Exception) -> UnsendableResultError:
    """The error for a result that has no JSON form.

    Args:
        error: The reason.
    """
    reason = single_line(str(error), _MAX_REASON_CHARACTERS).rstrip(".") or type(error).__name__
    return UnsendableResultError(f"The result of the function has no JSON form: {reason}.")


class ObjectForm:
    """The form of results that are JSON objects.

    Args:
        annotation: Their type.
        is_validated: Whether the function has validated its result already.

    Attributes:
        json_schema: Their JSON Schema, whose root has the type `object`.

    Raises:
        TypeError: They are no objects.
        Exception: The type has no JSON Schema.
    """

    def __init__(self, annotation: object, *, is_validated: bool) -> None:
        self._adapter: TypeAdapter[Any] = type_adapter(annotation)
        schema = self._adapter.json_schema(
            by_alias=True, mode="serialization", schema_generator=_ResultSchema
        )
        self.json_schema: dict[str, Any] = strict_schema(_without_expressions(_with_root(schema)))
        if self.json_schema.get("type") != "object":
            raise TypeError("the results are no JSON objects")
        checked_schema(self.json_schema)
        self._is_validated = is_validated
        self._validator: Any = None

    def data_of(self, value: object) -> Any:
        """Return a result as JSON data, for `check`.

        Raises:
            UnsendableResultError: It is not of the declared type, or has no JSON form.
        """
        try:
            valid = value if self._is_validated else self._adapter.validate_python(value)
        except Exception as error:  # code of the user's types may raise anything
            raise UnsendableResultError(f"{_ELSE}.") from error
        try:
            return json_data(self._adapter, valid, non_finite="refused", fallback=fields_of)
        except Exception as error:
            raise unsendable(error) from error

    def check(self, data: object) -> None:
        """Check that data fits the schema; slow for large data.

        Raises:
            UnsendableResultError: It does not.
        """
        if self._validator is None:
            validators: Any = import_module("jsonschema")  # slow to import, and comes with the package mcp
            self._validator = validators.Draft202012Validator(
                self.json_schema, format_checker=_format_checker()
            )
        error = next(self._validator.iter_errors(data), None)
        if error is not None:
            path = ".".join(map(str, error.absolute_path)) or "its root"
            raise UnsendableResultError(
                f"{_ELSE}: its data breaks {error.validator!r} of the output schema at {path}."
            )


class _ResultSchema(GenerateJsonSchema):
    """Pydantic's JSON Schema of serialized values, without what these may break."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        return

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return _with_format(super().datetime_schema(schema), has_zone=schema.get("tz_constraint") == "aware")

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return _with_format(super().time_schema(schema), has_zone=schema.get("tz_constraint") == "aware")

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        # RFC 3339 has neither signs nor fractions.
        return _with_format(super().timedelta_schema(schema), has_zone=False)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string"}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        json_schema = super().enum_schema(schema)
        if issubclass(schema["cls"], Flag):  # whose values are sums of those that are named
            del json_schema["enum"]
        return json_schema

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        json_schema = super().dict_schema(schema)
        for values in json_schema.pop("patternProperties", {}).values():
            json_schema["additionalProperties"] = values
        json_schema.pop("propertyNames", None)  # whatever the keys are, JSON has texts
        return json_schema

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        json_schema = super().tagged_union_schema(schema)
        if "oneOf" in json_schema:  # a function that discriminates may have choices that overlap
            json_schema["anyOf"] = json_schema.pop("oneOf")
        return json_schema

    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) and field.get("serialization_exclude_if") is None

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        if schema["type"] == "any":  # whatever the value is, as it is for `SerializeAsAny`
            return {}
        is_function = schema["type"] in ("function-plain", "function-wrap")
        if is_function and schema.get("return_schema") is None and not _is_pydantics(schema["function"]):
            return {}  # nobody says what the function returns
        made = super().ser_schema(schema)
        if made is None or not schema.get("when_used", "always").endswith("unless-none"):
            return made
        return self.get_flattened_anyof([made, {"type": "null"}])


def _is_pydantics(function: object) -> bool:
    """Whether a function belongs to a type that pydantic knows: its schema says what the function returns."""
    return str(getattr(function, "__module__", "")).startswith("pydantic._internal.")


def _with_format(schema: JsonSchemaValue, *, has_zone: bool) -> JsonSchemaValue:
    return schema if has_zone else {name: each for name, each in schema.items() if name != "format"}


def _with_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the definition at its root that its root refers to, as for a recursive model."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = schema.get("$defs", {})
    return {**definitions.get(reference.removeprefix("#/$defs/"), {}), "$defs": definitions}


def strict_schema(schema: Any) -> Any:
    """Return a JSON Schema without the keywords that are no JSON, such as a default of NaN."""
    return _changed(schema, lambda keyword, value: _is_json(value))


def _without_expressions(schema: Any) -> Any:
    """Return a schema of results without regular expressions, and without multiples of fractions."""
    return _changed(
        schema,
        lambda keyword, value: (
            keyword not in ("pattern", "patternProperties")
            and not (keyword == "multipleOf" and isinstance(value, float))
        ),
    )


def _changed(schema: Any, keeps: Callable[[str, object], bool]) -> Any:
    """Return a schema with the keywords that are kept, here and inside."""
    if not is_json_object(schema):
        return schema
    changed: dict[str, Any] = {}
    for name, each in schema.items():
        if name in NAMED and is_json_object(each):
            inner: object = {key: _changed(value, keeps) for key, value in each.items()}
        elif name in LISTED and is_json_list(each):
            inner = [_changed(value, keeps) for value in each]
        else:
            inner = _changed(each, keeps) if name in SINGLE else each
        if keeps(name, inner):
            changed[name] = inner
    return changed


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
_DURATION = (
    r"P(\d+W|(?=[\dT])(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)?(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))?)"
)
_FORMATS: Mapping[str, tuple[re.Pattern[str], Any]] = {
    "date": (re.compile(_DATE, re.ASCII), date.fromisoformat),
    "time": (re.compile(_TIME, re.ASCII | re.IGNORECASE), time.fromisoformat),
    "date-time": (re.compile(f"{_DATE}T{_TIME}", re.ASCII | re.IGNORECASE), datetime.fromisoformat),
    "duration": (re.compile(_DURATION, re.ASCII), str),
}
"""The formats of RFC 3339: their form, and a function that refuses other values of it."""


def _format_checker() -> Any:
    FormatChecker: Any = import_module("jsonschema").FormatChecker  # noqa: N806

    checker: Any = FormatChecker()
    for name in _FORMATS:
        checker.checks(name, raises=ValueError)(_Format(name))
    return checker


class _Format:
    """Checks the texts of a format."""

    def __init__(self, name: str) -> None:
        self._pattern, self._read = _FORMATS[name]

    def __call__(self, value: object) -> bool:
        if not isinstance(value, str):
            return True
        if self._pattern.fullmatch(value) is None:
            return False
        self._read(value.upper().replace("Z", "+00:00"))
        return True


_LOGGER = logging.getLogger("nighthawk")

_ANY: TypeAdapter[Any] = TypeAdapter(
    Any, config=ConfigDict(ser_json_inf_nan="strings", ser_json_bytes="base64", arbitrary_types_allowed=True)
)
_MAX_CHARACTERS_AT_ONCE = 4_000
"""The size of a result that is checked on the event loop."""
_MAX_MESSAGE_CHARACTERS = 2_000
_MAX_REPORTED_ERRORS = 5
_TRY_AGAIN = "Try again later."
_COMPLETE = {"resultType": "complete"}


def result_of(value: object, object_form: ObjectForm | None) -> dict[str, Any]:
    """Return the result of a call, for the client.

    Args:
        value: The value that the function has returned.
        object_form: The form of its results; None unless these are JSON objects.

    Raises:
        UnsendableResultError: The value has no JSON form, or is not of the declared type.
    """
    result = _unchecked_result(value, object_form)
    if object_form is not None:
        object_form.check(result["structuredContent"])
    return result


async def checked_result(value: object, object_form: ObjectForm | None) -> dict[str, Any]:
    """Return the result of a call like `result_of`; a large one is checked in a worker thread.

    Raises:
        UnsendableResultError: See `result_of`.
    """
    result = _unchecked_result(value, object_form)
    if object_form is not None:
        data = result["structuredContent"]
        if len(result["content"][0]["text"]) > _MAX_CHARACTERS_AT_ONCE:
            await call_in_thread(object_form.check, data)
        else:
            object_form.check(data)
    return result


def _unchecked_result(value: object, object_form: ObjectForm | None) -> dict[str, Any]:
    if object_form is None:
        return {**_COMPLETE, **_content_of(value)}
    data = object_form.data_of(value)
    text = _json_text(data, separators=(", ", ": "))
    return {**_COMPLETE, "content": [_text(text)], "structuredContent": data}


def _content_of(value: object) -> dict[str, Any]:
    """Return a value as content: a text as it is, images and audio as such, other values as JSON."""
    try:
        content = (value,) if isinstance(value, str) else as_user_content(value)
        if content is not None:
            return checked_data({"content": [_block(item) for item in content]})
        data = json_data(_ANY, value, non_finite="texts", fallback=shown_fields_of)
    except Exception as error:  # code of the user's types may raise anything
        raise unsendable(error) from error
    return {"content": [_text(_json_text(data, separators=(",", ":")))], "_meta": {IS_JSON: True}}


def _json_text(data: object, *, separators: tuple[str, str]) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=separators)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits
        raise unsendable(error) from error


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _block(item: UserContent) -> dict[str, Any]:
    match item:
        case str():
            return _text(item)
        case BinaryContent():
            return _binary_block(item)
        case FileUrl():
            return _text(item.url)
        case _:
            return _text(project_to_text((item,)))


def _binary_block(item: BinaryContent) -> dict[str, Any]:
    data = base64.b64encode(item.data).decode()
    kind = item.media_type.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": item.media_type}
    resource = {"uri": f"nighthawk-async:{item.identifier or 'content'}", "mimeType": item.media_type}
    text = _decoded(item) if kind == "text" or item.media_type == "application/json" else None
    return {"type": "resource", "resource": resource | ({"blob": data} if text is None else {"text": text})}


def _decoded(item: BinaryContent) -> str | None:
    try:
        return item.data.decode()
    except UnicodeDecodeError:
        return None


def failure_of(error: Exception, *, call: str) -> dict[str, Any]:
    """Return the result of a call that has failed, and log the error with what clients do not get.

    Clients get the type and the message of an error. Messages of the library do not quote models, prompts and
    values. Tracebacks are only logged.

    Args:
        error: The error.
        call: The call, for the log.
    """
    problem = error.problem if isinstance(error, RefusedError) else find_problem(error)
    if problem is not None and not isinstance(error, RefusedError | ToolBoundaryError):
        log_problem(f"{call} is answered", problem, error)
    elif problem is None and not isinstance(error, UnsendableResultError):
        _LOGGER.error("%s has failed: %s", call, type(error).__name__, exc_info=error)
    elif isinstance(error, UnsendableResultError):
        _LOGGER.error("%s has failed: %s", call, error, exc_info=error)
    return failure_text(_describe(error, problem), kind=_kind_of(error))


def problem_text(problem: Problem) -> str:
    """Return a problem as a text, with the time after which the client may try again.

    Args:
        problem: The problem.
    """
    return f"{problem.title}. {problem.detail.replace(_TRY_AGAIN, _advice(problem.retry_after_seconds))}"


def failure_text(text: str, *, kind: ErrorKind = "execution") -> dict[str, Any]:
    """Return the result of a call that has failed.

    Args:
        text: The failure, for the model.
        kind: The kind of the failure, for clients of this library.
    """
    return {**_COMPLETE, "content": [_text(characters(text))], "isError": True, "_meta": {ERROR_KIND: kind}}


def _kind_of(error: Exception) -> ErrorKind:
    if isinstance(error, ToolBoundaryError):
        return error.kind
    cause = exact_cause(error)
    is_transient = isinstance(cause, RefusedError) or (
        isinstance(cause, NighthawkError) and cause.is_transient
    )
    return "transient" if is_transient else "execution"


def _describe(error: Exception, problem: Problem | None) -> str:
    if isinstance(error, RefusedError) and problem is not None:
        return problem_text(problem)
    if isinstance(error, ToolBoundaryError):
        return " ".join(filter(None, (f"{error.message.rstrip('.')}.", error.guidance)))
    if isinstance(error, UnsendableResultError):
        return str(error)
    leaves = list(leaves_of(error))
    shown = [_describe_one(leaf) for leaf in leaves[:_MAX_REPORTED_ERRORS]]
    if len(leaves) > len(shown):
        shown.append(f"and {len(leaves) - len(shown)} more")
    return "; ".join(shown)


def _describe_one(error: BaseException) -> str:
    cause = exact_cause(error)
    try:
        message = message_without_content(cause)
    except Exception:  # `__str__` of a user's exception may raise anything
        message = "its message cannot be shown"
    text = f"{type(cause).__name__}: {single_line(message, _MAX_MESSAGE_CHARACTERS)}".removesuffix(": ")
    if isinstance(cause, NighthawkError) and cause.is_transient:
        return f"{text.rstrip('.')}. {_advice(cause.retry_after_seconds)}"
    return text


def _advice(seconds: float | None) -> str:
    if seconds is None:
        return _TRY_AGAIN
    return f"Try again in {seconds:g} second{'s' * (seconds != 1)}."
