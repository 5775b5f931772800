"""What a tool call passes on its way: hooks, oversight, and hooks again with the result."""

import sys
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.hooks import AfterToolCall, BeforeToolCall
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(note: Any = None) -> int:
    number = 0
    """natural
    Set <:number>; <note> takes notes.
    """
    return number


class Oversight:
    def __init__(self, order: list[str]) -> None:
        self.order = order

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        self.order.append(f"oversight {inspection.arguments['expression']}")
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        return nh.oversight.Accept()


async def run_with(steps: ScriptedSteps, hooks: nh.Hooks, note: Any = None) -> int:
    async with nh.run(steps.executor, hooks=hooks):
        return await act(note)


async def test_a_call_passes_hooks_then_oversight_and_its_result_hooks_again() -> None:
    order, hooks = list[str](), nh.Hooks()

    @hooks.on(BeforeToolCall)
    async def before(event: BeforeToolCall) -> nh.hooks.Modify:
        await checkpoint()
        order.append(f"before {event.arguments['expression']}")
        return nh.hooks.Modify({**event.arguments, "expression": "note('2')"})

    hooks.on(AfterToolCall, lambda event: order.append(f"after {event.is_error}"))
    steps = ScriptedSteps(evaluating("note('1')"), PASS)
    async with nh.run(steps.executor, hooks=hooks):
        with nh.scope(oversight=Oversight(order)):
            await act(order.append)
    assert order == ["before note('1')", "oversight note('2')", "2", "after False"]


async def test_a_vetoed_call_does_not_happen_and_its_model_learns_why() -> None:
    after, notes, hooks = list[AfterToolCall](), list[str](), nh.Hooks()
    hooks.on(BeforeToolCall, lambda _: nh.hooks.Veto(reason="not now", guidance="wait"))
    hooks.on(AfterToolCall, after.append)
    steps = ScriptedSteps(evaluating("note('1')"), PASS)
    await run_with(steps, hooks, notes.append)
    assert notes == []
    assert steps.envelopes[0]["error"] == {"kind": "oversight", "message": "not now", "guidance": "wait"}
    (event,) = after
    assert event.is_error
    assert event.tool_name == "nh_eval"


async def test_modified_arguments_are_validated_like_those_of_the_model() -> None:
    hooks = nh.Hooks()
    hooks.on(BeforeToolCall, lambda _: nh.hooks.Modify({"expression": 5}))
    steps = ScriptedSteps(evaluating("1"), PASS)
    await run_with(steps, hooks)
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"


async def test_arguments_that_json_cannot_hold_are_an_error_of_the_host() -> None:
    hooks = nh.Hooks()
    hooks.on(BeforeToolCall, lambda _: nh.hooks.Modify({"expression": object()}))
    with pytest.raises(nh.NighthawkError, match="A hook rewrote a tool call to what is not JSON"):
        await run_with(ScriptedSteps(evaluating("1")), hooks)


@pytest.mark.parametrize("number", ["1e999", "-1e999", '[{"deep": 1e999}]', "NaN"])
async def test_a_number_that_no_float_holds_is_the_models_error_and_no_hook_is_asked_or_blamed(
    number: str,
) -> None:
    asked, hooks = list[object](), nh.Hooks()

    @hooks.on(BeforeToolCall)
    def copy(event: BeforeToolCall) -> nh.hooks.Modify:
        asked.append(event)
        return nh.hooks.Modify(dict(event.arguments))

    call = nh.models.ToolCall(id="1", name="nh_eval", arguments=f'{{"expression": "1", "more": {number}}}')
    steps = ScriptedSteps(call, PASS)
    assert await run_with(steps, hooks) == 0
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"
    assert asked == []


class Accepting(Oversight):
    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        self.order.append("asked")
        return nh.oversight.Accept()


@pytest.mark.parametrize("policy", ["hooks", "oversight"])
async def test_arguments_that_are_nested_deep_are_the_models_business(policy: str) -> None:
    asked, hooks = list[str](), nh.Hooks()
    hooks.on(BeforeToolCall, lambda _: asked.append("asked"))
    policies: dict[str, Any] = {"hooks": {"hooks": hooks}, "oversight": {"oversight": Accepting(asked)}}
    depth = sys.getrecursionlimit() * 3 // 5  # json takes it, and Python functions that recurse do not
    deep = f'{{"expression": "1", "more": {"[" * depth}{"]" * depth}}}'
    steps = ScriptedSteps(nh.models.ToolCall(id="1", name="nh_eval", arguments=deep), PASS)
    async with nh.run(steps.executor):
        with nh.scope(**policies[policy]):
            assert await act() == 0
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"
    assert asked == ["asked"]


async def test_a_hook_that_changes_arguments_in_place_fails_the_step_instead_of_being_ignored() -> None:
    hooks = nh.Hooks()

    def scribble(event: BeforeToolCall) -> None:
        event.arguments["expression"] = "5"  # type: ignore[index]

    hooks.on(BeforeToolCall, scribble)
    with pytest.raises(
        nh.errors.HookError, match=r"scribble failed at BeforeToolCall: TypeError: .* read-only"
    ):
        await run_with(ScriptedSteps((assigning("number", "1"), PASS)), hooks)


async def test_a_modified_result_is_what_the_model_sees() -> None:
    hooks = nh.Hooks()
    hooks.on(AfterToolCall, lambda event: nh.hooks.Modify(f"{event.content[0]} (checked)"))
    steps = ScriptedSteps(evaluating("1"), PASS)
    await run_with(steps, hooks)
    assert steps.results[0].content == ('{"value": 1, "error": null} (checked)',)


@pytest.mark.parametrize("event_type", [BeforeToolCall, AfterToolCall])
async def test_a_hook_that_raises_fails_the_step_with_its_name(event_type: type) -> None:
    def broken_hook(event: object) -> None:
        raise LookupError("hook")

    notes, hooks = list[str](), nh.Hooks()
    hooks.on(event_type, broken_hook)
    steps = ScriptedSteps((evaluating("note('1')"), evaluating("note('2')"), PASS))
    with pytest.raises(nh.errors.HookError, match=f"broken_hook failed at {event_type.__name__}"):
        await run_with(steps, hooks, notes.append)
    assert notes == [] or event_type is AfterToolCall


async def test_a_hook_may_end_the_step_before_a_call() -> None:
    notes, hooks = list[str](), nh.Hooks()
    hooks.on(BeforeToolCall, lambda _: nh.oversight.Abort("no calls today"))
    steps = ScriptedSteps((evaluating("note('1')"), evaluating("note('2')"), PASS))
    with pytest.raises(nh.errors.StepAbortedError, match="no calls today"):
        await run_with(steps, hooks, notes.append)
    assert notes == []


async def test_a_call_that_waits_at_a_gate_holds_back_the_later_ones() -> None:
    order, hooks, may_go_on = list[str](), nh.Hooks(), anyio.Event()

    @hooks.on(BeforeToolCall)
    async def wait(event: BeforeToolCall) -> None:
        order.append(f"asked {event.arguments['expression']}")
        if "first" in event.arguments["expression"]:
            await may_go_on.wait()

    steps = ScriptedSteps((evaluating("note('first')"), evaluating("note('second')"), PASS))
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(run_with, steps, hooks, order.append)
        await anyio.wait_all_tasks_blocked()
        assert order == ["asked note('first')"]
        may_go_on.set()
    assert [each for each in order if not each.startswith("asked")] == ["first", "second"]


class SwallowingAgent:
    """An agent that makes its calls one after the other and goes on whatever they raise."""

    def __init__(self, *expressions: str) -> None:
        self.expressions = expressions
        self.raised: list[Exception] = []

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        for expression in self.expressions:
            try:
                await task.begin_tool_call(evaluating(expression))()
            except nh.NighthawkError as error:
                self.raised.append(error)
        return nh.executors.PassStepOutcome()


async def test_once_a_gate_has_ended_the_step_no_later_call_of_any_agent_happens() -> None:
    notes, hooks = list[str](), nh.Hooks()
    asked: list[str] = []

    @hooks.on(BeforeToolCall)
    def end(event: BeforeToolCall) -> nh.oversight.Abort:
        asked.append(event.arguments["expression"])
        return nh.oversight.Abort("over")

    agent = SwallowingAgent("note(1)", "note(2)")
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=agent), hooks=hooks):
        await act(notes.append)
    assert notes == []
    assert asked == ["note(1)"]
    assert [type(error) for error in agent.raised] == [nh.errors.StepAbortedError] * 2
