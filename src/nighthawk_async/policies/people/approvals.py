"""`request_approval`: people approve an action with exactly these arguments, before it happens.

The approval is checked right before the action.
"""

import logging
import math
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import cast

import anyio

from ...actors import BareTaskGroup
from ...actors.errors import check_seconds, check_whole_number
from ...actors.task_group import is_cancelled
from ...errors import ApprovalDeniedError, ApprovalExpiredError, NighthawkError, NoHumanError
from ...journal_ports import GivenAnswers
from ...kernel.commands import await_value
from ...parallel.outcomes import without_cancellations
from ...values.error_text import describe_error
from .ballot import ApprovalStatus, Ballot, Vote
from .digest import digest_action
from .errors import ArgumentsChangedError, NobodyToApproveError, RequestClosedError, UnknownRoleError
from .events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    HumanObserver,
    report_human_end,
    report_human_event,
)
from .nodes import approval_node
from .policy import find_execution, find_human_handler, find_human_observer
from .records import ApprovalRecord, holds_in_every_life
from .remembered import count_remembered, find_run_approvals, remember
from .request import ApprovalRequest, HumanHandler
from .roles import roles_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval of an action with exactly these arguments by enough people. Made by `request_approval`.

    Args:
        id: The id of the request.
        action: The action that was approved.
        digest: The digest of the action and its arguments.
        approvals: The approvers and their times, in order.
        expires_at: The end of its validity, on the clock of `anyio.current_time`; infinity for never.
    """

    id: str
    action: str
    digest: str
    approvals: tuple[Vote, ...]
    expires_at: float
    _ballot: Ballot = field(repr=False, compare=False)

    @property
    def approvers(self) -> tuple[str, ...]:
        """The people who approved, in order."""
        return tuple(vote.approver for vote in self.approvals)

    @property
    def is_valid(self) -> bool:
        """Whether it has not expired. Thread-safe."""
        return self._ballot.remaining_seconds > 0

    def check(self, action: str, arguments: Mapping[str, object] | None = None) -> None:
        """Check, right before an action, that it is the approved one.

        Args:
            action: The action that is about to happen.
            arguments: The arguments of the action.

        Raises:
            ApprovalExpiredError: The approval has expired.
            ArgumentsChangedError: The action or an argument is different.
            UndigestibleArgumentError: An argument has no stable JSON form.
        """
        is_unlimited = math.isinf(self.expires_at)
        if not is_unlimited and not holds_in_every_life(self.digest, lambda: self.is_valid):
            raise _expired(self.action)
        _check_unchanged(action, arguments, self.digest)


_LOGGER = logging.getLogger("nighthawk")


async def request_approval(
    action: str,
    *,
    arguments: Mapping[str, object] | None = None,
    quorum: int = 1,
    approvers: Collection[str] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  (counts over all lives)
) -> Approval:
    """Ask people to approve an action, through the handler of the run or scope, and wait for the approval.

    The approval is for this action with these arguments: when an argument changes during the wait, an error
    is raised, and `Approval.check` raises one later. If an equal request of the run was approved with
    `remember="run"`, that approval counts, and nobody is asked.

    Args:
        action: The action to approve.
        arguments: The arguments by name. Values need a stable JSON form; see `human.digest`.
        quorum: The number of different people who must approve.
        approvers: The people who may answer; None for everybody.
        timeout: The seconds until the request, and the approval, expires; None for never.

    Returns:
        The approval.

    Raises:
        ApprovalDeniedError: A person who had not approved before denied the action. Its subclass
            `NobodyToApproveError`: there is nobody to ask.
        ApprovalExpiredError: Too few people approved in time.
        ArgumentsChangedError: An argument has changed since people were asked.
        UndigestibleArgumentError: An argument has no stable JSON form.
        NighthawkError: An argument is invalid.
    """
    _check_action(action, arguments)
    _check_numbers(quorum, timeout)
    asked = _checked_approvers(approvers, quorum)
    return await ask_for_approval(action, arguments or {}, quorum=quorum, asked=asked, seconds=timeout)


async def ask_for_approval(
    action: str,
    arguments: Mapping[str, object],
    *,
    quorum: int = 1,
    asked: frozenset[str] | None = None,
    seconds: float | None = None,
    implementation: str = "",
) -> Approval:
    """Ask people; see `request_approval`.

    Args:
        action: The action to approve.
        arguments: The arguments by name.
        quorum: The number of different people who must approve.
        asked: The people who may answer; None for everybody.
        seconds: The seconds until the request, and the approval, expires; None for never.
        implementation: The digest of what will run; see `ApprovalRequest`.
    """
    digested = digest_action(action, arguments)
    record = await ApprovalRecord.begin(digested, quorum=quorum, approvers=asked)
    left = math.inf if seconds is None else seconds
    if record is not None:
        left = record.remaining_of(left)
    roles = roles_of(find_human_handler())
    ballot = Ballot(quorum=quorum, approvers=asked, timeout=left, roles=roles)
    request = ApprovalRequest(
        id=uuid.uuid4().hex if record is None else record.id,
        action=action,
        arguments=digested.arguments,
        digest=digested.digest,
        quorum=quorum,
        created_at=datetime.now(UTC) if record is None else record.created_at,
        execution_ref=find_execution(),
        ballot=ballot,
        implementation=implementation,
    )
    report = _Report(request, find_human_observer())
    with approval_node(request):
        return await _decide(request, report, record, arguments, seconds)


async def _decide(
    request: ApprovalRequest,
    report: "_Report",
    record: ApprovalRecord | None,
    arguments: Mapping[str, object],
    seconds: float | None,
) -> Approval:
    """Return the approval of the request and of the arguments as they are now; the decision is recorded."""
    try:
        approval = await _collect_answers(request, find_human_handler(), report, record, seconds)
        if not approval.is_valid and (record is None or record.decision is None):
            raise _expired(request.action)
        _check_unchanged(request.action, arguments, request.digest)
    except ApprovalExpiredError:
        if record is not None:
            await record.keep_decision("expired")
        raise
    except Exception as error:
        if record is not None and request.denial is not None:
            await record.keep_decision("denied")
        elif record is not None and not isinstance(error, UnknownRoleError):
            record.keep_failure(error)
        raise
    if request.ballot.votes.is_remembered and (record is None or record.decision is None):
        await remember(request, None if record is None else record.journal)
    if record is not None:
        await record.keep_decision("approved")
    return approval


def _check_unchanged(action: str, arguments: Mapping[str, object] | None, digest: str) -> None:
    if digest_action(action, arguments or {}).digest != digest:
        raise ArgumentsChangedError(
            f"{action}: the action or its arguments are not what was approved; ask for another approval"
        )


def _expired(action: str) -> ApprovalExpiredError:
    return ApprovalExpiredError(f"{action}: the approval has expired")


class _Report:
    """Reports a request and its answers, each once and in order, in the task of the asker."""

    def __init__(self, request: ApprovalRequest, observer: HumanObserver | None) -> None:
        self._request = request
        self._observer = observer
        self._reported = 0

    def begin(self) -> None:
        report_human_event(ApprovalRequested(request=self._request), self._observer)

    def catch_up(self) -> None:
        """Report the answers since the last call."""
        for event in self._unreported():
            report_human_event(event, self._observer)

    def end(self, error: BaseException | None) -> None:
        for event in (*self._unreported(), ApprovalClosed(request=self._request)):
            report_human_end(event, self._observer, error)

    def _unreported(self) -> Iterator[ApprovalAnswered]:
        for vote in self._request.answers[self._reported :]:
            self._reported += 1
            yield ApprovalAnswered(request=self._request, vote=vote)


async def _collect_answers(
    request: ApprovalRequest,
    handler: HumanHandler | None,
    report: _Report,
    record: ApprovalRecord | None,
    seconds: float | None,
) -> Approval:
    """Wait until a request is answered; it never stays pending, even after an error."""
    try:
        report.begin()
        if record is not None:
            record.restore(request.ballot)
        if request.is_pending:
            await count_remembered(request, None if record is None else record.journal)
        if request.is_pending:
            ask = partial(_ask_people, request, handler, report, record)
            if record is None or handler is None:
                await ask()
            else:
                await record.wait_for_votes(request, seconds, ask)
        elif record is not None and record.needs_end:
            await record.wait_for_votes(request, seconds, _take_no_more)
        report.catch_up()
        approval = _result(request)
    except BaseException as error:
        request.ballot.end("cancelled")
        report.end(error)
        raise
    report.end(None)
    return approval


async def _take_no_more(answers: GivenAnswers) -> None:
    """Wait for no votes."""


_NOBODY = "nobody is there to be asked; give the run human=…, for example human=store.people()"
"""The reason where there is no handler. People answer through the store, that of the run's journal."""


async def _ask_people(
    request: ApprovalRequest,
    handler: HumanHandler | None,
    report: _Report,
    record: ApprovalRecord | None,
    answers: GivenAnswers | None = None,
) -> None:
    try:
        if handler is None:
            raise NoHumanError
        approvals = find_run_approvals()
        waiting = nullcontext() if approvals is None else approvals.waiting(request)
        with waiting:
            async with BareTaskGroup() as task_group:
                task_group.start_soon(_hand_over, request, handler)
                if record is not None and answers is not None:
                    task_group.start_soon(record.count_votes, answers, request.ballot)
                with anyio.CancelScope(deadline=request.expires_at):
                    while request.is_pending:
                        await request.ballot.wait_changed()
                        report.catch_up()
                request.ballot.end("expired")
                task_group.cancel_scope.cancel()
    except NoHumanError as error:
        request.ballot.end("denied")
        raise NobodyToApproveError(request.action, reason=str(error) or _NOBODY) from error


async def _hand_over(request: ApprovalRequest, handler: HumanHandler) -> None:
    await await_value(_have_asked(request, handler))


async def _have_asked(request: ApprovalRequest, handler: HumanHandler) -> None:
    """Let the handler ask people. Its failures after the end of the request are only logged."""
    try:
        await handler.approve(request)
    except (Exception, SystemExit, BaseExceptionGroup) as error:
        end = _find_end(request)
        failure = without_cancellations(error)
        if end is None or not isinstance(failure, Exception | SystemExit):
            raise
        if not isinstance(failure, RequestClosedError):  # a late answer is not a failure
            _LOGGER.warning(
                "%r is %s already, and its handler failed: %s",
                request.action,
                end,
                describe_error(failure),
                exc_info=failure,
            )


def _find_end(request: ApprovalRequest) -> ApprovalStatus | None:
    """Return how a request ended, or is about to end because its asker is cancelled; None otherwise."""
    if not request.is_pending:
        return request.status
    return "cancelled" if is_cancelled() else None


def _result(request: ApprovalRequest) -> Approval:
    match request.status:
        case "approved":
            return Approval(
                id=request.id,
                action=request.action,
                digest=request.digest,
                approvals=request.approvals,
                expires_at=request.expires_at,
                _ballot=request.ballot,
            )
        case "expired":
            raise ApprovalExpiredError(
                f"{request.action}: {len(request.approvals)} of {request.quorum} approved in time"
            )
        case _:
            denial = request.denial
            approver, reason = (None, "") if denial is None else (denial.approver, denial.reason)
            raise ApprovalDeniedError(request.action, approver=approver, reason=reason)


def _check_action(action: object, arguments: object) -> None:
    if not isinstance(action, str) or not action:
        raise NighthawkError(f"An action is a text that is not empty, not {action!r}.")
    if arguments is None:
        return
    names = cast("Mapping[object, object]", arguments) if isinstance(arguments, Mapping) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise NighthawkError(f"The arguments of an action are a mapping with names, not {arguments!r}.")


def _check_numbers(quorum: object, timeout: object) -> None:
    try:
        check_whole_number("quorum", quorum, least=1)
        check_seconds("timeout", timeout, or_none=True)
    except ValueError as error:
        raise NighthawkError(str(error)) from None


def _checked_approvers(approvers: object, quorum: int) -> frozenset[str] | None:
    """Return the approvers, each once.

    Raises:
        NighthawkError: They are not names, or fewer than the quorum.
    """
    if approvers is None:
        return None
    is_collection = isinstance(approvers, Collection) and not isinstance(approvers, str)
    given = tuple(cast("Collection[object]", approvers)) if is_collection else (None,)
    names = [name for name in given if isinstance(name, str) and name]
    if len(names) < len(given):
        raise NighthawkError(f"approvers must be a collection of names, not {approvers!r}")
    asked = frozenset(names)
    if quorum > len(asked):
        raise NighthawkError(f"{quorum} approvers were asked for, but there are {len(asked)}")
    return asked
