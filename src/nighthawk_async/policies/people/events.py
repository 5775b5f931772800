"""Every question, request and answer as an event: on the current span, and for whoever looks on.

Spans get identifiers, actions, digests and how things ended: no questions, arguments, answers or reasons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ...tracing import note_named_event
from .ballot import Vote
from .request import ApprovalRequest, Question

QuestionStatus: TypeAlias = Literal["answered", "default", "timed_out", "no_human", "failed", "cancelled"]
"""How a question ended: with an answer, with its default, or with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """A question is about to be asked."""

    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """An answer came.

    Args:
        question: The question.
        answer: The answer; one that fits is the value that who asks gets.
        error: Why it does not fit; None when it does.
    """

    question: Question
    answer: object
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionClosed:
    """Nobody waits for an answer any more.

    Args:
        question: The question.
        status: The way in which it ended.
    """

    question: Question
    status: QuestionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A request for approval is about to be handed to people."""

    request: ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered:
    """Somebody answered, and it counted.

    Args:
        request: The request.
        vote: The answer.
    """

    request: ApprovalRequest
    vote: Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalClosed:
    """A request has ended; `request.status` says how."""

    request: ApprovalRequest


HumanEvent: TypeAlias = (
    QuestionAsked | QuestionAnswered | QuestionClosed | ApprovalRequested | ApprovalAnswered | ApprovalClosed
)


class HumanObserver(Protocol):
    """Looks on, in the task of who asks, in the order of the events. What it raises, who asks gets."""

    def observe(self, event: HumanEvent) -> None:
        """Look at an event."""
        ...

    def observe_end(self, event: HumanEvent, error: BaseException | None) -> None:
        """Look at what is told at the end; see `report_human_end`."""
        ...


def report_human_event(event: HumanEvent, observer: HumanObserver | None) -> None:
    """Record an event on the current span, and tell whoever looks on.

    Args:
        event: The event.
        observer: The observer; None for none.
    """
    _record(event)
    if observer is not None:
        observer.observe(event)


def report_human_end(event: HumanEvent, observer: HumanObserver | None, error: BaseException | None) -> None:
    """Record what is told at the end, however it ends, and tell all that look on, although some fail.

    What ends it stays the primary error: a hook that fails is a note on it, or after a cancellation logged.

    Args:
        event: The event.
        observer: The observer; None for none.
        error: The error or cancellation that ends it; None when all went well.

    Raises:
        HookError: All went well before, and a hook failed.
    """
    _record(event)
    if observer is not None:
        observer.observe_end(event, error)


def _record(event: HumanEvent) -> None:
    name, attributes = _describe(event)
    note_named_event(f"nighthawk.{name}", attributes)


def _describe(event: HumanEvent) -> tuple[str, Mapping[str, str | int | bool]]:
    match event:
        case QuestionAsked():
            return "question.asked", _question(event.question)
        case QuestionAnswered():
            accepted = {"nighthawk.question.is_accepted": event.error is None}
            return "question.answered", _question(event.question) | accepted
        case QuestionClosed():
            return "question.closed", _question(event.question) | {"nighthawk.question.status": event.status}
        case ApprovalRequested():
            return "approval.requested", _request(event.request)
        case ApprovalAnswered():
            approver, answer = event.vote.approver, event.vote.answer
            attributes = {"nighthawk.approval.approver": approver, "nighthawk.approval.answer": answer}
            return "approval.answered", _request(event.request) | attributes
        case ApprovalClosed():
            status = {"nighthawk.approval.status": event.request.status}
            return "approval.closed", _request(event.request) | status


def _question(question: Question) -> dict[str, str | int | bool]:
    return {"nighthawk.question.id": question.id, "nighthawk.question.attempt": question.attempt}


def _request(request: ApprovalRequest) -> dict[str, str | int | bool]:
    return {
        "nighthawk.approval.id": request.id,
        "nighthawk.approval.action": request.action,
        "nighthawk.approval.digest": request.digest,
        "nighthawk.approval.quorum": request.quorum,
    }
