"""`concurrent_mutation="first"`: the first step that changes an object wins, the others go on from there."""

import json
import pickle
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.kernel.run import Run
from nighthawk_async.policies.shared_objects.first_writer import OutdatedObjectError
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)
from tests.specification.test_gather_safety import CHANGES
from tests.unit.policies.gathered_steps import PlayingExecutor, evaluate, execute, step

pytestmark = pytest.mark.anyio


@dataclass
class Stock:
    count: int
    sold_to: list[str] = field(default_factory=list[str])


def first_run() -> Run:
    return nh.run(PlayingExecutor(), concurrent_mutation="first")


# ---- a shop


@nh.natural_function
async def serve(stock: Stock, ledger: list[str], customer: str) -> bool:
    sold = False
    """natural
    Sell one of <stock> to <customer>, and note it in <ledger>, if any is left. Set <:sold>.
    """
    return sold


class Shop(ScriptedModel):
    """Sells what is left according to what it was shown last; the first answers wait for each other."""

    def __init__(self, number: int) -> None:
        super().__init__(self.sell)
        self.missing = number
        self.are_all_there = anyio.Event()

    def sell(self, request: nh.models.ModelRequest) -> ModelResponse:
        shown = "\n".join(str(item) for message in request.messages for item in shown_in(message))
        (customer,) = set(re.findall(r'customer: str = \\?"(\w+)', shown))
        left = int(re.findall(r"stock\.count: int = (-?\d+)", shown)[-1])
        if left <= 0:
            return model_response(tool_call("nh_outcome", kind="pass", bindings={"sold": False}))
        return model_response(
            tool_call("nh_exec", statements=f"ledger.append({customer!r})"),
            tool_call("nh_exec", statements=f"stock.count -= 1\nstock.sold_to.append({customer!r})"),
            tool_call("nh_outcome", kind="pass", bindings={"sold": True}),
        )

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        self.missing -= 1
        if not self.missing:
            self.are_all_there.set()
        await self.are_all_there.wait()
        async with super().stream(request) as events:
            yield events


def shown_in(message: Any) -> list[object]:
    if isinstance(message, nh.models.ToolResultsMessage):
        return [item for result in message.results for item in result.content]
    return list(getattr(message, "content", ()))


@pytest.mark.parametrize(("left", "customers"), [(2, "abc"), (0, "ab"), (1, "abcde"), (4, "abc")])
async def test_a_shop_sells_what_it_has_and_no_more(left: int, customers: str) -> None:
    stock, ledger, model = Stock(left), list[str](), Shop(len(customers))
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), concurrent_mutation="first"):
        sold = await parallel.gather(*(serve(stock, ledger, each) for each in customers))
    assert sum(sold) == min(left, len(customers))
    assert stock.count == left - sum(sold)
    lucky = [customer for customer, is_sold in zip(customers, sold, strict=True) if is_sold]
    assert sorted(stock.sold_to) == lucky
    assert sorted(ledger) == lucky  # an earlier call of a refused response is undone as well


# ---- each kind of change


async def two_steps(
    thing: object, first: Callable[[nh.runtime.StepActor], Awaitable[object]], then: Any, other: object = None
) -> None:
    """Two steps in flight bind an object; the first does its work, and then the second one."""
    has_begun, is_done = anyio.Event(), anyio.Event()

    async def play_first(actor: nh.runtime.StepActor) -> None:
        await has_begun.wait()
        await first(actor)
        is_done.set()

    async def play_then(actor: nh.runtime.StepActor) -> None:
        has_begun.set()
        await is_done.wait()
        await then(actor)

    async with first_run():
        await parallel.gather(step(thing, play_first, other), step(thing, play_then, other))


async def outdated(call: Awaitable[object]) -> OutdatedObjectError:
    with pytest.raises(OutdatedObjectError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("change_of", CHANGES)
async def test_the_second_step_is_refused_once_and_then_goes_on(change_of: str) -> None:
    make, call, _, _ = CHANGES[change_of]
    arguments = json.loads(call.arguments)
    code = (
        arguments.get("statements") or arguments.get("expression")
        if call.name != "nh_assign"
        else f"{arguments['target_path']} = {arguments['expression']}"
    )
    text = str(code).replace("cart", "thing")
    thing = make()
    contents: list[str] = []

    def shown() -> str:
        return str(getattr(thing, "__dict__", thing))

    async def change(actor: nh.runtime.StepActor) -> None:
        with suppress(nh.ToolEvaluationError):  # of the code that raises after its change, or the second time
            await execute(actor, text)

    async def first(actor: nh.runtime.StepActor) -> None:
        await change(actor)
        contents.append(shown())

    async def then(actor: nh.runtime.StepActor) -> None:
        error = await outdated(execute(actor, text))
        assert error.is_restored
        assert "this call was not made. Now it is:\nthing: " in error.message
        assert error.report.step.step_id == error.report.other_step.step_id
        assert shown() == contents[0]
        await change(actor)  # from there it goes on

    await two_steps(thing, first, then)


async def test_a_call_that_does_not_mention_the_object_is_undone() -> None:
    stock, ledger = Stock(1), list[str]()

    def sell(customer: str) -> None:
        ledger.append(customer)
        stock.count -= 1

    async def first(actor: nh.runtime.StepActor) -> None:
        await evaluate(actor, "other('a')")

    async def then(actor: nh.runtime.StepActor) -> None:
        error = await outdated(evaluate(actor, "other('b')"))
        assert "what this call changed was undone. Now it is:" in error.message
        assert "thing.count: int = 0" in error.message
        assert stock.count == 0

    await two_steps(stock, first, then, sell)
    assert ledger == ["a", "b"]  # neither step can reach it


async def test_nothing_is_left_of_a_call_that_awaits_while_another_step_is_first() -> None:
    stock, ledger = Stock(1), [0]
    is_paying, is_sold = anyio.Event(), anyio.Event()

    async def pay() -> None:
        is_paying.set()
        await is_sold.wait()

    async def slow(actor: nh.runtime.StepActor) -> None:
        actor.context.step_locals["ledger"] = ledger
        code = "thing.sold_to.append('slow')\nledger.append(1)\nawait other()\nthing.count -= 1"
        error = await outdated(execute(actor, code))
        assert error.is_restored is False  # what the other step has changed since stays
        assert "not all that this call changed could be undone" in error.message
        assert "thing.count: int = 0" in error.message
        assert ledger == [0]

    async def quick(actor: nh.runtime.StepActor) -> None:
        await is_paying.wait()
        await outdated(execute(actor, "thing.count -= 1"))  # the slow one was first
        await execute(actor, "thing.count -= 1\nthing.sold_to.append('quick')")
        is_sold.set()

    async with first_run():
        await parallel.gather(step(stock, slow, pay), step(stock, quick))
    assert stock == Stock(0, ["slow", "quick"])


async def test_a_step_that_changes_one_of_two_objects_is_shown_the_change_of_the_other() -> None:
    pair = {"left": [1], "right": [1]}

    async def first(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing['left'].append(2)")

    async def then(actor: nh.runtime.StepActor) -> None:
        error = await outdated(execute(actor, "thing['right'].append(2)"))
        assert 'thing: dict = {"left": [1, 2], "right": [1]}' in error.message
        assert error.report.path == "thing['left']"
        await execute(actor, "thing['right'].append(2)")

    await two_steps(pair, first, then)
    assert pair == {"left": [1, 2], "right": [1, 2]}


async def test_one_step_binds_a_part_of_what_the_other_binds() -> None:
    stock = Stock(1)
    shop = SimpleNamespace(stock=stock)
    has_begun, is_done = anyio.Event(), anyio.Event()

    async def of_shop(actor: nh.runtime.StepActor) -> None:
        has_begun.set()
        await is_done.wait()
        error = await outdated(execute(actor, "thing.stock.count -= 1"))
        assert error.report.path == "thing.stock"

    async def of_stock(actor: nh.runtime.StepActor) -> None:
        await has_begun.wait()
        await execute(actor, "thing.count -= 1")
        is_done.set()

    async with first_run():
        await parallel.gather(step(shop, of_shop), step(stock, of_stock))
    assert stock.count == 0


async def test_a_change_that_comes_while_the_new_value_is_shown_is_shown_as_well() -> None:
    stock = Stock(3)
    turns = [anyio.Event() for _ in range(3)]

    async def first(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing.count -= 1")
        turns[0].set()
        await turns[1].wait()
        await execute(actor, "thing.count -= 1")
        turns[2].set()

    async def then(actor: nh.runtime.StepActor) -> None:
        await turns[0].wait()
        assert "thing.count: int = 2" in (await outdated(execute(actor, "thing.count -= 1"))).message
        turns[1].set()
        await turns[2].wait()
        assert "thing.count: int = 1" in (await outdated(execute(actor, "thing.count -= 1"))).message
        await execute(actor, "thing.count -= 1")

    async with first_run():
        await parallel.gather(step(stock, first), step(stock, then))
    assert stock.count == 0


async def test_reading_and_changing_back_are_no_change() -> None:
    thing = [1]

    async def first(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "sum(thing)\nthing.append(2)\nthing.pop()")

    async def then(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing.append(3)")

    await two_steps(thing, first, then)
    assert thing == [1, 3]


async def test_a_step_alone_and_one_after_the_other_are_never_refused() -> None:
    thing = [1]

    async def play(actor: nh.runtime.StepActor) -> None:
        for _ in range(3):
            await execute(actor, "thing.append(2)")

    async with first_run():
        await step(thing, play)
        await step(thing, play)
    assert len(thing) == 7


async def test_a_step_knows_what_the_functions_that_it_calls_change() -> None:
    @nh.natural_function
    async def inner(thing: list[int], play: Any) -> None:
        """natural
        Add to <thing>.
        """

    thing = [1]

    async def add(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing.append(2)")

    async def call_inner(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "await other(thing)")
        await execute(actor, "thing.append(3)")

    async with first_run():
        await step(thing, call_inner, lambda value: inner(value, add))
    assert thing == [1, 2, 3]


async def test_objects_that_are_declared_shared_are_everybodys() -> None:
    cache = nh.shared({"a": 1})

    async def change(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing['b'] = 2")

    await two_steps(cache, change, change)
    assert cache == {"a": 1, "b": 2}


async def test_a_step_that_fails_leaves_no_trace() -> None:
    thing = [1]

    async def fail(actor: nh.runtime.StepActor) -> None:
        raise ValueError("no")

    async def play(actor: nh.runtime.StepActor) -> None:
        await execute(actor, "thing.append(2)")

    async with first_run():
        with pytest.raises(ValueError, match="no"):
            await step(thing, fail)
        await step(thing, play)
    assert thing == [1, 2]


async def test_a_return_expression_is_decided_again_from_the_new_value() -> None:
    @nh.natural_function
    async def take(stock: Stock, wait: Any) -> int:
        """natural
        Return the count of <stock>.
        """
        return 0

    @nh.natural_function
    async def sell(stock: Stock) -> None:
        """natural
        Sell one of <stock>.
        """

    stock = Stock(2)
    is_waiting, is_sold = anyio.Event(), anyio.Event()

    async def wait() -> None:
        is_waiting.set()
        await is_sold.wait()

    taking = ScriptedSteps(evaluating("wait()"), returning("stock.count * 10"), returning("stock.count"))
    selling = ScriptedSteps((assigning("stock.count", "1"), PASS))

    async def sell_meanwhile() -> None:
        await is_waiting.wait()
        with nh.scope(step_executor=selling.executor):
            await sell(stock)
        is_sold.set()

    async with nh.run(taking.executor, concurrent_mutation="first"):
        count, _ = await parallel.gather(take(stock, wait), sell_meanwhile())
    assert count == 1
    assert "stock.count: int = 1" in str(taking.model.requests[-1].messages[-1])


async def test_all_calls_of_a_response_are_decided_on_what_it_was_shown() -> None:
    @nh.natural_function
    async def take(stock: Stock, notes: list[str], wait: Any) -> None:
        """natural
        Take one of <stock>, and note it in <notes>.
        """

    stock, notes = Stock(2), list[str]()
    is_waiting, is_sold = anyio.Event(), anyio.Event()

    async def wait() -> None:
        is_waiting.set()
        await is_sold.wait()

    taking = ScriptedSteps(
        (evaluating("wait()"),),
        (executing("notes.append('x')"), executing("stock.count -= 1"), executing("notes.append('y')"), PASS),
        (executing("stock.count -= 1"), executing("notes.append('z')"), PASS),
    )
    selling = ScriptedSteps((evaluating("stock.sold_to.append('other')"), PASS))

    @nh.natural_function
    async def sell(stock: Stock) -> None:
        """natural
        Sell one of <stock>.
        """

    async def sell_meanwhile() -> None:
        await is_waiting.wait()
        with nh.scope(step_executor=selling.executor):
            await sell(stock)
        is_sold.set()

    async with nh.run(taking.executor, concurrent_mutation="first"):
        await parallel.gather(take(stock, notes, wait), sell_meanwhile())
    assert stock == Stock(1, ["other"])
    assert notes == ["z"]


def test_the_error_crosses_to_other_processes() -> None:
    report = nh.policies.MutationReport(
        step=nh.ExecutionRef(run_id="r", scope_id="s", step_id="m:1"),
        binding="stock",
        path="stock",
        object_type="list",
        other_step=nh.ExecutionRef(run_id="r", scope_id="s", step_id="m:2"),
        other_binding="stock",
        rival_step=None,
    )
    error = OutdatedObjectError(
        report, end="this call was not made", values="stock: list = []", is_restored=True
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.guidance, copy.report) == (str(error), error.guidance, report)
