"""Recorded values that a fork replaces by other ones."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

import msgspec
from msgspec import Struct

from ..errors import NighthawkError
from .effect_call import EndedCall
from .errors import JournalValueError
from .mailboxes import ReceivedMessages
from .records import Record, RecordKind
from .value_forms import TAG
from .values import DECLARED, adapter_of, decode_value, encode_value, is_declared


class _Settable(Struct, frozen=True, kw_only=True):
    """A record with values that can be replaced.

    Args:
        record: The record.
        bodies: The values by name, encoded; None for one that was not recorded, because the call had failed.
        rebuild: Returns the body of the record for values by name, encoded.
    """

    record: Record
    bodies: Mapping[str, bytes | None]
    rebuild: Callable[[Mapping[str, bytes]], bytes]


def changed_records(records: Sequence[Record], place: str, values: Mapping[str, object]) -> list[Record]:
    """Return the records of a place with other values; none without values.

    Args:
        records: The records in the place, in order.
        place: The place.
        values: The new values by name; see `JournalStore.fork`.

    Raises:
        NighthawkError: The place has no value of such a name.
        JournalValueError: A value cannot be stored, or is of another type.
    """
    if not values:
        return []
    kept: dict[RecordKind, Record] = {record.kind: record for record in records if record.place == place}
    answer = next(
        (each for each in records if each.place == f"{place}/answer[0]" and each.kind == "value"), None
    )
    settable = _find_settable(kept, answer)
    names: Mapping[str, object] = {} if settable is None else settable.bodies
    unknown = [name for name in values if name not in names]
    if settable is None or unknown:
        known = ", ".join(names) or "nothing that can be set"
        raise NighthawkError(f"{place} has no recorded value {', '.join(unknown)}; it has {known}")
    new = {
        name: _new_body(settable.bodies[name], value, f"{place}, {name}") for name, value in values.items()
    }
    changed = msgspec.structs.replace(settable.record, body=settable.rebuild(new))
    others = [record for record in kept.values() if record is not settable.record]
    return sorted([*others, changed], key=lambda record: record.seq)


def _find_settable(kept: Mapping[RecordKind, Record], answer: Record | None) -> _Settable | None:
    """The record of a place that has values which can be replaced."""
    if (record := kept.get("result")) is not None:
        ended = msgspec.msgpack.decode(record.body, type=EndedCall)
        return _Settable(
            record=record,
            bodies={"result": None if ended.failure or ended.refusal else ended.value},
            rebuild=lambda new: msgspec.msgpack.encode(EndedCall(value=new["result"])),
        )
    if (record := kept.get("message")) is not None:
        received = msgspec.msgpack.decode(record.body, type=ReceivedMessages)
        messages = received.messages
        return _Settable(
            record=record,
            bodies={"message": messages[0].body} if len(messages) == 1 else {},
            rebuild=lambda new: msgspec.msgpack.encode(
                msgspec.structs.replace(
                    received, messages=(msgspec.structs.replace(messages[0], body=new["message"]),)
                )
            ),
        )
    if (record := kept.get("answer")) is not None:
        outcome, bindings = msgspec.msgpack.decode(record.body, type=tuple[bytes, dict[str, bytes]])
        return _Settable(
            record=record,
            bodies=bindings,
            rebuild=lambda new: msgspec.msgpack.encode((outcome, {**bindings, **new})),
        )
    if answer is not None:
        return _Settable(record=answer, bodies={"answer": answer.body}, rebuild=lambda new: new["answer"])
    record = kept.get("value")
    if record is None or "question" in kept:
        return None
    return _Settable(record=record, bodies={"value": record.body}, rebuild=lambda new: new["value"])


def _new_body(recorded: bytes | None, value: object, place: str) -> bytes:
    """A value in the form that the recorded one has."""
    if recorded is None or is_declared(recorded):
        data: object = msgspec.msgpack.decode(encode_value(value, place=place))
        return msgspec.msgpack.encode({TAG: DECLARED, "of": data})
    known = decode_value(recorded, place=place)
    if value is not None and type(value) is not type(known):
        value = _converted(value, known, place)
    if isinstance(value, datetime) and (offset := value.utcoffset()) is not None:
        value = value.astimezone(timezone(offset))  # pydantic has a zone of its own
    return encode_value(value, place=place)


def _converted(value: object, known: object, place: str) -> object:
    """The value as one of the type of the recorded one."""
    try:
        return adapter_of(type(known)).validate_python(value)
    except ValueError as error:
        raise JournalValueError(
            f"{place}: a value of the type {type(known).__qualname__} was recorded, and {value!r} is none",
            place=place,
        ) from error
