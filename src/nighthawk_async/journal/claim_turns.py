"""The turns of a worker: suspects, each alone, and other calls."""

import time
from collections.abc import Iterable, Sequence

from . import process_calls, queue_suspects, tables
from .database import Database
from .queue_claims import ClaimedEntry, claim_entries, claim_suspect

_MOST_DOUBLINGS = 20
"""The number of times that the patience with a suspect grows."""


class ClaimTurns:
    """Decides what a worker claims next.

    A suspect and other calls take turns, so that neither can hold up the other. A worker that has calls when
    a suspect is due claims no more for a while, until it has none; if they take longer, it claims others for
    the same time, and is more patient the next time. A suspect is alone for a while, which is longer after
    each loss; if it takes longer, others are claimed beside it.

    Args:
        queue: The queue.
        functions: The functions that the worker can call.
        holder: The worker.
    """

    def __init__(self, queue: str, functions: Sequence[str], holder: str) -> None:
        self._queue = queue
        self._functions = functions
        self._holder = holder
        self._is_turn_of_others = False
        self._patience = 0.0
        self._reserves_from = self._alone_until = float("-inf")
        self._is_reserving = False

    def is_alone(self, claimed: Iterable[ClaimedEntry]) -> bool:
        """Whether the worker has, or waits for, a suspect that is to be alone in the process.

        Args:
            claimed: The entries of the worker in progress.
        """
        if self._is_reserving:
            return True
        return time.monotonic() < self._alone_until and any(each.is_suspect for each in claimed)

    def claim(
        self, database: Database, claimed: Sequence[ClaimedEntry], most: int
    ) -> tuple[Sequence[ClaimedEntry], dict[str, str]]:
        """Claim the next entries, within a transaction of the caller.

        Args:
            database: The database.
            claimed: The entries of the worker in progress.
            most: The greatest number of entries to claim.

        Returns:
            The entries; and the runs of those that have failed, with the reasons.

        Raises:
            JournalAuditError: The entries were written with another audit key.
            JournalKeyError: A key of the encryption is missing, or is another one.
        """
        self._is_reserving = False
        has_others = process_calls.has_others(self._holder)
        if claimed and has_others:
            queue_suspects.note_company(database, self._queue, self._holder)
        if self.is_alone(claimed) or process_calls.must_wait(self._holder):
            return (), {}
        suspects = queue_suspects.find_suspects(database, self._queue, self._functions, self._holder)
        if not suspects.due:
            return self._claim_others(database, claimed, most, has_others=has_others)
        if not claimed and not has_others:
            return self._claim_alone(database, suspects, most)
        self._is_reserving = suspects.reserved or self._reserves(database, suspects)
        if self._is_reserving:
            return (), {}
        return self._claim_others(database, claimed, most, has_others=has_others)

    def _claim_alone(
        self, database: Database, suspects: queue_suspects.Suspects, most: int
    ) -> tuple[Sequence[ClaimedEntry], dict[str, str]]:
        """Claim a suspect, or others if it is their turn."""
        if self._is_turn_of_others or not suspects.is_free:
            found, failed = self._claim_others(database, (), most, has_others=False)
            if found or failed or not suspects.is_free:
                self._is_turn_of_others = False
                return found, failed
        self._is_turn_of_others = True
        self._patience = 0.0
        found, failed = claim_suspect(database, suspects.due[0], self._holder, tables.LEASE_SECONDS)
        for each in found:
            doublings = min(each.losses, _MOST_DOUBLINGS)
            self._alone_until = time.monotonic() + tables.LEASE_SECONDS * 2.0**doublings
        return found, failed

    def drain(self) -> None:
        """Note that the worker claims no more."""
        self._is_reserving = False

    def _claim_others(
        self, database: Database, claimed: Sequence[ClaimedEntry], most: int, *, has_others: bool
    ) -> tuple[Sequence[ClaimedEntry], dict[str, str]]:
        return claim_entries(
            *(database, self._queue, self._functions, self._holder, most, tables.LEASE_SECONDS),
            has_company=bool(claimed) or has_others,
        )

    def _reserves(self, database: Database, suspects: queue_suspects.Suspects) -> bool:
        now = time.monotonic()
        if not suspects.reservable or now < self._reserves_from:
            return False
        self._patience = 2 * self._patience or tables.LEASE_SECONDS
        self._reserves_from = now + 2 * self._patience
        queue_suspects.reserve(database, suspects.reservable, self._holder, self._patience)
        return True
