"""`Memory`: records that outlive runs, recalled by words or by meaning."""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from urllib.parse import quote

from ..errors import ConfigurationError
from ..journal import JournalStore, open as open_journal
from ..journal.encryption import Key
from ..sealed_attributes import Sealed
from . import calls
from .engine import Embedding, Engine
from .errors import MemoryUseError
from .facts import Facts
from .orders import MAX_KEY, checked_namespace, checked_text, predicate, recall_order, store_order
from .records import (
    ErasureReceipt,
    Forgotten,
    MemoryEvent,
    MemoryRecord,
    MemorySummary,
    RecalledRecord,
    RecallMode,
)
from .summaries import summarized
from .vectors import MOST_NUMBERS, Embed

_MOST_CHARACTERS, _MOST_HINT = 4_000, 200


class Memory:
    """Records that outlive runs, in one namespace of a store. Made by `nighthawk_async.memory.open`.

    Name it in a block, or call it in Python. Its methods work the same in tasks of Trio and of asyncio, and
    wait for the disk in a thread of their own.

    In a durable run, `store`, `forget` and `erase` are effects that happen once, and what is read is
    recorded.
    """

    _engine = Sealed[Engine]()
    _owned = Sealed[JournalStore | None]()
    namespace = Sealed[str]()

    def __init__(self, engine: Engine, owned: JournalStore | None) -> None:
        self._engine = engine
        self._owned = owned
        self.namespace = engine.namespace

    def __repr__(self) -> str:
        return f"Memory(namespace={self.namespace!r})"

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *exc_details: object) -> None:
        if self._owned is not None:
            self._owned.close()

    def __reduce__(self) -> str:
        raise TypeError("a Memory stays in its process; open it in the other one as well")

    @property
    def facts(self) -> Facts:
        """The facts of the memory: claims with evidence and confidence."""
        return Facts(self._engine)

    async def store(
        self,
        key: str,
        value: object,
        *,
        tags: Iterable[str] = (),
        id: str | None = None,
        provenance: str = "",
        valid_until: datetime | None = None,
        kind: str = "",
        confidence: float | None = None,
    ) -> MemoryRecord:
        """Store a record. It takes the place of an earlier one with the same key, which stays in the log.

        Args:
            key: The key.
            value: The value: plain data, a pydantic model, a dataclass, or a struct.
            tags: The tags.
            id: The id; None for one that begins with the time. A record that has the id and is the same is
                stored once.
            provenance: The source.
            valid_until: The time from which it is not recalled, with a time zone; None for never.
            kind: The kind, by which it can be recalled.
            confidence: The confidence in it, from 0 to 1.

        Returns:
            The record. It is durable.

        Raises:
            MemoryUseError: An argument cannot be used, or a record of another key has the id.
            MemoryValueError: The value cannot be stored faithfully, or is too large.
            JournalStoreError: The store cannot be written.
        """
        order = store_order(
            key,
            value,
            tags=tags,
            id=id,
            provenance=provenance,
            valid_until=valid_until,
            kind=kind,
            confidence=confidence,
        )
        return await calls.store(self._engine, order)

    async def recall(
        self,
        query: str,
        *,
        k: int = 5,
        mode: RecallMode | None = None,
        tags: Iterable[str] = (),
        kind: str | None = None,
        min_confidence: float | None = None,
    ) -> list[RecalledRecord]:
        """Return the records that fit a query best, with their scores. Any text is a query.

        Records that were superseded, forgotten or erased, and those whose time is over, are left out. Of
        equal scores, the later record comes first, then the lesser id.

        Args:
            query: The query; empty for the latest records.
            k: The most records.
            mode: `lexical` compares words, `semantic` compares meanings, `hybrid` does both. None for
                `hybrid` where the memory has an embedding, otherwise `lexical`.
            tags: Tags, all of which a record must have.
            kind: The kind that a record must have; None for any.
            min_confidence: The least confidence; records without one are left out then. None for any.

        Raises:
            MemoryUseError: An argument cannot be used.
            EmbeddingError: There is no embedding, or its vectors do not fit.
            JournalStoreError: The store cannot be read.
        """
        standard: RecallMode = "lexical" if self._engine.embedding is None or not query else "hybrid"
        order = recall_order(
            query, k=k, mode=mode or standard, tags=tags, kind=kind, min_confidence=min_confidence
        )
        return await calls.recall(self._engine, order)

    async def get(self, key: str) -> MemoryRecord | None:
        """Return the record of a key; None if there is none, or its time is over.

        Args:
            key: The key, exactly.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        return await calls.get(self._engine, checked_text(key, "the key", MAX_KEY))

    async def summarize(
        self,
        query: str = "",
        *,
        limit: int = 10,
        tags: Iterable[str] = (),
        max_characters: int = _MOST_CHARACTERS,
    ) -> MemorySummary:
        """Return records as a list with a line for each. No model is asked.

        Args:
            query: The words that the records are recalled by; empty for the latest ones.
            limit: The most records.
            tags: Tags, all of which a record must have.
            max_characters: The most characters; each record gets an equal share.

        Raises:
            MemoryUseError: An argument cannot be used.
            JournalStoreError: The store cannot be read.
        """
        if type(max_characters) is not int or max_characters < 1:
            raise MemoryUseError(f"max_characters is a positive number, not {max_characters!r}")
        order = recall_order(query, k=limit, mode="lexical", tags=tags, kind=None, min_confidence=None)
        return summarized(await calls.recall(self._engine, order), max_characters)

    async def forget(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        tag: str | Iterable[str] | None = None,
        query: str | None = None,
    ) -> Forgotten:
        """Recall some records no more. They stay in the log; see `erase`.

        Args:
            id: The id of the record.
            key: The key, exactly.
            tag: A tag, or several, all of which a record must have.
            query: A part of its text, key or tags, in either case. What is given must match in all.

        Raises:
            MemoryUseError: Nothing is given, or an argument cannot be used.
            JournalStoreError: The store cannot be written.
        """
        return await calls.forget(self._engine, predicate(id=id, key=key, tag=tag, query=query))

    async def erase(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        tag: str | Iterable[str] | None = None,
        query: str | None = None,
    ) -> ErasureReceipt:
        """Delete records for good, for privacy: current, superseded and forgotten ones.

        Older versions of their keys are deleted as well, their vectors, and the vectors of all queries. The
        tables are written anew, which takes time in a large store. The log keeps the ids and the counts.

        Copies elsewhere stay: backups, what a server archives, and what durable runs have recorded of a
        recall (`JournalStore.prune` deletes that).

        Args:
            id: The id of the record.
            key: The key, exactly.
            tag: A tag, or several, all of which a record must have.
            query: A part of its text, key or tags, in either case. What is given must match in all.

        Raises:
            MemoryUseError: Nothing is given, or an argument cannot be used.
            JournalStoreError: The store cannot be written.
        """
        return await calls.erase(self._engine, predicate(id=id, key=key, tag=tag, query=query))

    async def history(self, key: str | None = None) -> list[MemoryEvent]:
        """Return the events of the log, in order: what was stored, forgotten and erased.

        Args:
            key: The key, exactly; None for all.

        Raises:
            JournalStoreError: The store cannot be read.
        """
        checked = None if key is None else checked_text(key, "the key", MAX_KEY)
        return await calls.history(self._engine, checked)


def open(
    target: str | os.PathLike[str] | JournalStore,
    *,
    namespace: str = "default",
    embed: Embed | None = None,
    embed_hint: str | None = None,
    embed_length: int | None = None,
    weights: tuple[float, float] = (0.5, 0.5),
    keys: Mapping[str, Key] | None = None,
    active_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Memory:
    """Open a memory, which is made when something is stored in it first.

        with nh.memory.open("memory.db", namespace="support") as memory:
            await memory.store("refunds", "Refunds take three days.", tags=["policy"])
            print(await memory.recall("how long does a refund take?"))

    Args:
        target: A file, the address of a PostgreSQL database (`postgresql://user@host/database`), or an open
            store of journals, which keeps both.
        namespace: The namespace: a relative path such as `support/mail`. Each is searched on its own.
        embed: An async function that returns a vector for each of some texts; None for none. It is called
            with up to 64 texts, once for each different text.
        embed_hint: The name that its vectors are kept by; None for the name of the function. With a name
            alone, the vectors that are there are used, and none are computed.
        embed_length: The length of its vectors; None for that of the first one.
        weights: The weights of the lexical and the semantic score of a hybrid query.
        keys: The keys of the encryption, as those of `nighthawk_async.journal.open`; an open store has its
            own.
        active_key: The id of the key that new records are encrypted with; None for the only one.
        clock: Returns the present time, with a time zone; None for the time of the machine.

    Raises:
        ConfigurationError: An argument cannot be used, or an extra is not installed.
    """
    owned = None
    if isinstance(target, JournalStore):
        if keys is not None or active_key is not None:
            raise ConfigurationError(
                "an open store has keys of its own: give them to nighthawk_async.journal.open"
            )
        store = target
    else:
        store = owned = open_journal(_address(target), keys=keys, active_key=active_key)
    engine = Engine(
        store.thread,
        checked_namespace(namespace),
        embedding=_embedding(embed, embed_hint, embed_length),
        weights=_checked_weights(weights),
        clock=time.time if clock is None else lambda: _seconds(clock()),
    )
    return Memory(engine, owned)


def close(memory: Memory) -> None:
    """Close a memory; its end as a context manager does the same. An open store that it was given stays open.

    Args:
        memory: The memory.
    """
    memory.__exit__()


def _address(target: str | os.PathLike[str]) -> str:
    if isinstance(target, str) and "://" in target:
        return target
    path = os.fspath(target)
    if path in ("", ":memory:"):
        raise ConfigurationError(f"a memory is kept in a file or in PostgreSQL, not in {path!r}")
    return f"sqlite:///{quote(path)}"


def _embedding(embed: Embed | None, hint: str | None, length: int | None) -> Embedding | None:
    if embed is not None and not callable(embed):
        raise ConfigurationError(f"embed is an async function of texts, not {embed!r}")
    if length is not None and (type(length) is not int or not 0 < length <= MOST_NUMBERS):
        raise ConfigurationError(f"embed_length is a number from 1 to {MOST_NUMBERS:,}, not {length!r}")
    if hint is None:
        if embed is None:
            return None
        named = embed if hasattr(embed, "__qualname__") else type(embed)
        hint = f"{named.__module__}.{named.__qualname__}"
    if not 0 < len(hint) <= _MOST_HINT or not hint.isprintable():
        raise ConfigurationError(f"embed_hint has 1 to {_MOST_HINT} characters, not {hint!r}")
    return Embedding(hint=hint, function=embed, length=length)


def _checked_weights(weights: tuple[float, float]) -> tuple[float, float]:
    numbers = [each for each in weights if type(each) in (int, float) and math.isfinite(each) and each >= 0]
    if len(numbers) != 2 or len(weights) != 2 or not any(numbers):
        raise ConfigurationError(
            f"weights are two numbers from 0 on, that of words and that of meaning, not both 0; {weights!r} "
            "are not"
        )
    return float(numbers[0]), float(numbers[1])


def _seconds(now: datetime) -> float:
    if now.tzinfo is None:
        raise MemoryUseError(f"the clock of a memory returns times with a time zone, not {now!r}")
    return now.timestamp()
