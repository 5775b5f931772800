"""A return expression is inspected before it is evaluated, and evaluated at most once."""

from collections.abc import Callable
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.hooks import BeforeCommit, BeforeToolCall, Modify, Veto
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    raise_response,
    return_response as scripted,
)
from tests.specification.scripted_steps import ScriptedSteps, returning

pytestmark = pytest.mark.anyio


class Bank:
    """Counts what is transferred."""

    def __init__(self) -> None:
        self.transfers: list[int] = []

    def transfer(self, amount: int) -> int:
        self.transfers.append(amount)
        return amount


@nh.natural_function
async def pay(bank: Bank) -> int:
    number = 0
    """natural
    Transfer with <bank>, and set <:number>.
    """
    return number


class Overseeing:
    """Answers commits with what a function gives, and keeps them."""

    def __init__(self, decide: Callable[[nh.oversight.StepCommit], Any]) -> None:
        self.commits: list[nh.oversight.StepCommit] = []
        self._decide = decide

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> Any:
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        self.commits.append(commit)
        return self._decide(commit)


class AsyncOverseeing(Overseeing):
    """The same, asynchronously."""

    async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Any:
        return super().inspect_step_commit(commit)


class RejectingEverything:
    """Says no."""

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Reject:
        return nh.oversight.Reject(reason="no")

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Reject:
        return nh.oversight.Reject(reason="no")


def vetoing(*events: Any) -> nh.Hooks:
    hooks = nh.Hooks()
    for event in events:
        hooks.on(event, lambda _: Veto("no"))
    return hooks


def logging(told: list[str]) -> nh.Hooks:
    """Hooks that take down what they see, and say no."""
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def log(event: BeforeCommit) -> Veto:
        told.append(f"{event}")
        return Veto("no")

    return hooks


EXPRESSION = "bank.transfer(5)"
NATIVE = '{"result": {"kind": "return", "return_expression": "bank.transfer(5)"}}'


class Agent:
    """Concludes the same outcome whatever becomes of it, and ends with it."""

    def __init__(self, expression: str) -> None:
        self.outcome = nh.executors.ReturnStepOutcome(return_expression=expression)

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        for _ in range(2):
            try:
                await task.conclude(self.outcome)
            except nh.ExecutionError:
                continue
        return self.outcome


def tool_executor() -> nh.AgentStepExecutor:
    return ScriptedSteps(*[returning(EXPRESSION)] * 4).executor


def native_executor() -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(outcome_transport="native")
    model = ScriptedModel([model_response(text=NATIVE)] * 4)
    return nh.AgentStepExecutor.from_model(model=model, configuration=configuration)


EXECUTORS: list[Any] = [
    pytest.param(tool_executor, id="tool"),
    pytest.param(native_executor, id="native"),
    pytest.param(lambda: ScriptedExecutor([scripted(EXPRESSION)]), id="scripted"),
    pytest.param(lambda: nh.AgentStepExecutor.from_agent(agent=Agent(EXPRESSION)), id="an agent"),
]
REJECTING: list[Any] = [
    pytest.param(lambda: {"oversight": RejectingEverything()}, id="oversight"),
    pytest.param(
        lambda: {"oversight": Overseeing(lambda _: nh.oversight.Reject(reason="no"))}, id="of commits"
    ),
    pytest.param(
        lambda: {"oversight": AsyncOverseeing(lambda _: nh.oversight.Reject(reason="no"))}, id="async"
    ),
    pytest.param(lambda: {"hooks": vetoing(BeforeCommit)}, id="hook"),
    pytest.param(lambda: {"hooks": vetoing(BeforeToolCall, BeforeCommit)}, id="hooks"),
]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("rejecting", REJECTING)
async def test_what_is_rejected_was_not_done(executor: Any, rejecting: Any) -> None:
    bank = Bank()
    async with nh.run(executor()):
        with nh.scope(**rejecting()), pytest.raises(nh.errors.StepRejectedError):
            await pay(bank)
    assert bank.transfers == []


async def test_whoever_logs_a_commit_and_rejects_it_did_not_want_its_value() -> None:
    bank, told = Bank(), list[str]()
    overseeing = Overseeing(lambda commit: nh.oversight.Reject(reason=f"no: {commit!r}"))
    for policies in ({"oversight": overseeing}, {"hooks": logging(told)}):
        async with nh.run(tool_executor()):
            with nh.scope(**policies), pytest.raises(nh.errors.StepRejectedError):  # type: ignore[arg-type]
                await pay(bank)
    assert bank.transfers == []
    assert told[0].endswith("return_value=<not evaluated>)")
    assert repr(overseeing.commits[0]).endswith(", return_value=None)")


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_an_abort_leaves_nothing_done(executor: Any) -> None:
    bank = Bank()
    async with nh.run(executor()):
        with (
            nh.scope(oversight=Overseeing(lambda _: nh.oversight.Abort("no"))),
            pytest.raises(nh.errors.StepAbortedError),
        ):
            await pay(bank)
    assert bank.transfers == []


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "decide",
    [
        lambda _: nh.oversight.Accept(),
        lambda _: nh.oversight.Rewrite(values={}),
        lambda _: nh.oversight.Rewrite(values={"number": 3}),
        lambda commit: (
            nh.oversight.Accept() if commit.return_value == 5 else nh.oversight.Reject(reason="wrong")
        ),
        lambda commit: nh.oversight.Rewrite(values={"number": commit.return_value}),
        lambda commit: nh.oversight.Rewrite(return_value=commit.return_value),
    ],
    ids=["accept", "values left out", "values", "looks", "looks and rewrites", "looks and returns"],
)
@pytest.mark.parametrize("oversight", [Overseeing, AsyncOverseeing])
async def test_it_is_evaluated_once(executor: Any, decide: Any, oversight: Any) -> None:
    bank = Bank()
    async with nh.run(executor()):
        with nh.scope(oversight=oversight(decide)):
            assert await pay(bank) == 5
    assert bank.transfers == [5]


async def test_another_return_value_is_returned_without_evaluating() -> None:
    bank = Bank()
    async with nh.run(tool_executor()):
        with nh.scope(oversight=Overseeing(lambda _: nh.oversight.Rewrite(return_value=7))):
            assert await pay(bank) == 7
    assert bank.transfers == []


async def test_whoever_wants_the_value_is_asked_again_when_it_is_there_and_the_others_are_not() -> None:
    told: list[tuple[str, object]] = []
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def first(event: BeforeCommit) -> None:
        told.append(("first", event.outcome))

    @hooks.on(BeforeCommit)
    async def second(event: BeforeCommit) -> None:
        told.append(("second", event.return_value))

    def decide(commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
        told.append(("oversight", len(bank.transfers)))
        return nh.oversight.Accept()

    bank = Bank()
    async with nh.run(tool_executor(), hooks=hooks):
        with nh.scope(oversight=Overseeing(decide)):
            assert await pay(bank) == 5
    outcome = nh.executors.ReturnStepOutcome(return_expression=EXPRESSION)
    assert told == [("first", outcome), ("oversight", 0), ("second", 5)]


async def test_a_hook_that_looks_at_the_value_does_not_have_it_made_before_oversight_rejects() -> None:
    bank, hooks, told = Bank(), nh.Hooks(), list[object]()
    hooks.on(BeforeCommit, lambda event: told.append(event.return_value))
    async with nh.run(ScriptedExecutor([scripted(EXPRESSION)]), hooks=hooks):
        with nh.scope(oversight=RejectingEverything()), pytest.raises(nh.errors.StepRejectedError):
            await pay(bank)
    assert (bank.transfers, told) == ([], [])


async def test_an_answer_that_came_of_the_missing_value_does_not_count() -> None:
    def decide(commit: nh.oversight.StepCommit) -> Any:
        try:
            return nh.oversight.Accept() if commit.return_value == 5 else nh.oversight.Reject(reason="wrong")
        except Exception:
            return nh.oversight.Abort("it has no value")

    bank = Bank()
    async with nh.run(ScriptedExecutor([scripted(EXPRESSION)])):
        with nh.scope(oversight=Overseeing(decide)):
            assert await pay(bank) == 5
    assert bank.transfers == [5]


async def test_what_hooks_modify_is_what_the_expression_and_oversight_see() -> None:
    bank, hooks = Bank(), nh.Hooks()
    hooks.on(BeforeCommit, lambda event: Modify({"number": 8}))
    oversight = Overseeing(
        lambda commit: nh.oversight.Accept() if commit.return_value == 8 else nh.oversight.Abort("other")
    )
    async with nh.run(ScriptedExecutor([scripted("bank.transfer(number)", number=1)]), hooks=hooks):
        with nh.scope(oversight=oversight):
            assert await pay(bank) == 8
    assert bank.transfers == [8]
    assert [(commit.bindings, commit.return_value) for commit in oversight.commits] == [
        ({"number": 8}, 8)
    ] * 2


async def test_oversight_sees_again_what_a_hook_modifies_after_looking_at_the_value() -> None:
    bank, hooks = Bank(), nh.Hooks()
    hooks.on(BeforeCommit, lambda event: Modify({"number": event.return_value}))
    oversight = Overseeing(lambda commit: nh.oversight.Accept())
    async with nh.run(ScriptedExecutor([scripted(EXPRESSION, number=1)]), hooks=hooks):
        with nh.scope(oversight=oversight):
            assert await pay(bank) == 5
    assert [commit.bindings for commit in oversight.commits] == [{"number": 1}, {"number": 5}]
    assert bank.transfers == [5]


async def test_a_rejected_commit_has_no_value_afterwards() -> None:
    answers = iter([nh.oversight.Reject(reason="no"), nh.oversight.Accept()])
    oversight, bank = Overseeing(lambda commit: next(answers)), Bank()
    steps = ScriptedSteps(returning(EXPRESSION), returning("bank.transfer(6)"))
    async with nh.run(steps.executor):
        with nh.scope(oversight=oversight):
            assert await pay(bank) == 6
    assert [commit.return_value for commit in oversight.commits] == [None, 6]
    assert "return_value=6" in repr(oversight.commits[1])
    assert bank.transfers == [6]


async def test_checks_see_the_value_of_what_was_inspected() -> None:
    seen: list[object] = []

    async def check(proposal: nh.oversight.Proposal) -> bool:
        seen.append(proposal.return_value)
        return True

    bank = Bank()
    async with nh.run(ScriptedExecutor([scripted(EXPRESSION)] * 2)):
        with (
            nh.scope(verify=check, oversight=RejectingEverything()),
            pytest.raises(nh.errors.StepRejectedError),
        ):
            await pay(bank)
        with nh.scope(verify=check, oversight=Overseeing(lambda _: nh.oversight.Accept())):
            assert await pay(bank) == 5
    assert (bank.transfers, seen) == ([5], [5])


@pytest.mark.parametrize("expression", ["bank.transfer('many')", "bank.transfer(1) // 0"])
async def test_the_same_outcome_is_not_evaluated_again_after_it_failed(expression: str) -> None:
    bank = Bank()
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Agent(expression))):
        with pytest.raises(nh.ExecutionError):
            await pay(bank)
    assert len(bank.transfers) == 1


async def test_a_model_whose_outcome_is_refused_learns_that_its_expression_was_evaluated() -> None:
    async def check(proposal: nh.oversight.Proposal) -> str | None:
        return None if proposal.return_value == 0 else "not yet"

    bank = Bank()
    done = "; return_expression was evaluated: what it called is done"
    steps = ScriptedSteps(returning("str(bank.transfer(5)) + '!'"), returning(EXPRESSION), returning("0"))
    async with nh.run(steps.executor):
        with nh.scope(verify=check):
            assert await pay(bank) == 0
    refused, unchecked = (envelope["error"]["message"] for envelope in steps.envelopes)
    assert refused.endswith("unable to parse string as an integer" + done)
    assert unchecked == "not accepted yet: not yet" + done
    assert bank.transfers == [5, 5]


class AlarmError(Exception):
    """Rings when it is made."""

    rung: list[str]

    def __init__(self, message: str) -> None:
        self.rung.append(message)
        super().__init__(message)


@nh.natural_function
async def watch() -> None:
    """natural
    Raise AlarmError when something is wrong.
    """


@pytest.mark.parametrize("rejecting", REJECTING)
async def test_an_exception_is_made_after_the_inspection(rejecting: Any) -> None:
    AlarmError.rung = []
    async with nh.run(ScriptedExecutor([raise_response("fire", "AlarmError")] * 2)):
        with nh.scope(**rejecting()), pytest.raises(nh.errors.StepRejectedError):
            await watch()
        assert AlarmError.rung == []
        with pytest.raises(AlarmError, match="fire"):
            await watch()
    assert AlarmError.rung == ["fire"]


async def test_a_message_during_the_evaluation_is_told_with_what_was_done() -> None:
    bank = Bank()

    def transfer_and_steer(amount: int) -> int:
        nh.get_current_step_actor().steer("wait")
        return bank.transfer(amount)

    steps = ScriptedSteps(returning("transfer_and_steer(5)"), returning("0"))
    async with nh.run(steps.executor):
        with nh.scope(implicit_references={"transfer_and_steer": transfer_and_steer}):
            assert await pay(bank) == 0
    assert steps.envelopes[0]["error"]["message"].endswith(
        "end the block again; return_expression was evaluated: what it called is done"
    )
    assert bank.transfers == [5]
