"""The records of a memory, as people search, correct and erase them at the dashboard."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import msgspec

from ...journal.errors import JournalStoreError
from ...memory import MemoryUseError, MemoryValueError
from ...memory.memory import Memory
from ...memory.records import MemoryRecord, RecalledRecord
from ...types.json import JsonableValue
from ..protocol import AsgiScope, Receive
from .paths import whole_number
from .request import RefusalError, bad_request, no_such_record, not_now, read_body, store_is_away

_LOGGER = logging.getLogger("nighthawk")
_MOST_RECORDS = 100
_FEW_RECORDS = 20
_FACTS = "fact:"

Result = TypeVar("Result")


class _CorrectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The id is that of the record which was seen; the value is any JSON."""

    key: str
    id: str
    value: msgspec.Raw


class _EraseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    id: str


ACTIONS = ("correct", "erase")
"""The changes, as parts of the path."""


async def search(memory: Memory, query: Mapping[str, list[str]]) -> dict[str, JsonableValue]:
    """Return the records that fit a query best; the latest ones for an empty query.

    Args:
        memory: The memory.
        query: The query of the request: `text`, and `most` for the most records.

    Raises:
        RefusalError: The query cannot be used, or the store cannot be read.
    """
    most = whole_number(query, "most", _FEW_RECORDS, least=1, most=_MOST_RECORDS)
    text = "".join(query.get("text", ())[:1])
    found = await _kept(memory.recall(text, k=most))
    return {"namespace": memory.namespace, "records": [_plain(record) for record in found]}


async def change(
    memory: Memory, action: str, actor: str, *, asgi_scope: AsgiScope, receive: Receive
) -> dict[str, JsonableValue]:
    """Correct or erase a record; returns the record, or the receipt.

    Args:
        memory: The memory.
        action: One of `ACTIONS`.
        actor: The person who asks for it.
        asgi_scope: The request.
        receive: Receives its body.

    Raises:
        RefusalError: It is not possible.
        ClientLeftError: The client has left.
    """
    if action == "erase":
        return await _erase(memory, await read_body(asgi_scope, receive, _EraseBody), actor)
    return await _correct(memory, await read_body(asgi_scope, receive, _CorrectBody), actor)


async def _correct(memory: Memory, body: _CorrectBody, actor: str) -> dict[str, JsonableValue]:
    record = await _seen(memory, body.key, body.id)
    if record.key.startswith(_FACTS):
        raise RefusalError(not_now("A fact is its claim: erase it, and let the program state the right one."))
    stored = await _kept(
        memory.store(
            record.key,
            msgspec.json.decode(body.value),
            tags=record.tags,
            provenance=f"corrected by {actor}",
            valid_until=record.valid_until,
            kind=record.kind,
            confidence=record.confidence,
        )
    )
    _LOGGER.info("%s: corrected record %s of the memory over the dashboard", actor, stored.id)
    return {"record": _plain(stored)}


async def _erase(memory: Memory, body: _EraseBody, actor: str) -> dict[str, JsonableValue]:
    record = await _seen(memory, body.key, body.id)
    receipt = await _kept(memory.erase(id=record.id))
    _LOGGER.info("%s: erased record %s of the memory over the dashboard", actor, record.id)
    return {"receipt": msgspec.to_builtins(receipt)}


async def _seen(memory: Memory, key: str, id: str) -> MemoryRecord:
    """The record that a person saw, unless it is another one by now."""
    record = await _kept(memory.get(key))
    if record is None:
        raise RefusalError(no_such_record("There is no such record, or no more."))
    if record.id != id:
        raise RefusalError(not_now("The record was changed meanwhile: look at it again."))
    return record


async def _kept(call: Awaitable[Result]) -> Result:
    try:
        return await call
    except (MemoryUseError, MemoryValueError) as error:
        raise RefusalError(bad_request(str(error))) from None
    except JournalStoreError as error:
        raise RefusalError(store_is_away(str(error))) from None


def _plain(record: MemoryRecord) -> dict[str, Any]:
    """A record as JSON; its parts say why it was found."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    if isinstance(record, RecalledRecord):
        fields["score"] = round(record.score, 4)
    return fields
