"""Records in words, one line each."""

from collections.abc import Iterator

import msgspec

from ..prompt.plain_text import single_line
from ..recording.exchange import RecordedError, RecordedExchange
from .effect_call import EndedCall
from .errors import JournalValueError
from .mailboxes import ReceivedMessages
from .questions import QuestionRecord
from .records import Record, trace_of_life
from .run_journal import StepRecord
from .values import decode_value

_MOST_CHARACTERS = 100


def describe_record(record: Record) -> str:
    """The content of a record, in at most 100 characters; empty for none.

    Args:
        record: The record.
    """
    return single_line(", ".join(_parts(record)), _MOST_CHARACTERS)


def _parts(record: Record) -> Iterator[str]:
    match record.kind:
        case "step":
            step = msgspec.msgpack.decode(record.body, type=StepRecord)
            yield f"inputs {', '.join(step.inputs)}" if step.inputs else "no inputs"
        case "response":
            yield from _response_parts(msgspec.msgpack.decode(record.body, type=RecordedExchange))
        case "failure":
            error = msgspec.msgpack.decode(record.body, type=RecordedError)
            yield f"{error.type}: {error.message}"
        case "result":
            ended = msgspec.msgpack.decode(record.body, type=EndedCall)
            if ended.refusal:
                yield f"not stored: {ended.refusal}"
            else:
                yield shown_value(ended.value) if ended.failure is None else f"raised {ended.failure.name}"
        case "decision":
            yield str(list(msgspec.msgpack.decode(record.body, type=tuple[int, ...])))
        case "value":
            yield shown_value(record.body)
        case "question":
            asked = msgspec.msgpack.decode(record.body, type=QuestionRecord)
            yield from (f"{name} {shown_value(part)}" for name, part in asked.content.items())
        case "message":
            received = msgspec.msgpack.decode(record.body, type=ReceivedMessages)
            yield received.name
            yield from (shown_value(message.body) for message in received.messages)
            if not received.messages:
                yield "none in time"
        case "life":
            yield from (trace,) if (trace := trace_of_life(record)) else ()
        case "intent" | "answer" | "handled" | "unhandled":
            return


def _response_parts(exchange: RecordedExchange) -> Iterator[str]:
    yield exchange.model
    for part in exchange.response:
        if part.tool_call is not None:
            yield f"{part.tool_call.name}({part.tool_call.arguments})"
        elif part.text is not None:
            yield repr(part.text)


def shown_value(body: bytes) -> str:
    """A stored value; the fields alone where its declared type is not known here."""
    try:
        return repr(decode_value(body, place="", declared=object))
    except JournalValueError:
        return "a value of a type of the program"
