"""Approvals that are remembered: equal calls of the same run are not asked about again.

A run keeps them in memory; a durable one in its store, so that they hold in every life and on workers, and
can be listed and revoked from any process. A remembered approval counts for the same action with the same
arguments (the digest) and for the same implementation, if enough of those who would be asked have given it.
"""

import math
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import asdict as fields_of

from ...errors import NighthawkError
from ...journal_ports import RunJournal, StoredApproval
from ...kernel.calls import take_place
from ...kernel.environment import find_environment, get_environment
from ...kernel.run_state import RunState
from .ballot import Vote
from .errors import NotRememberedError
from .request import ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedApproval:
    """An approval that counts for equal calls of its run.

    Args:
        id: The id of the request that was approved, by which it is revoked.
        run_id: The run.
        action: The action.
        arguments: The arguments, in the JSON form that the digest is made of.
        digest: The digest of both.
        approvals: The people who approved, and when.
        expires_at: The time at which it ends, in UTC; None for the end of the run.
    """

    id: str
    run_id: str
    action: str
    arguments: Mapping[str, Any]
    digest: str
    approvals: tuple[Vote, ...]
    expires_at: datetime | None = None


class _Kept(Struct, frozen=True, kw_only=True):
    """A remembered approval, as it is compared with a request."""

    id: str
    digest: str
    implementation: str
    quorum: int
    asked: frozenset[str] | None
    votes: tuple[Vote, ...]
    seconds: float

    def votes_for(self, request: ApprovalRequest) -> list[Vote]:
        """Return the approvals that count for a request; none unless they suffice for an equal call."""
        if self.digest != request.digest or self.implementation != request.implementation:
            return []
        if self.seconds <= 0:
            return []
        asked = request.ballot.votes.asked
        is_asked_alike = (self.quorum, self.asked) == (request.quorum, asked)
        counted = [vote for vote in self.votes if is_asked_alike or asked is None or vote.approver in asked]
        return counted if len(counted) >= request.quorum else []

    def count_for(self, request: ApprovalRequest) -> bool:
        """Count the approvals for a request, if they suffice; return whether they do."""
        votes = [
            Vote(
                approver=vote.approver,
                answer="approved",
                given_at=vote.given_at,
                reason=vote.reason,
                remembered_from=self.id,
            )
            for vote in self.votes_for(request)
        ]
        if votes:
            request.ballot.count_remembered(votes, self.seconds)
        return bool(votes)


class RunApprovals:
    """The remembered approvals of a run in this process, and the requests that wait; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered: dict[str, ApprovalRequest] = {}
        self._waiting: dict[str, ApprovalRequest] = {}
        self._held: list[ApprovalRequest] = []

    @contextmanager
    def waiting(self, request: ApprovalRequest) -> Generator[None, None, None]:
        """Let an approval that is remembered meanwhile count for a request that waits."""
        with self._lock:
            self._waiting[request.id] = request
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[request.id]

    def count(self, request: ApprovalRequest) -> bool:
        """Count the approval of an equal call; return False for none."""
        with self._lock:
            remembered = list(self._remembered.values())
        return any(_kept(each).count_for(request) for each in remembered)

    def add(self, request: ApprovalRequest) -> None:
        """Remember the approval of a request."""

        def forget(person: str, reason: str) -> None:
            with self._lock:
                self._remembered.pop(request.id, None)

        request.ballot.on_revoke = forget
        with self._lock:
            self._remembered[request.id] = request
        self.announce(request)

    def hold(self, request: ApprovalRequest) -> None:
        """Let handlers that show a request that the store remembers find it, as long as the run lasts."""
        with self._lock:
            self._held.append(request)

    def announce(self, request: ApprovalRequest) -> None:
        """Let an approval that is remembered count for the equal calls that wait."""
        kept = _kept(request)
        with self._lock:
            waiting = [each for each in self._waiting.values() if each is not request]
        for each in waiting:
            kept.count_for(each)

    def requests(self) -> list[ApprovalRequest]:
        """Return the requests whose approvals are remembered, oldest first."""
        with self._lock:
            remembered = list(self._remembered.values())
        return [each for each in remembered if each.is_remembered]

    def revoke(self, request_id: str, person: str, reason: str) -> None:
        """Revoke an approval.

        Raises:
            NotRememberedError: It is not remembered.
        """
        with self._lock:
            request = self._remembered.get(request_id)
        if request is None:
            raise NotRememberedError(f"no approval {request_id!r} is remembered in this run")
        request.revoke(person, reason)


_of_runs: WeakKeyDictionary[object, RunApprovals] = WeakKeyDictionary()
_making = threading.Lock()


def approvals_of(run_state: RunState) -> RunApprovals:
    """Return the remembered approvals of a run, which end with it."""
    with _making:
        return _of_runs.setdefault(run_state.portals, RunApprovals())  # one for all scopes of the run


def find_run_approvals() -> RunApprovals | None:
    """Return those of the active run; None outside of one, and in a call on a worker, whose run has them."""
    environment = find_environment()
    if environment is None or environment.run_state.is_stand_in:
        return None
    return approvals_of(environment.run_state)


async def count_remembered(request: ApprovalRequest, journal: RunJournal | None) -> None:
    """Count the approval of an equal call of the run, if there is one that suffices.

    Args:
        request: The request.
        journal: The journal of the run; None for none.
    """
    if journal is None:
        approvals = find_run_approvals()
        if approvals is not None:
            approvals.count(request)
        return
    for stored in await journal.find_remembered():
        if _kept_of_store(stored).count_for(request):
            return


async def remember(request: ApprovalRequest, journal: RunJournal | None) -> None:
    """Remember the approval of a request, durably where there is a journal.

    Args:
        request: The request.
        journal: The journal of the run; None for none.
    """
    approvals = find_run_approvals()
    if journal is None:
        if approvals is not None:
            approvals.add(request)
        return
    votes = [vote_as_plain_data(each) for each in request.approvals]
    await journal.remember_approval(request.id, request.implementation, votes)
    request.ballot.on_revoke = lambda person, reason: journal.revoke_approval_soon(
        request.id, voter=person, reason=reason
    )
    if approvals is not None:
        approvals.hold(request)
        approvals.announce(request)


async def remembered_approvals() -> tuple[RememberedApproval, ...]:
    """Return the approvals of the active run that count for equal calls, oldest first.

    Raises:
        NighthawkError: No run is active, or this is a call on a worker in a run without a journal.
        JournalStoreError: The store of the run cannot be read.
    """
    environment = get_environment()
    run_id, journal = environment.execution_ref.run_id, environment.journal
    if journal is None:
        return tuple(_shown(each, run_id) for each in _here().requests())
    place = take_place("remembered_approvals()", run_id)
    recorded = journal.find_value(place)
    if recorded is None:
        found = [fields_of(each) for each in await journal.find_remembered()]
        await journal.keep_value(place, found)()
        recorded = (found,)
    return tuple(shown_of_store(StoredApproval(**each), run_id) for each in recorded[0])


async def revoke_approval(approval_id: str, *, by: str, reason: str = "") -> None:
    """Take a remembered approval of the active run back: equal calls are asked about again.

    Calls that have been made are not undone.

    Args:
        approval_id: Its `id`.
        by: The person. The host must authenticate them.
        reason: The reason.

    Raises:
        NotRememberedError: It is not remembered, or no longer.
        NighthawkError: No run is active, or this is a call on a worker in a run without a journal.
        JournalStoreError: The store of the run cannot be written.
    """
    journal = get_environment().journal
    if journal is None:
        _here().revoke(approval_id, by, reason)
        return
    place = take_place("revoke_approval()", approval_id)
    if journal.find_value(place) is not None:
        return  # in an earlier life
    try:
        await journal.revoke_approval(approval_id, voter=by, reason=reason)
    except NighthawkError as error:
        journal.keep_failure(place, error)
        raise
    await journal.keep_value(place, by)()


def _here() -> RunApprovals:
    approvals = find_run_approvals()
    if approvals is None:
        raise NighthawkError(
            "The approvals of a run are remembered where it was entered: this call runs on a worker."
        )
    return approvals


def vote_as_plain_data(vote: Vote) -> dict[str, Any]:
    """Return a vote as the journal keeps it, without what it does not have."""
    return {name: value for name, value in asdict(vote).items() if value is not None}


def shown_of_store(stored: StoredApproval, run_id: str) -> RememberedApproval:
    """Return a remembered approval of a store as programs see it."""
    return RememberedApproval(
        id=stored.id,
        run_id=run_id,
        action=stored.content["action"],
        arguments=stored.content["arguments"],
        digest=stored.content["digest"],
        approvals=tuple(Vote(**each) for each in stored.votes),
        expires_at=None if stored.ends_at is None else datetime.fromtimestamp(stored.ends_at, UTC),
    )


def _shown(request: ApprovalRequest, run_id: str) -> RememberedApproval:
    seconds = request.remaining_seconds
    return RememberedApproval(
        id=request.id,
        run_id=run_id,
        action=request.action,
        arguments=request.arguments,
        digest=request.digest,
        approvals=request.approvals,
        expires_at=None if math.isinf(seconds) else datetime.now(UTC) + timedelta(seconds=seconds),
    )


def _kept(request: ApprovalRequest) -> _Kept:
    return _Kept(
        id=request.id,
        digest=request.digest,
        implementation=request.implementation,
        quorum=request.quorum,
        asked=request.ballot.votes.asked,
        votes=request.approvals,
        seconds=request.remaining_seconds,
    )


def _kept_of_store(stored: StoredApproval) -> _Kept:
    asked = stored.content["approvers"]
    return _Kept(
        id=stored.id,
        digest=stored.content["digest"],
        implementation=stored.implementation,
        quorum=stored.content["quorum"],
        asked=None if asked is None else frozenset(asked),
        votes=tuple(Vote(**each) for each in stored.votes),
        seconds=math.inf if stored.ends_at is None else stored.ends_at - time.time(),
    )
