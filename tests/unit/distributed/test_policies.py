"""Hooks, oversight, checks and permissions of a caller whose calls run on workers."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import CrossingError, LocalOnlyError, Processes
from nighthawk_async.errors import HookError, StepRejectedError
from nighthawk_async.hooks import (
    AfterModelRequest,
    ApprovalClosed,
    BeforeCommit,
    BeforeModelRequest,
    BeforeToolCall,
    Modify,
    QuestionAsked,
    StepFinished,
    StepStarted,
    Veto,
)
from nighthawk_async.human import ApprovalRequest, Question
from tests.in_memory_workers import InMemoryWorkers
from tests.worker_people import NoLookUps, ask_for_ever, looking_up, pay_alone, three_stars_at_most
from tests.worker_steps import agent, rate, rate_and_return, rate_on_loop, returning_agent

pytestmark = pytest.mark.anyio


async def test_hooks_are_called_in_the_program_for_steps_on_workers() -> None:
    spent, hooks = [nh.Usage()], nh.Hooks()

    @hooks.on(AfterModelRequest)
    def count(event: AfterModelRequest) -> None:
        spent[0] += event.usage or nh.Usage()

    ended: list[tuple[str | None, str | None]] = []

    @hooks.on(StepFinished)
    async def note(event: StepFinished) -> None:
        await anyio.lowlevel.checkpoint()
        ended.append((event.execution_ref.step_id, None if event.outcome is None else event.outcome.kind))

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(2) as workers:
        await parallel.map(rate, ["a", "b"], on=workers)
    assert spent[0].requests == 4
    assert [kind for _, kind in ended] == ["pass", "pass"]


async def test_the_answers_of_hooks_take_effect_on_the_worker() -> None:
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def fewer(event: BeforeCommit) -> Modify:
        return Modify({**event.bindings, "stars": event.bindings["stars"] - 1})

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        assert await parallel.map(rate, ["a"], on=workers) == [3]


async def test_a_step_that_blocks_the_event_loop_of_its_worker_reaches_the_program() -> None:
    hooks, asked = nh.Hooks(), list[str]()

    @hooks.on(BeforeCommit)
    def fewer(event: BeforeCommit) -> Modify:
        asked.append("commit")
        return Modify({**event.bindings, "stars": event.bindings["stars"] - 1})

    async with nh.run(agent(), hooks=hooks), Processes(1) as workers:
        with anyio.fail_after(240):
            assert await parallel.map(rate_on_loop, ["a", "b"], on=workers) == [3, 3]
    assert asked == ["commit"] * 2


async def test_a_step_that_would_block_its_own_requests_is_refused() -> None:
    async with nh.run(agent(), hooks=nh.Hooks()), InMemoryWorkers(1) as workers:
        with (
            pytest.warns(RuntimeWarning, match="blocks it"),
            pytest.raises(LocalOnlyError, match="async def"),
        ):
            await parallel.map(rate_on_loop, ["a"], on=workers)


async def test_a_hook_on_a_worker_vetoes_a_step() -> None:
    hooks = nh.Hooks()

    @hooks.on(StepStarted)
    def closed(event: StepStarted) -> Veto:
        return Veto("closed today")

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        with pytest.raises(StepRejectedError, match=r"hook .*closed vetoed the step: closed today"):
            await parallel.map(rate, ["a"], on=workers)


async def test_the_error_of_a_hook_names_it() -> None:
    hooks = nh.Hooks()

    @hooks.on(BeforeModelRequest)
    def broken(event: BeforeModelRequest) -> None:
        raise ValueError("no ink")

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        with pytest.raises(HookError, match="broken failed at BeforeModelRequest: ValueError: no ink"):
            await parallel.map(rate, ["a"], on=workers)


async def test_an_observing_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    hooks = nh.Hooks()

    @hooks.on(AfterModelRequest)
    def broken(event: AfterModelRequest) -> None:
        raise ValueError("no ink")

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        assert await parallel.map(rate, ["a"], on=workers) == [4]
    assert "broken failed at AfterModelRequest, for a worker: ValueError: no ink" in caplog.text


async def test_a_hook_that_reads_the_return_value_is_asked_again_with_it() -> None:
    values: list[object] = []
    early: list[str] = []
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def look(event: BeforeCommit) -> None:
        early.append("called")
        values.append(event.return_value)

    async with nh.run(returning_agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        assert await parallel.map(rate_and_return, ["a"], on=workers) == [5]
    assert values == [5]
    assert len(early) == 2


async def test_hooks_see_questions_and_approvals_of_workers() -> None:
    seen: list[str] = []
    hooks = nh.Hooks()

    @hooks.on(QuestionAsked)
    def asked(event: QuestionAsked) -> None:
        seen.append(event.question.prompt)

    @hooks.on(ApprovalClosed)
    def closed(event: ApprovalClosed) -> None:
        (vote,) = event.request.approvals
        seen.append(f"{event.request.action} {event.request.status} by {vote.approver}")

    class Ann:
        async def ask(self, question: Question) -> object:
            await anyio.lowlevel.checkpoint()
            return "Ann"

        async def approve(self, request: ApprovalRequest) -> None:
            await anyio.lowlevel.checkpoint()
            request.approve("bob", digest=request.digest)

    async with nh.run(agent(), hooks=hooks, human=Ann()), InMemoryWorkers(1) as workers:
        await parallel.map(ask_for_ever, ["Your name?"], on=workers)
        await parallel.map(pay_alone, [5], on=workers)
    assert seen == ["Your name?", "pay approved by bob"]


async def test_a_hook_may_call_a_natural_function_without_being_called_for_it() -> None:
    calls: list[str] = []
    hooks = nh.Hooks()

    @hooks.on(BeforeToolCall)
    async def think(event: BeforeToolCall) -> None:
        calls.append(event.tool_name)
        await rate("a thought")

    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        assert await parallel.map(rate, ["a"], on=workers) == [4]
    assert calls == ["nh_eval", "nh_assign"]


async def test_an_inner_scope_adds_hooks_to_those_of_the_program() -> None:
    events: list[str] = []
    hooks = nh.Hooks()
    hooks.on(StepStarted, lambda event: events.append("outer"))
    async with nh.run(agent(), hooks=hooks), InMemoryWorkers(1) as workers:
        with nh.scope(hooks=hooks):
            await parallel.map(rate, ["a"], on=workers)
    assert events == ["outer"]


async def test_oversight_and_checks_run_on_the_worker() -> None:
    async with InMemoryWorkers(1) as workers:
        async with nh.run(agent(), oversight=NoLookUps()):
            assert await parallel.map(rate, ["a"], on=workers) == [4]
        async with nh.run(agent(), verify=three_stars_at_most):
            with pytest.raises(nh.ExecutionError, match="three stars"):
                await parallel.map(rate, ["a"], on=workers)


async def test_permissions_ask_the_people_of_the_program() -> None:
    asked: list[str] = []

    class Bob:
        async def ask(self, question: Question) -> object:
            raise AssertionError

        async def approve(self, request: ApprovalRequest) -> None:
            await anyio.lowlevel.checkpoint()
            asked.append(request.action)
            request.approve("bob", digest=request.digest)

    careful = nh.permissions(ask=looking_up, default="deny")
    async with nh.run(agent(), permissions=careful, human=Bob()), InMemoryWorkers(1) as workers:
        assert await parallel.map(rate, ["a"], on=workers) == [4]
    assert asked == ["look_up"]


async def test_oversight_that_cannot_cross_is_named() -> None:
    class Local(NoLookUps):
        """A class inside a function."""

    async with nh.run(agent(), oversight=Local()), InMemoryWorkers(1) as workers:
        with pytest.raises(CrossingError, match=r"the oversight \(oversight=\) cannot cross.*Local"):
            await parallel.map(rate, ["a"], on=workers)


async def test_policies_cross_to_processes() -> None:
    seen: list[str] = []
    hooks = nh.Hooks()
    hooks.on(StepStarted, lambda event: seen.append("started"))
    async with nh.run(agent(), hooks=hooks, oversight=NoLookUps()), Processes(1) as workers:
        assert await parallel.map(rate, ["a"], on=workers) == [4]
    assert seen == ["started"]
