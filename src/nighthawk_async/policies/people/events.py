"""Every question, request and answer as an event, on the current span and for observers.

Spans get identifiers, actions, digests and final statuses: no questions, arguments, answers or reasons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ...tracing import note_named_event
from .ballot import Vote
from .request import ApprovalRequest, Question

QuestionStatus: TypeAlias = Literal["answered", "default", "timed_out", "no_human", "failed", "cancelled"]
"""The end of a question: with an answer, with its default, or with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """A question is about to be asked."""

    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """An answer was given.

    Args:
        question: The question.
        answer: The answer; a valid one is the value that the asker receives.
        error: The reason why it is invalid; None when it is valid.
    """

    question: Question
    answer: object
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionClosed:
    """A question has ended; nothing waits for an answer any more.

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
    """A person gave an answer that counts.

    Args:
        request: The request.
        vote: The answer.
    """

    request: ApprovalRequest
    vote: Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalClosed:
    """A request for approval has ended; `request.status` says how."""

    request: ApprovalRequest


HumanEvent: TypeAlias = (
    QuestionAsked | QuestionAnswered | QuestionClosed | ApprovalRequested | ApprovalAnswered | ApprovalClosed
)


class HumanObserver(Protocol):
    """Observes events in order, in the task of the asker, which receives the errors it raises."""

    def observe(self, event: HumanEvent) -> None:
        """Observe an event."""
        ...

    def observe_end(self, event: HumanEvent, error: BaseException | None) -> None:
        """Observe the final event; see `report_human_end`."""
        ...


def report_human_event(event: HumanEvent, observer: HumanObserver | None) -> None:
    """Record an event on the current span and notify the observer.

    Args:
        event: The event.
        observer: The observer; None for none.
    """
    _record(event)
    if observer is not None:
        observer.observe(event)


def report_human_end(event: HumanEvent, observer: HumanObserver | None, error: BaseException | None) -> None:
    """Record the final event after success or failure, and notify all observers even when some fail.

    The error that ends it stays the primary one: the failure of a hook becomes a note on it, or is logged
    after a cancellation.

    Args:
        event: The event.
        observer: The observer; None for none.
        error: The error or cancellation that ends it; None for success.

    Raises:
        HookError: There was no error before, and a hook failed.
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
            vote = event.vote
            attributes = {
                "nighthawk.approval.approver": vote.approver,
                "nighthawk.approval.answer": vote.answer,
            }
            if vote.role is not None:
                attributes["nighthawk.approval.role"] = vote.role
            if vote.remembered_from is not None:
                attributes["nighthawk.approval.remembered_from"] = vote.remembered_from
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
