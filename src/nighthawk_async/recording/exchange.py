"""One recorded exchange with a model, and its events.

The division of a text into deltas is not kept: a replay joins consecutive deltas into one. A tool call is
kept whole, at the position where it was complete.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from .. import errors
from ..errors import ConfigurationError, ModelError, ModelProviderError, ModelStatusError
from ..types.messages import (
    AudioUrl,
    BinaryContent,
    Citation,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    ToolCall,
    VideoUrl,
)
from ..types.model import (
    ModelEvent,
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
from .redaction import plain

_RESPONSE_FIELDS = ("response", "usage", "finish", "error")
_NO_USAGE: Mapping[str, Any] = plain(Usage())
_USAGE_FIELDS = tuple(_NO_USAGE)
_FINISH_FIELDS = tuple(each.name for each in fields(ResponseFinished))
_usage_values: Callable[[Usage], tuple[object, ...]] = attrgetter(*_USAGE_FIELDS)
_finish_values: Callable[[ResponseFinished], tuple[object, ...]] = attrgetter(*_FINISH_FIELDS)
_USAGE_DEFAULTS = _usage_values(Usage())
_COUNTS = frozenset(name for name, value in _NO_USAGE.items() if type(value) is int)
"""The fields of a usage that are plain numbers."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call."""

    index: int
    id: str
    name: str
    arguments: str


class RecordedNativeCall(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A tool that the provider carried out by itself."""

    id: str
    name: str
    arguments: str = ""
    result: str = ""
    is_error: bool = False


class RecordedMedium(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An image or a sound that the model made: its bytes, as base64 in JSON, or its address."""

    media_type: str | None = None
    data: bytes | None = None
    url: str | None = None
    kind: str = ""


class ResponsePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One part of a response. One field is set; an unfinished call was never complete.

    A native call is where it was complete, like a tool call; one that another response completes is
    unfinished.
    """

    text: str | None = None
    reasoning: str | None = None
    tool_call: RecordedCall | None = None
    unfinished_tool_call: RecordedCall | None = None
    native_call: RecordedNativeCall | None = None
    unfinished_native_call: RecordedNativeCall | None = None
    medium: RecordedMedium | None = None
    citation: Citation | None = None


class RecordedError(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The error of a request; `type` is the name of a class in `nighthawk_async`."""

    type: str
    message: str
    is_transient: bool = False
    status: int | None = None
    retry_after_seconds: float | None = None
    error_type: str | None = None
    retries: int = 0


class RecordedExchange(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A request and its response or error.

    Args:
        step: The addresses of the blocks in progress, outermost first, as `python_module:function:number`.
        model: The model id.
        digest: The digest of the model and the request.
        request: The request in its canonical form.
        response: The events of the response, in order.
        usage: The fields of the last reported usage, without those that have their defaults.
        finish: The fields of the final event, without those that are None.
        consumed: The fields of the usage of the request, when the model reported it outside its events, for
            example for a failed request; likewise without defaults.
        error: The error of the request.
        cancelled_after_seconds: The seconds after which the program cancelled the request.
        left_early: Whether the program left the response before its end.
    """

    step: tuple[str, ...]
    model: str
    digest: str
    request: dict[str, Any]
    response: tuple[ResponsePart, ...] = ()
    usage: dict[str, Any] | None = None
    finish: dict[str, Any] | None = None
    consumed: dict[str, Any] | None = None
    error: RecordedError | None = None
    cancelled_after_seconds: float | None = None
    left_early: bool = False


@dataclass(slots=True)
class _Parts:
    """The parts so far, and the calls that are not complete yet, by index."""

    finished: list[ResponsePart] = field(default_factory=list[ResponsePart])
    calls: dict[int, RecordedCall] = field(default_factory=dict[int, RecordedCall])
    fragments: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    native_calls: dict[str, RecordedNativeCall] = field(default_factory=dict[str, RecordedNativeCall])
    kind: type[ModelEvent] | None = None
    texts: list[str] = field(default_factory=list[str])

    def add_text(self, event: TextDelta | ReasoningDelta) -> None:
        if not event.text:
            return
        if type(event) is not self.kind:
            self.end_text()
            self.kind = type(event)
        self.texts.append(event.text)

    def end_text(self) -> None:
        if self.texts:
            text = "".join(self.texts)
            is_text = self.kind is TextDelta
            self.finished.append(ResponsePart(text=text) if is_text else ResponsePart(reasoning=text))
        self.kind = None
        self.texts = []

    def begin(self, event: ToolCallStarted) -> None:
        self.calls[event.index] = RecordedCall(index=event.index, id=event.id, name=event.name, arguments="")
        self.fragments[event.index] = []

    def complete(self, event: ToolCallCompleted) -> None:
        self.end_text()
        self.calls.pop(event.index, None)
        self.fragments.pop(event.index, None)
        call = event.call
        recorded = RecordedCall(index=event.index, id=call.id, name=call.name, arguments=call.arguments)
        self.finished.append(ResponsePart(tool_call=recorded))

    def begin_native(self, event: NativeCallStarted) -> None:
        self.native_calls[event.id] = RecordedNativeCall(
            id=event.id, name=event.name, arguments=event.arguments
        )

    def complete_native(self, event: NativeCallFinished) -> None:
        self.end_text()
        self.native_calls.pop(event.id, None)
        self.finished.append(ResponsePart(native_call=RecordedNativeCall(**plain(event))))

    def add_medium(self, event: MediaCompleted) -> None:
        self.end_text()
        content = event.content
        if isinstance(content, BinaryContent):
            medium = RecordedMedium(media_type=content.media_type, data=content.data)
        else:
            medium = RecordedMedium(
                media_type=content.media_type, url=content.url, kind=type(content).__name__
            )
        self.finished.append(ResponsePart(medium=medium))

    def add_citation(self, event: CitationAdded) -> None:
        self.end_text()
        self.finished.append(ResponsePart(citation=event.citation))

    def end(self) -> tuple[ResponsePart, ...]:
        self.end_text()
        self.finished += [ResponsePart(unfinished_native_call=call) for call in self.native_calls.values()]
        for index, call in self.calls.items():
            arguments = "".join(self.fragments.get(index, ()))
            unfinished = msgspec.structs.replace(call, arguments=arguments)
            self.finished.append(ResponsePart(unfinished_tool_call=unfinished))
        return tuple(self.finished)


def record_events(events: Iterable[ModelEvent]) -> dict[str, Any]:
    """Return the fields `response`, `usage` and `finish` of an exchange.

    Args:
        events: The events of the response that arrived.
    """
    parts = _Parts()
    found: dict[str, Any] = {}
    for event in events:
        match event:
            case TextDelta() | ReasoningDelta():
                parts.add_text(event)
            case ToolCallStarted():
                parts.begin(event)
            case ToolCallArgumentsDelta():
                parts.fragments.setdefault(event.index, []).append(event.fragment)
            case ToolCallCompleted():
                parts.complete(event)
            case NativeCallStarted():
                parts.begin_native(event)
            case NativeCallFinished():
                parts.complete_native(event)
            case MediaCompleted():
                parts.add_medium(event)
            case CitationAdded():
                parts.add_citation(event)
            case UsageReported():
                found["usage"] = _recorded_usage(event.usage)
            case ResponseFinished():
                found["finish"] = _recorded_finish(event)
            case _:
                pass
    return {"response": parts.end(), **found}


def is_cached(exchange: RecordedExchange) -> bool:
    """Whether a response cache gave the response of an exchange.

    Args:
        exchange: The exchange.
    """
    return any("cached_requests" in (usage or {}) for usage in (exchange.consumed, exchange.usage))


def with_texts(exchange: RecordedExchange, change: Callable[[Any], Any]) -> RecordedExchange:
    """Return an exchange whose response is changed; its request stays as it is.

    Args:
        exchange: The exchange.
        change: Changes JSON data.
    """
    form: dict[str, Any] = msgspec.to_builtins(exchange)
    changed = {name: change(form[name]) for name in _RESPONSE_FIELDS if name in form}
    return msgspec.convert({**form, **changed}, RecordedExchange)


def record_consumed(usage: Usage | None, events: Iterable[ModelEvent]) -> dict[str, Any] | None:
    """Return the field `consumed` of an exchange; None when the events report that usage.

    Args:
        usage: The usage that the model reported outside its events.
        events: The events of the response that arrived.
    """
    reported = [event.usage for event in events if isinstance(event, UsageReported)]
    is_known = usage is None or (bool(reported) and reported[-1] == usage)
    return None if is_known or usage is None else _recorded_usage(usage)


def replay_consumed(exchange: RecordedExchange) -> Usage | None:
    """Return the usage of the request of an exchange; None when its events have it.

    Args:
        exchange: The exchange.

    Raises:
        msgspec.ValidationError: Its usage is malformed.
    """
    return None if exchange.consumed is None else _usage_of(exchange.consumed)


def replay_events(exchange: RecordedExchange) -> list[ModelEvent]:
    """Return the events of an exchange.

    Args:
        exchange: The exchange.

    Raises:
        msgspec.ValidationError: Its usage or finish is malformed.
    """
    events: list[ModelEvent] = []
    for part in exchange.response:
        if part.text is not None:
            events.append(TextDelta(text=part.text))
        if part.reasoning is not None:
            events.append(ReasoningDelta(text=part.reasoning))
        if part.medium is not None:
            events.append(MediaCompleted(content=_medium_of(part.medium)))
        if part.citation is not None:
            events.append(CitationAdded(citation=part.citation))
        for recorded in (part.tool_call, part.unfinished_tool_call):
            if recorded is not None:
                events += _call_events(recorded, is_complete=recorded is part.tool_call)
        for native in (part.native_call, part.unfinished_native_call):
            if native is not None:
                events += _native_events(native, is_complete=native is part.native_call)
    if exchange.usage is not None:
        events.append(UsageReported(usage=_usage_of(exchange.usage)))
    if exchange.finish is not None:
        reason = exchange.finish.get("reason")
        if len(exchange.finish) == 1 and isinstance(reason, str):  # as most are
            events.append(_finish_for(reason))
        else:
            events.append(msgspec.convert(exchange.finish, ResponseFinished))
    return events


@lru_cache(maxsize=32)
def _finish_for(reason: str) -> ResponseFinished:
    return msgspec.convert({"reason": reason}, ResponseFinished)


def _usage_of(recorded: dict[str, Any]) -> Usage:
    """Return a recorded usage: by hand if it is counts alone, because msgspec takes forty times as long."""
    if recorded.keys() <= _COUNTS and all(type(value) is int for value in recorded.values()):
        return Usage(**recorded)
    return msgspec.convert(recorded, Usage)


def _call_events(recorded: RecordedCall, *, is_complete: bool) -> list[ModelEvent]:
    index, arguments = recorded.index, recorded.arguments
    events: list[ModelEvent] = [ToolCallStarted(index=index, id=recorded.id, name=recorded.name)]
    if arguments:
        events.append(ToolCallArgumentsDelta(index=index, fragment=arguments))
    if is_complete:
        call = ToolCall(id=recorded.id, name=recorded.name, arguments=arguments)
        events.append(ToolCallCompleted(index=index, call=call))
    return events


def _medium_of(recorded: RecordedMedium) -> BinaryContent | FileUrl:
    if recorded.url is None:
        return BinaryContent(data=recorded.data or b"", media_type=recorded.media_type or "")
    kinds = {each.__name__: each for each in (AudioUrl, DocumentUrl, ImageUrl, VideoUrl)}
    return kinds.get(recorded.kind, FileUrl)(url=recorded.url, media_type=recorded.media_type)


def _native_events(recorded: RecordedNativeCall, *, is_complete: bool) -> list[ModelEvent]:
    started = NativeCallStarted(id=recorded.id, name=recorded.name, arguments=recorded.arguments)
    return [started, NativeCallFinished(**msgspec.structs.asdict(recorded))] if is_complete else [started]


def _recorded_usage(usage: Usage) -> dict[str, Any]:
    """The fields of a usage that are not as by default; `plain`, which takes long, looks at those alone."""
    values = zip(_USAGE_FIELDS, _usage_values(usage), _USAGE_DEFAULTS, strict=True)
    differing = {
        name: value if type(value) is int else plain(value)
        for name, value, default in values
        if value is not default
    }
    return {name: value for name, value in differing.items() if value != _NO_USAGE[name]}


def _recorded_finish(event: ResponseFinished) -> dict[str, Any]:
    values = zip(_FINISH_FIELDS, _finish_values(event), strict=True)
    return {
        name: value if type(value) is str else plain(value) for name, value in values if value is not None
    }


def record_error(error: ModelError | ConfigurationError) -> RecordedError:
    """Return an error in its recorded form, as the nearest class of the library.

    Args:
        error: The error of a request.
    """
    name = next(each.__qualname__ for each in type(error).__mro__ if _find_class(each.__qualname__) is each)
    if isinstance(error, ConfigurationError):
        return RecordedError(type=name, message=str(error))
    return RecordedError(
        type=name,
        message=error.message,
        is_transient=error.is_transient,
        status=error.status if isinstance(error, ModelStatusError) else None,
        retry_after_seconds=error.retry_after_seconds if isinstance(error, ModelStatusError) else None,
        error_type=error.error_type if isinstance(error, ModelProviderError | ModelStatusError) else None,
        retries=error.retries,
    )


def replay_error(recorded: RecordedError) -> ModelError | ConfigurationError:
    """Return a recorded error as an exception.

    Args:
        recorded: The recorded error.

    Raises:
        ValueError: It is not an error of a model request, or its status is missing.
    """
    kind = _find_class(recorded.type)
    has_status = kind is not None and issubclass(kind, ModelStatusError)
    if kind is None or has_status is (recorded.status is None):
        raise ValueError(f"{recorded.type!r}, status {recorded.status}, is no error of a model request")
    if issubclass(kind, ConfigurationError):
        return kind(recorded.message)
    details: dict[str, Any] = {"is_transient": recorded.is_transient}
    if has_status:
        details |= {"status": recorded.status, "retry_after_seconds": recorded.retry_after_seconds}
    if issubclass(kind, ModelStatusError | ModelProviderError):
        details["error_type"] = recorded.error_type
    error = kind(recorded.message, **details)
    error.retries = recorded.retries
    return error


def _find_class(name: str) -> type[ModelError] | type[ConfigurationError] | None:
    """Return the class of this name, if a request may raise it; otherwise None."""
    kind: object = vars(errors).get(name)  # also one that the module does not list
    if isinstance(kind, type) and issubclass(kind, ModelError | ConfigurationError):
        return kind
    return None
