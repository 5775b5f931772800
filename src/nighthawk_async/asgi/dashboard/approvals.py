"""Questions and requests for approval that are answered over the dashboard. Floor 5.

Each appears as a node of its own, and is answered under the id of that node.
"""

import json
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

import msgspec
from pydantic.errors import PydanticInvalidForJsonSchema

from ...errors import NoHumanError, ToolValidationError
from ...observation import find_node_writer
from ...observe.in_force import find_node_id
from ...runtime.human.errors import AnswerRefusedError
from ...runtime.human.question import Question
from ...runtime.human.request import ApprovalRequest
from ...runtime.loop_event import LoopEvent
from ...runtime.validation import type_adapter
from ...types.json import JsonableValue
from .briefs import ANSWERABLE, Brief
from .refusals import RefusalError, bad_request, not_allowed, not_now, not_valid

__all__ = ["AnswerBody", "DashboardHandler"]

Answer = TypeVar("Answer")
Subject = TypeVar("Subject")


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What answers a question or a request for approval.

    Args:
        answer: The answer; `approve` or `deny` for a request.
        digest: The digest of the action that the person saw, for an approval.
        reason: Why it is denied.
    """

    answer: object
    digest: str | None = None
    reason: str = ""


class _Vote(msgspec.Struct, frozen=True):
    """What a person says to a request; without a digest they deny it."""

    approver: str
    digest: str | None
    reason: str


class DashboardHandler:
    """Asks the people at a dashboard; `Dashboard.human` is one.

    Args:
        can_answer: Whether anybody there can answer.
    """

    def __init__(self, *, can_answer: bool) -> None:
        self._can_answer = can_answer
        self._questions: dict[str, _Pending[Question, object]] = {}
        self._requests: dict[str, _Pending[ApprovalRequest, _Vote]] = {}

    async def ask(self, question: Question) -> object:
        """Wait until a question is answered.

        Raises:
            NoHumanError: Nobody at the dashboard could see or answer it.
        """
        pending: _Pending[Question, object] = _Pending(question)
        with self._answerable(self._questions, pending):
            return await pending.take()

    async def approve(self, request: ApprovalRequest) -> None:
        """Take answers until a request is answered.

        Raises:
            NoHumanError: Nobody at the dashboard could see or answer it.
        """
        pending: _Pending[ApprovalRequest, _Vote] = _Pending(request)
        with self._answerable(self._requests, pending):
            while request.is_pending:
                _count_vote(request, await pending.take())

    def describe(self, node_id: str) -> Brief | None:
        """What can be answered at a node; None for nothing."""
        question = self._questions.get(node_id)
        if question is not None:
            return _question_as_json(question.subject)
        request = self._requests.get(node_id)
        return None if request is None else _request_as_json(request.subject)

    def answer(self, node_id: str, body: AnswerBody, actor: str) -> None:
        """Answer what is asked at a node.

        Args:
            node_id: Which node.
            body: The answer.
            actor: Who answers.

        Raises:
            RefusalError: Nothing is asked there any more, the answer does not fit, or somebody else is asked.
        """
        if (question := self._questions.get(node_id)) is not None:
            _answer_question(question, body)
        elif (request := self._requests.get(node_id)) is not None:
            _answer_request(request, body, actor)
        else:
            raise RefusalError(not_now("Nothing is asked here, or no more."))

    @contextmanager
    def _answerable(
        self, asked: "dict[str, _Pending[Subject, Answer]]", pending: "_Pending[Subject, Answer]"
    ) -> Generator[None, None, None]:
        """Let the node in force be answered.

        Args:
            asked: What is asked at which node.
            pending: What is asked at this one.
        """
        node_id, writer = self._find_place(), find_node_writer()
        asked[node_id] = pending
        if writer is not None:
            writer.set_attributes({ANSWERABLE: True})
        try:
            yield
        finally:
            asked.pop(node_id, None)
            if writer is not None:
                writer.set_attributes({ANSWERABLE: False})

    def _find_place(self) -> str:
        node_id = find_node_id()
        if node_id is None:
            raise NoHumanError("Nobody would see a question on the dashboard: nothing is recorded here.")
        if not self._can_answer:
            raise NoHumanError("Nobody can answer on the dashboard: it has no token and is read-only.")
        return node_id


class _Pending(Generic[Subject, Answer]):
    """What waits for answers in a task. They may come from any thread."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.is_answered = False
        self._answers: deque[Answer] = deque()
        self._event = LoopEvent()

    def give(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._event.set()

    async def take(self) -> Answer:
        while not self._answers:
            self._event = event = LoopEvent()
            if not self._answers:  # one may have come just before that event was there
                await event.wait()
        return self._answers.popleft()


def _count_vote(request: ApprovalRequest, vote: _Vote) -> None:
    with suppress(AnswerRefusedError):  # it was looked at when it came; meanwhile the request may have ended
        if vote.digest is None:
            request.deny(vote.approver, vote.reason)
        else:
            request.approve(vote.approver, digest=vote.digest)
    writer = find_node_writer()
    if writer is not None:
        writer.set_attributes({"approval.approvals": len(request.approvals)})


def _answer_question(pending: _Pending[Question, object], body: AnswerBody) -> None:
    try:
        pending.subject.validate(body.answer)
    except ToolValidationError as error:
        raise RefusalError(not_valid(str(error))) from None
    if pending.is_answered:
        raise RefusalError(not_now("It was answered just now."))
    pending.is_answered = True
    pending.give(body.answer)


def _answer_request(pending: _Pending[ApprovalRequest, _Vote], body: AnswerBody, actor: str) -> None:
    request = pending.subject
    if body.answer not in ("approve", "deny"):
        raise RefusalError(bad_request("The answer to a request is approve or deny."))
    if not request.is_pending:
        raise RefusalError(not_now(f"The request is {request.status} already."))
    if request.approvers is not None and actor not in request.approvers:
        raise RefusalError(not_allowed(f"{actor} is not among the approvers."))
    if body.answer == "deny":
        pending.give(_Vote(actor, None, body.reason))
    elif body.digest == request.digest:
        pending.give(_Vote(actor, request.digest, ""))
    else:
        raise RefusalError(not_now("The approval is for another action, or for other arguments."))


def _question_as_json(question: Question) -> Brief:
    try:
        schema: JsonableValue = type_adapter(question.schema).json_schema()
    except PydanticInvalidForJsonSchema:
        schema = None
    return {
        "type": "question",
        "prompt": _visible(question.prompt),
        "schema": schema,
        "attempt": question.attempt,
        "error": None if question.error is None else _visible(question.error),
        "has_default": question.has_default,
    }


def _request_as_json(request: ApprovalRequest) -> Brief:
    """A request. Its arguments are a text, since a browser would round large numbers."""
    return {
        "type": "approval",
        "action": _visible(request.action),
        "arguments": _visible(json.dumps(request.arguments, ensure_ascii=False, indent=2)),
        "digest": request.digest,
        "quorum": request.quorum,
        "approvers": None if request.approvers is None else [*sorted(request.approvers)],
        "approvals": [vote.approver for vote in request.approvals],
        "remaining_seconds": None if request.expires_at == float("inf") else request.remaining_seconds,
    }


def _visible(text: str) -> str:
    """A text in which every character is seen: none that hides, or turns the reading direction around."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )
