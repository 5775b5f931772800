"""Questions and requests for approval of calls on workers, answered in the program."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import observe, parallel
from nighthawk_async.distributed import CrossingError, Processes
from nighthawk_async.errors import ApprovalDeniedError, ApprovalExpiredError, NoHumanError
from nighthawk_async.human import ApprovalRequest, Question
from nighthawk_async.policies.people.default_handler import using_default_handler
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_people import (
    Choice,
    ask_for_color,
    ask_for_ever,
    ask_in_run,
    ask_in_time,
    ask_with_default,
    fetch_page,
    pay,
    pay_alone,
    pay_soon,
)
from tests.worker_steps import agent

pytestmark = pytest.mark.anyio


class People:
    """Answers with functions, and keeps what was asked."""

    def __init__(
        self,
        answer: Callable[[Question], Awaitable[object]] | None = None,
        decide: Callable[[ApprovalRequest], Awaitable[None]] | None = None,
    ) -> None:
        self.questions: list[Question] = []
        self.requests: list[ApprovalRequest] = []
        self.withdrawn = anyio.Event()
        self.asked = anyio.Event()
        self.node_ids: list[str | None] = []
        self._answer = answer
        self._decide = decide

    async def ask(self, question: Question) -> object:
        self.questions.append(question)
        self.node_ids.append(observe.find_node_id())
        self.asked.set()
        try:
            if self._answer is None:
                await anyio.sleep_forever()
            else:
                return await self._answer(question)
        except anyio.get_cancelled_exc_class():
            self.withdrawn.set()
            raise
        raise AssertionError

    async def approve(self, request: ApprovalRequest) -> None:
        self.requests.append(request)
        if self._decide is not None:
            await self._decide(request)


async def red(question: Question) -> object:
    """A wrong answer first, then a right one."""
    await anyio.lowlevel.checkpoint()
    return {"color": "green" if question.attempt == 1 else "red"}


async def test_a_question_of_a_worker_is_answered_in_the_program() -> None:
    people = People(red)
    async with nh.run(agent(), human=people), InMemoryWorkers(1) as workers:
        with observe.recording() as tree:
            assert await parallel.map(ask_for_color, ["Which color?"], on=workers) == [Choice("red")]
    first, second = people.questions
    assert (first.prompt, first.schema, first.attempt) == ("Which color?", Choice, 1)
    assert (second.id, second.attempt) == (first.id, 2)
    assert "color" in (second.error or "")
    asked = next(each for each in tree.snapshot().walk() if each.kind == "question")
    assert people.node_ids[0] == asked.id
    assert asked.state == "completed"


async def test_a_handler_may_return_the_default() -> None:
    async def default(question: Question) -> object:
        await anyio.lowlevel.checkpoint()
        return question.default

    async with nh.run(agent(), human=People(default)), InMemoryWorkers(1) as workers:
        assert await parallel.map(ask_with_default, ["How many?"], on=workers) == [7]


async def test_a_cancelled_call_withdraws_its_question() -> None:
    people = People()
    async with nh.run(agent(), human=people), InMemoryWorkers(1) as workers:
        assert await parallel.map(ask_in_time, ["Are you there?"], on=workers) == ["given up"]
        with anyio.fail_after(240):
            await people.withdrawn.wait()


async def test_without_a_handler_there_is_nobody_to_ask() -> None:
    async with nh.run(agent()), InMemoryWorkers(1) as workers:
        with pytest.raises(NoHumanError, match="Are you there"):
            await parallel.map(ask_for_ever, ["Are you there?"], on=workers)


async def test_an_error_of_the_handler_is_raised_to_the_asker() -> None:
    async def refuse(question: Question) -> object:
        await anyio.lowlevel.checkpoint()
        raise NoHumanError("gone home")

    async with nh.run(agent(), human=People(refuse)), InMemoryWorkers(1) as workers:
        with pytest.raises(NoHumanError, match="gone home"):
            await parallel.map(ask_for_ever, ["Are you there?"], on=workers)
        assert await parallel.map(ask_with_default, ["How many?"], on=workers) == [7]


async def test_an_answer_that_cannot_cross_is_an_error_that_names_it() -> None:
    async def strange(question: Question) -> object:
        await anyio.lowlevel.checkpoint()
        return lambda: question

    async with nh.run(agent(), human=People(strange)), InMemoryWorkers(1) as workers:
        with pytest.raises(CrossingError, match="the answer of a person cannot cross"):
            await parallel.map(ask_for_ever, ["Are you there?"], on=workers)


async def test_a_call_that_is_placed_again_asks_again() -> None:
    people = People()
    async with (
        nh.run(agent(), human=people),
        InMemoryWorkers(1) as workers,
        anyio.create_task_group() as group,
    ):
        results: list[str] = []

        async def call() -> None:
            results.extend(await parallel.map(ask_for_ever, ["Your name?"], on=workers))

        group.start_soon(call)
        with anyio.fail_after(240):
            await people.asked.wait()
            people.asked = anyio.Event()
            workers.lose("worker-0")
            await people.withdrawn.wait()

            async def ann(question: Question) -> object:
                await anyio.lowlevel.checkpoint()
                return "Ann"

            people._answer = ann
    assert results == ["Ann"]
    assert len(people.questions) == 2


async def test_people_approve_what_a_worker_is_about_to_do() -> None:
    async def both(request: ApprovalRequest) -> None:
        await anyio.lowlevel.checkpoint()
        assert dict(request.arguments) == {"amount": 5, "to": "ann"}
        request.approve("bob", digest=request.digest)
        request.approve("eve", digest=request.digest)
        await anyio.sleep_forever()

    async with nh.run(agent(), human=People(decide=both)), InMemoryWorkers(1) as workers:
        assert await parallel.map(pay, [5], on=workers) == [("bob", "eve")]


async def test_a_request_may_be_answered_after_the_handler_has_returned() -> None:
    people = People()
    async with (
        nh.run(agent(), human=people),
        InMemoryWorkers(1) as workers,
        anyio.create_task_group() as group,
    ):

        async def call() -> None:
            with pytest.raises(ApprovalDeniedError, match="too much"):
                await parallel.map(pay_alone, [5], on=workers)

        group.start_soon(call)
        with anyio.fail_after(240):
            while not people.requests:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        (request,) = people.requests
        with pytest.raises(nh.human.UnknownApproverError):
            request.approve("eve", digest=request.digest)
        request.deny("bob", "too much")
    assert request.status == "denied"


async def test_a_request_expires() -> None:
    people = People()
    async with nh.run(agent(), human=people), InMemoryWorkers(1) as workers:
        with pytest.raises(ApprovalExpiredError):
            await parallel.map(pay_soon, [5], on=workers)
    assert not people.requests[0].is_pending


async def test_people_of_a_program_answer_a_process() -> None:
    async def ann(question: Question) -> object:
        await anyio.lowlevel.checkpoint()
        return "Ann"

    async with nh.run(agent(), human=People(ann)), Processes(1) as workers:
        assert await parallel.map(ask_for_ever, ["Your name?"], on=workers) == ["Ann"]


async def test_a_run_on_a_worker_has_the_default_handler_of_the_program() -> None:
    async def ann(question: Question) -> object:
        await anyio.lowlevel.checkpoint()
        return "Ann"

    async with InMemoryWorkers(1) as workers:
        with using_default_handler(People(ann)):
            assert await parallel.map(ask_in_run, ["Your name?"], on=workers) == ["Ann"]
        with pytest.raises(NoHumanError):
            await parallel.map(ask_in_run, ["Your name?"], on=workers)


@pytest.mark.parametrize("is_durable", [False, True], ids=["in memory", "durable"])
async def test_remembered_approvals_and_roles_hold_on_workers(is_durable: bool, tmp_path: Path) -> None:
    async def hand_on(request: ApprovalRequest) -> None:
        await anyio.lowlevel.checkpoint()
        request.escalate_to("manager", by="bob", reason="not mine")
        assert request.approvers == {"grace"}
        request.approve("grace", digest=request.digest, remember="run")

    people = People(decide=hand_on)
    with ExitStack() as stack:
        arguments: dict[str, Any] = {}
        if is_durable:
            arguments["journal"] = stack.enter_context(nh.journal.open(f"sqlite:///{tmp_path}/runs.db"))
            arguments["run_id"] = "pay"
        human = nh.human.with_roles(people, {"manager": ["grace"]})
        async with nh.run(agent(), human=human, **arguments), InMemoryWorkers(1) as workers:
            paid = [await parallel.map(pay_alone, [amount], on=workers) for amount in (1, 1, 2)]
            assert paid == [[("grace",)]] * 3
            assert [each.arguments for each in people.requests] == [{"amount": 1}, {"amount": 2}]
            assert await pay_alone(1) == ("grace",)  # in the program
            remembered = await nh.human.remembered_approvals()
            assert [each.arguments for each in remembered] == [{"amount": 1}, {"amount": 2}]
            await nh.human.revoke_approval(remembered[0].id, by="ada")
            await parallel.map(pay_alone, [1], on=workers)
    assert len(people.requests) == 3


async def test_the_egress_of_a_caller_holds_on_workers() -> None:
    async with nh.run(agent(), egress=nh.egress(allow=["a.example"])), InMemoryWorkers(1) as workers:
        with pytest.raises(nh.errors.EgressDeniedError, match=r"b\.example"):
            await parallel.map(fetch_page, ["https://b.example/"], on=workers)
