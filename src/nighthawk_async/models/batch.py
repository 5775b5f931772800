"""One batch, from its submission to the results of its requests."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from math import inf

import anyio
from anyio.lowlevel import checkpoint

from ..backoff import backoff_seconds
from ..errors import ModelError, NighthawkError
from ..journal_ports import RunJournal
from ..observation import NodeWriter
from .batch_protocol import (
    BatchItem,
    BatchProtocol,
    BatchStatus,
    Found,
    ItemResult,
    SentBatch,
    is_gone,
    missing_item,
)
from .batch_records import BatchRecord, BatchRecords, find_id, keep_id, sent_place
from .debug_log import LOGGER
from .endpoint import name_error
from .endpoint_calls import EndpointCalls, LostAnswerError, copied_error
from .prepared_settings import HttpRequestPlan

_FIRST_POLL_SECONDS = 1.0
_LONGEST_POLL_SECONDS = 60.0
_MOST_FAILED_POLLS = 20
_CANCEL_SECONDS = 4.0
_SUBMIT_SECONDS_AT_END = 4.0

_GRACE_SECONDS = 10.0
"""The time after which a batch that nobody waits for is cancelled in a run with a journal.

A run that ends meanwhile, by an error or a cancellation, leaves it to its next life.
"""

_ITEM_OVERHEAD_BYTES = 256
"""The most that a batch adds to the body of each request."""


class Ticket:
    """One request that waits for its result.

    Args:
        plan: The request.
        node: Its node in the tree; None without observers.
        records: Its records in the journal; None without a journal.
    """

    def __init__(self, plan: HttpRequestPlan, node: NodeWriter | None, records: BatchRecords | None) -> None:
        self.plan = plan
        self.records = records
        self.item_id = ""
        self.batch: Batch | None = None
        self._node = node
        self._result: ItemResult | Exception | None = None
        self._ended = anyio.Event()

    @property
    def size(self) -> int:
        """The bytes that it adds to a batch."""
        return len(self.plan.encoded.body) + _ITEM_OVERHEAD_BYTES

    @property
    def key(self) -> Hashable:
        """Equal for requests that may be in one batch."""
        encoded, endpoint = self.plan.encoded, self.plan.endpoint
        headers = (frozenset(encoded.headers.items()), frozenset(endpoint.headers.items()))
        return self.plan.pacing_key, encoded.path, endpoint.base_url, headers

    async def wait(self) -> ItemResult:
        """Wait for its result.

        Raises:
            Exception: The error of its batch.
        """
        await self._ended.wait()
        assert self._result is not None
        if isinstance(self._result, Exception):
            raise copied_error(self._result)
        return self._result

    def end(self, result: ItemResult | Exception) -> None:
        """Give it its result, or the error of its batch."""
        self._result = result
        self._ended.set()

    def begin_again(self) -> None:
        """Wait for another result, of another batch."""
        self.batch = self._result = None
        self._ended = anyio.Event()

    def show_batch(self) -> None:
        """Show the id of its batch in the tree, once it has one."""
        if self._node is not None and self.batch is not None and self.batch.id:
            self._node.set_attributes({"nighthawk.model.batch_id": self.batch.id})


class Batch:
    """A batch.

    Args:
        sent: Its identity.
        protocol: Speaks to the batch endpoint.
        calls: Makes the calls.
        headers: The headers that the protocol wants with its requests.
        journal: The journal of the run; None without one.
        found_at: The place of the record of its id, if an earlier life submitted it.
    """

    def __init__(
        self,
        sent: SentBatch,
        *,
        protocol: BatchProtocol,
        calls: EndpointCalls,
        headers: Mapping[str, str],
        journal: RunJournal | None,
        found_at: str | None = None,
    ) -> None:
        self.sent = sent
        self.id: str | None = None
        """The provider's id; None while it has none."""
        self.was_sent = found_at is not None
        """Whether the provider may have it."""
        self._protocol = protocol
        self._calls = calls
        self._headers = headers
        self._journal = journal
        self._sent_place = found_at
        self._is_found = found_at is not None
        self._waiting: dict[Ticket, None] = {}
        self._joined = 0
        self._results: Mapping[str, ItemResult] | Exception | None = None
        self._loss: ModelError | None = None  # of the answer to the submission
        self._scope = anyio.CancelScope()
        self._submitting = anyio.CancelScope(shield=True)
        self._is_kept = False

    @property
    def _model_id(self) -> str:
        return self._calls.endpoint.model_id

    @property
    def is_left(self) -> bool:
        """Whether the provider may still work on it for the next life of the run."""
        return self._journal is not None and self.was_sent and (self._is_kept or self._results is None)

    def join(self, ticket: Ticket) -> None:
        """Have a request wait for its result."""
        ticket.batch = self
        self._joined += 1
        if self._results is not None:
            ticket.end(self._result_of(ticket, self._results))
            return
        self._waiting[ticket] = None
        self._scope.deadline = inf
        ticket.show_batch()

    def leave(self, ticket: Ticket) -> None:
        """Forget a request that is not waited for any more; without any, the batch is cancelled."""
        self._waiting.pop(ticket, None)
        are_more_expected = self._is_found and self._joined < self.sent.count
        if self._waiting or are_more_expected or self._results is not None:
            return
        grace = 0.0 if self._journal is None else _GRACE_SECONDS
        self._scope.deadline = anyio.current_time() + grace
        self._hurry(grace)

    def close(self) -> None:
        """End it, as the run has ended; with a journal, the next life of the run finds it again."""
        self._is_kept = self._journal is not None
        self._scope.cancel()
        self._hurry(0.0)

    async def run(self, items: Sequence[BatchItem] | None) -> None:
        """Submit it, wait until it has ended, and give each request its result.

        Args:
            items: Its items; None for a batch that an earlier life may have submitted.
        """
        try:
            with self._scope:
                await self._run(items)
        except Exception as error:  # those who wait get it
            if isinstance(error, ModelError) and not error.message.startswith(f"{self._model_id}: "):
                name_error(error, self._calls.endpoint)
            self._end(error)
        if self._scope.cancelled_caught:
            self._end(run_has_ended())
            if not self._is_kept:
                await self._cancel()

    async def _run(self, items: Sequence[BatchItem] | None) -> None:
        is_there = await (self._locate() if items is None else self._submit(items))
        await checkpoint()  # a cancellation during the submission counts from here on
        if not is_there or self.id is None:
            self._end({})
            return
        LOGGER.info("%s: batch %s has %d requests", self._model_id, self.id, self.sent.count)
        for ticket in self._waiting:
            ticket.show_batch()
        status = await self._wait_until_ended(self.id)
        LOGGER.info("%s: batch %s has ended", self._model_id, self.id)
        if status is None:
            self._end({})
        elif status.failure is not None:
            failed = ItemResult(error=status.failure, was_processed=False)
            self._end({self.sent.item_id(each): failed for each in range(self.sent.count)})
        else:
            self._end(await self._protocol.results(self._calls, self.id, self.sent, status))

    def _end(self, results: Mapping[str, ItemResult] | Exception) -> None:
        self._results = results
        for ticket in self._waiting:
            ticket.end(self._result_of(ticket, results))
        self._waiting.clear()

    def _result_of(
        self, ticket: Ticket, results: Mapping[str, ItemResult] | Exception
    ) -> ItemResult | Exception:
        if isinstance(results, Exception):
            return results
        found = results.get(ticket.item_id)
        if found is None and self._loss is not None:
            return ItemResult(error=self._loss, was_processed=False)
        return found or missing_item()

    async def _submit(self, items: Sequence[BatchItem]) -> bool:
        """Record the batch, submit it, and record its id; returns whether the provider has it.

        Shielded, as otherwise nobody would know whether the provider has it.
        """
        with self._submitting:
            await self._record()
            self.was_sent = True
            try:
                self.id = await self._protocol.submit(self._calls, self.sent, items, self._headers)
            except LostAnswerError as error:
                self._loss = error
                return await self._locate()
            except ModelError:
                self.was_sent = False
                raise
            await self._record_id()
        return self.id is not None

    async def _record(self) -> None:
        """Record, durably, that the batch is about to be submitted."""
        wait = None
        for ticket in self._waiting:
            if ticket.records is not None:
                if self._sent_place is None:
                    self._sent_place = sent_place(ticket.records.place)
                record = BatchRecord(batch=self.sent, item_id=ticket.item_id, sent_place=self._sent_place)
                wait = ticket.records.keep(record)
        if wait is not None:
            await wait()  # the last record is durable when all are

    async def _record_id(self) -> None:
        if self._journal is not None and self._sent_place is not None and self.id is not None:
            await keep_id(self._journal, self._sent_place, self.id)

    async def _locate(self) -> bool:
        """Find the batch whose id is unknown; returns whether the provider has it."""
        if self._journal is not None and self._sent_place is not None and self._is_found:
            self.id = find_id(self._journal, self._sent_place)
            if self.id is not None:
                return True
        polls = 0
        while True:
            found: Found = await self._protocol.find(self._calls, self.sent)
            if found not in ("none", "unclear"):
                self.id = found
                await self._record_id()
                return True
            if found == "none":
                return False
            await anyio.sleep(_poll_seconds(polls))
            polls += 1

    async def _wait_until_ended(self, batch_id: str) -> BatchStatus | None:
        """Wait until it has ended; None when the provider does not know it any more."""
        polls = failures = 0
        if not self._is_found:
            await anyio.sleep(_FIRST_POLL_SECONDS)
        while True:
            try:
                status = await self._protocol.status(self._calls, batch_id)
                failures = 0
                if status.is_ended:
                    return status
            except ModelError as error:
                if self._is_found and is_gone(error):
                    return None
                if not error.is_transient or failures >= _MOST_FAILED_POLLS:
                    raise
                failures += 1
            polls += 1
            await anyio.sleep(_poll_seconds(polls))

    def _hurry(self, seconds: float) -> None:
        """Let a submission in progress take a bounded time from now on."""
        self._submitting.deadline = anyio.current_time() + seconds + _SUBMIT_SECONDS_AT_END

    async def _cancel(self) -> None:
        """Cancel it at the provider: nobody waits for it."""
        if self.id is None:
            return
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True), suppress(ModelError):
            await self._protocol.cancel(self._calls, self.id)


def _poll_seconds(polls: int) -> float:
    return backoff_seconds(polls, first=_FIRST_POLL_SECONDS, longest=_LONGEST_POLL_SECONDS)


def run_has_ended() -> NighthawkError:
    """The error of requests that are still waited for when their run has ended."""
    return NighthawkError("The run has ended; execute its steps before leaving it.")
