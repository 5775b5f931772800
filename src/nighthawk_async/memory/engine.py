"""One memory in a store: what its methods do, with the database in the thread of the store.

Each change has the key of an event: a change whose key the log has is not made again.
"""

import inspect
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from uuid import UUID

from msgspec import Struct, structs

from ..journal.store_thread import StoreThread
from ..journal.values import register
from . import log, search, vectors
from .errors import EmbeddingError
from .orders import Predicate, RecallOrder, StoreOrder
from .records import ErasureReceipt, Forgotten, MemoryEvent, MemoryRecord, RecalledRecord
from .vectors import Embed

BATCH = 64
"""The number of texts that an embedding gets at once."""


class Embedding(Struct, frozen=True, kw_only=True):
    """An embedding.

    Args:
        hint: Its name.
        function: Computes vectors; None where those that are there have to do.
        length: The length of its vectors; None for that of the first one.
    """

    hint: str
    function: Embed | None = None
    length: int | None = None


class Engine:
    """A namespace in a store, and how it is searched.

    Args:
        thread: The thread of the store.
        namespace: The namespace.
        embedding: The embedding; None for none.
        weights: The weights of the lexical and the semantic score of a hybrid query.
        clock: Returns the present time, in seconds since 1970.
    """

    def __init__(
        self,
        thread: StoreThread,
        namespace: str,
        *,
        embedding: Embedding | None,
        weights: tuple[float, float],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.thread = thread
        self.namespace = namespace
        self.embedding = embedding
        self._weights = weights
        self._clock = clock

    async def store(self, order: StoreOrder, event: str) -> MemoryRecord:
        """Store a record; see `log.store`."""
        at = self._clock()
        order = order if order.id else structs.replace(order, id=_new_id(at, event))
        return await self.thread.perform(
            lambda: log.store(self.thread.opened(), self.namespace, order, event, at)
        ).wait()

    async def forget(self, chosen: Predicate, event: str) -> Forgotten:
        """Forget records; see `log.forget`."""
        at = self._clock()
        return await self.thread.perform(
            lambda: log.forget(self.thread.opened(), self.namespace, chosen, event, at)
        ).wait()

    async def erase(self, chosen: Predicate, event: str) -> ErasureReceipt:
        """Erase records; see `log.erase`."""
        at = self._clock()
        return await self.thread.perform(
            lambda: log.erase(self.thread.opened(), self.namespace, chosen, event, at)
        ).wait()

    async def history(self, key: str | None) -> list[MemoryEvent]:
        """Return events of the log; see `log.history`."""
        return await self.thread.perform(
            lambda: log.history(self.thread.opened(), self.namespace, key)
        ).wait()

    async def get(self, key: str) -> MemoryRecord | None:
        """Return the current record of a key that is valid; None for none."""
        at = self._clock()

        def find() -> MemoryRecord | None:
            database = self.thread.opened()
            space = log.find_space(database, self.namespace)
            row = None if space is None else log.find_current(database, space, key)
            return row.record if row is not None and search.is_valid(row.record, at) else None

        return await self.thread.perform(find).wait()

    async def recall(self, order: RecallOrder) -> list[RecalledRecord]:
        """Return the records with the greatest scores; see `search.recall`.

        Raises:
            EmbeddingError: There is no vector for a text, or one that does not fit.
        """
        at, hint, vector = self._clock(), "", ()
        if order.mode != "lexical" and order.query.strip():
            if self.embedding is None:
                raise EmbeddingError(
                    f"a {order.mode} query needs vectors: open the memory with embed=, an async function "
                    "that returns a vector for each of some texts"
                )
            hint = self.embedding.hint
            if await self._is_empty():
                return []
            await self._embed_records(self.embedding)
            vector = await self._query_vector(self.embedding, order.query)
        return await self.thread.perform(
            lambda: search.recall(
                *(self.thread.opened(), self.namespace, order, at),
                weights=self._weights,
                hint=hint,
                query_vector=vector,
            )
        ).wait()

    async def _is_empty(self) -> bool:
        def find() -> bool:
            space = log.find_space(self.thread.opened(), self.namespace)
            return space is None or not space.records

        return await self.thread.perform(find).wait()

    async def _embed_records(self, embedding: Embedding) -> None:
        """Compute the vectors that are missing."""
        while embedding.function is not None:
            texts = await self.thread.perform(
                lambda: vectors.texts_without(self.thread.opened(), self.namespace, embedding.hint, BATCH)
            ).wait()
            if not texts:
                return
            await self._embed(embedding, texts, is_query=False)

    async def _query_vector(self, embedding: Embedding, query: str) -> Sequence[float]:
        known = await self._find_vector(embedding, query)
        if known is None:
            await self._embed(embedding, [query], is_query=True)
            known = await self._find_vector(embedding, query)
        return known or ()  # none where everything was erased meanwhile

    async def _find_vector(self, embedding: Embedding, text: str) -> Sequence[float] | None:
        found = await self.thread.perform(
            lambda: vectors.find_vector(self.thread.opened(), self.namespace, embedding.hint, text)
        ).wait()
        if found is not None and embedding.length is not None and len(found) != embedding.length:
            raise EmbeddingError(
                f"the vectors of the embedding {embedding.hint!r} in {self.namespace!r} have {len(found)} "
                f"numbers, and embed_length is {embedding.length}"
            )
        return found

    async def _embed(self, embedding: Embedding, texts: list[str], *, is_query: bool) -> None:
        if embedding.function is None:
            raise EmbeddingError(
                f"the query {texts[0][:60]!r} has no vector of the embedding {embedding.hint!r} yet, and the "
                "memory was opened without embed="
            )
        given = embedding.function(texts)
        computed = vectors.checked_vectors(
            texts, await given if inspect.isawaitable(given) else given, embedding.hint
        )
        await self.thread.perform(
            lambda: vectors.keep_vectors(
                *(self.thread.opened(), self.namespace, embedding.hint, computed, embedding.length),
                is_query=is_query,
            )
        ).wait()


register(Engine, identity=lambda engine: (engine.thread.address, engine.namespace))


def _new_id(at: float, event: str) -> str:
    """The id of a record: a UUID that begins with its time."""
    milliseconds = int(at * 1_000) & (1 << 48) - 1
    rest = int.from_bytes(sha256(event.encode()).digest()[:10], "big")
    number = milliseconds << 80 | rest
    number = number & ~(0xF << 76) | 7 << 76
    return str(UUID(int=number & ~(0x3 << 62) | 0x2 << 62))
