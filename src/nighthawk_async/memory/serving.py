"""A memory as functions for clients of other programs: plain data in, plain data out."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from .memory import Memory
from .records import MemoryRecord, RecallMode


def functions(memory: Memory, *, writable: bool = True) -> list[Callable[..., Any]]:
    """Return a memory as functions with plain arguments and results, such as an MCP server has for tools.

        app = nh.mcp.serve(nh.memory.functions(memory), run=lambda: nh.run(executor))

    They are `memory_recall`, `memory_get` and `memory_summarize`, and, unless it is for reading only,
    `memory_store` and `memory_forget`. To erase stays with the program.

    Args:
        memory: The memory.
        writable: Whether the functions that change it are among them.
    """
    return [*_reading(memory), *(_changing(memory) if writable else ())]


def _reading(memory: Memory) -> list[Callable[..., Any]]:
    async def memory_recall(
        query: str, k: int = 5, mode: RecallMode | None = None, tags: list[str] | None = None
    ) -> list[dict[str, Any]]:
        """Find what is remembered by a query, best first, with scores.

        Args:
            query: Words, or a question; empty for the latest records.
            k: The most records.
            mode: Whether words are compared, meanings, or both.
            tags: Tags that a record must have.
        """
        return [_plain(record) for record in await memory.recall(query, k=k, mode=mode, tags=tags or ())]

    async def memory_get(key: str) -> dict[str, Any] | None:
        """Return the record of a key, or null.

        Args:
            key: The key, exactly.
        """
        record = await memory.get(key)
        return None if record is None else _plain(record)

    async def memory_summarize(query: str = "", limit: int = 10) -> str:
        """Return what is remembered as a short list.

        Args:
            query: Words that choose the records; empty for the latest ones.
            limit: The most records.
        """
        return (await memory.summarize(query, limit=limit)).text

    return [memory_recall, memory_get, memory_summarize]


def _changing(memory: Memory) -> list[Callable[..., Any]]:
    async def memory_store(
        key: str,
        value: Any,
        tags: list[str] | None = None,
        provenance: str = "",
        valid_until: datetime | None = None,
    ) -> dict[str, Any]:
        """Remember a value. It takes the place of an earlier one with the same key.

        Args:
            key: The key.
            value: The value: a text, or other JSON.
            tags: Tags by which it can be found.
            provenance: The source.
            valid_until: The time from which it does not count, with a time zone.
        """
        return _plain(
            await memory.store(key, value, tags=tags or (), provenance=provenance, valid_until=valid_until)
        )

    async def memory_forget(
        id: str | None = None, key: str | None = None, tag: str | None = None
    ) -> list[str]:
        """Recall some records no more, and return their ids. What is given must match in all.

        Args:
            id: The id of the record.
            key: The key, exactly.
            tag: A tag.
        """
        return list((await memory.forget(id=id, key=key, tag=tag)).ids)

    return [memory_store, memory_forget]


def _plain(record: MemoryRecord) -> dict[str, Any]:
    """The fields of a record that say something."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return {name: value for name, value in fields.items() if value not in (None, "", []) or name == "value"}
