"""The node of a model request in the live tree, with previews of the request and of its response.

Only the last message of the request is shown: the whole conversation would be repeated with every request.
"""

from collections.abc import Iterator, Mapping

from ..catalog.request_cost import priced
from ..errors import ModelError, ToolBoundaryError
from ..kernel.step import Step
from ..observation import NodeWriter, using_node_writer
from ..types.messages import AssistantMessage, Message, UserContent, UserMessage
from ..types.model import (
    ModelEvent,
    ModelPrice,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ..types.model_output import CitationAdded, MediaCompleted
from ..types.native_tools import NativeCallFinished, NativeCallStarted
from ..types.usage import Usage
from ..wire.json_text import NOT_JSON, as_object, decode_json
from ..wire.media import describe_media

_SHOWN_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "reasoning_effort", "service_tier")
"""The only settings that are shown: others may hold a key."""

_MAX_CHARACTERS = 10_000
_MAX_CALLS = 100


class RequestNode:
    """The node of one request, from before it is sent until its response has ended.

    Args:
        model_name: The model id.
        request: The request.
        parent: The parent node.
        step: The step in progress; None outside a step. The text of a request directly below the
            step's node is part of the step's transcript.
        price: The price of the model; None when it is unknown.
        has_counted: Whether another node shows the usage already, that of a worker that was lost.
    """

    __slots__ = (
        "_call_keys",
        "_calls_with_text",
        "_has_counted",
        "_is_finished",
        "_native_nodes",
        "_node",
        "_preview",
        "_price",
        "_reported",
        "_without_arguments",
    )

    def __init__(
        self,
        model_name: str,
        request: ModelRequest,
        *,
        parent: NodeWriter,
        step: Step | None,
        price: ModelPrice | None = None,
        has_counted: bool = False,
    ) -> None:
        self._price = price
        self._has_counted = has_counted
        self._preview = _Preview()
        self._reported: Usage | None = None
        self._is_finished = False
        self._call_keys: dict[int, str] = {}
        self._calls_with_text: set[int] = set()
        self._native_nodes: dict[str, NodeWriter] = {}
        self._without_arguments: set[str] = set()
        self._node = parent.begin_child(
            "model_request",
            model_name,
            inputs=_inputs(request),
            attributes=_attributes(model_name, step),
            speaks_above=step is not None and step.actor.node is parent,
        )

    def active(self) -> using_node_writer:
        """Make it the active node, so that nodes that begin while the response is opened are below it."""
        return using_node_writer(self._node)

    def note_cached(self) -> None:
        """Show that a response cache answers the request."""
        self._node.set_attributes({"nighthawk.response.cached": True})

    def note(self, event: ModelEvent) -> None:
        """Show an event of the response."""
        self._preview.note(event)
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
            case NativeCallStarted():
                self._begin_native(event.id, event.name, event.arguments)
            case NativeCallFinished():
                self._end_native(event)
            case UsageReported():
                self._reported = event.usage
                self._show_usage(event.usage)
            case ResponseFinished():
                self._is_finished = True
                self._show_finished(event)
            case _:
                pass

    def _show_usage(self, usage: Usage) -> None:
        if not self._has_counted:
            self._node.set_usage(priced(usage, self._price))

    def end(self, failure: Exception | None, leaving: BaseException | None, usage: Usage | None) -> None:
        """End it. A response that its caller broke off counts as cancelled.

        Args:
            failure: The error of the request; None when it did not fail.
            leaving: The error or cancellation that leaves the stream.
            usage: The usage of the request; None to use what its events reported.
        """
        for node in self._native_nodes.values():  # the next response may hold the result
            node.end("completed" if self._is_finished else "cancelled")
        self._show_usage(usage or self._reported or _unreported(failure))
        if failure is not None:
            self._node.set_attributes({"error.type": type(failure).__name__})
            self._node.end("failed", error=failure)
        elif self._is_finished:
            self._node.end("completed", outputs=self._preview.outputs())
        else:
            self._node.end("cancelled", error=leaving)

    def _begin_native(self, id: str, name: str, arguments: str) -> NodeWriter:
        if (former := self._native_nodes.pop(id, None)) is not None:  # servers may repeat an id
            former.end("completed")
        if not arguments:
            self._without_arguments.add(id)
        node = self._native_nodes[id] = self._node.begin_child(
            "tool_call",
            name,
            inputs=_named(arguments),
            attributes={
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": id,
                "gen_ai.tool.type": "datastore" if name == "file_search" else "extension",
                "nighthawk.tool.native": True,
            },
        )
        return node

    def _end_native(self, event: NativeCallFinished) -> None:
        if event.id not in self._native_nodes:  # it began in an earlier response
            self._begin_native(event.id, event.name, event.arguments)
            self._without_arguments.discard(event.id)
        node = self._native_nodes.pop(event.id)
        outputs = _named(event.arguments) if event.id in self._without_arguments else {}
        if event.result:
            outputs = {**outputs, "result": event.result}
        if event.is_error:
            node.end("failed", error=ToolBoundaryError(kind="execution", message=event.result))
        else:
            node.end("completed", outputs=outputs)

    def _show_finished(self, event: ResponseFinished) -> None:
        attributes: dict[str, str | int | float | bool] = {"gen_ai.response.finish_reasons": event.reason}
        if event.response_id is not None:
            attributes["gen_ai.response.id"] = event.response_id
        if event.model_name is not None:
            attributes["gen_ai.response.model"] = event.model_name
        self._node.set_attributes(attributes)


def _named(arguments: str) -> dict[str, object]:
    """The arguments of a native call by name."""
    try:
        return dict(as_object(decode_json(arguments))) if arguments else {}
    except NOT_JSON:
        return {"arguments": arguments}


def _inputs(request: ModelRequest) -> Mapping[str, object]:
    """Return the number of messages, the last of them, and the settings that shape the answer.

    Args:
        request: The request.
    """
    inputs: dict[str, object] = {"messages": len(request.messages)}
    if request.messages:
        inputs["last_message"] = "\n".join(_texts(request.messages[-1]))
    inputs.update((name, request.settings[name]) for name in _SHOWN_SETTINGS if name in request.settings)
    return inputs


class _Preview:
    """Preview of a response: its finish reason, the beginning of its text, calls, media and citations."""

    __slots__ = ("_calls", "_citations", "_finish_reason", "_media", "_room", "_texts")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._room = _MAX_CHARACTERS
        self._calls: list[str] = []
        self._media: list[str] = []
        self._citations: list[str] = []
        self._finish_reason: str | None = None

    def note(self, event: ModelEvent) -> None:
        """Record an event of the response."""
        if isinstance(event, TextDelta) and self._room > 0:
            self._texts.append(event.text[: self._room])
            self._room -= len(event.text)
        elif isinstance(event, ToolCallCompleted) and len(self._calls) < _MAX_CALLS:
            self._calls.append(event.call.name)
        elif isinstance(event, MediaCompleted):
            self._media.append(describe_media(event.content))
        elif isinstance(event, CitationAdded) and len(self._citations) < _MAX_CALLS:
            named = (event.citation.title, event.citation.url or event.citation.file_id)
            self._citations.append(" · ".join(filter(None, named)))
        elif isinstance(event, ResponseFinished):
            self._finish_reason = event.reason

    def outputs(self) -> Mapping[str, object]:
        """Return the response so far."""
        shown = {
            "finish_reason": self._finish_reason,
            "text": "".join(self._texts),
            "tool_calls": self._calls,
            "media": self._media,
            "citations": list(dict.fromkeys(self._citations)),
        }
        return {name: value for name, value in shown.items() if value}


def _texts(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield message.text[:_MAX_CHARACTERS]
    elif isinstance(message, UserMessage):
        yield from _content_texts(message.content)
    else:
        for result in message.results:
            yield from _content_texts(result.content)


def _content_texts(content: tuple[UserContent, ...]) -> Iterator[str]:
    for item in content:
        yield item[:_MAX_CHARACTERS] if isinstance(item, str) else f"<{type(item).__name__}>"


def _attributes(model_name: str, step: Step | None) -> dict[str, str]:
    attributes = {"gen_ai.request.model": model_name.partition(":")[2] or model_name}
    execution_id = None if step is None else step.context.execution_ref.execution_id
    return attributes if execution_id is None else {**attributes, "execution.id": execution_id}


def _unreported(failure: Exception | None) -> Usage:
    """Return the usage of a request for which none was reported, counted as executors count it."""
    retries = failure.retries if isinstance(failure, ModelError) else 0
    return Usage(requests=1, retries=retries, is_complete=False)
