"""Records as lines of JSON that people and other programs can read, without secrets.

Types that JSON lacks are written as texts, and bytes as their digests, so a run cannot be restored from it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from ..recording.exchange import RecordedError, RecordedExchange
from ..recording.redaction import REDACTED, Redaction, Redactor, hide_secrets, plain
from ..types.json import is_json_list, is_json_mapping
from .effect_call import EndedCall
from .mailboxes import ReceivedMessages
from .orders import OrderRecord
from .questions import QuestionRecord
from .records import Record, trace_of_life
from .run_journal import StepRecord
from .value_forms import PAIRED_TAGS, TAG

_LEFT_OUT = ("digest", "request", "step")
"""Fields of an exchange that a journal leaves empty."""


def export_lines(records: Iterable[Record], redactions: Iterable[Redaction] = ()) -> Iterator[str]:
    """Yield one line of JSON for each record.

    Args:
        records: The records.
        redactions: Texts to remove, and functions that return a text without its secrets.
    """
    redactor = Redactor(redactions)
    for record in records:
        line: dict[str, Any] = {
            "seq": record.seq,
            "at": datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds"),
            "epoch": record.epoch,
            "kind": record.kind,
            "place": record.place,
        }
        if record.body if record.kind != "life" else trace_of_life(record):
            line["content"] = hide_secrets(_content(record))
        yield msgspec.json.encode(redactor.redact(line)).decode()


def _content(record: Record) -> Any:
    """The body of a record as JSON data."""
    body = record.body
    match record.kind:
        case "step":
            return msgspec.to_builtins(msgspec.msgpack.decode(body, type=StepRecord))
        case "response":
            return _exchange(msgspec.msgpack.decode(body, type=RecordedExchange))
        case "failure":
            return msgspec.to_builtins(msgspec.msgpack.decode(body, type=RecordedError))
        case "result":
            return _ended_call(msgspec.msgpack.decode(body, type=EndedCall))
        case "answer":
            outcome, bindings = msgspec.msgpack.decode(body, type=tuple[bytes, dict[str, bytes]])
            values = {name: _value(each) for name, each in bindings.items()}
            return {"outcome": _value(outcome), "bindings": values}
        case "life":
            return trace_of_life(record)
        case "question":
            asked = msgspec.msgpack.decode(body, type=QuestionRecord)
            return {name: _value(part) for name, part in asked.content.items()}
        case "message":
            received = msgspec.msgpack.decode(body, type=ReceivedMessages)
            return {"name": received.name, "values": [_value(each.body) for each in received.messages]}
        case "order":
            return _operations(msgspec.msgpack.decode(body, type=OrderRecord))
        case "decision" | "value" | "intent" | "handled" | "unhandled":
            return _value(body)


def _operations(order: OrderRecord) -> Any:
    return {
        lane: [
            {"claimant": order.claimants[claimant], "first": first, "count": count, "outcome": outcome}
            for claimant, first, count, outcome in operations
        ]
        for lane, operations in order.lanes.items()
    }


def _exchange(exchange: RecordedExchange) -> Any:
    fields = msgspec.to_builtins(exchange)
    for part in fields.get("response", ()):
        for call in (part.get("tool_call"), part.get("unfinished_tool_call")):
            if call is not None:
                call["arguments"] = _json_or_text(call["arguments"])
    return {name: each for name, each in fields.items() if name not in _LEFT_OUT}


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _ended_call(ended: EndedCall) -> Any:
    failure = ended.failure
    if ended.refusal:
        return {"not_stored": ended.refusal}
    if failure is None:
        return {"value": _value(ended.value)}
    raised: dict[str, Any] = {"raised": f"{failure.module}.{failure.name}"}
    if failure.parts:
        raised["message"] = _value(failure.content)
        raised["errors"] = [_ended_call(EndedCall(failure=each)) for each in failure.parts]
    elif failure.is_registered:
        raised["value"] = _value(failure.content)
    else:
        raised["arguments"], _, raised["attributes"] = _value(failure.content)
    return raised


def _value(body: bytes) -> Any:
    """A stored value; see `values`. It is read by its form alone, for its type may be one of the program."""
    return plain(_readable(msgspec.msgpack.decode(body)))


def _readable(form: object) -> object:
    """The form of a value without the tags."""
    if is_json_list(form):
        return [_readable(each) for each in form]
    if not is_json_mapping(form):
        return form
    tag, data = form.get(TAG), _readable(form.get("of"))
    if tag is None:
        return {name: _readable(each) for name, each in form.items()}
    if isinstance(tag, int):
        return _readable_object(cast("Mapping[str, object]", data), form.get("rest"))
    if tag in PAIRED_TAGS:
        return {str(name): each for name, each in cast("list[tuple[object, object]]", data)}
    return data


def _readable_object(fields: Mapping[str, object], rest: object) -> object:
    """The fields of an object of a class of the program; what it is, where it has none."""
    more = cast("dict[str, Any]", _readable(rest or {}))
    if "secret" in more:
        return REDACTED
    extra: Mapping[str, object] = more.get("extra", {})
    return {**fields, **extra} if fields or "unset" in more or not more else next(iter(more.values()))
