"""The calls of a memory: nodes of the tree, and effects of durable runs.

`store`, `forget` and `erase` are effects by key: a call that was interrupted is made again, and does nothing
if the log has its key. What is read is recorded.
"""

from ..journal.effects import repeatable
from ..observation import observed
from .engine import Engine
from .orders import Predicate, RecallOrder, StoreOrder
from .records import ErasureReceipt, Forgotten, MemoryEvent, MemoryRecord, RecalledRecord


async def store(engine: Engine, order: StoreOrder) -> MemoryRecord:
    """Store a record."""
    with observed("function", "Memory.store", inputs=lambda: {"key": order.key, "text": order.text}) as node:
        record = await _store(engine, order)
        if node is not None:
            node.end("completed", outputs={"id": record.id})
        return record


async def recall(engine: Engine, order: RecallOrder) -> list[RecalledRecord]:
    """Recall records. Its node shows each with its score and the parts of it."""
    with observed("function", "Memory.recall", inputs=lambda: _shown_query(engine, order)) as node:
        records = await _recall(engine, order)
        if node is not None:
            shown = {str(number): str(record) for number, record in enumerate(records, 1)}
            node.end("completed", outputs=shown)
        return records


async def get(engine: Engine, key: str) -> MemoryRecord | None:
    """Get a record."""
    with observed("function", "Memory.get", inputs=lambda: {"key": key}) as node:
        record = await _get(engine, key)
        if node is not None:
            node.end("completed", outputs={"record": None if record is None else str(record)})
        return record


async def history(engine: Engine, key: str | None) -> list[MemoryEvent]:
    """Get events."""
    with observed("function", "Memory.history", inputs=lambda: {"key": key}):
        return await _history(engine, key)


async def forget(engine: Engine, chosen: Predicate) -> Forgotten:
    """Forget records."""
    with observed("function", "Memory.forget", inputs=lambda: _shown_choice(chosen)) as node:
        forgotten = await _forget(engine, chosen)
        if node is not None:
            node.end("completed", outputs={"count": forgotten.count})
        return forgotten


async def erase(engine: Engine, chosen: Predicate) -> ErasureReceipt:
    """Erase records. Its node shows no text of theirs."""
    with observed("function", "Memory.erase") as node:
        receipt = await _erase(engine, chosen)
        if node is not None:
            node.end("completed", outputs={"versions": receipt.versions, "is_purged": receipt.is_purged})
        return receipt


def _shown_query(engine: Engine, order: RecallOrder) -> dict[str, object]:
    return {"query": order.query, "mode": order.mode, "k": order.k, "namespace": engine.namespace}


def _shown_choice(chosen: Predicate) -> dict[str, object]:
    given = {"id": chosen.id, "key": chosen.key, "tags": chosen.tags, "query": chosen.query}
    return {name: value for name, value in given.items() if value}


@repeatable
async def _store(self: Engine, order: StoreOrder, *, idempotency_key: str = "") -> MemoryRecord:
    return await self.store(order, idempotency_key)


@repeatable
async def _recall(self: Engine, order: RecallOrder) -> list[RecalledRecord]:
    return await self.recall(order)


@repeatable
async def _get(self: Engine, key: str) -> MemoryRecord | None:
    return await self.get(key)


@repeatable
async def _history(self: Engine, key: str | None) -> list[MemoryEvent]:
    return await self.history(key)


@repeatable
async def _forget(self: Engine, chosen: Predicate, *, idempotency_key: str = "") -> Forgotten:
    return await self.forget(chosen, idempotency_key)


@repeatable
async def _erase(self: Engine, chosen: Predicate, *, idempotency_key: str = "") -> ErasureReceipt:
    return await self.erase(chosen, idempotency_key)
