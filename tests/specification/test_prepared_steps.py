"""`Policy.prepare`: what a program's own policy sets for one step, before the step begins."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.policies import Step
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.outcomes import StepOutcome

pytestmark = pytest.mark.anyio

Result = TypeVar("Result")

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def act(result: float = 0) -> float:
    """natural
    Set <:result>.
    """
    return result


@nh.natural_function
async def other(result: float = 0) -> float:
    """natural
    Set <:result> to something else.
    """
    return result


def setting(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="result", expression=expression)


def running(*responses: Any, configuration: Any = None, **arguments: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(responses or [model_response(setting("42"), DONE)])
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    return model, nh.run(executor, **arguments)


def is_of(step: Step, function: Any) -> bool:
    """Whether a step executes the block of a function."""
    return step.block.function_name == function.__name__


class Prepared(nh.Policy):
    """Writes down the steps that it prepares, and those that it is around."""

    def __init__(self, name: str = "", pages: list[str] | None = None) -> None:
        self.name = name
        self.pages: list[str] = [] if pages is None else pages

    def prepare(self, step: Step) -> None:
        self.pages.append(f"{self.name} prepares {step.block.function_name}".strip())

    async def around_step(self, step: Step, proceed: Callable[[], Awaitable[Result]]) -> Result:
        self.pages.append(f"{self.name} is around {step.block.function_name}".strip())
        return await proceed()


async def test_a_step_is_prepared_before_it_begins_innermost_first() -> None:
    pages: list[str] = []
    _, run = running(policies=[Prepared("outer", pages), Prepared("middle", pages)])
    async with run:
        with nh.scope(policies=Prepared("inner", pages)):
            await act()
    assert pages == [
        *(f"{name} prepares act" for name in ("inner", "middle", "outer")),
        *(f"{name} is around act" for name in ("outer", "middle", "inner")),
    ]


def tax_of(price: float) -> float:
    """The tax on a price."""
    return price / 5


class Offering(nh.Policy):
    """Offers names to the steps of `act`."""

    def prepare(self, step: Step) -> None:
        if is_of(step, act):
            step.context.step_locals |= {"tax_of": tax_of, "price": 50}


@pytest.mark.parametrize("visible_names", ["all", "named"])
async def test_a_policy_offers_names_to_one_step_that_its_model_sees_and_uses(visible_names: Any) -> None:
    limits = nh.StepContextLimits(visible_names=visible_names)
    model, run = running(
        model_response(setting("tax_of(price)"), DONE),
        model_response(setting("tax_of(price)")),
        model_response(setting("1"), DONE),
        configuration=nh.StepExecutorConfiguration(context_limits=limits),
        policies=Offering(),
    )
    async with run:
        assert await act() == 10
        assert await other() == 1
    offered, not_offered = (str(model.requests[index].messages[0].content) for index in (0, 1))
    for line in ("price: int = 50", "tax_of: (price: float) -> float  # The tax on a price."):
        assert line in offered
        assert line not in not_offered
    assert '"kind": "resolution"' in str(model.requests[2].messages[-1].content)


class Narrowing(nh.Policy):
    """Takes the policies `Prepared` from the steps of `act`, or gives them others."""

    def __init__(self, *added: nh.Policy) -> None:
        self.added = added

    def prepare(self, step: Step) -> None:
        if is_of(step, act):
            step.policies = step.policies.without(Prepared).adding(self.added)


async def test_a_policy_narrows_the_policies_of_one_step_and_of_the_steps_within_it() -> None:
    pages: list[str] = []
    _, run = running(
        model_response(tool_call("nh_eval", expression="other()")),
        model_response(setting("1"), DONE),  # of the inner step
        model_response(setting("2"), DONE),
        model_response(setting("3"), DONE),
        policies=[Prepared("first", pages), Narrowing()],
    )
    async with run, nh.scope(implicit_references={"other": other}):
        assert await act() == 2
        assert pages == ["first prepares act"]  # it was active where the step was called
        assert await other() == 3
    assert pages[1:] == ["first prepares other", "first is around other"]


async def test_a_policy_that_is_added_to_a_step_is_around_it_and_around_what_it_causes() -> None:
    pages: list[str] = []
    _, run = running(
        model_response(tool_call("nh_eval", expression="other()")),
        model_response(setting("1"), DONE),
        model_response(setting("2"), DONE),
        policies=Narrowing(Prepared("added", pages)),
    )
    async with run, nh.scope(implicit_references={"other": other}):
        assert await act() == 2
    assert pages == ["added is around act", "added prepares other", "added is around other"]


class Refusing(nh.Policy):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def prepare(self, step: Step) -> None:
        raise self.error


@pytest.mark.parametrize("error", [nh.errors.StepRejectedError("not on Sundays"), ZeroDivisionError("mine")])
async def test_a_policy_refuses_a_step_which_neither_begins_nor_costs_anything(error: Exception) -> None:
    diary, told = Prepared(), list[str]()
    hooks = nh.Hooks()
    hooks.on(nhh.StepStarted, nhh.StepFinished)(lambda event: told.append(type(event).__name__))
    budget = nh.budget(steps=9)
    model, run = running(policies=[Refusing(error), diary], hooks=hooks, budget=budget)
    async with run:
        with pytest.raises(type(error)) as raised:
            await act()
    assert raised.value is error
    assert diary.pages == ["prepares act"]
    assert (len(model.requests), budget.spent.steps) == (0, 0)
    assert told == []


async def test_a_step_that_a_tool_causes_and_a_policy_refuses_is_an_error_of_the_tool() -> None:
    class Outermost(nh.Policy):
        def prepare(self, step: Step) -> None:
            if is_of(step, other):
                raise nh.errors.StepRejectedError("no step within a step")

    model, run = running(
        model_response(tool_call("nh_eval", expression="other()")),
        model_response(setting("2"), DONE),
        policies=Outermost(),
    )
    async with run, nh.scope(implicit_references={"other": other}):
        assert await act() == 2
    assert "no step within a step" in str(model.requests[1].messages[-1].content)


async def test_each_attempt_at_a_step_is_prepared() -> None:
    diary = Prepared()
    _, run = running(
        nh.ModelError("busy", is_transient=True),
        model_response(setting("42"), DONE),
        policies=diary,
        resilience=nh.resilience.Baseline(retries=nh.resilience.retrying(attempts=2, wait=0)),
    )
    async with run:
        assert await act() == 42
    assert diary.pages == 2 * ["prepares act", "is around act"]


async def test_a_policy_wraps_the_checks_of_a_step() -> None:
    asked: list[str] = []

    def is_positive(proposal: nh.oversight.Proposal) -> bool:
        asked.append("check")
        return proposal.bindings["result"] > 0

    class Wrapping(nh.Policy):
        def prepare(self, step: Step) -> None:
            verify = step.verify
            assert verify is not None

            async def wrapped(outcome: StepOutcome, result: Any, *, is_last: bool) -> None:
                asked.append("before")
                await verify(outcome, result, is_last=is_last)
                asked.append("after")

            step.verify = wrapped

    _, run = running(
        model_response(setting("-1"), DONE),
        model_response(setting("1"), DONE),
        policies=Wrapping(),
        verify=is_positive,
    )
    async with run:
        assert await act() == 1
    assert asked == ["before", "check", "before", "check", "after"]


class LockedError(nh.NighthawkError):
    """An error that no model can fix."""


def open_vault() -> None:
    """Open the vault."""
    raise LockedError("the vault is locked")


class Locking(nh.Policy):
    def prepare(self, step: Step) -> None:
        step.host_errors = (*step.host_errors, self.find)

    def find(self, error: BaseException) -> LockedError | None:
        cause = error.__cause__
        return cause if isinstance(cause, LockedError) else None


async def test_an_error_that_no_model_can_fix_leaves_the_step_and_no_model_sees_it() -> None:
    responses = (
        model_response(tool_call("nh_eval", expression="open_vault()")),
        model_response(setting("1"), DONE),
    )
    references = {"open_vault": open_vault}
    model, run = running(*responses)
    async with run, nh.scope(implicit_references=references):
        assert await act() == 1
    assert "the vault is locked" in str(model.requests[1].messages[-1].content)
    model, run = running(*responses, policies=Locking())
    async with run, nh.scope(implicit_references=references):
        with pytest.raises(LockedError, match="the vault is locked"):
            await act()
    assert len(model.requests) == 1


async def test_what_one_step_is_given_others_at_the_same_time_do_not_see() -> None:
    class Numbering(nh.Policy):
        count = 0

        def prepare(self, step: Step) -> None:
            self.count += 1
            step.context.step_locals["number"] = self.count

    _, run = running(*[model_response(setting("number"), DONE)] * 5, policies=Numbering())
    results: list[float] = []

    async def note() -> None:
        results.append(await act())

    async with run, anyio.create_task_group() as task_group:
        for _ in range(5):
            task_group.start_soon(note)
    assert sorted(results) == [1, 2, 3, 4, 5]


def test_a_policy_cannot_prepare_a_step_with_an_async_method() -> None:
    async def prepare(self: nh.Policy, step: Step) -> None: ...

    with pytest.raises(TypeError, match=r"Waiting\.prepare must be `def`"):
        type("Waiting", (nh.Policy,), {"prepare": prepare})
