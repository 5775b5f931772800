"""What items and tasks of earlier lives had recorded is not left over, and nothing begins beside doubts."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError, JournalDivergenceError
from nighthawk_async.journal.records import Record

from .durable_runs import live, opened, places, shout, shouting
from .test_arrivals import begun_again
from .test_holding import leaves_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

made: list[str] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> str:
    """An effect that nobody knows more about."""
    made.append(name)
    return name


@nh.once(reconcile=lambda name: name if name in made else None)
async def book(name: str) -> str:
    """An effect that can be asked for."""
    made.append(name)
    return name


async def in_map(names: Sequence[str]) -> None:
    await nh.parallel.map(pay, names)


async def in_narrow_map(names: Sequence[str]) -> None:
    await nh.parallel.map(pay, names, max_concurrent=1)


async def in_settle(names: Sequence[str]) -> None:
    await nh.parallel.settle(pay, names)


async def in_gather(names: Sequence[str]) -> None:
    await nh.parallel.gather(*[pay(name) for name in names])


async def in_stream(names: Sequence[str]) -> None:
    async with nh.parallel.stream(pay, names) as results:
        async for _ in results:
            pass


async def in_tasks(names: Sequence[str]) -> None:
    async with nh.open_tasks() as tasks:
        for handle in [tasks.start(pay, name) for name in names]:
            await handle


async def in_nested_map(names: Sequence[str]) -> None:
    async def inner(name: str) -> None:
        await nh.parallel.map(pay, [f"{name} 1", f"{name} 2"][: len(names)])

    await nh.parallel.map(inner, names[:1])


async def in_item(names: Sequence[str]) -> None:
    async def one(_: int) -> None:
        for name in names:
            await pay(name)

    await nh.parallel.map(one, [0])


GROUPS = (in_map, in_narrow_map, in_settle, in_gather, in_stream, in_tasks, in_nested_map, in_item)


async def ending(
    store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]]
) -> BaseException | None:
    """The first error with which a life ends; None for none."""
    try:
        await live(store, shouting(), program)
    except Exception as error:
        return leaves_of(error)[0]
    return None


@pytest.mark.parametrize("group", GROUPS, ids=lambda each: each.__name__)
async def test_what_items_had_recorded_is_not_left_over(group: Any, tmp_path: Path) -> None:
    async def program(names: Sequence[str], *, is_whole: bool) -> None:
        await group(names)
        if not is_whole:
            raise SystemError("the power is off")
        await pay("end")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program(["ann", "bob"], is_whole=False)), SystemError)
        effects = list(made)
        error = await ending(store, lambda: program(["ann"], is_whole=True))
        assert isinstance(error, JournalDivergenceError)
        assert "[1]" in error.place
        assert made == effects
        assert await ending(store, lambda: program(["ann", "bob"], is_whole=True)) is None
        assert made == [*effects, "end"]
    with opened(tmp_path, changes="insert") as store:
        assert await ending(store, lambda: program(["ann"], is_whole=True)) is None


async def streamed(function: Callable[[int], Awaitable[str]], count: int) -> None:
    async with nh.parallel.stream(function, range(count)) as results:
        async for _ in results:
            pass


async def voted(function: Callable[[int], Awaitable[str]], count: int) -> None:
    indices = iter(range(count))

    async def one() -> str:
        return await function(next(indices))

    await nh.resilience.vote(one, count=count, decide=len)()


@pytest.mark.parametrize("group", [streamed, voted])
async def test_a_call_that_counted_before_the_others_and_is_gone_is_no_hang(
    group: Any, tmp_path: Path
) -> None:
    async def program(count: int, *, is_whole: bool) -> None:
        ended = [anyio.Event() for _ in range(count)]

        async def one(index: int) -> str:  # the last call ends first
            if index + 1 < count:
                await ended[index + 1].wait()
            name = await pay("x")
            ended[index].set()
            return name

        await group(one, count)
        if not is_whole:
            raise SystemError("the power is off")
        await pay("end")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program(3, is_whole=False)), SystemError)
        with anyio.fail_after(240):
            error = await ending(store, lambda: program(2, is_whole=True))
        assert isinstance(error, JournalDivergenceError)
        assert "[2]" in error.place
        assert made == ["x"] * 3
        assert await ending(store, lambda: program(3, is_whole=True)) is None
    with opened(tmp_path, changes="insert") as store, anyio.fail_after(240):
        assert await ending(store, lambda: program(2, is_whole=True)) is None
    assert made == [*["x"] * 3, "end"]


@pytest.mark.parametrize("group", [nh.parallel.map, nh.parallel.settle])
async def test_items_that_recorded_nothing_or_an_error_are_not_left_over(group: Any, tmp_path: Path) -> None:
    @nh.repeatable
    async def fail(name: str) -> None:
        if name != "ann":
            raise SystemError(name)
        await pay(name)

    with opened(tmp_path) as store:
        await ending(store, lambda: group(fail, ["ann", "bob"]))
        await ending(store, lambda: group(shout, ["ann"]))


async def test_the_losers_of_a_decision_are_not_left_over(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> list[Any]:
        async def one(word: str) -> str:
            await shout(word)
            if word != "ann":
                await anyio.sleep_forever()
            return word

        return [await nh.parallel.race(one, words), await shout("end")]

    with opened(tmp_path) as store:
        assert await ending(store, lambda: program(["ann", "bob"])) is None
        assert await ending(store, lambda: program(["ann"])) is None


def killed_after(kind: str, count: int, records: Sequence[Record]) -> Sequence[Record]:
    """The records until some of a kind."""
    numbers = [number for number, record in enumerate(records) if record.kind == kind]
    return records[: numbers[count - 1] + 1]


async def test_nothing_new_begins_beside_a_doubt_that_is_not_reached(tmp_path: Path) -> None:
    begun = anyio.Event()

    @nh.once
    async def wait_for_others(name: str) -> str:
        made.append(name)
        begun.set()
        await anyio.sleep_forever()
        return name

    async def program(names: Sequence[str]) -> None:
        await nh.parallel.map(wait_for_others, names)

    with opened(tmp_path) as store:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ending, store, lambda: program(["x", "x", "x"]))
                await begun.wait()
                while len(made) < 3:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        records = [each for each in store.records("run-1") if each.kind in ("life", "intent")]
        assert len(records) >= 4
        begun_again(store, "run-2", killed_after("intent", 2, records))
        made.clear()

        async def life(names: Sequence[str]) -> list[BaseException]:
            try:
                await live(store, shouting(), lambda: program(names), "run-2")
            except Exception as error:
                return leaves_of(error)
            return []

        errors = await life(["y", "y", "y"])
        assert errors
        assert all(isinstance(each, JournalDivergenceError) for each in errors)
        assert made == []
        errors = await life(["x", "x", "x"])
        assert made == []
        assert errors
        assert all(isinstance(each, CallInDoubtError) for each in errors)


async def test_a_doubt_is_held_as_a_new_effect(tmp_path: Path) -> None:
    async def program(names: Sequence[str]) -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(pay, name)
        await book("end")

    with opened(tmp_path) as store:
        assert await ending(store, lambda: program(["ann", "bob"])) is None
        records = store.records("run-1")
        begun_again(store, "run-2", killed_after("intent", 3, records))
        made.clear()
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), lambda: program(["ann"]), "run-2")
        assert made == []
        await live(store, shouting(), lambda: program(["ann", "bob"]), "run-2")
        assert made == ["end"]


async def test_a_new_effect_does_not_overtake_one_that_is_held(tmp_path: Path) -> None:
    async def program(*, is_changed: bool) -> None:
        async with anyio.create_task_group() as group:
            if is_changed:
                group.start_soon(pay, "new")
            group.start_soon(book, "ann 2" if is_changed else "ann 1")
        if not is_changed:
            raise SystemError("the power is off")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program(is_changed=False)), SystemError)
        error = await ending(store, lambda: program(is_changed=True))
        assert isinstance(error, JournalDivergenceError)
        assert made == ["ann 1"]
        assert len(places(store, "intent")) == 1


@pytest.mark.parametrize("is_reached_late", [False, True])
async def test_no_effect_of_another_task_is_made_before_a_divergence_is_noticed(
    *, is_reached_late: bool, tmp_path: Path
) -> None:
    async def program(*, is_changed: bool) -> None:
        cell = nh.actors.shared_cell("seats", initial=0)

        async def sit(name: str) -> None:
            if is_reached_late:
                await shout(name)  # recorded, so that the effect after it comes when that has arrived
            seat = cell.update(lambda given: given + 1)
            await book(f"{name} {seat}")

        async def one(name: str) -> None:
            cell.update(lambda given: given + 1)
            await pay(name)

        async with anyio.create_task_group() as group:
            if is_changed:
                group.start_soon(one, "new")
            for name in ("ann", "bob"):
                group.start_soon(sit, name)
        if not is_changed:
            raise SystemError("the power is off")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program(is_changed=False)), SystemError)
        effects = list(made)
        assert isinstance(await ending(store, lambda: program(is_changed=True)), JournalDivergenceError)
        assert made == effects


async def test_a_place_that_cannot_be_new_is_refused_before_others_go_on(tmp_path: Path) -> None:
    async def program(*, is_changed: bool) -> None:
        async def one(name: str) -> None:
            if is_changed and name == "ann":
                await pay("new")
            await shout(name)
            if not is_changed:
                raise SystemError("the power is off")
            await book(name)

        await nh.parallel.map(one, ["ann", "bob"])

    with opened(tmp_path) as store:
        await ending(store, lambda: program(is_changed=False))
        records = store.records("run-1")
        begun_again(store, "run-2", killed_after("response", 2, records) if is_two(records) else records)
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), lambda: program(is_changed=True), "run-2")
        assert made == []


def is_two(records: Sequence[Record]) -> bool:
    return sum(record.kind == "response" for record in records) == 2


async def test_a_withdrawn_effect_holds_up_no_other(tmp_path: Path) -> None:
    async def program(name: str, *, is_cancelled: bool) -> None:
        async with anyio.create_task_group() as group:
            if is_cancelled:
                group.cancel_scope.cancel()
            group.start_soon(book, name)
        if is_cancelled:
            raise SystemError("the power is off")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program("ann", is_cancelled=True)), SystemError)
        assert await ending(store, lambda: program("bob", is_cancelled=False)) is None
    assert made == ["bob"]


async def test_effects_that_wait_for_what_never_comes_end_with_an_error(tmp_path: Path) -> None:
    async def program(names: Sequence[str], *, is_changed: bool) -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(book, name)
            if is_changed:
                group.start_soon(shout, "new")  # the order of answers goes on without those of the others
        if not is_changed:
            raise SystemError("the power is off")

    with opened(tmp_path) as store:
        await ending(store, lambda: program(["ann 1", "bob 1"], is_changed=False))
        with anyio.fail_after(120):
            error = await ending(store, lambda: program(["ann 2", "bob 2"], is_changed=True))
        assert isinstance(error, JournalDivergenceError)
        assert sorted(made) == ["ann 1", "bob 1"]


async def hand_started(names: Sequence[str]) -> None:
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(pay, name)


async def in_pool(names: Sequence[str]) -> None:
    async with nh.actors.Pool(max_concurrent=2) as pool:
        for name in names:
            await pool.submit(pay, name)


async def in_threads(names: Sequence[str]) -> None:
    @nh.once
    def pay_in_thread(name: str) -> None:
        made.append(name)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(anyio.to_thread.run_sync, pay_in_thread, name)


async def around_item(inner: Any) -> None:
    await nh.parallel.map(lambda _: inner(), [0])


async def around_settled(inner: Any) -> None:
    await nh.parallel.settle(lambda _: inner(), [0])


async def around_gathered(inner: Any) -> None:
    await nh.parallel.gather(inner())


async def around_raced(inner: Any) -> None:
    await nh.parallel.race(lambda _: inner(), [0])


async def around_streamed(inner: Any) -> None:
    async with nh.parallel.stream(lambda _: inner(), [0]) as results:
        async for _ in results:
            pass


async def around_task(inner: Any) -> None:
    async with nh.open_tasks() as tasks:
        await tasks.start(inner)


async def around_nothing(inner: Any) -> None:
    await inner()


async def around_items(inner: Any) -> None:
    await nh.parallel.map(lambda _: around_item(inner), [0])


AROUND = (
    around_nothing,
    around_item,
    around_settled,
    around_gathered,
    around_raced,
    around_streamed,
    around_task,
    around_items,
)


@pytest.mark.parametrize(
    ("around", "group", "ends_with_effect"),
    [
        *((around, hand_started, True) for around in AROUND),
        *((around_items, group, ends) for group in (in_pool, in_threads) for ends in (False, True)),
        (around_item, hand_started, False),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
async def test_what_tasks_inside_of_items_had_recorded_is_not_left_over(
    around: Any, group: Any, *, ends_with_effect: bool, tmp_path: Path
) -> None:
    async def program(names: Sequence[str], *, is_whole: bool) -> None:
        async def inner() -> None:
            await group(names)

        await around(inner)
        if not is_whole:
            raise SystemError("the power is off")
        if ends_with_effect:
            await pay("end")

    with opened(tmp_path) as store:
        assert isinstance(await ending(store, lambda: program(["ann", "bob"], is_whole=False)), SystemError)
        effects = list(made)
        error = await ending(store, lambda: program(["ann"], is_whole=True))
        assert isinstance(error, JournalDivergenceError)
        assert made == effects
        assert await ending(store, lambda: program(["ann", "bob"], is_whole=True)) is None
    with opened(tmp_path, changes="insert") as store:
        assert await ending(store, lambda: program(["ann"], is_whole=True)) is None


@nh.natural_function
async def handled(start: Callable[[], None]) -> None:
    """A natural function that starts a task, and has no block that is reached."""
    start()
    if start is None:
        """natural
        Nobody gets here with <start>.
        """


@pytest.mark.parametrize("around", [*AROUND, handled], ids=lambda each: each.__name__)
async def test_tasks_that_outlive_the_item_that_has_started_them_are_not_left_over(
    around: Any, tmp_path: Path
) -> None:
    async def program() -> None:
        async with anyio.create_task_group() as group:

            async def notify(name: str) -> None:
                await anyio.lowlevel.checkpoint()
                await pay(name)

            async def inner() -> None:
                group.start_soon(notify, "ann")

            def start() -> None:
                group.start_soon(notify, "ann")

            await around(start if around is handled else inner)

    with opened(tmp_path) as store:
        for _ in range(3):
            assert await ending(store, program) is None
    assert made == ["ann"]


async def test_a_step_that_had_only_begun_is_not_left_over(tmp_path: Path) -> None:
    async def program(*, asks: bool) -> None:
        if asks:
            await shout("ann")
        await pay("end")

    with opened(tmp_path) as store:
        assert await ending(store, lambda: program(asks=True)) is None
        begun_again(store, "run-2", killed_after("step", 1, store.records("run-1")))
        with pytest.raises(JournalDivergenceError):  # the step may still come
            await live(store, shouting(), lambda: program(asks=False), "run-2")

        async def nothing() -> None:
            """A program that has no calls any more."""

        await live(store, shouting(), nothing, "run-2")
