"""Copies of single runs in files of their own, without secrets: to replay them elsewhere, as tests do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import NighthawkError
from ..recording.exchange import RecordedError, RecordedExchange
from ..recording.redaction import REDACTED, Redactor, hide_secrets
from ..types.json import is_json_list, is_json_mapping
from ..wire.redaction import is_secret_field
from . import tables
from .database import Database
from .effect_call import EndedCall
from .mailboxes import ReceivedMessages
from .questions import QuestionRecord
from .recorded_errors import CallFailure
from .records import KINDS, Record
from .tables import RunRow
from .value_forms import PAIRED_TAGS, TAG, TYPED
from .value_leaves import SEQUENCE_OF_TAG
from .values import DECLARED

_NESTING_TAGS = frozenset({DECLARED, TYPED, "deque", "registered", *PAIRED_TAGS, *SEQUENCE_OF_TAG})
"""The tags of values that have other values in them; see `values`."""


def write_copy(database: Database, row: RunRow, records: Sequence[Record], redactor: Redactor) -> None:
    """Write a run into a store that is new.

    Args:
        database: The database of the new store.
        row: The run.
        records: Its records.
        redactor: Replaces secrets.
    """
    error: str = redactor.redact(row.error)
    with database.transaction():
        copied = [redacted(record, redactor) for record in records]
        tables.insert_copy(database, msgspec.structs.replace(row, error=error), copied)


def is_redacted(record: Record) -> bool:
    """Whether a text of a record was replaced."""
    return REDACTED.encode() in record.body


def redacted(record: Record, redactor: Redactor) -> Record:
    """A record without secrets, of the same form. Digests stay.

    Args:
        record: The record.
        redactor: Replaces secrets.
    """
    if not KINDS[record.kind].has_texts or not record.body:
        return record
    return msgspec.structs.replace(record, body=_redacted_body(record, redactor))


def _redacted_body(record: Record, redactor: Redactor) -> bytes:
    body = record.body

    def value(encoded: bytes, name: str = "") -> bytes:
        form: object = msgspec.msgpack.decode(encoded) if encoded else None
        is_secret = bool(name) and is_secret_field(name, False)
        return msgspec.msgpack.encode(_redacted_form(form, redactor, is_secret)) if encoded else encoded

    match record.kind:
        case "response":
            return msgspec.msgpack.encode(_redacted_exchange(body, redactor))
        case "failure":
            form: Any = msgspec.to_builtins(msgspec.msgpack.decode(body, type=RecordedError))
            return msgspec.msgpack.encode(msgspec.convert(redactor.redact(form), RecordedError))
        case "result":
            ended = msgspec.msgpack.decode(body, type=EndedCall)
            failure = None if ended.failure is None else _redacted_failure(ended.failure, value)
            return msgspec.msgpack.encode(
                msgspec.structs.replace(ended, value=value(ended.value), failure=failure)
            )
        case "answer":
            outcome, bindings = msgspec.msgpack.decode(body, type=tuple[bytes, dict[str, bytes]])
            changed = {name: value(each, name) for name, each in bindings.items()}
            return msgspec.msgpack.encode((value(outcome), changed))
        case "question":
            asked = msgspec.msgpack.decode(body, type=QuestionRecord)
            content = {name: value(part) for name, part in asked.content.items()}
            return msgspec.msgpack.encode(msgspec.structs.replace(asked, content=content))
        case "message":
            received = msgspec.msgpack.decode(body, type=ReceivedMessages)
            messages = tuple(
                msgspec.structs.replace(each, body=value(each.body)) for each in received.messages
            )
            return msgspec.msgpack.encode(msgspec.structs.replace(received, messages=messages))
        case "order":
            order: Any = msgspec.msgpack.decode(body)
            lanes = {redactor.redact(lane): each for lane, each in order["lanes"].items()}
            return msgspec.msgpack.encode({**order, "lanes": lanes})
        case _:
            return value(body)


def _redacted_failure(failure: CallFailure, value: Callable[[bytes], bytes]) -> CallFailure:
    parts = tuple(_redacted_failure(each, value) for each in failure.parts)
    return msgspec.structs.replace(failure, content=value(failure.content), parts=parts)


def _redacted_exchange(body: bytes, redactor: Redactor) -> RecordedExchange:
    form: Any = msgspec.to_builtins(msgspec.msgpack.decode(body, type=RecordedExchange))
    for part in form.get("response", ()):
        for call in (part.get("tool_call"), part.get("unfinished_tool_call")):
            if call is not None:
                call["arguments"] = _redacted_arguments(call["arguments"])
    changed = {name: redactor.redact(form[name]) for name in ("response", "finish") if name in form}
    return msgspec.convert({**form, **changed}, RecordedExchange)


def _redacted_arguments(text: str) -> str:
    """The arguments of a call without values that have the name of a secret; as they are without any."""
    try:
        arguments: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    hidden: object = hide_secrets(arguments)
    return text if hidden == arguments else msgspec.json.encode(hidden).decode()


def _redacted_form(form: object, redactor: Redactor, is_secret: bool) -> object:
    """The stored form of a value with its texts redacted; what is no text stays, so that it can be read."""
    if isinstance(form, str):
        return REDACTED if is_secret else redactor.redact(hide_secrets(form))
    if is_json_list(form):
        return [_redacted_form(each, redactor, is_secret) for each in form]
    if not is_json_mapping(form):
        return form
    tag = form.get(TAG)
    if tag is None:
        return _redacted_fields(form, redactor, is_secret)
    if isinstance(tag, int):
        rest: Mapping[str, Any] = form.get("rest", {})
        parts = {"of": _redacted_fields(form["of"], redactor, is_secret)}
        if rest and "name" not in rest:  # of a member of an enumeration
            parts["rest"] = {
                name: _redacted_part(name, each, redactor, is_secret) for name, each in rest.items()
            }
        return {**form, **parts}
    if tag not in _NESTING_TAGS:
        return form
    if tag in PAIRED_TAGS:
        pairs = [
            [name, _redacted_form(each, redactor, is_secret_field(str(name), is_secret))]
            for name, each in form["of"]
        ]
        return {**form, "of": pairs}
    return {**form, "of": _redacted_form(form["of"], redactor, is_secret)}


def _redacted_part(name: str, form: object, redactor: Redactor, is_secret: bool) -> object:
    """The parts of an object beside its fields: names of them, its private attributes, or a secret."""
    if name == "secret":
        return REDACTED.encode() if isinstance(form, bytes) else REDACTED
    return form if name in ("unset", "given") else _redacted_form(form, redactor, is_secret)


def _redacted_fields(fields: Mapping[str, Any], redactor: Redactor, is_secret: bool) -> dict[str, object]:
    return {
        name: _redacted_form(each, redactor, is_secret_field(name, is_secret))
        for name, each in fields.items()
    }


def single_run(rows: Sequence[RunRow], address: str) -> str:
    """The id of the only run of a store.

    Raises:
        NighthawkError: It has none, or several.
    """
    if len(rows) != 1:
        known = ", ".join(row.run_id for row in rows[:20]) or "none"
        raise NighthawkError(f"{address} has not one run; give the id of one of these: {known}")
    return rows[0].run_id
