"""Tells whoever watches of a model request, event by event, as they stream.

Only where somebody watches.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from ..catalog.request_cost import priced
from ..errors import ModelError
from ..observation import NodeWriter, using_node_writer
from ..ports import Model
from ..types.model import (
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ..types.usage import Usage
from .noted_stream import NotedStream
from .step import Step
from .told_request import ResponseGlance, request_inputs
from .told_usage import usage_so_far

__all__ = ["ToldStream"]


class ToldStream(NotedStream):
    """The events of one response; see `ports.Model.stream`.

    The node of the request is in force only while the response is opened: what the caller does while it
    streams is not below it.

    Args:
        stream: What is told of.
        model: The model.
        request: What it is asked.
        around: What the request is below.
        step: The step in progress; None outside a step. The text of a request right below it is part of the
            transcript of the step.
    """

    def __init__(
        self,
        stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]],
        model: Model,
        request: ModelRequest,
        *,
        around: NodeWriter,
        step: Step | None,
    ) -> None:
        self._stream = stream
        self._model_name = model.name
        self._price = model.capabilities.price
        self._request: ModelRequest | None = request
        self._glance = ResponseGlance()
        self._around = around
        self._is_of_step = step is not None and step.actor.node is around
        self._execution_id = None if step is None else step.context.execution_ref.execution_id
        self._node: NodeWriter = around
        self._reported: Usage | None = None
        self._is_finished = False
        self._call_keys: dict[int, str] = {}
        self._calls_with_text: set[int] = set()

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far; see `told_usage.TellsUsage`."""
        return usage_so_far(self._stream)

    async def __aenter__(self) -> Self:
        name = self._model_name
        request, self._request = self._request, None
        assert request is not None, "a response is opened once"
        self._node = self._around.begin_child(
            "model_request",
            name,
            inputs=request_inputs(request),
            attributes=self._attributes(name),
            speaks_above=self._is_of_step,
        )
        try:
            with using_node_writer(self._node):
                self._events = await self._stream.__aenter__()
        except BaseException as error:
            self._failure = error if isinstance(error, Exception) else None
            self._end(error)
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            is_swallowed = await self._stream.__aexit__(exception_type, exception, traceback)
        except BaseException as error:
            if isinstance(error, Exception):
                self._failure = self._failure or error
            self._end(error)
            raise
        self._end(exception)
        return is_swallowed

    def _note(self, event: ModelEvent) -> None:
        self._glance.note(event)
        match event:
            case TextDelta():
                self._node.write("text", event.text)
            case ReasoningDelta():
                self._node.write("reasoning", event.text)
            case ToolCallStarted():
                self._call_keys[event.index] = f"{event.name}#{event.id}"
            case ToolCallArgumentsDelta():
                self._calls_with_text.add(event.index)
                self._node.write("tool_call", event.fragment, key=self._call_keys.get(event.index))
            case ToolCallCompleted():
                if event.index not in self._calls_with_text:
                    key = f"{event.call.name}#{event.call.id}"
                    self._node.write("tool_call", event.call.arguments, key=key)
            case UsageReported():
                self._reported = event.usage
                self._node.set_usage(priced(event.usage, self._price))
            case ResponseFinished():
                self._is_finished = True
                self._tell_finished(event)
            case _:
                pass

    def _attributes(self, name: str) -> dict[str, str]:
        attributes = {"gen_ai.request.model": name.partition(":")[2] or name}
        if self._execution_id is not None:
            attributes["execution.id"] = self._execution_id
        return attributes

    def _tell_finished(self, event: ResponseFinished) -> None:
        attributes: dict[str, str | int | float | bool] = {"gen_ai.response.finish_reasons": event.reason}
        if event.response_id is not None:
            attributes["gen_ai.response.id"] = event.response_id
        if event.model_name is not None:
            attributes["gen_ai.response.model"] = event.model_name
        self._node.set_attributes(attributes)

    def _end(self, leaving: BaseException | None) -> None:
        """Tell how the request has ended: what its caller broke off was cancelled.

        Args:
            leaving: What leaves the stream.
        """
        failure = self._failure
        usage = self.usage or self._reported or _unreported(failure)
        self._node.set_usage(priced(usage, self._price))
        if failure is not None:
            self._node.set_attributes({"error.type": type(failure).__name__})
            self._node.end("failed", error=failure)
        elif self._is_finished:
            self._node.end("completed", outputs=self._glance.outputs())
        else:
            self._node.end("cancelled", error=leaving)


def _unreported(failure: Exception | None) -> Usage:
    """The usage of a request of which nothing was told, as executors count it."""
    retries = failure.retries if isinstance(failure, ModelError) else 0
    return Usage(requests=1, retries=retries, is_complete=False)
