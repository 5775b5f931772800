"""Records of batches in the journal of a run, so that a later life finds them again.

    …/turn[0]/batch[0]           before the submission: the batch and the item that the request is
    …/turn[0]/batch[0]/sent[0]   after it, at the first of its requests: the provider's id of the batch

A process that was killed in between leaves a batch without an id, which is looked for at the provider.
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from ..journal_ports import RunJournal
from .batch_protocol import SentBatch


class BatchRecord(Struct, frozen=True, kw_only=True):
    """The record of one request.

    Args:
        batch: Its batch.
        item_id: The id of its item in the batch.
        sent_place: The place of the record with the provider's id of the batch.
    """

    batch: SentBatch
    item_id: str
    sent_place: str


class BatchRecords:
    """The records of one request: one for each batch that it was in.

    Args:
        journal: The journal of the run.
        place: The place of the request.
    """

    def __init__(self, journal: RunJournal, place: str) -> None:
        self._journal = journal
        self._place = place
        self._number = 0

    @property
    def place(self) -> str:
        """The place of the next record."""
        return f"{self._place}/batch[{self._number}]"

    def find(self) -> BatchRecord | None:
        """Return the latest record of earlier lives; None without one, and when it was returned before."""
        latest: BatchRecord | None = None
        while (found := self._journal.find_value(self.place)) is not None:
            latest = msgspec.convert(found[0], BatchRecord)
            self._number += 1
        return latest

    def keep(self, record: BatchRecord) -> Callable[[], Awaitable[None]]:
        """Record a batch; returns the function to wait with until the record is durable."""
        wait = self._journal.keep_value(self.place, msgspec.to_builtins(record))
        self._number += 1
        return wait


def sent_place(first: str) -> str:
    """The place of the record of a batch's id.

    Args:
        first: The place of the record of its first request.
    """
    return f"{first}/sent[0]"


def find_id(journal: RunJournal, place: str) -> str | None:
    """Return the provider's id of a batch that an earlier life submitted; None when it was not recorded."""
    found = journal.find_value(place)
    return None if found is None else str(found[0])


async def keep_id(journal: RunJournal, place: str, batch_id: str) -> None:
    """Record the provider's id of a batch, durably."""
    await journal.keep_value(place, batch_id)()
