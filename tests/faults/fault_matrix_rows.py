"""The rows of the fault matrix: what may go wrong with a reply, and how each protocol's client has to end.

A row says how a request that meets it ends, and where a protocol differs from the others. A reply says
"Hello, world" in three events, so that a fault can strike before, amid or after the text.
"""

from collections.abc import Callable
from typing import Any

from nighthawk_async.errors import (
    FirstEventTimeoutError,
    IdleTimeoutError,
    ModelConnectionError,
    ModelProtocolError,
    ModelProviderError,
    ModelStatusError,
    RequestTimeoutError,
)
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing
from nighthawk_async.types.messages import ToolCall

from .fault_matrix import Fails, Fault, Spoken, Succeeds

LIMIT_SECONDS = 5.0

_CALLS = (
    ToolCall(id="", name="look", arguments='{"at":"größe"}'),
    ToolCall(id="", name="end", arguments="{}"),
)
_CALLED = Succeeds(text="", calls=(("look", '{"at":"größe"}'), ("end", "{}")), reason="tool_calls")
_CUT_SHORT = Fails(error=ModelProtocolError, text="Hello", is_transient=True)
_CUT_SHORT_AT_ONCE = Fails(error=ModelProtocolError, is_transient=True, is_retried=True)
_CONNECTION_LOST = Fails(error=ModelConnectionError, is_transient=True, is_retried=True)
_NO_ANSWER = Fails(error=FirstEventTimeoutError, is_transient=True, is_retried=True)
_MEANINGLESS = Fails(error=ModelProtocolError)
_WHOLE = {"stream": False}


def says_hello(**fields: Any) -> Callable[[Spoken], ModelReply]:
    """A reply that says hello, whatever the protocol."""
    pacing = fields.pop("pacing", ReplyPacing(fragment_characters=5))
    return lambda protocol: ModelReply(text="Hello, world", pacing=pacing, **fields)


def strikes(offset: float = 0, **fields: Any) -> Callable[[Spoken], ModelReply]:
    """A reply that says hello, with a fault or an ending a number of events after the first text."""
    name = "fault_after" if "fault" in fields else "ending_after"
    return lambda protocol: says_hello(**fields, **{name: protocol.events_before_text + 1 + offset})(protocol)


def _calls(**fields: Any) -> Callable[[Spoken], ModelReply]:
    return lambda protocol: ModelReply(tool_calls=_CALLS, pacing=ReplyPacing(fragment_characters=5), **fields)


def _status(status: int, **fields: Any) -> Callable[[Spoken], ModelReply]:
    return lambda protocol: ModelReply(status=status, text="sorry", **fields)


_REFUSED = Fails(error=ModelStatusError)
_BUSY = Fails(error=ModelStatusError, is_transient=True, is_retried=True)
_WAITING = {"first_event_timeout": LIMIT_SECONDS, "idle_timeout": LIMIT_SECONDS}
_SILENT = {"first_event_timeout": 25.0, "idle_timeout": LIMIT_SECONDS}

WAITING_FAULTS = (
    Fault(
        name="no answer",
        reply=says_hello(ending="hang", ending_after="request"),
        end=_NO_ANSWER,
        settings=_WAITING,
    ),
    Fault(
        name="a head and no body",
        reply=says_hello(ending="hang", ending_after=0),
        end=_NO_ANSWER,
        settings=_WAITING,
    ),
    Fault(
        name="silence amid the text",
        reply=strikes(ending="hang"),
        end=Fails(error=IdleTimeoutError, text="Hello", is_transient=True),
        settings=_SILENT,
    ),
    Fault(
        name="silence within an event",
        reply=strikes(0.5, ending="hang"),
        end=Fails(error=IdleTimeoutError, text="Hello", is_transient=True),
        settings=_SILENT,
    ),
    Fault(
        name="a first byte that comes too late",
        reply=says_hello(pacing=ReplyPacing(first_byte_seconds=60)),
        end=_NO_ANSWER,
        settings=_WAITING,
    ),
    Fault(
        name="whole, silence within the body",
        reply=says_hello(ending="hang", ending_after=0.5),
        end=_NO_ANSWER,
        settings={**_WAITING, **_WHOLE},
    ),
    Fault(
        name="a trickle that does not end in time",
        reply=says_hello(pacing=ReplyPacing(write_bytes=1, between_writes_seconds=0.1)),
        end=Fails(error=RequestTimeoutError),
        settings={"timeout": LIMIT_SECONDS},
    ),
)
"""The rows that take their time."""

_HARMLESS = (
    Fault(name="nothing wrong", reply=says_hello(), end=Succeeds()),
    Fault(name="one byte at a time", reply=says_hello(pacing=ReplyPacing(write_bytes=1)), end=Succeeds()),
    Fault(
        name="a late first byte and pauses",
        reply=says_hello(pacing=ReplyPacing(first_byte_seconds=0.02, between_writes_seconds=0.002)),
        end=Succeeds(),
    ),
    Fault(name="a comment", reply=strikes(fault="comment"), end=Succeeds()),
    Fault(name="an event without data", reply=strikes(fault="empty_event"), end=Succeeds()),
    Fault(name="an unknown event", reply=strikes(fault="unknown_event"), end=Succeeds()),
    Fault(
        name="an unknown event first", reply=says_hello(fault="unknown_event", fault_after=0), end=Succeeds()
    ),
    Fault(name="garbage between events", reply=strikes(fault="garbage"), end=Succeeds()),
    Fault(name="no usage", reply=says_hello(usage=None), end=Succeeds()),
    Fault(name="no [DONE]", reply=says_hello(sends_done=False, ending="close"), end=Succeeds()),
    Fault(name="a reset after everything", reply=says_hello(ending="reset"), end=Succeeds()),
    Fault(name="connection: close", reply=says_hello(headers={"Connection": "close"}), end=Succeeds()),
    Fault(name="a response with status 103 first", reply=says_hello(fault="informational"), end=Succeeds()),
    Fault(name="HTTP/1.0", reply=says_hello(fault="http_1_0"), end=Succeeds()),
    Fault(
        name="text/plain",
        reply=says_hello(headers={"content-type": "text/plain; charset=utf-8"}),
        end=Succeeds(),
    ),
    Fault(
        name="a large event",
        reply=strikes(fault="huge_event", fault_bytes=1_000_000),
        end=Succeeds(),
    ),
    Fault(name="a flood", reply=strikes(-1, fault="flood", fault_bytes=500_000), end=Succeeds(text=None)),
    Fault(
        name="a length that is too long", reply=says_hello(fault="content_length_too_long"), end=Succeeds()
    ),
    Fault(name="calls without ids", reply=_calls(fault="no_call_ids"), end=_CALLED),
    Fault(name="calls with the same id", reply=_calls(fault="duplicate_call_ids"), end=_CALLED),
    Fault(name="calls without an index", reply=_calls(fault="no_call_index"), end=_CALLED),
    Fault(
        name="a call cut off at the length limit",
        reply=lambda protocol: ModelReply(
            text="Hello, world",
            tool_calls=(ToolCall(id="", name="look", arguments='{"at":'),),
            finish_reason=protocol.too_long,
        ),
        end=Succeeds(reason="length"),
    ),
    Fault(name="whole", reply=says_hello(), end=Succeeds(), settings=_WHOLE),
    Fault(name="whole, calls without ids", reply=_calls(fault="no_call_ids"), end=_CALLED, settings=_WHOLE),
    Fault(
        name="whole, calls with the same id",
        reply=_calls(fault="duplicate_call_ids"),
        end=_CALLED,
        settings=_WHOLE,
    ),
)

_MALFORMED = (
    Fault(name="broken JSON at first", reply=strikes(-1, fault="broken_json"), end=_MEANINGLESS),
    Fault(
        name="broken JSON amid the text",
        reply=strikes(fault="broken_json"),
        end=Fails(error=ModelProtocolError, text="Hello"),
    ),
    Fault(
        name="a text that is no UTF-8",
        reply=says_hello(fault="invalid_utf8"),
        end=Fails(error=ModelProtocolError, text="Hello, wor"),
    ),
    Fault(
        name="a huge event",
        reply=strikes(fault="huge_event"),
        end=Fails(error=ModelProtocolError, text="Hello"),
    ),
    Fault(name="a web page", reply=says_hello(fault="html"), end=_MEANINGLESS),
    Fault(
        name="a web page that claims to be a stream",
        reply=says_hello(fault="html", headers={"content-type": "text/event-stream"}),
        end=_CUT_SHORT_AT_ONCE,
    ),
    Fault(
        name="another type",
        reply=says_hello(headers={"content-type": "application/octet-stream+zip"}),
        end=_MEANINGLESS,
    ),
    Fault(name="a compressed body", reply=says_hello(fault="compressed"), end=_MEANINGLESS),
    Fault(name="an empty body", reply=lambda protocol: ModelReply(body=b""), end=_CUT_SHORT_AT_ONCE),
    Fault(
        name="no terminal event",
        reply=says_hello(fault="no_terminal"),
        end=Fails(error=ModelProtocolError, text="Hello, world", is_transient=True),
    ),
    Fault(
        name="whole, broken JSON",
        reply=says_hello(fault="broken_json"),
        end=_MEANINGLESS,
        settings=_WHOLE,
    ),
    Fault(name="whole, no UTF-8", reply=says_hello(fault="invalid_utf8"), end=_MEANINGLESS, settings=_WHOLE),
    Fault(name="whole, a web page", reply=says_hello(fault="html"), end=_MEANINGLESS, settings=_WHOLE),
)

_BROKEN_OFF = (
    Fault(
        name="garbage, and closed",
        reply=lambda protocol: ModelReply(body=b"garbage\n\n", ending="close"),
        end=_CUT_SHORT_AT_ONCE,
    ),
    Fault(
        name="closed unanswered",
        reply=says_hello(ending="close", ending_after="request"),
        end=_CONNECTION_LOST,
    ),
    Fault(
        name="reset unanswered",
        reply=says_hello(ending="reset", ending_after="request"),
        end=_CONNECTION_LOST,
    ),
    Fault(
        name="closed after the head", reply=says_hello(ending="close", ending_after=0), end=_CUT_SHORT_AT_ONCE
    ),
    Fault(
        name="reset after the head", reply=says_hello(ending="reset", ending_after=0), end=_CONNECTION_LOST
    ),
    Fault(name="closed amid the text", reply=strikes(ending="close"), end=_CUT_SHORT),
    Fault(name="closed within an event", reply=strikes(0.5, ending="close"), end=_CUT_SHORT),
    Fault(
        name="reset amid the text",
        reply=strikes(ending="reset"),
        end=Fails(error=ModelConnectionError, text="Hello", is_transient=True),
    ),
    Fault(
        name="closed within a call",
        reply=lambda protocol: _calls(ending="close", ending_after=protocol.events_within_call)(protocol),
        end=Fails(error=ModelProtocolError, is_transient=True),
        exceptions={"google": _CUT_SHORT_AT_ONCE},
    ),
    Fault(name="broken chunks", reply=strikes(fault="broken_chunks"), end=_CUT_SHORT),
    Fault(
        name="a length that is too short",
        reply=says_hello(fault="content_length_too_short"),
        end=Fails(error=ModelProtocolError, text="Hello, world", is_transient=True),
        exceptions={"openai-chat": Succeeds()},  # what is cut off stands behind the finish reason
    ),
    Fault(
        name="whole, closed within the body",
        reply=says_hello(ending="close", ending_after=0.5),
        end=_CUT_SHORT_AT_ONCE,
        settings=_WHOLE,
    ),
    Fault(
        name="whole, reset within the body",
        reply=says_hello(ending="reset", ending_after=0.5),
        end=_CONNECTION_LOST,
        settings=_WHOLE,
    ),
)

_TOLD = (
    Fault(
        name="an error in the stream that may pass",
        reply=lambda protocol: ModelReply(error=protocol.passing),
        end=Fails(error=ModelProviderError, is_transient=True, is_retried=True),
    ),
    Fault(
        name="an error in the stream that will not pass",
        reply=lambda protocol: ModelReply(error=protocol.lasting),
        end=Fails(error=ModelProviderError),
    ),
    Fault(
        name="an error after the text",
        reply=lambda protocol: ModelReply(text="Hello, world", error=protocol.passing),
        end=Fails(error=ModelProviderError, text="Hello, world", is_transient=True),
    ),
    Fault(
        name="whole, an error that may pass",
        reply=lambda protocol: ModelReply(error=protocol.passing),
        end=Fails(error=ModelProviderError, is_transient=True, is_retried=True),
        settings=_WHOLE,
    ),
    Fault(name="status 400", reply=_status(400), end=_REFUSED),
    Fault(name="status 401", reply=_status(401), end=_REFUSED),
    Fault(name="status 404", reply=_status(404), end=_REFUSED),
    Fault(name="status 307", reply=_status(307, headers={"location": "http://127.0.0.1:1/"}), end=_REFUSED),
    Fault(
        name="status 401, closed within its body",
        reply=_status(401, ending="close", ending_after=0.5),
        end=_REFUSED,
    ),
    Fault(
        name="status 401, reset within its body",
        reply=_status(401, ending="reset", ending_after=0.5),
        end=_REFUSED,
    ),
    Fault(name="status 408", reply=_status(408), end=_BUSY),
    Fault(name="status 429", reply=_status(429, headers={"retry-after": "0"}), end=_BUSY),
    Fault(name="status 500", reply=_status(500), end=_BUSY),
    Fault(name="status 503, a web page", reply=_status(503, fault="html"), end=_BUSY),
    Fault(
        name="status 429, and come back tomorrow",
        reply=_status(429, headers={"retry-after": "86400"}),
        end=Fails(error=ModelStatusError, is_transient=True),
        exceptions={"google": _BUSY},  # its client waits as long as it sees fit
    ),
)

FAULTS = (*_HARMLESS, *_MALFORMED, *_BROKEN_OFF, *_TOLD)
"""The rows that take no time."""
