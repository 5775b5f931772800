"""The call whose progress a stream reports, with its end as the last event of the stream."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import anyio
from msgspec import Struct
from pydantic import ConfigDict, TypeAdapter

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from ..observation import NodeWriter, observed
from ..observe import NodeView, TaskTree, find_node_id, find_tree
from .event_stream_encoding import StreamEvent
from .event_stream_live import LiveStream, StreamProfile
from .problems import CANCELLED, Problem, find_problem
from .work import ActiveRequest

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
    """Convert the return value of a call to an event with JSON, as pydantic serializes it.

    Numbers that JSON lacks are texts, and bytes are Base64 unless a model of the value says otherwise. A
    result that cannot be sent is an error: half of it would be another value.

    Args:
        value: The return value of the call.
        max_bytes: The maximum length, in bytes.
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
    """Return the event of an error: the middleware's problem for it, or the general one for a failed call.

    Args:
        error: The error that the call has raised.
        request_id: The id of the request.
    """
    problem = find_problem(error) or _FAILED
    assert problem is not None, "every error of the library has a problem"
    return problem_event(problem, request_id=request_id)


def problem_event(problem: Problem, *, request_id: str | None) -> StreamEvent:
    """Convert a problem to an event.

    Args:
        problem: The problem.
        request_id: The id of the request.
    """
    return StreamEvent(name="error", data={**problem.as_json(request_id=request_id)})


Call: TypeAlias = Callable[[], Awaitable[object]]


class StreamSettings(Struct, frozen=True, kw_only=True):
    """Arguments of `stream_response`.

    Args:
        name: The name of the call.
        profile: The events that report progress.
        resume_seconds: The number of seconds for which a client may resume.
        min_interval_seconds: The minimum time between two updates, in seconds.
        max_result_bytes: The maximum length of the result as JSON, in bytes.
        reveals_internals: Whether clients also receive internal data of the service.
    """

    name: str
    profile: StreamProfile
    resume_seconds: float
    min_interval_seconds: float
    max_result_bytes: int
    reveals_internals: bool


class StreamedCall:
    """A call that runs below its own node.

    Args:
        call: The call.
        stream: The stream that reports its progress.
        settings: The settings of `stream_response`.
        request: The request it belongs to; None outside a middleware.
    """

    def __init__(
        self, call: Call, stream: LiveStream, settings: StreamSettings, request: ActiveRequest | None
    ) -> None:
        self._call = call
        self._stream = stream
        self._settings = settings
        self._request = request
        self._request_id = None if request is None else request.request_id
        self._scope = anyio.CancelScope()
        self._problem = CANCELLED
        self.error: Exception | None = None
        """The error that it has raised."""

    def request_cancel(self, reason: str | None) -> None:
        """Cancel it, on request of an observer."""
        self.cancel(CANCELLED)

    def cancel(self, problem: Problem) -> None:
        """End it early.

        Args:
            problem: The problem that the stream then reports.
        """
        self._problem = problem
        self._scope.cancel()

    def end_with_request(self) -> bool:
        """Handle a disconnect: return True when the request must end although its client may be there."""
        problem = self._request_problem
        if problem is not None:
            self.cancel(problem)
        return problem is not None

    async def carry_out(self) -> None:
        """Run the call, and report its progress and its end to the stream; its error is kept."""
        with self._recording() as tree, observed("task", self._settings.name, control=self) as node:
            assert node is not None, "a tree records"
            node_id = find_node_id()
            interval = self._settings.min_interval_seconds
            async with (
                tree.watch(node_id, min_interval=interval) as changes,
                tree.watch(node_id) as last,
                BareTaskGroup() as watching,
            ):
                watching.start_soon(self._publish, changes)
                try:
                    outcome = await self._find_outcome(node)
                except BaseException as error:  # cancelled, or the program ends
                    node.end("cancelled", error=error)
                    await self._end(self._ended_early(), last)
                    raise
                await self._end(outcome, last)
                watching.cancel_scope.cancel()

    async def _find_outcome(self, node: NodeWriter) -> StreamEvent:
        try:
            with self._scope:
                value = await self._call()
                node.end("completed")
                limit = self._settings.max_result_bytes
                return result_event(value, max_bytes=limit, request_id=self._request_id)
        except Exception as error:
            self.error = error
            node.end("failed", error=error)
            return error_event(error, request_id=self._request_id)
        node.end("cancelled")
        return self._ended_early()

    async def _end(self, outcome: StreamEvent, last: AsyncIterator[NodeView]) -> None:
        with anyio.CancelScope(shield=True):  # does not block: the node has just ended
            self._stream.end(outcome, await anext(last))

    async def _publish(self, changes: AsyncIterator[NodeView]) -> None:
        async for view in changes:
            if not self._stream.is_ended:
                self._stream.publish(view)

    def _recording(self) -> AbstractContextManager[TaskTree]:
        """Return a context manager with the active tree, or with a new one for this call alone."""
        tree = find_tree()
        if tree is None or find_node_id() is None:
            return TaskTree().recording()
        return nullcontext(tree)

    @property
    def _request_problem(self) -> Problem | None:
        """The reason for ending its request although the client is there; None for none."""
        return None if self._request is None else self._request.work.problem

    def _ended_early(self) -> StreamEvent:
        """Return the event of a cancellation, with its reason."""
        return problem_event(self._request_problem or self._problem, request_id=self._request_id)
