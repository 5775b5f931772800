"""The calls that generated programs make, and the outside that answers by what was really asked.

The answer to a request is made from the truth about its argument, which the outside knows and the journal
does not. So an answer that belongs to another call is seen at once.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
from anyio import to_thread

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.kernel.environment import get_environment
from nighthawk_async.parallel import task_current
from nighthawk_async.testing import model_response, tool_call
from nighthawk_async.testing.killing import mark
from tests.faults.durable.service import (
    ASKED,
    append_line,
    find_booking,
    find_booking_in_thread,
    make_booking,
    read,
)
from tests.unit.journal.durable_runs import ResponseEvents

from .programs import Call, Program
from .values import Invoice, Order, make_value, truth_of

WRONG = "wrong.txt"
DOUBTS = "doubts.txt"
SILENT_DOUBTS = "silent.txt"
LONGEST_MILLISECONDS = 6
FIRST_SECONDS = 0.05
"""Those of the deadline that expires in the first life."""

_call: ContextVar[Call] = ContextVar("call")


class Clock:
    """The latencies of one life.

    Args:
        program: The program.
        life: The number of the life.
    """

    def __init__(self, program: Program, life: int) -> None:
        self._program = program
        self.life = life

    async def wait(self, number: int) -> None:
        """Wait as long as the outside takes for a call."""
        name = f"{self.life}:{number}"
        chosen = hashlib.sha256(f"{self._program.seed} {name}".encode()).digest()[0] % LONGEST_MILLISECONDS
        await anyio.sleep(self._program.delays.get(name, chosen) / 1_000)


clock: Clock
"""The clock of the life of this process."""


def enter_clock(entered: Clock) -> None:
    """Use a clock from now on."""
    global clock
    clock = entered


@contextmanager
def outside_of(call: Call) -> Iterator[None]:
    """Let the outside know which call is made."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def answer_to(call: Call) -> str:
    """The answer of the model to a call."""
    return f"answer to {truth_of(make_value(call.value))}"


class TruthfulModel:
    """Answers by the truth about the call that is made."""

    name = "truthful:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the next response."""
        call = _call.get()
        append_line(ASKED, f"{clock.life} {task_current.find_positions().path}")
        await clock.wait(call.number)
        if call.kind == "fail" or (clock.life == 1 and call.kind in ("pay after failure", "ask in vain")):
            raise ModelStatusError("no capacity, so the first life ends", status=503, is_transient=True)
        turn = sum(isinstance(message, nh.models.AssistantMessage) for message in request.messages)
        if call.kind == "tool" and turn == 0:
            yield ResponseEvents(model_response(tool_call("reserve", item=truth_of(make_value(call.value)))))
        else:
            bindings = {"reply": answer_to(call)}
            yield ResponseEvents(model_response(tool_call("nh_outcome", kind="pass", bindings=bindings)))


@nh.natural_function
async def ask(value: Any) -> str:
    """Ask about a value."""
    reply: str
    """natural
    Set <:reply> to what is known about <value>.
    """
    return reply


@nh.natural_function
async def ask_formatted(mail: str) -> str:
    """Ask about a value that is part of the text, and no argument."""
    reply: str
    topic = truth_of(make_value(_call.get().value))
    f"""natural
    Read <mail>. Set <:reply> to what is known about {topic}.
    """
    return reply


@nh.natural_function
async def ask_dotted(order: Order | Invoice) -> str:
    """Ask about a value in an object."""
    reply: str
    """natural
    Set <:reply> to what is known about <order.customer>.
    """
    return reply


@nh.natural_function
def ask_in_thread(value: Any) -> str:
    """Ask about a value, in synchronous code."""
    reply: str
    """natural
    Set <:reply> to what is known about <value>.
    """
    return reply


async def _find(value: Any, *, idempotency_key: str) -> str | None:
    return await find_booking(truth_of(value), idempotency_key=idempotency_key)


@nh.once(reconcile=_find)
async def pay(value: Any, *, idempotency_key: str = "") -> str:
    """Take effect."""
    booked = make_booking(truth_of(value), idempotency_key)
    await clock.wait(len(booked))
    return booked


@nh.once
async def pay_blindly(value: Any, *, idempotency_key: str = "") -> str:
    """Take effect. Nobody can be asked whether it happened."""
    return make_booking(truth_of(value), idempotency_key)


async def _find_item(item: str, *, idempotency_key: str) -> str | None:
    return await find_booking(item, idempotency_key=idempotency_key)


@nh.once(reconcile=_find_item)
async def book_item(item: str, *, idempotency_key: str = "") -> str:
    """Take effect with what order has decided."""
    booked = make_booking(item, idempotency_key)
    await clock.wait(len(item))
    return booked


async def _pay_with(value: object, what: object) -> str:
    await book_item(f"{truth_of(value)}#{what}")
    return f"booked {truth_of(value)}"


async def _pay_but_for_bob(value: Any) -> str:
    if truth_of(value) == truth_of("bob"):
        raise ConnectionError
    return await _pay_with(value, "this way")


async def _end_of_deadline(value: object) -> str:
    """How a deadline ends that only the first life is too slow for."""
    try:
        async with nh.deadline(FIRST_SECONDS if clock.life == 1 else 60):
            if clock.life == 1:
                await anyio.sleep_forever()
            await read(truth_of(value))
    except TimeoutError:
        return "late"
    return "in time"


@nh.once
async def pay_for_code(value: Any, *, idempotency_key: str = "") -> Callable[[], str]:
    """Take effect, and return what no journal can store."""
    booked = make_booking(truth_of(value), idempotency_key)
    return lambda: booked


def _find_in_thread(value: Any, *, idempotency_key: str) -> str | None:
    return find_booking_in_thread(truth_of(value), idempotency_key=idempotency_key)


@nh.once(reconcile=_find_in_thread)
def pay_in_thread(value: Any, *, idempotency_key: str = "") -> str:
    """Take effect, in synchronous code."""
    return make_booking(truth_of(value), idempotency_key)


@nh.once(reconcile=_find_item)
async def pay_and_change(item: str, paid: list[str], *, idempotency_key: str = "") -> str:
    """Take effect, and change an argument in place, which later lives cannot do."""
    paid.append(item)
    return make_booking(item, idempotency_key)


class Account:
    """An object with methods that are recorded: all that tells their calls apart is the object."""

    def __init__(self, customer: object) -> None:
        self.customer = customer

    async def _find(self, *, idempotency_key: str) -> str | None:
        return await find_booking(truth_of(self.customer), idempotency_key=idempotency_key)

    @nh.once(reconcile=_find)
    async def pay(self, *, idempotency_key: str = "") -> str:
        """Take effect."""
        return make_booking(truth_of(self.customer), idempotency_key)

    @nh.natural_function
    async def ask(self) -> str:
        """Ask about the object."""
        reply: str
        """natural
        Set <:reply> to what is known about <self.customer>.
        """
        return reply


@nh.once(reconcile=_find_item)
async def reserve(item: str, *, idempotency_key: str = "") -> str:
    """Reserve an item.

    Args:
        item: The item.
    """
    return make_booking(item, idempotency_key)


@nh.natural_function(tools=[reserve])
async def ask_with_tool(value: Any) -> str:
    """Have the model call a tool."""
    reply: str
    """natural
    Reserve <value> with the tool and set <:reply>.
    """
    return reply


async def make_call(call: Call) -> str:
    """Make a call, and write down a result that is not its own."""
    with outside_of(call):
        result = await _make_call(call)
    truth = truth_of(make_value(call.value))
    expected = answer_to(call)
    if call.kind in ("fail", "pause", "crash"):
        expected = call.kind
    elif call.kind.startswith("pay"):
        expected = f"booked {truth}"
    if result != expected:
        append_line(WRONG, f"{clock.life} {call.kind} {truth}: {result}")
    return result


async def _make_call(call: Call) -> str:
    value = make_value(call.value)
    match call.kind:
        case "ask" | "ask in vain":
            return await ask(value)
        case "step":
            text = f"Set <:reply> to what is known about {truth_of(value)}."
            return str((await nh.step(text, outputs={"reply": str})).reply)
        case "formatted":
            return await ask_formatted("the mail")
        case "dotted":
            return await ask_dotted(Order(value))
        case "of self":
            return await Account(value).ask()
        case "thread":
            return await to_thread.run_sync(ask_in_thread, value)
        case "look":
            await read(truth_of(value))
            return answer_to(call)
        case "pay":
            return await pay(value)
        case "pay blindly":
            try:
                booked = await pay_blindly(value)
            except nh.journal.CallInDoubtError as error:
                append_line(DOUBTS, truth_of(value))
                if call.value.word not in str(error) or error.idempotency_key not in str(error):
                    append_line(SILENT_DOUBTS, str(error))
                return f"booked {truth_of(value)}"  # a person has looked
            mark("returned")
            return booked
        case "pay by method":
            return await Account(value).pay()
        case "pay in thread":
            return await to_thread.run_sync(pay_in_thread, value)
        case "pay with token":
            return await _pay_with(value, nh.journal.random())
        case "pay decided":
            return await _pay_with(value, nh.journal.decide(clock.life))
        case "pay after failure":
            try:
                await ask(value)
            except ModelStatusError:
                return await _pay_with(value, "failed")
            return await _pay_with(value, "answered")
        case "pay with usage":
            await ask(value)
            return await _pay_with(value, get_environment().usage_meter.usage.requests)
        case "pay after deadline":
            return await _pay_with(value, await _end_of_deadline(value))
        case "pay forgiving":
            try:
                return await pay(value)
            except nh.journal.JournalDivergenceError:
                return f"booked {truth_of(value)}"
        case "pay another way":
            try:
                return (await nh.parallel.map(_pay_but_for_bob, [value]))[0]
            except ConnectionError:
                return await _pay_with(value, "another way")
        case "pay for code":
            return (await pay_for_code(value))()
        case "tool":
            return await ask_with_tool(value)
        case "fail":
            try:
                return await ask(value)
            except ModelStatusError:
                return "fail"
        case "pause":
            await clock.wait(call.number)
            mark("paused")
            return "pause"
        case "crash":
            await clock.wait(call.number)
            if clock.life == 1:
                raise ConnectionError("the first life ends")
            return "crash"
        case "pay and change":
            paid: list[str] = []
            await pay_and_change(truth_of(value), paid)
            await book_item(f"seal of {call.number}#{paid}")
            return f"booked {truth_of(value)}"
        case "pay outside":
            # A thread of the program's own has no context.
            with ThreadPoolExecutor() as pool:
                return await to_thread.run_sync(pool.submit(pay_in_thread, value).result)
