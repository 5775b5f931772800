"""Calls that change their arguments in place, which later lives would miss."""

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.journal import Happened, JournalValueError
from nighthawk_async.testing import ModelResponse, ScriptedExecutor, model_response, tool_call
from nighthawk_async.values.stable_digest import stable_digest

from .durable_runs import AnsweringModel, live, opened, places, shout, shouting
from .test_effects import CrashError, forget_result, no_model

pytestmark = pytest.mark.anyio


@dataclass
class Row:
    lines: list[str] = field(default_factory=list)


class Order(BaseModel):
    lines: list[str] = []


class Item(msgspec.Struct):
    lines: list[str] = []


class Plain:
    """An object of an ordinary class."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self._client: object = None

    @nh.once
    async def add(self, line: str) -> None:
        self.lines.append(line)

    @nh.once
    async def connect(self) -> None:
        self._client = object()

    @nh.journal.stage("fill")
    async def fill(self, line: str) -> None:
        self.lines.append(line)


def needs_digests_of(one: object, other: object) -> pytest.MarkDecorator:
    reason = f"a {type(one).__name__} counts by its type, so that changes cannot be seen"
    return pytest.mark.skipif(stable_digest(one) == stable_digest(other), reason=reason)


knows_plain_objects = needs_digests_of(Plain("a"), Plain("b"))


@dataclass
class Account:
    lines: list[str] = field(default_factory=list)

    @nh.once
    async def add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    @nh.once
    def add_synchronously(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    @nh.once
    async def read(self) -> int:
        await anyio.lowlevel.checkpoint()
        return len(self.lines)

    @nh.journal.stage("fill")
    async def fill(self, line: str) -> None:
        self.lines.append(line)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "list": (lambda: ["a"], lambda value: value.append("b")),
    "order": (lambda: ["a", "b"], lambda value: value.reverse()),
    "dictionary": (lambda: {"a": 1}, lambda value: value.update(b=2)),
    "set": (lambda: {"a"}, lambda value: value.add("b")),
    "bytes": (lambda: bytearray(b"a"), lambda value: value.extend(b"b")),
    "deque": (lambda: deque(["a"]), lambda value: value.append("b")),
    "inside": (lambda: {"a": [{"b": [1]}]}, lambda value: value["a"][0]["b"].append(2)),
    "tuple": (lambda: (1, [2]), lambda value: value[1].append(3)),
    "dataclass": (Row, lambda value: value.lines.append("b")),
    "model": (Order, lambda value: value.lines.append("b")),
    "struct": (Item, lambda value: value.lines.append("b")),
    "plain": (lambda: Plain("a"), lambda value: value.lines.append("b")),
}


def change_of(name: str) -> Any:
    make, change = CHANGES[name]
    change(changed := make())
    return pytest.param(make, change, id=name, marks=[needs_digests_of(make(), changed)])


async def refused(folder: Path, program: Callable[[], Any], match: str, *, made: list[str]) -> None:
    """Two lives are refused; the call is made once."""
    with opened(folder) as store:
        for _ in range(2):
            with pytest.raises(JournalValueError, match=match):
                await live(store, no_model(), program)
    assert made == ["made"]


@pytest.mark.parametrize(("make", "change"), [change_of(name) for name in CHANGES])
@pytest.mark.parametrize("way", ["async", "loop", "thread", "keyword", "rest", "error"])
async def test_an_effect_that_changes_an_argument_is_refused_and_not_made_again(
    tmp_path: Path, make: Callable[[], Any], change: Callable[[Any], object], way: str
) -> None:
    made: list[str] = []

    @nh.once
    async def pay(rows: Any) -> None:
        await anyio.lowlevel.checkpoint()
        made.append("made")
        change(rows)

    @nh.once
    def pay_synchronously(rows: Any) -> None:
        made.append("made")
        change(rows)

    @nh.once
    async def pay_all(*rows: Any) -> None:
        made.append("made")
        change(rows[0])

    @nh.once
    async def fail(rows: Any) -> None:
        made.append("made")
        change(rows)
        raise ValueError("no")

    async def program() -> None:
        rows = make()
        if way == "async":
            await pay(rows)
        elif way == "keyword":
            await pay(rows=rows)
        elif way == "loop":
            pay_synchronously(rows)
        elif way == "thread":
            await anyio.to_thread.run_sync(pay_synchronously, rows)
        elif way == "rest":
            await pay_all(rows)
        else:
            await fail(rows)

    await refused(tmp_path, program, r"<rows>.* in place", made=made)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_method_that_changes_its_object_is_refused(tmp_path: Path, in_thread: bool) -> None:
    accounts: list[Account] = []

    async def program() -> None:
        accounts.append(account := Account())
        if in_thread:
            await anyio.to_thread.run_sync(account.add_synchronously, "a")
        else:
            await account.add("a")

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(JournalValueError, match="<self> in place"):
                await live(store, no_model(), program)
    assert [each.lines for each in accounts] == [["a"], []]


@knows_plain_objects
async def test_the_public_state_of_an_object_counts(tmp_path: Path) -> None:
    async def add() -> None:
        await Plain().add("a")

    async def connect() -> None:
        await Plain().connect()

    async def fill() -> None:
        await Plain().fill("a")

    with opened(tmp_path) as store:
        for number, program in enumerate((add, fill)):
            with pytest.raises(JournalValueError, match="<self> in place"):
                await live(store, no_model(), program, f"other-{number}")
        for _ in range(2):
            await live(store, no_model(), connect)


async def test_a_repeatable_call_that_was_refused_is_made_again(tmp_path: Path) -> None:
    calls: list[int] = []

    @nh.repeatable
    async def read(rows: list[str]) -> None:
        calls.append(1)
        if len(calls) == 1:
            rows.append("b")

    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError, match="<rows> in place"):
            await live(store, no_model(), lambda: read([]))
        await live(store, no_model(), lambda: read([]))
    assert calls == [1, 1]


async def test_the_log_says_that_a_tool_changes_its_object_unless_it_is_called_in_every_life(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass
    class Basket:
        lines: list[str] = field(default_factory=list)

        def put(self, line: str) -> str:
            self.lines.append(line)
            return line

        @nh.journal.every_life
        def put_in_every_life(self, line: str) -> str:
            self.lines.append(line)
            return line

    def answer(name: str) -> Callable[[str, int], ModelResponse]:
        def answer_turn(prompt: str, turn: int) -> ModelResponse:
            if turn == 0:
                return model_response(tool_call(name, line="a"))
            return model_response(tool_call("nh_outcome", kind="pass", bindings={"loud": "A"}))

        return answer_turn

    async def program(name: str) -> list[str]:
        basket = Basket()
        async with nh.scope(tools=[getattr(basket, name)]):
            await shout("a")
        return basket.lines

    with opened(tmp_path) as store:
        assert await live(store, AnsweringModel(answer("put")), lambda: program("put")) == ["a"]
        assert "the tool put has changed its object in place" in caplog.text
        caplog.clear()
        name = "put_in_every_life"
        for _ in range(2):
            lines = await live(store, AnsweringModel(answer(name)), lambda: program(name), "run-2")
            assert lines == ["a"]
    assert not caplog.messages


async def test_a_reconcile_function_that_changes_an_argument_is_refused(tmp_path: Path) -> None:
    lives: list[int] = []

    async def find(rows: list[str]) -> Any:
        lives.append(1)
        if len(lives) == 1:
            rows.append("b")
        return Happened(None)

    @nh.once(reconcile=find)
    async def pay(rows: list[str]) -> None:
        pass

    with opened(tmp_path) as store:
        await live(store, no_model(), lambda: pay([]))
        forget_result(tmp_path)
        with pytest.raises(JournalValueError, match="reconcile function of pay has changed <rows>"):
            await live(store, no_model(), lambda: pay([]))
        await live(store, no_model(), lambda: pay([]))


async def test_calls_that_change_nothing_of_the_caller_pass(tmp_path: Path) -> None:
    @nh.once
    async def pay(
        rows: list[str], row: Row, callback: Callable[[str], None], *, at: tuple[int, ...]
    ) -> list[str]:
        mine = copy.deepcopy(rows)
        mine.append("b")
        callback("c")
        rows.append("d")
        rows.pop()
        return mine

    seen: list[str] = []

    @nh.journal.stage("part")
    async def part(rows: list[str], row: Row) -> list[str]:
        return await pay(rows, row, seen.append, at=(1, 2))

    async def program() -> tuple[list[str], list[str]]:
        return await pay(["a"], Row(), seen.append, at=(1, 2)), await pay_in_part()

    async def pay_in_part() -> list[str]:
        return await pay(["a"], Row(), seen.append, at=())

    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, no_model(), program) == (["a", "b"], ["a", "b"])


async def test_a_stage_that_changes_its_object_or_a_variable_around_it_is_refused(tmp_path: Path) -> None:
    rows: list[str] = []
    number = 0

    @nh.journal.stage("list")
    async def change_list() -> None:
        rows.append("a")

    @nh.journal.stage("variable")
    async def change_variable() -> None:
        nonlocal number
        number += 1

    @nh.journal.stage("default")
    async def change_default(found: list[str] = []) -> None:  # noqa: B006  (it is the mistake)
        found.append("a")

    @nh.journal.stage("error")
    async def change_and_fail() -> None:
        rows.append("a")
        raise ValueError("no")

    @nh.journal.stage("attempts", retries=1, wait=0)
    async def change_in_attempt() -> None:
        rows.append("a")
        if len(rows) % 2:
            raise ValueError("no")

    @nh.journal.stage("child")
    async def change_in_child() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, rows.append, "a")

    stages: list[tuple[Callable[[], Any], str]] = [
        (change_list, "<rows>"),
        (change_variable, "<number>"),
        (change_default, "<found>"),
        (change_and_fail, "<rows>"),
        (change_in_attempt, "<rows>"),
        (change_in_child, "<rows>"),
        (lambda: Account().fill("a"), "<self>"),
    ]
    with opened(tmp_path) as store:
        for run, (call, name) in enumerate(stages):
            with pytest.raises(JournalValueError, match=rf"the stage has changed {name} in place"):
                await live(store, no_model(), call, f"run-{run}")


async def test_a_stage_that_was_fixed_goes_on(tmp_path: Path) -> None:
    model, lives = shouting(), [1]

    @nh.journal.stage("part")
    async def part(rows: list[str]) -> str:
        if lives:
            rows.append("a")
        return await shout("a")

    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError):
            await live(store, model, lambda: part([]))
        lives.clear()
        assert await live(store, model, lambda: part([])) == "A"
    assert len(model.prompts) == 1


async def test_a_stage_may_use_functions_and_objects_around_it(tmp_path: Path) -> None:
    sent: list[str] = []

    @nh.once
    async def send(text: str) -> str:
        sent.append(text)
        return text

    prefix = "mail to "

    @nh.journal.stage("part")
    async def part(name: str) -> str:
        later = [await send(prefix + name)]
        return later[0]

    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, no_model(), lambda: part("ann")) == "mail to ann"
    assert sent == ["mail to ann"]


@pytest.mark.parametrize("limit", [None, 2])
async def test_what_other_tasks_change_meanwhile_is_no_change_of_the_call(
    tmp_path: Path, limit: int | None
) -> None:
    @dataclass
    class Pipeline:
        results: list[int] = field(default_factory=list)

        @nh.once
        async def fetch(self, number: int) -> int:
            for _ in range(number + 1):
                await anyio.lowlevel.checkpoint()
            return number

        async def one(self, number: int) -> None:
            self.results.append(await self.fetch(number))

    async def program() -> list[int]:
        pipeline = Pipeline()
        await nh.parallel.map(pipeline.one, range(5), max_concurrent=limit)
        return sorted(pipeline.results)

    with opened(tmp_path) as store:
        for _ in range(3):
            assert await live(store, no_model(), program) == [0, 1, 2, 3, 4]
        assert len(places(store, "result")) == 5


async def test_what_a_call_changes_itself_is_found_among_other_tasks(tmp_path: Path) -> None:
    async def program() -> None:
        account = Account()

        async def one(number: int) -> None:
            await (account.add("a") if number == 2 else account.read())

        await nh.parallel.map(one, range(4))

    with opened(tmp_path) as store, pytest.raises(JournalValueError, match=r"add .*<self> in place"):
        await live(store, no_model(), program)


async def test_a_call_that_is_cancelled_or_killed_is_compared_in_its_next_life(tmp_path: Path) -> None:
    calls: list[int] = []

    @nh.repeatable
    async def read(rows: list[str]) -> None:
        calls.append(1)
        rows.append("a")
        if len(calls) == 1:
            raise KeyboardInterrupt

    async def program() -> None:
        try:
            await read([])
        except KeyboardInterrupt as error:
            raise CrashError from error

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, no_model(), program)
        with pytest.raises(JournalValueError, match="<rows>"):
            await live(store, no_model(), program)


async def test_without_a_journal_nothing_is_compared() -> None:
    async with nh.run(ScriptedExecutor([])):
        account = Account()
        assert await account.add("a") == 1
        await account.fill("b")
        assert account.lines == ["a", "b"]
