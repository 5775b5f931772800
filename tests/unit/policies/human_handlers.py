"""Handlers that ask nobody, and the extent in which they are asked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import nighthawk_async as nh
from nighthawk_async.policies.people.request import ApprovalRequest, HumanHandler, Question
from nighthawk_async.testing import CallbackExecutor, pass_response

Answer: TypeAlias = Callable[[Question], Awaitable[object]]
Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[None]]


@asynccontextmanager
async def run_asking(handler: HumanHandler | None) -> AsyncIterator[None]:
    """A run whose questions go to a handler."""
    async with nh.run(CallbackExecutor(lambda call: pass_response()), human=handler):
        yield


@dataclass
class Handler:
    """Answers with functions, and keeps what it was asked."""

    answer: Answer | None = None
    decide: Approve | None = None
    questions: list[Question] = field(default_factory=list[Question])
    requests: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    async def ask(self, question: Question) -> object:
        self.questions.append(question)
        assert self.answer is not None, "nobody expected a question"
        return await self.answer(question)

    async def approve(self, request: ApprovalRequest) -> None:
        self.requests.append(request)
        if self.decide is not None:
            await self.decide(request)


def answering(*answers: object) -> Handler:
    """Gives the answers one after the other."""
    left = iter(answers)

    async def answer(question: Question) -> object:
        return next(left)

    return Handler(answer=answer)


def deciding(decide: Callable[[ApprovalRequest], object]) -> Handler:
    """Decides about each request at once; without a decision it stays pending."""

    async def approve(request: ApprovalRequest) -> None:
        decide(request)

    return Handler(decide=approve)


def approving(approvers: Iterable[str]) -> Handler:
    """Approves in these names."""
    return deciding(lambda request: [request.approve(each, digest=request.digest) for each in approvers])
