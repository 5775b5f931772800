"""Questions and requests for approval that are answered over the dashboard.

Each appears as a node of its own, and is answered under the id of that node.
"""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

import msgspec

from ...errors import NoHumanError
from ...observation import find_node_writer
from ...observe.in_force import find_node_id
from ...observe.tree import TaskTree, find_tree
from ...policies.people.errors import AnswerRefusedError
from ...policies.people.question import Question
from ...policies.people.request import ApprovalRequest
from ...runtime.loop_event import LoopEvent
from .answers import AnswerBody, answer_to, question_as_json, visible
from .briefs import ANSWERABLE, Brief
from .refusals import RefusalError, bad_request, not_allowed, not_now

__all__ = ["DashboardHandler"]

Answer = TypeVar("Answer")
Subject = TypeVar("Subject")


class _Vote(msgspec.Struct, frozen=True):
    """A person's vote on a request; without a digest it is a denial."""

    approver: str
    digest: str | None
    reason: str


class DashboardHandler:
    """Asks the people at a dashboard; `Dashboard.human` is one.

    Args:
        can_answer: Whether anybody there can answer.
        shown_tree: Gives the tree that the dashboard shows; None for the one in force.
    """

    def __init__(self, *, can_answer: bool, shown_tree: Callable[[], TaskTree | None]) -> None:
        self._can_answer = can_answer
        self._shown_tree = shown_tree
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
        seconds = request.remaining_seconds
        expires_at = None if math.isinf(seconds) else time.time() + seconds
        pending: _Pending[ApprovalRequest, _Vote] = _Pending(request, expires_at)
        with self._answerable(self._requests, pending):
            while request.is_pending:
                _count_vote(request, await pending.take())

    def describe(self, node_id: str) -> Brief | None:
        """Describe the request that can be answered at a node; None for none."""
        question = self._questions.get(node_id)
        if question is not None:
            return question_as_json(question.subject)
        request = self._requests.get(node_id)
        return None if request is None else _request_as_json(request)

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
        if self._shown_tree() not in (None, find_tree()):
            raise NoHumanError("Nobody would see a question on the dashboard: it shows another task tree.")
        if not self._can_answer:
            raise NoHumanError("Nobody can answer on the dashboard: it has no token and is read-only.")
        return node_id


class _Pending(Generic[Subject, Answer]):
    """Requests of a task that wait for answers. They may come from any thread.

    Args:
        subject: The question, or the request.
        expires_at: When it ends, in Unix seconds; None when nobody said.
    """

    def __init__(self, subject: Subject, expires_at: float | None = None) -> None:
        self.subject = subject
        self.expires_at = expires_at
        self.is_answered = False
        self.approvers: set[str] = set()
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
    answer = answer_to(pending.subject, body)
    if pending.is_answered:
        raise RefusalError(not_now("It was answered just now."))
    pending.is_answered = True
    pending.give(answer)


def _answer_request(pending: _Pending[ApprovalRequest, _Vote], body: AnswerBody, actor: str) -> None:
    request = pending.subject
    if body.answer not in ("approve", "deny"):
        raise RefusalError(bad_request("The answer to a request is approve or deny."))
    if not request.is_pending:
        raise RefusalError(not_now(f"The request is {request.status} already."))
    if request.approvers is not None and actor not in request.approvers:
        raise RefusalError(not_allowed(f"{actor} is not among the approvers."))
    if body.answer == "deny":
        pending.approvers.discard(actor)
        pending.give(_Vote(actor, None, body.reason))
    elif body.digest != request.digest:
        raise RefusalError(not_now("The approval is for another action, or for other arguments."))
    elif actor in pending.approvers:
        raise RefusalError(not_now(f"{actor} has approved already: it takes {request.quorum} people."))
    else:
        pending.approvers.add(actor)
        pending.give(_Vote(actor, request.digest, ""))


def _request_as_json(pending: _Pending[ApprovalRequest, _Vote]) -> Brief:
    """A request. Its arguments are a text, since a browser would round large numbers."""
    request = pending.subject
    return {
        "type": "approval",
        "action": visible(request.action),
        "arguments": visible(json.dumps(request.arguments, ensure_ascii=False, indent=2)),
        "digest": request.digest,
        "quorum": request.quorum,
        "approvers": None if request.approvers is None else [*sorted(request.approvers)],
        "approvals": [vote.approver for vote in request.approvals],
        "expires_at": pending.expires_at,
    }
