"""Results and failures of served calls, as the protocol sends them: in JSON, for models to read.

A result has one form only: clients that get both a text and structured content show models the one or the
other. So a text is content and nothing else; an object of a declared type is structured content, with the
same JSON as content for older clients.
"""

import base64
import json
import logging
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from ..asgi.admission import RefusedError
from ..asgi.problems import Problem, exact_cause, find_problem, log_problem
from ..causes import leaves_of
from ..errors import ErrorKind, NighthawkError, ToolBoundaryError
from ..prompt.multimodal import as_user_content, project_to_text
from ..prompt.plain_text import single_line
from ..threads import call_in_thread
from ..types.messages import BinaryContent, FileUrl, UserContent
from ..values.error_text import message_without_content
from .json_data import characters, checked_data, json_data, shown_fields_of
from .serving_schemas import ObjectForm, UnsendableResultError, unsendable
from .values import ERROR_KIND, IS_JSON

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
