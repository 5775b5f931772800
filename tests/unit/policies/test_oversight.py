"""Oversight: every tool call and every commit is inspected before it happens."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    break_response,
    model_response,
    pass_response,
    raise_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(text: str = "text") -> int:
    number: int
    """natural
    Set <:number> for <text>.
    """
    return number


class Hooks:
    """Answers with what it was made with, and remembers what it saw."""

    def __init__(self, *, call: Any = None, commit: Any = None) -> None:
        self.call = nh.oversight.Accept() if call is None else call
        self.commit = nh.oversight.Accept() if commit is None else commit
        self.calls: list[nh.oversight.ToolCallInspection] = []
        self.commits: list[nh.oversight.StepCommit] = []

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        self.calls.append(inspection)
        return self.call(inspection) if callable(self.call) else self.call

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        self.commits.append(commit)
        return self.commit(commit) if callable(self.commit) else self.commit


class AsyncHooks(Hooks):
    """The same, asynchronously."""

    async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        await checkpoint()
        return super().inspect_tool_call(inspection)

    async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        await checkpoint()
        return super().inspect_step_commit(commit)


def assigning(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="number", expression=expression)


async def run_with(hooks: Hooks, *answers: Any) -> tuple[int, ScriptedModel]:
    model = ScriptedModel(answers)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(oversight=hooks):
            return await act(), model


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_accepted_calls_and_commits_happen_and_were_seen(hooks_type: type[Hooks]) -> None:
    hooks = hooks_type()
    assert (await run_with(hooks, model_response(assigning("3"), DONE)))[0] == 3
    (call,), (commit,) = hooks.calls, hooks.commits
    assert call.tool_name == "nh_assign"
    assert call.arguments == {"target_path": "number", "expression": "3"}
    assert call.step_id == commit.step_id
    assert commit.outcome == nh.executors.PassStepOutcome()
    assert commit.bindings == {"number": 3}
    with pytest.raises(TypeError):
        commit.bindings["number"] = 4  # type: ignore[index]


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_a_rejected_call_does_not_happen_and_the_model_learns_why(hooks_type: type[Hooks]) -> None:
    def decide(inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept | nh.oversight.Reject:
        if inspection.arguments["expression"] == "1":
            return nh.oversight.Reject(reason="one is forbidden", guidance="take two")
        return nh.oversight.Accept()

    answers = [model_response(assigning("1"), DONE), model_response(assigning("2"), DONE)]
    number, model = await run_with(hooks_type(call=decide), *answers)
    assert number == 2
    results = model.requests[1].messages[-1]
    assert isinstance(results, nh.models.ToolResultsMessage)
    told = str(results.results[0].content[0])
    assert '"kind": "oversight", "message": "one is forbidden", "guidance": "take two"' in told


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_a_rewritten_call_is_carried_out_with_the_other_arguments(hooks_type: type[Hooks]) -> None:
    def decide(inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Rewrite:
        return nh.oversight.Rewrite(values={**inspection.arguments, "expression": "9"})

    number, _ = await run_with(hooks_type(call=decide), model_response(assigning("1"), DONE))
    assert number == 9


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_calls_keep_their_order_when_they_are_inspected(hooks_type: type[Hooks]) -> None:
    hooks = hooks_type()
    calls = [assigning("1"), assigning("number + 10"), assigning("number * 2")]
    assert (await run_with(hooks, model_response(*calls, DONE)))[0] == 22
    assert [call.arguments["expression"] for call in hooks.calls] == ["1", "number + 10", "number * 2"]


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
@pytest.mark.parametrize(
    ("guidance", "message"), [(None, "not today$"), ("ask tomorrow", r"not today \(ask tomorrow\)$")]
)
async def test_a_rejected_commit_fails_the_step_and_commits_nothing(
    hooks_type: type[Hooks], guidance: str | None, message: str
) -> None:
    hooks = hooks_type(commit=nh.oversight.Reject(reason="not today", guidance=guidance))
    with pytest.raises(nh.errors.StepRejectedError, match=message) as caught:
        await run_with(hooks, *[model_response(assigning("3"), DONE)] * 4)
    cause = caught.value.__cause__
    assert isinstance(cause, nh.errors.ToolBoundaryError)
    assert cause.kind == "oversight"


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_a_rewritten_commit_is_validated_anew(hooks_type: type[Hooks]) -> None:
    answer = model_response(assigning("3"), DONE)
    assert (await run_with(hooks_type(commit=nh.oversight.Rewrite(values={"number": "4"})), answer))[0] == 4
    for values, named in [
        ({"number": "many"}, "write binding 'number' must be int"),
        ({"other": 1}, "'other' cannot be committed"),
        ({}, "'number' has no value"),
    ]:
        with pytest.raises(nh.errors.HookError, match=named):
            await run_with(hooks_type(commit=nh.oversight.Rewrite(values=values)), answer)


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (True, "answered True; it must answer Accept, Reject, Rewrite or Abort"),
        (nh.oversight.Accept, "answered <"),
        (nh.oversight.Rewrite(values=["a"]), "Rewrite whose values are no mapping"),  # type: ignore[arg-type]
    ],
)
async def test_a_hook_that_answers_nonsense_is_an_error_of_the_host(
    hooks_type: type[Hooks], answer: Any, named: str
) -> None:
    response = model_response(assigning("3"), DONE)
    for hook, arguments in [
        ("inspect_tool_call", {"call": lambda _: answer}),
        ("inspect_step_commit", {"commit": lambda _: answer}),
    ]:
        with pytest.raises(nh.errors.HookError, match=named) as caught:
            await run_with(hooks_type(**arguments), response)
        assert caught.value.hook == hook
        assert hook in str(caught.value)


@pytest.mark.parametrize("hooks_type", [Hooks, AsyncHooks])
async def test_an_exception_of_a_hook_names_the_hook_and_is_chained(hooks_type: type[Hooks]) -> None:
    def fail(_: Any) -> Any:
        raise LookupError("audit log")

    for hook, arguments in [("inspect_tool_call", {"call": fail}), ("inspect_step_commit", {"commit": fail})]:
        with pytest.raises(nh.errors.HookError, match=f"{hook} failed: LookupError: audit log") as caught:
            await run_with(hooks_type(**arguments), model_response(assigning("3"), DONE))
        assert caught.value.hook == hook
        assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("failure", [None, LookupError("audit log"), nh.ExecutionError("no verdict")])
@pytest.mark.parametrize("hook", ["call", "commit"])
async def test_no_model_of_an_outer_step_is_told_of_a_failure_within_a_tool(hook: str, failure: Any) -> None:
    def fail(seen: nh.oversight.ToolCallInspection | nh.oversight.StepCommit) -> Any:
        if failure is not None:
            raise failure

    async def inner() -> int:
        with nh.scope(oversight=Hooks(**{hook: fail})):
            return await act()

    @nh.natural_function
    async def outer() -> int:
        """natural
        Return what <inner> gives.
        """
        raise AssertionError

    looking = model_response(tool_call("nh_eval", expression="inner()"))
    model = ScriptedModel([looking, model_response(assigning("3"), DONE)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with (
            nh.scope(implicit_references={"inner": inner}),
            pytest.raises(nh.errors.HookError, match="Oversight hook"),
        ):
            await outer()
    assert len(model.requests) == 2


async def test_a_budget_that_an_overseer_exceeds_ends_the_step() -> None:
    class Asking(Hooks):
        async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
            await act()
            return nh.oversight.Accept()

    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1))):
        with nh.scope(oversight=Asking(), budget=nh.budget(steps=1)), pytest.raises(nh.BudgetExceededError):
            await act()


async def test_an_overseer_may_call_natural_functions_which_are_not_overseen_themselves() -> None:
    class Asking(Hooks):
        async def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            self.calls.append(inspection)
            assert nh.oversight.get_oversight() is None
            assert await act("call") == 7
            return nh.oversight.Accept()

        async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
            self.commits.append(commit)
            assert await act("commit") == 8
            return nh.oversight.Accept()

    hooks = Asking()
    answers = [model_response(assigning(number), DONE) for number in ("3", "7", "8")]
    assert (await run_with(hooks, *answers))[0] == 3
    assert (len(hooks.calls), len(hooks.commits)) == (1, 1)


async def test_cancelling_a_step_cancels_its_overseer() -> None:
    async def wait(_: Any) -> nh.oversight.Accept:
        scope.cancel()
        await anyio.sleep_forever()
        return nh.oversight.Accept()

    for arguments in ({"call": wait}, {"commit": wait}):
        with anyio.CancelScope() as scope:
            await run_with(Hooks(**arguments), model_response(assigning("3"), DONE))
        assert scope.cancelled_caught


@pytest.mark.parametrize("response", [raise_response("no", number=1), break_response(number=2)])
async def test_commits_of_every_outcome_are_inspected(response: Any) -> None:
    @nh.natural_function
    async def act_in_loop() -> Mapping[str, int]:
        number = 0
        for _ in range(1):
            try:
                """natural
                Set <:number>.
                """
            except nh.ExecutionError:
                return {"raised": number}
        return {"went on": number}

    hooks = Hooks(
        commit=lambda commit: nh.oversight.Rewrite(values={"number": commit.bindings["number"] + 10})
    )
    async with nh.run(ScriptedExecutor([response])):
        with nh.scope(oversight=hooks):
            result = await act_in_loop()
    assert result in ({"raised": 11}, {"went on": 12})
    assert hooks.commits[0].outcome == response.outcome


async def test_other_executors_commits_are_inspected_too() -> None:
    hooks = Hooks(commit=nh.oversight.Reject(reason="no"))
    async with nh.run(ScriptedExecutor([pass_response(number=1)])):
        with nh.scope(oversight=hooks), pytest.raises(nh.ExecutionError, match="oversight rejected"):
            await act()
