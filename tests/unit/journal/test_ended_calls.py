"""What had ended in an earlier life: nothing new begins in it, and nothing that it had recorded is left."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError
from nighthawk_async.oversight import Proposal

from .durable_runs import AnsweringModel, assigning, live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

Program: TypeAlias = Callable[[], Awaitable[object]]

made: list[str] = []
is_changed = False


class CrashError(Exception):
    """The end of a life."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()
    change(to=False)


def change(*, to: bool = True) -> None:
    """Change the program, or change it back."""
    global is_changed
    is_changed = to


@nh.once
async def pay(name: str) -> str:
    """An effect."""
    made.append(name)
    return name


@nh.once
async def mail(name: str) -> str:
    """Another effect."""
    made.append(name)
    return name


async def pay_in_map() -> None:
    await nh.parallel.map(pay, ["new"])


async def guarded() -> None:
    if nh.journal.patched("more"):
        await pay("new")


more: Callable[[], Awaitable[object]] = pay_in_map


@nh.natural_function
async def answer(word: str) -> str:
    """Answer, and do more when the program has changed."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    if is_changed:
        await more()
    return loud


async def answer_and_pay(word: str) -> None:
    await answer(word)
    await pay("later")


async def in_order() -> None:
    await answer_and_pay("ann")


async def in_items() -> None:
    await nh.parallel.map(answer, ["ann"])
    await pay("later")


async def within_items() -> None:
    await nh.parallel.map(answer_and_pay, ["ann"])


async def within_tasks() -> None:
    async with nh.open_tasks() as tasks:
        await tasks.start(answer_and_pay, "ann")


async def crash_after(program: Program) -> None:
    await program()
    raise CrashError


@pytest.mark.parametrize("program", [in_order, in_items, within_items, within_tasks])
@pytest.mark.parametrize("new", [lambda: pay("new"), lambda: mail("new"), lambda: shout("new"), pay_in_map])
async def test_nothing_new_begins_in_a_call_after_which_something_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program, new: Program
) -> None:
    monkeypatch.setattr(f"{__name__}.more", new)
    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(program))
        change()
        with pytest.raises(JournalDivergenceError, match=r"after what it is in"):
            await live(store, model, program)
        assert made == ["later"]
        assert len(model.prompts) == 1
        change(to=False)
        await live(store, model, program)


async def test_such_code_can_be_guarded_or_inserted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.more", guarded)
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(in_order))
        change()
        await live(store, shouting(), in_order)
        assert made == ["later"]
        await live(store, shouting(), in_order, "run-2")
        assert made == ["later", "new", "later"]
        change(to=False)
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(in_order), "run-3")
    change()
    monkeypatch.setattr(f"{__name__}.more", lambda: mail("inserted"))
    with opened(tmp_path, changes="insert") as store:
        await live(store, shouting(), in_order, "run-3")
    assert made[-1] == "inserted"


async def test_new_code_at_the_end_of_what_had_not_ended_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.more", lambda: pay("new"))
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(lambda: answer("ann")))
        change()
        assert await live(store, shouting(), lambda: answer("ann")) == "ANN"
    assert made == ["new"]


async def test_what_a_scope_of_the_program_had_cancelled_may_go_on_until_it_is_cancelled_again(
    tmp_path: Path,
) -> None:
    is_first = True
    reached: list[str] = []

    async def work(name: str) -> None:
        await pay(name)
        scope.cancel()
        if is_first:
            await anyio.sleep_forever()
        reached.append(name)
        await mail(name)  # which waits for the cancellation

    async def program() -> None:
        nonlocal scope
        with anyio.CancelScope() as scope:
            await nh.parallel.map(look_and_wait, ["ann"])
        await pay("later")

    @nh.natural_function
    async def look_and_wait(name: str) -> str:
        loud: str
        """natural
        Set <:loud> to <name>.
        """
        await work(name)
        return loud

    scope = anyio.CancelScope()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting_names(), lambda: crash_after(program))
        is_first = False
        await live(store, shouting_names(), program)
    assert made == ["ann", "later"]
    assert reached == ["ann"]


def shouting_names() -> AnsweringModel:
    """A model that answers with the name."""
    return AnsweringModel(lambda prompt, turn: assigning("loud", "name"))


@nh.natural_function
async def answer_then_pay(word: str) -> str:
    """Answer, and pay; the changed program fails before."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    if is_changed:
        raise ValueError("too early")
    await pay("recorded")
    return loud


async def in_function() -> None:
    with suppress(ValueError):
        await answer_then_pay("ann")


async def in_settle() -> None:
    await nh.parallel.settle(pay_after_shout, ["ann"])


async def in_map() -> None:
    with suppress(ValueError):
        await nh.parallel.map(pay_after_shout, ["ann"])


async def in_stream() -> None:
    with suppress(ValueError):
        async with nh.parallel.stream(pay_after_shout, ["ann"]) as results:
            async for _ in results:
                pass


async def in_race() -> None:
    with suppress(ValueError, ExceptionGroup):
        await nh.parallel.race(pay_after_shout, ["ann"])


async def in_task() -> None:
    async with nh.open_tasks() as tasks:
        handle = tasks.start(pay_after_shout, "ann")
        with suppress(ValueError):
            await handle


async def out_of_a_block_of_tasks() -> None:
    with suppress(ValueError):
        async with nh.open_tasks() as tasks:
            await tasks.start(pay_after_shout, "ann")


async def pay_after_shout(word: str) -> None:
    await shout(word)
    if is_changed:
        raise ValueError("too early")
    await pay("recorded")


@pytest.mark.parametrize(
    "call", [in_function, in_settle, in_map, in_stream, in_race, in_task, out_of_a_block_of_tasks]
)
@pytest.mark.parametrize("after", [None, "recorded", "new"])
async def test_the_program_does_not_go_on_after_a_call_that_fails_before_what_it_had_recorded(
    tmp_path: Path, call: Program, after: str | None
) -> None:
    async def program() -> None:
        await call()
        if after == "recorded" or (after == "new" and is_changed):
            await mail("later")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(program))
        before = list(made)
        change()
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), program)
        assert made == before
        change(to=False)
        await live(store, shouting(), program)


async def test_an_error_that_ends_a_life_before_what_was_recorded_is_raised_as_it_is(tmp_path: Path) -> None:
    async def program() -> None:
        await nh.parallel.map(answer_then_pay, ["ann"])
        await mail("later")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(program))
        change()
        with pytest.raises(ValueError, match="too early"):
            await live(store, shouting(), program)
        change(to=False)
        await live(store, shouting(), program)
    assert made == ["recorded", "later"]


accepted_from = 0


def check(proposal: Proposal) -> str | None:
    """A check that reads from outside: the number of the answer that is good enough."""
    return None if proposal.bindings["loud"] >= f"T{accepted_from}" else "not yet"


@nh.repeatable
def check_once_recorded(proposal: Proposal) -> str | None:
    """The same, recorded."""
    return check(proposal)


async def checked_life(
    store: nh.journal.JournalStore,
    model: AnsweringModel,
    check: Callable[[Proposal], str | None],
    *,
    from_turn: int,
    pays: bool = True,
) -> str:
    """A life of a run in which a check accepts the answers from a turn on."""
    global accepted_from
    accepted_from = from_turn

    async def program() -> str:
        with nh.scope(verify=check):
            loud = await shout("ann")
        if pays:
            await pay(loud)
        if len(model.prompts) == turns:
            raise CrashError
        return loud

    turns = 0 if model.prompts else from_turn + 1
    loud: str = await live(store, model, program)
    return loud


def answering_by_turn() -> AnsweringModel:
    return AnsweringModel(lambda prompt, turn: assigning("loud", f"'T{turn}'"))


@pytest.mark.parametrize("pays", [True, False])
async def test_an_answer_that_is_accepted_sooner_than_before_is_refused(
    tmp_path: Path, *, pays: bool
) -> None:
    model = answering_by_turn()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await checked_life(store, model, check, from_turn=1, pays=pays)
        with pytest.raises(JournalDivergenceError, match=r"shout#1\[0\] has ended.* turn\[1\] there too"):
            await checked_life(store, model, check, from_turn=0, pays=pays)
        assert await checked_life(store, model, check, from_turn=1, pays=pays) == "T1"
    assert len(model.prompts) == 2


async def test_an_answer_that_is_refused_after_it_was_used_is_not_asked_for_again(tmp_path: Path) -> None:
    model = answering_by_turn()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await checked_life(store, model, check, from_turn=0)
        with pytest.raises(JournalDivergenceError, match=r"turn\[1\] is not in the journal"):
            await checked_life(store, model, check, from_turn=1)
        assert await checked_life(store, model, check, from_turn=0) == "T0"
    assert len(model.prompts) == 1


async def test_a_check_that_is_recorded_says_the_same_in_every_life(tmp_path: Path) -> None:
    model = answering_by_turn()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await checked_life(store, model, check_once_recorded, from_turn=1)
        assert await checked_life(store, model, check_once_recorded, from_turn=0) == "T1"
    assert len(model.prompts) == 2
    assert made == ["T1"]
