"""Calls that take effect: at most once, recorded, in doubt."""

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.journal import CallInDoubtError, Happened, JournalDivergenceError, JournalValueError
from nighthawk_async.testing import model_response, tool_call

from .durable_runs import AnsweringModel, change_tables, live, opened, places

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(Exception):
    """The end of a life."""


class UnreachableError(Exception):
    """A passing fault, with an attribute that cannot be stored."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.connection = object()
        self.host = "example.com"


class DeclinedError(Exception):
    """A call that took effect, and failed."""

    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.hint = hint


@dataclass
class Receipt:
    """What a call returns."""

    number: int
    lines: tuple[str, ...]


def no_model() -> AnsweringModel:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        raise AssertionError("no model is needed")

    return AnsweringModel(answer)


class Service:
    """Counts the calls that it gets, with their keys."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str]] = []

    def take(self, value: Any, key: str) -> None:
        self.calls.append((value, key))


def forget_result(folder: Path, run_id: str = "run-1") -> None:
    """Make the last call one whose process was killed before its result was durable."""
    change_tables(folder, f"DELETE FROM records WHERE kind = 'result' AND run_id = '{run_id}'")


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_is_made_once_in_all_lives(tmp_path: Path, is_async: bool) -> None:
    service = Service()

    @nh.once
    async def pay(order: int, *, idempotency_key: str = "") -> Receipt:
        service.take(order, idempotency_key)
        return Receipt(order, ("a", "b"))

    @nh.once
    def pay_synchronously(order: int, *, idempotency_key: str = "") -> Receipt:
        service.take(order, idempotency_key)
        return Receipt(order, ("a", "b"))

    async def program() -> list[Receipt]:
        if is_async:
            return [await pay(1), await pay(1)]
        return [pay_synchronously(1), await anyio.to_thread.run_sync(pay_synchronously, 1)]

    with opened(tmp_path) as store:
        first = await live(store, no_model(), program)
        assert await live(store, no_model(), program) == first == [Receipt(1, ("a", "b"))] * 2
    assert len(service.calls) == 2
    assert len({key for _, key in service.calls}) == 2


async def test_keys_are_the_same_in_each_life_and_differ_between_runs(tmp_path: Path) -> None:
    service = Service()

    @nh.repeatable
    async def pay(order: int, *, idempotency_key: str = "") -> None:
        service.take(order, idempotency_key)

    with opened(tmp_path) as store:
        await live(store, no_model(), lambda: pay(1))
        forget_result(tmp_path)
        await live(store, no_model(), lambda: pay(1))
        await live(store, no_model(), lambda: pay(1), "run-2")
    keys = [key for _, key in service.calls]
    assert keys[0] == keys[1] != keys[2]


async def test_a_call_in_doubt_is_not_repeated(tmp_path: Path) -> None:
    service = Service()

    @nh.once
    async def pay(order: int, *, idempotency_key: str = "") -> None:
        service.take(order, idempotency_key)

    with opened(tmp_path) as store:
        await live(store, no_model(), lambda: pay(1))
        forget_result(tmp_path)
        with pytest.raises(CallInDoubtError, match="reconcile") as caught:
            await live(store, no_model(), lambda: pay(1))
        assert store.runs()[0].status == "failed"
    assert caught.value.place == "run/pay()[0]"
    assert caught.value.idempotency_key == service.calls[0][1]
    assert len(service.calls) == 1


@pytest.mark.parametrize("answer", ["receipt", None, Happened(None)])
async def test_reconcile_decides_about_a_call_in_doubt(tmp_path: Path, answer: Any) -> None:
    service = Service()
    asked: list[tuple[int, str]] = []

    async def find(order: int, *, idempotency_key: str) -> Any:
        asked.append((order, idempotency_key))
        return answer

    @nh.once(reconcile=find)
    async def pay(order: int, *, idempotency_key: str = "") -> str | None:
        service.take(order, idempotency_key)
        return "paid"

    with opened(tmp_path) as store:
        await live(store, no_model(), lambda: pay(1))
        forget_result(tmp_path)
        result = await live(store, no_model(), lambda: pay(1))
        assert await live(store, no_model(), lambda: pay(1)) == result
    assert asked == [service.calls[0]]
    assert result == {"receipt": "receipt", "None": "paid"}.get(str(answer))
    assert len(service.calls) == (2 if answer is None else 1)


async def test_an_exception_of_a_call_is_raised_in_each_life(tmp_path: Path) -> None:
    service = Service()

    @nh.once
    async def pay(order: int) -> None:
        service.take(order, "")
        raise DeclinedError(51, hint="ask the bank")

    async def program() -> tuple[str, int, str]:
        try:
            await pay(1)
        except DeclinedError as error:
            return str(error), error.code, error.hint
        raise AssertionError

    with opened(tmp_path) as store:
        first = await live(store, no_model(), program)
        assert await live(store, no_model(), program) == first == ("declined with 51", 51, "ask the bank")
    assert len(service.calls) == 1


async def test_a_result_that_cannot_be_stored_is_refused_by_name(tmp_path: Path) -> None:
    @nh.once
    async def open_socket() -> object:
        return object()

    with opened(tmp_path) as store, pytest.raises(JournalValueError, match=r"open_socket.*type object"):
        await live(store, no_model(), open_socket)


async def test_tools_are_effects_unless_they_say_otherwise(tmp_path: Path) -> None:
    service = Service()
    kept: list[str] = []

    async def send(text: str) -> str:
        """Send a text."""
        service.take(text, "")
        return f"sent {text}"

    @nh.journal.every_life
    def keep(text: str) -> str:
        """Keep a text."""
        kept.append(text)
        return "kept"

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if turn == 0:
            return model_response(tool_call("send", text="x"), tool_call("keep", text="y"))
        return model_response(tool_call("nh_outcome", kind="pass"))

    @nh.natural_function
    async def work() -> None:
        """natural
        Send x and keep y.
        """

    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        for _ in range(2):
            with_tools = nh.AgentStepExecutor.from_model(model)
            async with nh.run(with_tools, journal=store, run_id="run-1"):
                nh.tool(send)
                nh.tool(keep)
                await work()
        assert [place.rpartition("/")[2] for place in places(store, "result")] == ["call[0]"]
    assert [value for value, _ in service.calls] == ["x"]
    assert kept == ["y", "y"]
    assert len(model.prompts) == 2


async def test_without_a_journal_calls_are_made_as_they_are() -> None:
    service = Service()

    @nh.once
    async def pay(order: int, *, idempotency_key: str = "") -> object:
        service.take(order, idempotency_key)
        return service

    assert await pay(1) is service
    assert await pay(2, idempotency_key="mine") is service
    assert service.calls[0][1]
    assert service.calls[1] == (2, "mine")


def test_the_key_is_no_parameter_for_those_who_call() -> None:
    @nh.once
    async def pay(order: int, *, idempotency_key: str) -> None:
        """Pay."""

    assert list(inspect.signature(pay).parameters) == ["order"]


def test_what_cannot_be_an_effect_is_refused() -> None:
    def numbers() -> Any:
        yield 1

    async def find() -> None: ...

    with pytest.raises(TypeError, match="generator"):
        nh.once(numbers)
    with pytest.raises(TypeError, match="decorates a function"):
        nh.once(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="synchronous"):
        nh.once(reconcile=find)(lambda: None)


async def test_a_call_that_was_cancelled_is_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.journal.gate._GRACE_SECONDS", 0.05)  # for a cancellation
    begun = anyio.Event()

    @nh.once
    async def pay() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def crashing() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel, group)
            await pay()

    async def _cancel(group: Any) -> None:
        await begun.wait()
        group.cancel_scope.cancel()

    with opened(tmp_path) as store:
        await live(store, no_model(), crashing)
        with pytest.raises(CallInDoubtError):
            await live(store, no_model(), pay)


async def test_the_result_of_a_call_is_not_taken_for_that_of_another(tmp_path: Path) -> None:
    paid: list[str] = []

    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @nh.once
        async def pay(self, order: str, *lines: int, idempotency_key: str = "") -> str:
            paid.append(order)
            return f"paid {order}"

    async def program(orders: list[tuple[str, int]]) -> list[str]:
        return [await Shop(order).pay(order, line) for order, line in orders]

    with opened(tmp_path) as store:
        expected = ["paid a", "paid b"]
        for _ in range(2):
            assert await live(store, no_model(), lambda: program([("a", 1), ("b", 2)])) == expected
        with pytest.raises(
            JournalDivergenceError, match=r"other inputs than the recorded one: <order>, <lines>"
        ):
            await live(store, no_model(), lambda: program([("b", 2), ("a", 1)]))
    assert paid == ["a", "b"]


async def test_tasks_that_were_started_by_hand_get_no_results_of_each_other(tmp_path: Path) -> None:
    paid: list[str] = []

    @nh.once
    async def pay(order: str) -> str:
        paid.append(order)
        return f"paid {order}"

    async def program(orders: str) -> dict[str, str]:
        receipts: dict[str, str] = {}

        async def one(order: str) -> None:
            async with nh.open_tasks() as tasks:
                receipts[order] = await tasks.start(pay, order)

        async with anyio.create_task_group() as group:
            for order in orders:
                group.start_soon(one, order)
                await anyio.wait_all_tasks_blocked()
        return receipts

    with opened(tmp_path) as store:
        await live(store, no_model(), lambda: program("a"))
        with pytest.raises(ExceptionGroup) as caught:
            await live(store, no_model(), lambda: program("ba"))
        assert caught.group_contains(JournalDivergenceError, match="<order>")
    assert paid == ["a"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_fault_of_a_repeatable_call_ends_one_life_only(tmp_path: Path, is_async: bool) -> None:
    service = Service()
    is_down = [True]

    def read_now(order: int, *, idempotency_key: str = "") -> str:
        service.take(order, idempotency_key)
        if is_down[0]:
            raise ConnectionError("no network")
        return "found"

    async def read_soon(order: int, *, idempotency_key: str = "") -> str:
        return read_now(order, idempotency_key=idempotency_key)

    read = nh.repeatable(read_soon if is_async else read_now)

    async def program() -> Any:
        result = read(1)
        return await result if inspect.isawaitable(result) else result

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(ConnectionError, match="no network"):
                await live(store, no_model(), program)
        is_down[0] = False
        for _ in range(2):
            assert await live(store, no_model(), program) == "found"
    assert len(service.calls) == 3
    assert len({key for _, key in service.calls}) == 1


async def test_a_fault_of_a_repeatable_call_that_was_handled_is_raised_again(tmp_path: Path) -> None:
    calls: list[int] = []

    @nh.repeatable
    async def read() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("no network")
        return "found"

    async def program(*, crash: bool) -> list[str]:
        results: list[str] = []
        for _ in range(2):
            try:
                results.append(await read())
            except ConnectionError as error:
                results.append(str(error))
        if crash:
            raise CrashError
        return results

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, no_model(), lambda: program(crash=True))
        assert await live(store, no_model(), lambda: program(crash=False)) == ["no network", "found"]
    assert len(calls) == 2


@pytest.mark.parametrize("happened", [True, False])
async def test_a_fault_of_a_call_that_can_be_reconciled_lets_the_next_life_ask(
    tmp_path: Path, happened: bool
) -> None:
    calls: list[str] = []

    async def find(*, idempotency_key: str) -> str | None:
        assert idempotency_key == calls[0]
        return "found" if happened else None

    @nh.once(reconcile=find)
    async def pay(*, idempotency_key: str) -> str:
        calls.append(idempotency_key)
        if len(calls) == 1:
            raise ConnectionError("no network")
        return "paid"

    with opened(tmp_path) as store:
        with pytest.raises(ConnectionError):
            await live(store, no_model(), pay)
        for _ in range(2):
            assert await live(store, no_model(), pay) == ("found" if happened else "paid")
    assert len(calls) == (1 if happened else 2)


async def test_a_fault_of_a_call_that_nobody_can_ask_about_stays(tmp_path: Path) -> None:
    service = Service()

    @nh.once
    async def pay() -> None:
        service.take(1, "")
        raise ConnectionError("no network")

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(ConnectionError, match="no network"):
                await live(store, no_model(), pay)
    assert len(service.calls) == 1


async def test_an_exception_that_no_later_life_could_raise_is_refused(
    tmp_path: Path,
) -> None:
    class LocalError(Exception):
        """A class that cannot be found by its name."""

    @nh.repeatable
    async def read() -> None:
        raise LocalError("no network")

    @nh.repeatable
    async def read_other() -> None:
        raise ValueError(object())

    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError, match=r"read.*LocalError.*register") as caught:
            await live(store, no_model(), read)
        assert isinstance(caught.value.__cause__, LocalError)
        with pytest.raises(JournalValueError, match=r"ValueError, whose arguments cannot be stored"):
            await live(store, no_model(), read_other, "run-2")


async def test_an_exception_of_a_registered_class_is_raised_again(tmp_path: Path) -> None:
    class LocalError(Exception):
        def __init__(self, connection: object, reason: str) -> None:
            super().__init__(connection)
            self.reason = reason

    nh.journal.register(
        LocalError,
        dump=lambda error: error.reason,
        load=lambda reason: LocalError(None, reason),
        name=str(tmp_path),
    )

    @nh.once
    async def read() -> None:
        raise LocalError(None, "no network")

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(LocalError) as caught:
                await live(store, no_model(), read)
            assert caught.value.reason == "no network"


async def test_an_attribute_that_cannot_be_stored_is_missing_in_every_life(tmp_path: Path) -> None:
    @nh.once
    async def read() -> None:
        raise UnreachableError("no network")

    async def program() -> str:
        try:
            await read()
        except UnreachableError as error:
            caught = error
        assert repr(caught.connection) == "<not stored in the journal>"
        with pytest.raises(JournalValueError, match="'connection' of UnreachableError cannot be stored"):
            caught.connection.close()  # type: ignore[attr-defined]
        with pytest.raises(JournalValueError):
            bool(caught.connection)
        return f"{caught.host}: {caught}"

    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, no_model(), program) == "example.com: no network"


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        OSError(2, "no such file", "a.txt"),
        KeyError("a"),
        ImportError("missing", name="a"),
        StopAsyncIteration(),
        json.JSONDecodeError("bad", "{", 1),
        ModelStatusError("busy", status=503, is_transient=True),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_of_many_kinds_come_back_as_they_were(tmp_path: Path, error: Exception) -> None:
    @nh.once
    async def read() -> None:
        raise error

    async def program() -> Exception:
        try:
            await read()
        except type(error) as raised:
            return raised
        raise AssertionError

    with opened(tmp_path) as store:
        assert await live(store, no_model(), program) is error
        raised = await live(store, no_model(), program)
    assert raised is not error
    assert str(raised) == str(error)
    for name in ("filename", "start", "status", "name", "pos"):
        assert getattr(raised, name, None) == getattr(error, name, None)


async def test_a_group_of_errors_comes_back_with_its_errors(tmp_path: Path) -> None:
    @nh.once
    async def read() -> None:
        raise ExceptionGroup("several", [KeyError("a"), ExceptionGroup("more", [UnreachableError("down")])])

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(ExceptionGroup, match="several") as caught:
                await live(store, no_model(), read)
            assert caught.group_contains(KeyError, match="a", depth=1)
            assert caught.group_contains(UnreachableError, match="down", depth=2)
