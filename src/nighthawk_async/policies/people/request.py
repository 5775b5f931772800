"""Requests for approval and questions as people see them, and the handlers that ask on behalf of a run.

The answers to a request are kept and counted by `ballot`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol, runtime_checkable

from ...command_risks import Risk, risks_of_arguments
from ...errors import NighthawkError, ToolValidationError
from ...types.execution import ExecutionRef
from ...types.json import JsonableValue
from ...types.unset import UNSET
from ...values.validation import validate_value
from .ballot import ApprovalStatus, Ballot, Remember, Roles, Vote
from .errors import WrongDigestError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question to a person. Made by `ask_user`.

    Args:
        id: The identity of the question.
        prompt: The text of the question. A model may have written it: show it as text, not as markup.
        schema: The type of the answer; `str` for any text.
        default: The value that replaces the answer when none comes in time; see `has_default`.
        attempt: The number of times it has been asked, from 1.
        error: The reason why the last answer was refused; None when it is asked for the first time.
        execution_ref: The run, scope and step that ask; None outside a run.
    """

    id: str
    prompt: str
    schema: object = str
    default: object = field(default=UNSET)
    attempt: int = 1
    error: str | None = None
    execution_ref: ExecutionRef | None = None

    @property
    def has_default(self) -> bool:
        """Whether there is a default. A handler may return it as the answer."""
        return self.default is not UNSET

    def validate(self, answer: object) -> object:
        """Return the answer as the asker receives it, coerced as pydantic does; the default is not changed.

        Raises:
            ToolValidationError: The answer does not match the schema.
        """
        if self.has_default and answer is self.default:
            return answer
        return validate_value(answer, self.schema, subject="the answer")


def typed_answer(typed: str, question: Question) -> object:
    """Return the value of a typed text: as pydantic reads texts, or as JSON, or the text itself for `str`.

    Numbers are as exact as they were typed. A text that matches in no way is returned unchanged, so that its
    validation raises the error.

    Args:
        typed: The typed text.
        question: The question.
    """
    if question.schema is str:
        return typed
    text = typed.strip()
    try:
        question.validate(text)
    except ToolValidationError:
        try:
            return json.loads(text, parse_float=exact_number)
        except (ValueError, RecursionError):
            return text
    return text


def exact_number(digits: str) -> float | Decimal:
    """Return a floating-point number, or a decimal when a float would have other digits."""
    number, exact = float(digits), Decimal(digits)
    return number if Decimal(repr(number)) == exact else exact


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class ApprovalRequest:
    """A request for approval, as its handler sees it. Made by `request_approval`.

    `approve`, `deny` and `escalate_to` work on the event loop where the request was made, in any task, and
    from threads without an event loop.

    Args:
        id: The identity of the request.
        action: The action to approve. A model may have written it: show it as text, not as markup.
        arguments: The arguments, in the JSON form that the digest is made of.
        digest: The digest of the action and its arguments, which an approval must name.
        quorum: The number of different people who must approve.
        created_at: The time of the request, in UTC.
        execution_ref: The run, scope and step that ask; None outside a run.
        ballot: Collects the answers; for the asker.
        implementation: The digest of the function that will run, where it is known: an approval is
            remembered for the same one only. Empty where the program itself says what it does.
    """

    id: str
    action: str
    arguments: Mapping[str, JsonableValue]
    digest: str
    quorum: int
    created_at: datetime
    execution_ref: ExecutionRef | None
    ballot: Ballot = field(repr=False)
    implementation: str = ""

    @property
    def approvers(self) -> frozenset[str] | None:
        """The people who may answer now; None for everybody."""
        return self.ballot.votes.approvers

    @property
    def roles(self) -> Roles:
        """The people of the roles that it may be handed on to, by role; see `with_roles`."""
        return self.ballot.votes.roles

    @property
    def role(self) -> str | None:
        """The role that it was handed on to last; None for none."""
        return self.ballot.votes.role

    @property
    def is_remembered(self) -> bool:
        """Whether it is approved, and equal calls of the run are not asked about again."""
        return self.ballot.on_revoke is not None and self.remaining_seconds > 0

    @property
    def risks(self) -> tuple[Risk, ...]:
        """The risks of the shell command to approve, as `policies.rule` has them; empty for others."""
        return tuple(sorted(risks_of_arguments(self.arguments) or ()))

    @property
    def status(self) -> ApprovalStatus:
        """The status: `pending`, or how the request ended."""
        return self.ballot.votes.status

    @property
    def is_pending(self) -> bool:
        """Whether it still accepts answers."""
        return self.ballot.is_pending

    @property
    def expires_at(self) -> float:
        """The time at which it expires, on the clock of `anyio.current_time`; infinity for never."""
        return self.ballot.expires_at

    @property
    def remaining_seconds(self) -> float:
        """Return the seconds until it expires; infinity when it never does. Thread-safe."""
        return self.ballot.remaining_seconds

    @property
    def approvals(self) -> tuple[Vote, ...]:
        """The approvals that currently count, in the order in which they were given."""
        return self.ballot.votes.approvals

    @property
    def denial(self) -> Vote | None:
        """The denial, with its author and reason; None for none."""
        return self.ballot.votes.denial

    @property
    def answers(self) -> tuple[Vote, ...]:
        """The answers that had an effect, in order."""
        return tuple(self.ballot.votes.given)

    def approve(self, approver: str, *, digest: str, remember: Remember | None = None) -> None:
        """Approve. A second approval of the same person changes nothing.

        With `remember="run"`, equal calls of the same run are not asked about again: the same action with the
        same arguments, and the same function. Where several people have to approve, all of them have to say
        so. It ends with the time limit of this request and with the run, and can be taken back with `revoke`.

        Args:
            approver: The person who approves. The host must authenticate them.
            digest: The digest of what that person saw.
            remember: `run` to approve equal calls of the run as well; None for this one only.

        Raises:
            RequestClosedError: The request is not pending any more.
            UnknownApproverError: That person is not an approver.
            WrongDigestError: The person saw another action or other arguments.
            NighthawkError: `remember` is something else.
        """
        if digest != self.digest:
            raise WrongDigestError(
                f"the approval of {approver!r} is not for this action, {self.action!r}, with these arguments"
            )
        self.ballot.approve(approver, remember=checked_remember(remember))

    def deny(self, approver: str, reason: str = "") -> None:
        """Deny: withdraws that person's approval; if they gave none, the request is denied.

        Args:
            approver: The person who denies.
            reason: The reason.

        Raises:
            RequestClosedError: The request is not pending any more.
            UnknownApproverError: That person is not an approver.
        """
        self.ballot.deny(approver, reason)

    def escalate_to(self, role: str, *, by: str, reason: str = "") -> None:
        """Hand the request on to a role; see `with_roles`.

        From then on the people of the role answer, and nobody else. Approvals of people outside of it no
        longer count. The quorum, the digest and the time limit stay as they are.

        Args:
            role: The role.
            by: The person who hands it on, who has to be one of those who may answer.
            reason: The reason.

        Raises:
            RequestClosedError: The request is not pending any more.
            UnknownApproverError: That person is not an approver.
            UnknownRoleError: There is no such role.
            EscalationRefusedError: The role has it already, or fewer people than have to approve.
        """
        self.ballot.escalate(by, role, reason)

    def revoke(self, by: str, reason: str = "") -> None:
        """Take a remembered approval back, in the process of the run: equal calls are asked about again.

        Calls that have been made are not undone.

        Args:
            by: The person.
            reason: The reason.

        Raises:
            NotRememberedError: It is not remembered, or no longer.
        """
        self.ballot.revoke(by, reason)

    async def wait_closed(self) -> ApprovalStatus:
        """Wait until it accepts no more answers, on the event loop where it was made.

        Returns:
            The final status.
        """
        return await self.ballot.wait_closed()


def checked_remember(remember: object) -> Remember | None:
    """Return for what an approval counts.

    Raises:
        NighthawkError: It is neither `run` nor None.
    """
    if remember is None:
        return None
    if remember != "run":
        raise NighthawkError(f'remember must be "run" or None, not {remember!r}')
    return "run"


@runtime_checkable
class HumanHandler(Protocol):
    """Asks people. A program installs one with `run(…, human=…)` or `scope(human=…)`.

    Both methods run in a task of the asker and are cancelled when the answer is no longer awaited. Several
    may be in progress at once. Their errors are raised to the asker; `NoHumanError` says that nobody can be
    reached. Errors that `approve` raises after the end of the request are logged and change nothing.
    """

    async def ask(self, question: Question) -> object:
        """Get an answer. After an invalid one it is called again, with `question.error` set."""
        ...

    async def approve(self, request: ApprovalRequest) -> None:
        """Arrange for the request to be answered.

        The method may answer it itself, give it to others and wait with `request.wait_closed()`, or return:
        the request stays open until enough people approved, a person denied it, it expired, or the asker no
        longer waits.
        """
        ...


def checked_human_handler(handler: object) -> HumanHandler | None:
    """Return the handler that asks people; None for none.

    Raises:
        NighthawkError: The argument is neither: a method is missing, or it is a class.
    """
    if handler is None:
        return None
    if isinstance(handler, type) or not isinstance(handler, HumanHandler):
        raise NighthawkError(f"{handler!r} is no human handler: it needs the methods ask and approve.")
    return handler
