"""What oversight and hooks see of a commit, what comes of changing it, and how a rejected one goes back."""

from collections.abc import Callable
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.hooks import BeforeCommit, Modify, Veto
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    return_response,
)
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, returning

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(value: Any = None) -> int:
    number = 0
    other: int
    """natural
    Set <:number> and <:other> from <value>.
    """
    return number + other  # only after `pass`


@nh.natural_function
async def count(value: Any = None) -> int:
    number = 0
    """natural
    Set <:number> from <value>.
    """
    return number


class Overseeing:
    """Answers commits with what a function gives, and keeps them."""

    def __init__(self, decide: Callable[[nh.oversight.StepCommit], Any]) -> None:
        self.commits: list[nh.oversight.StepCommit] = []
        self._decide = decide

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        self.commits.append(commit)
        return self._decide(commit)


def rewriting(**arguments: Any) -> Overseeing:
    return Overseeing(lambda commit: nh.oversight.Rewrite(**arguments))


def modifying(bindings: dict[str, object]) -> nh.Hooks:
    hooks = nh.Hooks()
    hooks.on(BeforeCommit, lambda event: Modify(bindings))
    return hooks


# ---- what is returned


async def test_the_value_that_is_about_to_be_returned_is_seen() -> None:
    hooks, told, oversight = nh.Hooks(), list[Any](), Overseeing(lambda commit: nh.oversight.Accept())
    hooks.on(BeforeCommit)(told.append)
    responses = [return_response("str(number + 1)", number=2), pass_response(number=2)]
    async with nh.run(ScriptedExecutor(responses), hooks=hooks):
        with nh.scope(oversight=oversight):
            assert (await count(), await count()) == (3, 2)
    assert [event.return_value for event in told] == [3, None]
    assert [commit.return_value for commit in oversight.commits] == [3, None]


RETURNED: list[Any] = [
    pytest.param({"values": {"number": 10}}, "number", 10, id="a rewritten binding"),
    pytest.param({"values": {"number": "10"}}, "number + 1", 11, id="coerced"),
    pytest.param({"values": {}}, "number", 0, id="left out, so what it was before"),
    pytest.param({"return_value": "7"}, "number", 7, id="another value"),
    pytest.param({"values": {"number": 10}, "return_value": 7}, "number", 7, id="both"),
]


@pytest.mark.parametrize(("arguments", "expression", "returned"), RETURNED)
async def test_a_rewrite_holds_for_what_is_returned(
    arguments: dict[str, Any], expression: str, returned: int
) -> None:
    async with nh.run(ScriptedExecutor([return_response(expression, number=98)])):
        with nh.scope(oversight=rewriting(**arguments)):
            assert await count() == returned


async def test_a_modification_holds_for_what_is_returned_and_oversight_sees_it() -> None:
    oversight = Overseeing(lambda commit: nh.oversight.Accept())
    async with nh.run(ScriptedExecutor([return_response("number + 1", number=98)])):
        with nh.scope(hooks=modifying({"number": 10}), oversight=oversight):
            assert await count() == 11
    assert (oversight.commits[0].bindings, oversight.commits[0].return_value) == ({"number": 10}, 11)


async def test_an_expression_sees_no_value_of_the_model_that_is_not_committed() -> None:
    async with nh.run(ScriptedExecutor([return_response("other", number=1, other=98)])):
        with (
            nh.scope(oversight=rewriting(values={"number": 1})),
            pytest.raises(nh.errors.HookError, match="NameError"),
        ):
            await act()


async def test_an_expression_is_evaluated_once_when_nothing_is_changed() -> None:
    calls: list[int] = []
    hooks, told = nh.Hooks(), list[Any]()
    hooks.on(BeforeCommit)(told.append)
    async with nh.run(ScriptedExecutor([return_response("value(1) or 5")]), hooks=hooks):
        with nh.scope(oversight=Overseeing(lambda commit: nh.oversight.Accept())):
            assert await count(calls.append) == 5
    assert calls == [1]


@pytest.mark.parametrize(
    ("arguments", "response", "named"),
    [
        ({"values": {"number": "many"}}, pass_response(number=1), "write binding 'number' must be int"),
        ({"values": {"number": 0}}, return_response("1 // number", number=1), "ZeroDivisionError"),
        ({"return_value": "many"}, return_response("1"), "the return value"),
        ({"return_value": 1}, pass_response(number=1), "gave a return value to the outcome 'pass'"),
        ({}, pass_response(number=1), "Rewrite without values or a return value"),
    ],
)
async def test_a_rewrite_that_is_not_acceptable_is_an_error_of_the_host(
    arguments: dict[str, Any], response: Any, named: str
) -> None:
    async with nh.run(ScriptedExecutor([response])):
        with (
            nh.scope(oversight=rewriting(**arguments)),
            pytest.raises(nh.errors.HookError, match=named) as caught,
        ):
            await count()
    assert caught.value.hook == "inspect_step_commit"


async def test_no_model_is_blamed_for_a_modification_that_is_not_acceptable() -> None:
    steps = ScriptedSteps((assigning("number", "1"), PASS))
    async with nh.run(steps.executor, hooks=modifying({"number": "many"})):
        with pytest.raises(nh.errors.HookError, match="write binding 'number' must be int"):
            await count()
    assert len(steps.model.requests) == 1


@pytest.mark.parametrize("arguments", [{}, {"values": {}, "return_value": 1}, {"return_value": 1}])
async def test_a_tool_call_is_rewritten_by_values_alone(arguments: dict[str, Any]) -> None:
    class Wrong(Overseeing):
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
            return nh.oversight.Rewrite(**arguments)

    steps = ScriptedSteps((assigning("number", "1"), PASS))
    async with nh.run(steps.executor):
        oversight = Wrong(lambda commit: nh.oversight.Accept())
        with (
            nh.scope(oversight=oversight),
            pytest.raises(nh.errors.HookError, match="answered a Rewrite with"),
        ):
            await count()


# ---- what is rejected


def at_least_two(commit: nh.oversight.StepCommit) -> nh.oversight.Accept | nh.oversight.Reject:
    if commit.bindings["number"] == 1:
        return nh.oversight.Reject(reason="one is too small", guidance="take two")
    return nh.oversight.Accept()


def veto_one() -> nh.Hooks:
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    async def decide(event: BeforeCommit) -> Veto | None:
        return Veto("one is too small", "take two") if event.bindings["number"] == 1 else None

    return hooks


def setting(number: int) -> tuple[nh.models.ToolCall, nh.models.ToolCall]:
    return assigning("number", str(number)), PASS


REJECTING: list[Any] = [
    pytest.param(lambda: {"oversight": Overseeing(at_least_two)}, id="oversight"),
    pytest.param(lambda: {"hooks": veto_one()}, id="hook"),
]


@pytest.mark.parametrize("rejecting", REJECTING)
async def test_a_model_learns_why_its_commit_was_rejected_and_goes_on(rejecting: Any) -> None:
    steps = ScriptedSteps(setting(1), setting(2))
    async with nh.run(steps.executor):
        with nh.scope(**rejecting()):
            assert await count() == 2
    assert steps.envelopes[-1]["error"] == {
        "kind": "oversight",
        "message": "not accepted yet: one is too small (take two)",
        "guidance": "Go on, then end the block again.",
    }


@pytest.mark.parametrize("rejecting", REJECTING)
@pytest.mark.parametrize(
    ("configuration", "requests"),
    [({"max_corrective_turns": 2}, 3), ({"max_corrective_turns": 0}, 1), ({"max_turns": 2}, 2)],
)
async def test_rejections_are_bounded(rejecting: Any, configuration: dict[str, int], requests: int) -> None:
    steps = ScriptedSteps(*[setting(1)] * 5, **configuration)
    async with nh.run(steps.executor):
        with nh.scope(**rejecting()), pytest.raises(nh.errors.StepRejectedError, match="take two") as caught:
            await count()
    assert type(caught.value) is nh.errors.StepRejectedError
    assert isinstance(caught.value.__cause__, nh.errors.ToolBoundaryError)
    assert len(steps.model.requests) == requests


async def test_what_hooks_changed_before_a_rejection_is_not_changed_twice() -> None:
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def double(event: BeforeCommit) -> Modify:
        number = event.bindings["number"]
        assert isinstance(number, int)
        return Modify({"number": 2 * number})

    answers = iter([nh.oversight.Reject(reason="again"), nh.oversight.Accept()])
    oversight = Overseeing(lambda commit: next(answers))
    steps = ScriptedSteps((assigning("number", "4"), returning("number")), returning("number + 1"))
    async with nh.run(steps.executor, hooks=hooks):
        with nh.scope(oversight=oversight):
            assert await count() == 9
    assert [commit.bindings for commit in oversight.commits] == [{"number": 8}] * 2
    assert [commit.return_value for commit in oversight.commits] == [None, 9]


@pytest.mark.parametrize("rejecting", REJECTING)
async def test_the_native_transport_is_told_in_a_message_and_is_bounded_too(rejecting: Any) -> None:
    responses = [
        [
            model_response(assigning("number", str(number))),
            model_response(text='{"result": {"kind": "pass"}}'),
        ]
        for number in (1, 2, 1, 1)
    ]
    model = ScriptedModel([each for pair in responses for each in pair])
    configuration = nh.StepExecutorConfiguration(outcome_transport="native", max_corrective_turns=1)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with nh.scope(**rejecting()):
            assert await count() == 2
            with pytest.raises(nh.errors.StepRejectedError, match="take two") as caught:
                await count()
    assert type(caught.value) is nh.errors.StepRejectedError
    assert model.requests[2].messages[-1] == nh.models.UserMessage(
        content=(
            "That outcome was not accepted yet: one is too small (take two). "
            "Go on, then end the block again.",
        )
    )
    assert len(model.requests) == 8


DIRECT_ANSWERS = [
    f'{{"result": {{"kind": "pass", "bindings": {{"number": {number}}}}}}}' for number in (1, 2)
]
SMALL = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)


@pytest.mark.parametrize("rejecting", REJECTING)
@pytest.mark.parametrize(
    ("texts", "capabilities"),
    [
        (DIRECT_ANSWERS, nh.models.ModelCapabilities(default_transport="direct", tools=False)),
        (['{"number": 1}', '{"number": 2}'], SMALL),
    ],
    ids=["at once", "piecemeal"],
)
async def test_the_direct_transport_asks_again_and_is_bounded_too(
    rejecting: Any, texts: list[str], capabilities: nh.models.ModelCapabilities
) -> None:
    first, second = (model_response(text=text) for text in texts)
    model = ScriptedModel([first, second, first, first], capabilities=capabilities)
    configuration = nh.StepExecutorConfiguration(max_corrective_turns=1)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with nh.scope(**rejecting()):
            assert await count() == 2
            with pytest.raises(nh.errors.StepRejectedError) as caught:
                await count()
    assert type(caught.value) is nh.errors.StepRejectedError
    assert "one is too small (take two)" in str(model.requests[1].messages)
    assert len(model.requests) == 4


@pytest.mark.parametrize("rejecting", REJECTING)
async def test_an_agent_of_ones_own_learns_of_rejections_and_cannot_pass_them_over(rejecting: Any) -> None:
    class Agent:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            outcome = nh.executors.PassStepOutcome()
            for number in numbers:
                await task.begin_tool_call(assigning("number", str(number)))()
                if number == 1:
                    with pytest.raises(nh.errors.StepRejectedError, match="take two"):
                        await task.conclude(outcome)
            return outcome

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Agent())):
        with nh.scope(**rejecting()):
            numbers = (1, 2)
            assert await count() == 2
            numbers = (1, 1)
            with pytest.raises(nh.errors.StepRejectedError):
                await count()


async def test_an_agent_that_lets_a_rejection_through_is_tried_no_more() -> None:
    class Agent:
        runs = 0

        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            self.runs += 1
            await task.begin_tool_call(assigning("number", "1"))()
            await task.conclude(nh.executors.PassStepOutcome())
            raise AssertionError

    agent = Agent()
    baseline = nh.resilience.Baseline(retries=3)
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=agent), resilience=baseline):
        with nh.scope(oversight=Overseeing(at_least_two)), pytest.raises(nh.errors.StepRejectedError):
            await count()
    assert agent.runs == 1


@pytest.mark.parametrize("rejecting", REJECTING)
async def test_executors_without_further_turns_fail_at_the_first_rejection(rejecting: Any) -> None:
    for executor in (
        ScriptedExecutor(default_response=pass_response(number=1)),
        CallbackExecutor(lambda _: pass_response(number=1)),
    ):
        async with nh.run(executor):
            with nh.scope(**rejecting()), pytest.raises(nh.errors.StepRejectedError) as caught:
                await count()
        assert type(caught.value) is nh.errors.StepRejectedError


async def test_checks_come_before_oversight_which_sees_what_they_agree_to() -> None:
    checked: list[object] = []
    oversight = Overseeing(at_least_two)
    steps = ScriptedSteps(setting(0), setting(1), setting(2))

    def check(proposal: nh.oversight.Proposal) -> bool:
        checked.append(proposal.bindings["number"])
        return proposal.bindings["number"] != 0

    async with nh.run(steps.executor):
        with nh.scope(verify=check, oversight=oversight):
            assert await count() == 2
    assert checked == [0, 1, 2]
    assert [commit.bindings["number"] for commit in oversight.commits] == [1, 2]
