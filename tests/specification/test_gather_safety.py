"""Gather safety: a step that changes what another step in flight has bound is reported, refused or let be."""

import queue
import warnings
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel, ConfigDict

import nighthawk_async as nh
from nighthawk_async.actors import SharedCell, SharedMap
from tests.cases import every
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

Mode = Literal["warn", "error", "ignore"]


@dataclass
class Order:
    status: str = "open"
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SlottedOrder:
    status: str = "open"


class OrderModel(BaseModel):
    status: str = "open"
    lines: list[str] = []


class OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")


class PlainOrder:
    def __init__(self) -> None:
        self.status = "open"
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)

    def count(self) -> int:
        return len(self._lines)


@nh.natural_function
async def hold(basket: object, wait: Callable[[], Awaitable[None]]) -> None:
    """natural
    Call wait and then look at <basket>.
    """


@nh.natural_function
async def change(cart: Any) -> None:
    """natural
    Change <cart>.
    """


async def change_while_held(
    cart: object, *calls: nh.models.ToolCall, mode: Mode = "warn", basket: object = None
) -> ScriptedSteps:
    """Carry out tool calls of one step on an object while another step has it bound, or another one."""
    is_held, release = anyio.Event(), anyio.Event()

    async def wait() -> None:
        is_held.set()
        await release.wait()

    holder, changer = ScriptedSteps(evaluating("wait()"), PASS), ScriptedSteps(calls, PASS)
    async with (
        nh.run(holder.executor, concurrent_mutation=mode),
        anyio.create_task_group() as task_group,
    ):
        task_group.start_soon(hold, cart if basket is None else basket, wait)
        await is_held.wait()
        with nh.scope(step_executor=changer.executor):
            await change(cart)
        release.set()
    return changer


CHANGES: dict[str, tuple[Callable[[], Any], nh.models.ToolCall, str, str]] = {
    "dotted assignment of a dataclass": (Order, assigning("cart.status", "'sold'"), "cart", "Order"),
    "dotted assignment of slots": (SlottedOrder, assigning("cart.status", "'sold'"), "cart", "SlottedOrder"),
    "dotted assignment of a model": (OrderModel, assigning("cart.status", "'sold'"), "cart", "OrderModel"),
    "dotted assignment of a plain object": (PlainOrder, assigning("cart.status", "1"), "cart", "PlainOrder"),
    "dotted assignment of a namespace": (
        lambda: SimpleNamespace(status=1),
        assigning("cart.status", "2"),
        "cart",
        "types.SimpleNamespace",
    ),
    "extra field of a model": (
        OpenModel,
        assigning("cart.gift", "True"),
        "cart.__pydantic_extra__",
        "dict",
    ),
    "append to a list": (lambda: [1], evaluating("cart.append(2)"), "cart", "list"),
    "item of a list": (lambda: [1], executing("cart[0] = 2"), "cart", "list"),
    "order of a list": (lambda: [2, 1], evaluating("cart.sort()"), "cart", "list"),
    "item of a dictionary": (lambda: {"a": 1}, executing("cart['b'] = 2"), "cart", "dict"),
    "value of a dictionary": (lambda: {"a": 1}, executing("cart['a'] = 2"), "cart", "dict"),
    "deletion": (lambda: {"a": 1}, executing("del cart['a']"), "cart", "dict"),
    "ordered dictionary": (
        lambda: OrderedDict(a=1),
        evaluating("cart.update(b=2)"),
        "cart",
        "collections.OrderedDict",
    ),
    "member of a set": (lambda: {1}, evaluating("cart.add(2)"), "cart", "set"),
    "deque": (lambda: deque([1]), evaluating("cart.append(2)"), "cart", "collections.deque"),
    "bytearray": (lambda: bytearray(b"a"), executing("cart[0] = 98"), "cart", "bytearray"),
    "method of an object": (PlainOrder, evaluating("cart.add('tea')"), "cart._lines", "list"),
    "list in a dataclass": (Order, executing("cart.lines += ['tea']"), "cart.lines", "list"),
    "list in a model": (OrderModel, evaluating("cart.lines.append('tea')"), "cart.lines", "list"),
    "list in a tuple in a list": (lambda: [(1, [2])], evaluating("cart[0][1].clear()"), "cart[0][1]", "list"),
    "list in a dictionary": (lambda: {"a": [1]}, evaluating("cart['a'].append(2)"), "cart['a']", "list"),
    "change before an error": (lambda: [1], executing("cart.append(2)\nraise ValueError"), "cart", "list"),
}


@every("change_of", CHANGES)
async def test_a_change_of_what_another_step_has_bound_is_reported_with_both_steps(change_of: str) -> None:
    make, call, path, object_type = CHANGES[change_of]
    with pytest.warns(nh.policies.ConcurrentMutationWarning) as caught:
        await change_while_held(make(), call)
    (warning,) = caught
    assert isinstance(warning.message, nh.policies.ConcurrentMutationWarning)
    report = warning.message.report
    assert (report.binding, report.path, report.other_binding) == ("cart", path, "basket")
    assert report.object_type.rpartition("test_gather_safety.")[2] == object_type
    assert (report.step.step_id, report.other_step.step_id) == (step_id_of(change), step_id_of(hold))
    for part in (step_id_of(change), step_id_of(hold), path, "'basket'", object_type):
        assert part in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, line_of(change))


@every("change_of", CHANGES)
async def test_in_error_mode_the_model_reads_why_and_the_object_stays_as_it_was(change_of: str) -> None:
    make, call, path, _ = CHANGES[change_of]
    cart = make()
    seen: list[Any] = list(vars(cart).items()) if hasattr(cart, "__dict__") else []
    steps = await change_while_held(cart, call, mode="error")
    (envelope,) = steps.envelopes
    assert envelope["error"]["kind"] == "execution"
    assert f"changed '{path}'" in envelope["error"]["message"]
    assert "the change was undone" in envelope["error"]["message"]
    assert envelope["error"]["guidance"]
    fresh = make()
    if hasattr(cart, "__dict__"):
        assert list(vars(cart).items()) == seen
        assert repr(vars(cart)) == repr(vars(fresh))
    else:
        assert cart == fresh
    if isinstance(cart, BaseModel):
        assert cart.model_fields_set == set()


async def test_the_model_of_a_refused_call_goes_on() -> None:
    cart = [1]
    steps = await change_while_held(cart, evaluating("cart.append(2)"), evaluating("len(cart)"), mode="error")
    assert [envelope["value"] for envelope in steps.envelopes] == [None, 1]


@every("change_of", CHANGES)
async def test_ignore_turns_the_guard_off(change_of: str) -> None:
    make, call, _, _ = CHANGES[change_of]
    steps = await change_while_held(make(), call, mode="ignore")
    assert "in flight has bound" not in str(steps.envelopes)


async def test_only_four_modes_exist() -> None:
    with pytest.raises(nh.NighthawkError, match="concurrent_mutation must be one of"):
        nh.run(ScriptedSteps(PASS).executor, concurrent_mutation="loud")  # pyright: ignore[reportArgumentType]


READINGS = {
    "list": ([3, [1], {"a": 2}], "sorted([cart[0], len(cart)]) + cart[1]"),
    "dictionary": ({"a": [1], 2: {3}}, "[*cart.items(), cart.get('missing'), 3 in cart[2]]"),
    "dataclass": (Order(lines=["tea"]), "repr(cart) + cart.lines[0] + cart.status"),
    "model": (OrderModel(lines=["tea"]), "cart.model_dump_json() + repr(cart.model_copy(deep=True))"),
    "plain object": (PlainOrder(), "[cart.count(), cart.status, vars(cart)]"),
    "own copy": ([1], "[*cart, 2].append(3)"),
}


@pytest.mark.parametrize("reading_of", READINGS)
@pytest.mark.parametrize("mode", ["warn", "error"])
async def test_reading_together_is_no_change(reading_of: str, mode: Mode) -> None:
    cart, expression = READINGS[reading_of]
    steps = await change_while_held(cart, evaluating(expression), mode=mode)
    assert [envelope["error"] for envelope in steps.envelopes] == [None]


async def test_binding_a_name_to_another_object_is_no_change() -> None:
    calls = [assigning("cart", "[*cart, 2]"), evaluating("cart.append(3)"), executing("cart = []")]
    steps = await change_while_held([1], *calls, mode="error")
    assert [envelope["error"] for envelope in steps.envelopes] == [None] * 3


async def test_setting_what_is_there_already_is_no_change() -> None:
    calls = [assigning("cart.status", "'op' + 'en'"), executing("cart.lines.append(1); cart.lines.pop()")]
    steps = await change_while_held(Order(), *calls, mode="error")
    assert [envelope["error"] for envelope in steps.envelopes] == [None] * 2


async def test_objects_of_two_steps_that_are_merely_equal_are_not_shared() -> None:
    steps = await change_while_held([1], evaluating("cart.append(2)"), basket=[1], mode="error")
    assert [envelope["error"] for envelope in steps.envelopes] == [None]


async def test_nothing_is_reported_when_the_other_step_has_ended() -> None:
    cart = [1]
    steps = ScriptedSteps(PASS, evaluating("cart.append(2)"), PASS)
    async with nh.run(steps.executor, concurrent_mutation="error"):
        await hold(cart, anyio.lowlevel.checkpoint)
        await change(cart)
    assert cart == [1, 2]


@pytest.mark.parametrize(
    ("make", "expression"),
    [
        (lambda: nh.shared([1]), "cart.append(2)"),
        (lambda: nh.shared(Order()), "cart.lines.append(2)"),
        (lambda: {"memory": nh.shared({})}, "cart['memory'].update(a=1)"),
        (lambda: SharedCell(1), "cart.set(2)"),
        (lambda: SharedMap({"a": 1}), "cart.set('b', 2)"),
        (anyio.Lock, "cart.acquire_nowait()"),
        (anyio.Event, "cart.set()"),
        (queue.Queue, "cart.put_nowait(1)"),
    ],
    ids=["list", "what it holds", "held by another", "SharedCell", "SharedMap", "lock", "event", "queue"],
)
async def test_objects_meant_to_be_shared_are_not_reported(
    make: Callable[[], object], expression: str
) -> None:
    steps = await change_while_held(make(), evaluating(expression), mode="error")
    assert [envelope["error"] for envelope in steps.envelopes] == [None]


async def test_a_dotted_assignment_into_what_another_step_has_bound_is_reported_through_any_way() -> None:
    order = Order()
    steps = await change_while_held(
        PlainHolder(order), assigning("cart.order.status", "'sold'"), basket=order, mode="error"
    )
    assert "'cart.order'" in steps.envelopes[0]["error"]["message"]
    assert order.status == "open"


class PlainHolder:
    def __init__(self, order: Order) -> None:
        self.order = order


async def test_a_refused_assignment_leaves_the_name_as_it_was() -> None:
    steps = await change_while_held(
        [1], assigning("last", "cart.pop()"), evaluating("'last' in locals()"), mode="error"
    )
    assert [envelope["value"] for envelope in steps.envelopes] == [None, False]


async def test_a_tool_that_changes_the_object_is_reported() -> None:
    cart = [1]

    def add_one() -> None:
        """Add one."""
        cart.append(1)

    nh_tool = nh.models.ToolCall(id="", name="add_one", arguments="{}")

    async def run() -> ScriptedSteps:
        nh.tool(add_one)
        return await change_while_held(cart, nh_tool, mode="error")

    outer = ScriptedSteps(PASS)
    async with nh.run(outer.executor):
        steps = await run()
    assert "changed 'cart'" in steps.envelopes[0]["error"]["message"]
    assert cart == [1]


async def test_a_return_expression_that_changes_the_object_is_told_to_the_model() -> None:
    @nh.natural_function
    async def take(cart: list[int]) -> int:
        """natural
        Take one from <cart>.
        """
        raise AssertionError

    cart, release, is_held = [1, 2], anyio.Event(), anyio.Event()

    async def wait() -> None:
        is_held.set()
        await release.wait()

    holder = ScriptedSteps(evaluating("wait()"), PASS)
    taker = ScriptedSteps(returning("cart.pop()"), returning("cart[-1]"))
    async with (
        nh.run(holder.executor, concurrent_mutation="error"),
        anyio.create_task_group() as task_group,
    ):
        task_group.start_soon(hold, cart, wait)
        await is_held.wait()
        with nh.scope(step_executor=taker.executor):
            assert await take(cart) == 2
        release.set()
    assert cart == [1, 2]


async def test_a_step_reports_one_object_once() -> None:
    calls = [evaluating("cart.append(2)"), evaluating("cart.append(3)")]
    with pytest.warns(nh.policies.ConcurrentMutationWarning) as caught:
        await change_while_held([1], *calls)
    assert len(caught) == 1


async def test_a_program_that_makes_errors_of_warnings_gets_the_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BaseExceptionGroup) as caught:  # of the test's task group
            await change_while_held([1], evaluating("cart.append(2)"))
    assert caught.group_contains(nh.policies.ConcurrentMutationWarning)


def line_of(function: Any) -> int:
    """The line of the block right below a decorated function's name."""
    return function.__wrapped__.__code__.co_firstlineno + 2


def step_id_of(function: Any) -> str:
    """The step id of that block."""
    return f"{__name__}:{line_of(function)}"


def test_this_file_is_where_the_warnings_point() -> None:
    lines = Path(__file__).read_text().splitlines()
    assert lines[line_of(change) - 1].strip() == '"""natural'
