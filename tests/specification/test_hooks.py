"""Hooks of runs and scopes: which are called for what, in which order, and what they can change."""

from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.hooks import Abort, Modify, Veto
from nighthawk_async.policies.hooks.rules import EVENT_RULES
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    pass_response,
    raise_response,
    return_response,
)
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

STARTED_AND_FINISHED = (
    nhh.RunStarted,
    nhh.RunFinished,
    nhh.ScopeStarted,
    nhh.ScopeFinished,
    nhh.StepStarted,
    nhh.StepFinished,
)
SCOPES = STARTED_AND_FINISHED[:4]


@nh.natural_function
async def act(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


@nh.natural_function
def act_now(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


def passing(**bindings: object) -> ScriptedExecutor:
    return ScriptedExecutor(default_response=pass_response(**bindings))


def keeping(*event_types: Any) -> tuple[nh.Hooks, list[Any]]:
    """Hooks that keep the events they are told of."""
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(*event_types)(told.append)
    return hooks, told


def naming(told: list[str], name: str, *event_types: Any) -> nh.Hooks:
    """Hooks that note a name for each event."""
    hooks = nh.Hooks()
    hooks.on(*event_types)(lambda event: told.append(f"{name} {type(event).__name__}"))
    return hooks


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


# ---- which hooks are in force


async def test_events_are_told_in_order_with_the_identity_of_where_they_happen() -> None:
    hooks, told = keeping(*STARTED_AND_FINISHED)
    async with nh.run(passing(), hooks=hooks) as run, nh.scope():
        inside = nh.get_execution_ref()
        await act()
    assert names(told) == [
        "RunStarted",
        "ScopeStarted",
        "StepStarted",
        "StepFinished",
        "ScopeFinished",
        "RunFinished",
    ]
    step_id = told[2].execution_ref.step_id
    assert step_id.startswith(f"{__name__}:")
    references = [event.execution_ref for event in told]
    assert references[0] == references[5] == run.execution_ref
    assert references[1] == references[4] == inside
    assert references[2] == references[3]
    assert references[2].scope_id == inside.scope_id


async def test_hooks_of_outer_scopes_come_first_and_an_object_in_force_is_called_once() -> None:
    told: list[str] = []
    outer, inner, third = (naming(told, name, nhh.StepStarted) for name in ("outer", "inner", "third"))
    async with nh.run(passing(), hooks=outer):
        with nh.scope(hooks=[inner, outer]), nh.scope(), nh.scope(hooks=[third, inner]):
            await act()
        await act()
    assert told == ["outer StepStarted", "inner StepStarted", "third StepStarted", "outer StepStarted"]


async def test_hooks_are_replaced_in_replace_mode_and_an_empty_list_clears() -> None:
    told: list[str] = []
    outer, inner = (naming(told, name, *STARTED_AND_FINISHED) for name in ("outer", "inner"))
    async with nh.run(passing()), nh.scope(hooks=outer):
        told.clear()
        async with nh.scope(hooks=inner, mode="replace"):
            pass
        async with nh.scope(hooks=(), mode="replace"):
            await act()
        assert told == ["inner ScopeStarted", "inner ScopeFinished"]
        async with nh.scope(mode="replace"), nh.scope(hooks=[]):
            told.clear()
            await act()
    assert told[:2] == ["outer StepStarted", "outer StepFinished"]


async def test_a_run_inside_a_run_has_its_own_hooks_only() -> None:
    told: list[str] = []
    outer, inner = (naming(told, name, nhh.StepStarted) for name in ("outer", "inner"))
    async with nh.run(passing(), hooks=outer):
        async with nh.run(passing()):
            await act()
        async with nh.run(passing(), hooks=inner):
            await act()
    assert told == ["inner StepStarted"]


async def test_hooks_of_runs_at_the_same_time_never_see_each_others_events() -> None:
    shared, told_to_all = keeping(*STARTED_AND_FINISHED)
    told: dict[str, list[Any]] = {}

    async def wait_a_little(call: StepCall) -> StepResponse:
        for _ in range(3):
            await checkpoint()
        return pass_response()

    async def live(run_id: str) -> None:
        own, told[run_id] = keeping(*STARTED_AND_FINISHED)
        async with nh.run(CallbackExecutor(wait_a_little), run_id=run_id, hooks=[own, shared]):
            with nh.scope():
                await nh.parallel.gather(act(), act())

    async with anyio.create_task_group() as task_group:
        for number in range(5):
            task_group.start_soon(live, f"run {number}")
    assert {len(events) for events in told.values()} == {8}
    for run_id, events in told.items():
        assert {event.execution_ref.run_id for event in events} == {run_id}
        assert [event for event in told_to_all if event.execution_ref.run_id == run_id] == events


async def test_a_hook_runs_where_the_event_happens() -> None:
    hooks, seen = nh.Hooks(), list[tuple[Any, ...]]()

    @hooks.on(*STARTED_AND_FINISHED, nhh.BeforeCommit)
    async def look(event: Any) -> None:
        await checkpoint()
        seen.append((event.execution_ref, nh.get_execution_ref(), nh.current_task().name))
        if event.execution_ref.step_id is not None:
            assert nh.get_current_step_context().step_id == event.execution_ref.step_id

    async with nh.run(passing(), hooks=hooks), nh.open_tasks() as tasks:
        await tasks.start(act, name="worker")
    assert all(told == here for told, here, _ in seen)
    assert [name for reference, _, name in seen if reference.step_id] == ["worker"] * 3


async def test_hooks_may_run_steps_which_are_told_to_other_hooks_only() -> None:
    told: list[str] = []
    curious, other = nh.Hooks(), naming(told, "other", nhh.StepStarted)

    @curious.on(nhh.StepStarted)
    async def run_a_step(event: nhh.StepStarted) -> None:
        told.append("curious")
        assert await act() == 7

    async with nh.run(passing(result=7), hooks=[curious, other]):
        assert await act() == 7
    assert told == ["curious", "other StepStarted", "other StepStarted"]


# ---- steps


async def test_a_step_that_is_vetoed_is_not_carried_out_and_its_caller_learns_why() -> None:
    hooks, executor = nh.Hooks(), passing(result=1)
    hooks.on(nhh.StepStarted, lambda event: Veto("not on Sundays", "wait a day"))
    async with nh.run(executor, hooks=hooks):
        with pytest.raises(nh.ExecutionError) as caught:
            await act()
        assert "<lambda> vetoed the step: not on Sundays (wait a day)" in str(caught.value)
    assert executor.calls == []


async def test_a_hook_sees_the_program_of_the_step_and_can_steer_it_before_its_first_turn() -> None:
    hooks, steps = nh.Hooks(), ScriptedSteps((assigning("result", "1"), PASS))

    @hooks.on(nhh.StepStarted)
    def advise(event: nhh.StepStarted) -> None:
        assert event.program == "Set <:result>.\n"
        nh.get_current_step_actor().steer("Be brief.")

    async with nh.run(steps.executor, hooks=hooks):
        assert await act() == 1
    assert steps.model.requests[0].messages[1] == nh.models.UserMessage(content=("Be brief.",))


@pytest.mark.parametrize("event_type", [nhh.StepStarted, nhh.BeforeCommit])
async def test_a_step_that_is_aborted_ends_with_a_step_aborted_error_which_no_retry_catches(
    event_type: Any,
) -> None:
    hooks, executor = nh.Hooks(), passing(result=1)
    hooks.on(event_type, lambda event: Abort("enough"))

    @nh.natural_function
    async def try_it() -> object:
        result = 0
        try:
            """natural
            Set <:result>.
            """
        except nh.ExecutionError:
            return "handled as a failure"
        except nh.errors.StepAbortedError as error:
            return result, error.reason, (error.step_id or "").partition(":")[0]
        return result

    async with nh.run(executor, hooks=hooks):
        assert await try_it() == (0, "enough", __name__)


async def test_the_end_of_a_step_is_told_with_its_outcome_or_its_error_and_its_usage() -> None:
    hooks, told = keeping(nhh.StepFinished)
    responses = [return_response("5"), raise_response("no"), pass_response(result="not a number")]
    async with nh.run(ScriptedExecutor(responses), hooks=hooks):
        assert await act() == 5
        for _ in range(2):
            with pytest.raises(nh.ExecutionError):
                await act()
    returned, raised, failed = told
    assert (returned.outcome, returned.error) == (nh.executors.ReturnStepOutcome(return_expression="5"), None)
    assert (raised.outcome.kind, raised.error) == ("raise", None)
    assert failed.outcome is None
    assert isinstance(failed.error, nh.ExecutionError)
    steps = ScriptedSteps((assigning("result", "1"), PASS))
    async with nh.run(steps.executor, hooks=hooks) as run:
        await act()
        assert told[-1].usage == run.usage_meter.usage
        assert told[-1].usage.requests == 1


async def test_a_step_that_a_budget_refuses_or_ends_has_an_end_that_says_so() -> None:
    hooks, told = keeping(nhh.StepStarted, nhh.BudgetThreshold, nhh.StepFinished)

    async def wait(call: StepCall) -> StepResponse:
        await anyio.sleep_forever()
        return pass_response()

    async with nh.run(CallbackExecutor(wait), hooks=hooks):
        with nh.scope(step_budget=nh.budget(seconds=0.01)), pytest.raises(nh.BudgetExceededError):
            await act()
        assert isinstance(told[-1].error, nh.BudgetExceededError)
    del told[:]
    async with nh.run(passing(), hooks=hooks, budget=nh.budget(steps=1)):
        await act()
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
    assert names(told) == ["StepStarted", "BudgetThreshold", "StepFinished", "StepStarted", "StepFinished"]
    assert told[-1].error is caught.value


async def test_a_step_whose_preparation_fails_has_neither_a_beginning_nor_an_end() -> None:
    hooks, told = keeping(nhh.StepStarted, nhh.StepFinished)

    @nh.natural_function
    async def mention() -> None:
        """natural
        Use <no_such_name>.
        """

    async with nh.run(passing(), hooks=hooks):
        with pytest.raises(NameError):
            await mention()
    assert told == []


async def test_a_step_that_waits_for_its_admission_has_not_begun() -> None:
    hooks, told = keeping(nhh.StepStarted)
    release = anyio.Event()

    async def wait(call: StepCall) -> StepResponse:
        await release.wait()
        return pass_response()

    async with nh.run(CallbackExecutor(wait), hooks=hooks, max_concurrent_steps=1) as run:
        run.task_group.start_soon(act)
        run.task_group.start_soon(act)
        await anyio.wait_all_tasks_blocked()
        assert len(told) == 1
        release.set()
    assert len(told) == 2


# ---- commits


async def test_a_commit_that_is_vetoed_leaves_the_variables_alone() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.BeforeCommit)
    async def refuse(event: nhh.BeforeCommit) -> Veto | None:
        return Veto("too large", "at most 3") if event.bindings["result"] == 9 else None

    @nh.natural_function
    async def guarded() -> object:
        result = 0
        try:
            """natural
            Set <:result>.
            """
        except nh.ExecutionError as error:
            cause = error.__cause__
            assert isinstance(cause, nh.errors.ToolBoundaryError)
            return result, str(error).partition(": ")[2], cause.kind
        return result

    responses = [pass_response(result=9), pass_response(result=3)]
    async with nh.run(ScriptedExecutor(responses), hooks=hooks):
        assert await guarded() == (
            0,
            f"hook {refuse.__qualname__} vetoed the commit: too large (at most 3)",
            "oversight",
        )
        assert await guarded() == 3


@pytest.mark.parametrize(
    ("bindings", "result"),
    [
        pytest.param({"result": 2}, 2, id="another value"),
        pytest.param({"result": "2"}, 2, id="coerced"),
        pytest.param({"result": "two"}, "write binding 'result' must be int", id="of a wrong type"),
        pytest.param({"other": 2}, "'other' cannot be committed", id="of another name"),
        pytest.param({}, 0, id="nothing, where there was a value before"),
    ],
)
async def test_modified_bindings_are_validated_anew(bindings: dict[str, object], result: object) -> None:
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeCommit, lambda event: Modify(bindings))
    async with nh.run(passing(result=1), hooks=hooks):
        if isinstance(result, str):
            with pytest.raises(nh.errors.HookError, match=result):
                await act()
        else:
            assert await act() == result


async def test_oversight_sees_a_commit_after_the_hooks() -> None:
    class Inspector:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            return nh.oversight.Accept()

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Rewrite:
            value = commit.bindings["result"]
            assert isinstance(value, int)
            return nh.oversight.Rewrite(values={"result": value + 1})

    hooks = nh.Hooks()
    hooks.on(nhh.BeforeCommit, lambda event: Modify({"result": 10}))
    async with nh.run(passing(result=1), hooks=hooks):
        with nh.scope(oversight=Inspector()):
            assert await act() == 11


async def test_the_hook_of_a_commit_sees_the_outcome_and_is_asked_for_every_kind() -> None:
    hooks, told = keeping(nhh.BeforeCommit)
    responses = [return_response("result", result=1), raise_response("no"), pass_response(result=2)]
    async with nh.run(ScriptedExecutor(responses), hooks=hooks):
        assert await act() == 1
        with pytest.raises(nh.ExecutionError):
            await act()
        assert await act() == 2
    assert [event.outcome.kind for event in told] == ["return", "raise", "pass"]
    assert [dict(event.bindings) for event in told] == [{"result": 1}, {}, {"result": 2}]


# ---- suspending


class Gate:
    """A tool that takes as long as the test wants."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.opened.wait()


@nh.natural_function
async def work(gate: object) -> None:
    """natural
    Call <gate>.
    """


async def test_parking_and_going_on_are_told_in_the_step_and_once_each() -> None:
    hooks, told = keeping(nhh.StepStarted, nhh.StepSuspended, nhh.StepResumed, nhh.StepFinished)
    gate, steps = Gate(), ScriptedSteps(evaluating("gate()"), evaluating("1"), PASS)
    async with nh.run(steps.executor, hooks=hooks), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        assert names(told) == ["StepStarted", "StepSuspended"]
        handle.resume()
        await handle
    assert names(told) == ["StepStarted", "StepSuspended", "StepResumed", "StepFinished"]
    assert len({event.execution_ref for event in told}) == 1


async def test_a_request_to_park_that_is_taken_back_in_time_is_not_told() -> None:
    hooks, told = keeping(nhh.StepSuspended, nhh.StepResumed)
    gate, steps = Gate(), ScriptedSteps(evaluating("gate()"), PASS)
    async with nh.run(steps.executor, hooks=hooks), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        handle.resume()
        gate.opened.set()
        await handle
    assert told == []


async def test_a_parked_step_that_is_cancelled_is_not_resumed() -> None:
    hooks, told = keeping(nhh.StepSuspended, nhh.StepResumed, nhh.StepFinished)
    gate, steps = Gate(), ScriptedSteps(evaluating("gate()"), PASS)
    async with nh.run(steps.executor, hooks=hooks), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        handle.cancel()
    assert names(told) == ["StepSuspended", "StepFinished"]
    assert told[-1].is_cancelled


@pytest.mark.parametrize("event_type", [nhh.StepSuspended, nhh.StepResumed])
async def test_a_hook_that_fails_at_parking_fails_the_step(event_type: Any) -> None:
    hooks, _ = keeping(nhh.StepStarted)

    @hooks.on(event_type)
    async def break_down(event: object) -> None:
        raise OSError("disk full")

    gate, steps = Gate(), ScriptedSteps(evaluating("gate()"), PASS)
    async with nh.run(steps.executor, hooks=hooks), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        gate.opened.set()
        if event_type is nhh.StepResumed:
            await handle.wait_suspended()
            handle.resume()
        with pytest.raises(nh.errors.HookError, match=f"break_down failed at {event_type.__name__}: OSError"):
            await handle


# ---- tasks that are asked to end


async def test_a_step_of_a_hook_obeys_when_its_task_was_asked_to_end() -> None:
    hooks, entered, go_on = nh.Hooks(), anyio.Event(), anyio.Event()

    @hooks.on(nhh.BeforeCommit)
    async def check(event: object) -> None:
        entered.set()
        await go_on.wait()
        await act()

    async with nh.run(passing(result=1), hooks=hooks), nh.open_tasks() as tasks:
        handle = tasks.start(act)
        await entered.wait()
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(handle.cancel_gracefully, 60, "no longer needed")
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        with pytest.raises(nh.parallel.TaskCancelledError, match="no longer needed"):
            await handle


# ---- synchronous code


@pytest.mark.parametrize("sync_backend", ["trio", "asyncio"])
def test_async_hooks_of_steps_work_in_synchronous_programs(sync_backend: Any) -> None:
    hooks, told = nh.Hooks(), list[str]()

    @hooks.on(nhh.StepStarted, nhh.BeforeCommit, nhh.StepFinished)
    async def look(event: Any) -> None:
        await checkpoint()
        told.append(type(event).__name__)

    hooks.on(nhh.RunStarted, nhh.RunFinished)(lambda event: told.append(type(event).__name__))
    with nh.run(passing(result=3), hooks=hooks, sync_backend=sync_backend):
        assert act_now() == 3
    assert told == ["RunStarted", "StepStarted", "BeforeCommit", "StepFinished", "RunFinished"]


async def test_sync_hooks_may_run_synchronous_steps_without_being_told_of_them() -> None:
    hooks, told = nh.Hooks(), list[object]()

    @hooks.on(nhh.StepStarted)
    def run_a_step(event: nhh.StepStarted) -> None:
        told.append(event)
        assert act_now() == 3

    async with nh.run(passing(result=3), hooks=hooks):
        with pytest.warns(RuntimeWarning, match="blocks"):
            assert await act() == 3
        assert await to_thread.run_sync(act_now) == 3
    assert len(told) == 2


# ---- model requests and tool calls


async def test_the_events_of_a_step_come_in_the_order_in_which_things_happen() -> None:
    hooks, told = keeping(*(event for event in EVENT_RULES if event not in {*SCOPES, nh.PartialValues}))
    steps = ScriptedSteps(evaluating("1"), (assigning("result", "7"), PASS))
    async with nh.run(steps.executor, hooks=hooks):
        assert await act() == 7
    turn = ["BeforeModelRequest", "BeforeToolCall", "AfterToolCall", "AfterModelRequest"]
    within = [name for name in names(told) if name in turn]
    assert sorted(within) == sorted(2 * turn)
    assert [name for name in within if "Model" in name] == 2 * ["BeforeModelRequest", "AfterModelRequest"]
    assert names(told)[0] == "StepStarted"
    assert names(told)[-2:] == ["BeforeCommit", "StepFinished"]
    assert len({event.execution_ref for event in told}) == 1


async def test_a_request_can_be_modified_and_its_end_is_told() -> None:
    hooks, told = keeping(nhh.AfterModelRequest)
    steps = ScriptedSteps((assigning("result", "7"), PASS))

    @hooks.on(nhh.BeforeModelRequest)
    async def add(event: nhh.BeforeModelRequest) -> Modify:
        assert event.model_name == steps.model.name
        return Modify(replace(event.request, system_prompt=f"{event.request.system_prompt} Be kind."))

    async with nh.run(steps.executor, hooks=hooks):
        assert await act() == 7
    assert steps.model.requests[0].system_prompt.endswith(" Be kind.")
    assert [(event.finish_reason, event.error) for event in told] == [("tool_calls", None)]
    assert told[0].usage.requests == 1


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [(Veto("no network"), nh.ExecutionError), (Abort("enough"), nh.errors.StepAbortedError)],
)
async def test_a_request_that_is_refused_is_not_sent(answer: Any, error_type: type[Exception]) -> None:
    hooks, told = keeping(nhh.AfterModelRequest)
    hooks.on(nhh.BeforeModelRequest, lambda event: answer)
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor, hooks=hooks) as run:
        with pytest.raises(error_type, match=answer.reason):
            await act()
        assert run.usage_meter.usage.requests == 0
    assert steps.model.requests == []
    assert told == []


async def test_a_tool_call_that_is_vetoed_is_an_error_to_the_model_which_may_go_on() -> None:
    hooks = nh.Hooks()
    hooks.on(
        nhh.BeforeToolCall,
        lambda event: Veto("too large", "less") if "999" in event.arguments.values() else None,
    )
    steps = ScriptedSteps((assigning("result", "999"), PASS), (assigning("result", "7"), PASS))
    async with nh.run(steps.executor, hooks=hooks):
        assert await act() == 7
    assert steps.envelopes[0]["error"] == {"kind": "oversight", "message": "too large", "guidance": "less"}


async def test_the_model_sees_the_content_that_a_hook_put_in_place_of_a_result() -> None:
    hooks = nh.Hooks()
    hooks.on(nhh.AfterToolCall, lambda event: Modify("hidden") if "secret" in str(event.content) else None)
    steps = ScriptedSteps(evaluating("'the secret'"), PASS)
    async with nh.run(steps.executor, hooks=hooks):
        await act()
    assert [result.content for result in steps.results if result.name == "nh_eval"] == [("hidden",)]


# ---- hooks that fail within tools


def break_down(event: object) -> None:
    raise OSError("disk full")


async def ask_somebody() -> object:
    return await nh.ask_user("Which colour?", default="blue")


async def act_elsewhere() -> object:
    broken = nh.Hooks()
    broken.on(nhh.StepStarted, break_down)
    with nh.scope(hooks=broken):
        return await act()


@nh.natural_function
async def delegate() -> object:
    """natural
    Call <ask_somebody> or <act_elsewhere>.
    """


@pytest.mark.parametrize(
    "call",
    [
        evaluating("ask_somebody()"),
        evaluating("act_elsewhere()"),
        executing("await act_elsewhere()"),
        returning("ask_somebody()"),
        returning("act_elsewhere()"),
    ],
    ids=lambda call: f"{call.name}{call.arguments}",
)
async def test_a_hook_that_fails_within_a_tool_fails_the_step_and_no_model_is_told(
    call: nh.models.ToolCall,
) -> None:
    hooks = nh.Hooks()
    hooks.on(nhh.QuestionAsked, break_down)
    steps = ScriptedSteps(call, PASS)
    async with nh.run(steps.executor, hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="hook break_down failed at") as caught:
            await delegate()
    assert isinstance(caught.value.__cause__, OSError)
    assert len(steps.model.requests) == 1


# ---- people


async def test_hooks_are_told_of_questions_and_approvals() -> None:
    hooks, told = keeping(nhh.QuestionAsked, nhh.QuestionAnswered, nhh.QuestionClosed)
    async with nh.run(passing(), hooks=hooks):
        assert await nh.ask_user("Which colour?", default="blue") == "blue"
    assert names(told) == ["QuestionAsked", "QuestionClosed"]
    assert told[0].question.prompt == "Which colour?"


async def test_a_hook_that_fails_at_a_question_fails_whoever_asks() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.QuestionAsked)
    def break_down(event: object) -> None:
        raise OSError("disk full")

    async with nh.run(passing(), hooks=hooks):
        with pytest.raises(
            nh.errors.HookError, match="break_down failed at QuestionAsked: OSError: disk full"
        ):
            await nh.ask_user("Which colour?", default="blue")


# ---- retries


async def test_retries_are_told_where_they_happen_and_a_hook_that_fails_there_ends_them() -> None:
    hooks, told = nh.Hooks(), list[nhh.Retry]()

    @hooks.on(nhh.Retry)
    async def count(event: nhh.Retry) -> None:
        await checkpoint()
        told.append(event)
        if len(told) == 2:
            raise OSError("disk full")

    executor = ScriptedExecutor(default_response=pass_response(result="not a number"))
    async with nh.run(executor, hooks=hooks) as run:
        with pytest.raises(nh.errors.HookError, match="count failed at Retry: OSError: disk full"):
            await nh.resilience.retrying(act, attempts=5, wait=0)()
    assert [(event.name, event.attempt, event.wait_seconds) for event in told] == [
        ("act", 1, 0),
        ("act", 2, 0),
    ]
    assert all(isinstance(event.error, nh.ExecutionError) for event in told)
    assert {event.execution_ref for event in told} == {run.execution_ref}
    assert len(executor.calls) == 2


def told_twice() -> tuple[nh.Hooks, list[str]]:
    """Hooks of which one is async, and what they were told."""
    hooks, told = nh.Hooks(), list[str]()

    @hooks.on(nhh.Retry)
    async def later(event: nhh.Retry) -> None:
        await checkpoint()
        told.append(f"async {event.attempt}")

    @hooks.on(nhh.Retry)
    def now(event: nhh.Retry) -> None:
        told.append(f"sync {event.attempt}")

    return hooks, told


def twice() -> ScriptedExecutor:
    return ScriptedExecutor([pass_response(result="not a number"), pass_response(result=1)])


def test_retries_of_synchronous_functions_are_told_to_sync_and_async_hooks() -> None:
    steady = nh.resilience.retrying(act_now, wait=0)
    hooks, events = keeping(nhh.Retry)
    with nh.run(twice(), hooks=hooks):
        assert steady() == 1
    assert [event.attempt for event in events] == [1]
    hooks, told = told_twice()
    with nh.run(twice(), hooks=hooks):
        assert steady() == 1
    assert told == ["async 1", "sync 1"]


async def test_retries_in_a_worker_thread_are_told_to_async_hooks_on_its_event_loop() -> None:
    hooks, told = told_twice()
    async with nh.run(twice(), hooks=hooks):
        assert await anyio.to_thread.run_sync(nh.resilience.retrying(act_now, wait=0)) == 1
    assert told == ["async 1", "sync 1"]


async def test_an_async_hook_that_fails_ends_the_attempts_of_a_synchronous_function() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.Retry)
    async def count(event: object) -> None:
        raise OSError("disk full")

    executor = twice()
    async with nh.run(executor, hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="count failed at Retry: OSError: disk full"):
            await anyio.to_thread.run_sync(nh.resilience.retrying(act_now, wait=0))
    assert len(executor.calls) == 1


async def test_retries_outside_of_runs_are_told_to_nobody() -> None:
    async def fail() -> None:
        raise nh.ExecutionError("no")

    with pytest.raises(nh.ExecutionError):
        await nh.resilience.retrying(fail, attempts=2, wait=0)()
