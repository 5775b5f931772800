"""Collects the requests of parallel steps into batches, and runs the batches of one run on one event loop.

    waiting in a window ── the window ends, or is full ──► in a batch ──► result
        └── cancelled: leaves ◄──────────────────────────────┘

A batch all of whose requests have left is cancelled at the provider.
"""

from collections.abc import AsyncGenerator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import time
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..journal_ports import RunJournal
from .batch import Batch, Ticket, run_has_ended
from .batch_protocol import BatchItem, BatchProtocol, ItemResult, SentBatch
from .batch_records import BatchRecord
from .endpoint_calls import EndpointCalls
from .http_pool import HttpPool
from .prepared_settings import HttpRequestPlan


class _Window:
    """The requests that will be in one batch."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.size = 0
        self.full = anyio.Event()


class Collector:
    """Collects requests. Made by `open_collector`.

    Args:
        protocol: Speaks to the batch endpoint.
        pool: The pool of connections.
        window_seconds: Seconds for which a window is open.
        max_requests: The greatest number of requests in a batch.
        journal: The journal of the run; None without one.
        task_group: The task group of the batches.
    """

    def __init__(
        self,
        *,
        protocol: BatchProtocol,
        pool: HttpPool,
        window_seconds: float,
        max_requests: int,
        journal: RunJournal | None,
        task_group: TaskGroup,
    ) -> None:
        self._protocol = protocol
        self._pool = pool
        self._window_seconds = window_seconds
        self._max_requests = min(max_requests, protocol.max_requests)
        self._journal = journal
        self._task_group = task_group
        self._windows: dict[Hashable, _Window] = {}
        self._batches: set[Batch] = set()
        self._found: dict[str, Batch] = {}  # those of earlier lives, by key
        self._is_closed = False

    async def ask(self, ticket: Ticket) -> ItemResult:
        """Wait for the result of a request.

        Args:
            ticket: The request.

        Raises:
            NighthawkError: The run has ended.
            Exception: The error of its batch.
        """
        record = None if ticket.records is None else ticket.records.find()
        try:
            if record is not None:
                result = await self._find_result(ticket, record)
                if result.error is None:
                    return result
                ticket.begin_again()
            self._collect(ticket)
            return await ticket.wait()
        except BaseException:
            self._leave(ticket)
            raise

    def _collect(self, ticket: Ticket) -> None:
        """Put a request into a window."""
        if self._is_closed:
            raise run_has_ended()
        window = self._windows.get(ticket.key)
        if window is not None and window.size + ticket.size > self._protocol.max_bytes:
            self._close(ticket.key, window)
            window = None
        if window is None:
            window = self._windows[ticket.key] = _Window()
            self._task_group.start_soon(self._run_window, ticket.key, window, name="batch")
        window.tickets.append(ticket)
        window.size += ticket.size
        if len(window.tickets) >= self._max_requests:
            self._close(ticket.key, window)

    def _close(self, key: Hashable, window: _Window) -> None:
        """Close a window: its batch begins, and the next request opens another one."""
        if self._windows.get(key) is window:
            del self._windows[key]
        window.full.set()

    def _leave(self, ticket: Ticket) -> None:
        """Forget a request that is not waited for any more."""
        if ticket.batch is not None:
            ticket.batch.leave(ticket)
            return
        for key, window in list(self._windows.items()):
            if ticket in window.tickets:
                window.tickets.remove(ticket)
                window.size -= ticket.size
                if not window.tickets:
                    self._close(key, window)

    async def _run_window(self, key: Hashable, window: _Window) -> None:
        with anyio.move_on_after(self._window_seconds):
            await window.full.wait()
        self._close(key, window)
        tickets = window.tickets
        if not tickets:
            return
        sent = SentBatch(
            key=f"nighthawk-{uuid4().hex}",
            count=len(tickets),
            path=tickets[0].plan.encoded.path,
            sent_at=time(),
        )
        batch = self._make(tickets[0].plan, sent)
        items: list[BatchItem] = []
        for position, ticket in enumerate(tickets):
            ticket.item_id = sent.item_id(position)
            items.append(BatchItem(id=ticket.item_id, body=ticket.plan.encoded.body))
            batch.join(ticket)
        await self._run(batch, items)

    def _make(self, plan: HttpRequestPlan, sent: SentBatch, found_at: str | None = None) -> Batch:
        batch = Batch(
            sent,
            protocol=self._protocol,
            calls=EndpointCalls(plan.endpoint, plan.settings, plan.retry_rules, self._pool),
            headers=plan.encoded.headers,
            journal=self._journal,
            found_at=found_at,
        )
        self._batches.add(batch)
        return batch

    async def _run(self, batch: Batch, items: list[BatchItem] | None) -> None:
        try:
            await batch.run(items)
        finally:
            self._batches.discard(batch)

    async def _find_result(self, ticket: Ticket, record: BatchRecord) -> ItemResult:
        """The result of a request from the batch of an earlier life."""
        batch = self._found.get(record.batch.key)
        if batch is None:
            batch = self._make(ticket.plan, record.batch, record.sent_place)
            self._found[record.batch.key] = batch
            self._task_group.start_soon(self._run, batch, None, name="batch of an earlier life")
        ticket.item_id = record.item_id
        batch.join(ticket)
        return await ticket.wait()

    def close(self) -> None:
        """End the batches, as the run has ended; with a journal, its next life finds them again."""
        self._is_closed = True
        for window in self._windows.values():
            for ticket in window.tickets:
                ticket.end(run_has_ended())
            window.tickets.clear()
            window.full.set()
        for batch in self._batches:
            batch.close()


@asynccontextmanager
async def open_collector(
    protocol: BatchProtocol,
    pool: AbstractAsyncContextManager[HttpPool],
    *,
    window_seconds: float,
    max_requests: int,
    journal: RunJournal | None,
) -> AsyncGenerator[Collector, None]:
    """A collector, to be entered in a task of its own. Leaving it ends its batches.

    Args:
        protocol: Speaks to the batch endpoint.
        pool: Provides the pool of connections.
        window_seconds: Seconds for which a window is open.
        max_requests: The greatest number of requests in a batch.
        journal: The journal of the run; None without one.
    """
    async with pool as connections, BareTaskGroup() as task_group:
        collector = Collector(
            protocol=protocol,
            pool=connections,
            window_seconds=window_seconds,
            max_requests=max_requests,
            journal=journal,
            task_group=task_group,
        )
        try:
            yield collector
        finally:
            collector.close()
