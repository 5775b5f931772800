"""End of a call, as the last event of its stream."""

import json
import logging
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from ..errors import NighthawkError
from .event_stream_encoding import StreamEvent
from .problems import Problem, find_problem

__all__ = ["NOBODY_CAME_BACK", "error_event", "problem_event", "result_event"]

NOBODY_CAME_BACK = Problem(
    status=408,
    name="client-away",
    title="The client was away for too long",
    detail="The client has left and did not come back within its time, so the call was cancelled.",
)

_RESULT: TypeAdapter[Any] = TypeAdapter(
    Any, config=ConfigDict(ser_json_inf_nan="strings", ser_json_bytes="base64")
)

_LOGGER = logging.getLogger("nighthawk")

_UNREADABLE = Problem(
    status=500,
    name="result-not-representable",
    title="The result cannot be sent",
    detail="The call has succeeded, but its result has no JSON form, or too long a one.",
)
_FAILED = find_problem(NighthawkError("anything"))


def result_event(value: object, *, max_bytes: int, request_id: str | None) -> StreamEvent:
    """The value of a call as JSON, the way pydantic writes it.

    Numbers that JSON lacks are texts, and bytes are Base64 where no model of the value says otherwise. A
    result that cannot be sent is an error: half of it would be another value.

    Args:
        value: What the call has returned.
        max_bytes: How many bytes it may have.
        request_id: The id of the request.
    """
    try:
        shown = _RESULT.dump_json(value)
        if len(shown) > max_bytes:
            _LOGGER.error("a result has %d bytes as JSON, where %d are allowed", len(shown), max_bytes)
            return problem_event(_UNREADABLE, request_id=request_id)
        return StreamEvent(name="result", data={"value": json.loads(shown, parse_constant=str)})
    except (ValueError, RecursionError) as error:
        _LOGGER.error("a result has no JSON form", exc_info=error)
        return problem_event(_UNREADABLE, request_id=request_id)


def error_event(error: Exception, *, request_id: str | None) -> StreamEvent:
    """Return the event of an error: the problem of the middleware, or else just the failure of the call.

    Args:
        error: What the call has raised.
        request_id: The id of the request.
    """
    problem = find_problem(error) or _FAILED
    assert problem is not None, "every error of the library has a problem"
    return problem_event(problem, request_id=request_id)


def problem_event(problem: Problem, *, request_id: str | None) -> StreamEvent:
    """A problem as an event.

    Args:
        problem: The problem.
        request_id: The id of the request.
    """
    return StreamEvent(name="error", data={**problem.as_json(request_id=request_id)})
