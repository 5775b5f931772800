"""Lives that found out that the program has changed: what they leave to the program before the change."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError
from tests.unit.policies.human_handlers import Handler, answering

from .durable_runs import live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

made: list[str] = []


class CrashError(Exception):
    """The end of a life."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> str:
    """An effect that nobody knows more about."""
    made.append(name)
    return name


async def shout_side_by_side(words: Sequence[str]) -> list[str]:
    """Shout words in tasks that are started by hand."""
    shouted: list[str] = []

    async def one(word: str) -> None:
        shouted.append(await shout(word))

    async with anyio.create_task_group() as tasks:
        for word in words:
            tasks.start_soon(one, word)
    return shouted


async def crash_after(words: Sequence[str]) -> list[str]:
    await shout_side_by_side(words)
    raise CrashError


async def test_a_life_that_diverged_counts_for_nothing(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann", "bob"]))
        for _ in range(2):  # also where another life of its kind had the same places
            with pytest.raises(JournalDivergenceError):
                await live(store, model, lambda: shout_side_by_side(["ann", "carl"]))
        asked = len(model.prompts)
        first = await live(store, model, lambda: shout_side_by_side(["ann", "bob"]))
        assert sorted(first) == ["ANN", "BOB"]
        assert await live(store, model, lambda: shout_side_by_side(["ann", "bob"])) == first
    assert len(model.prompts) == asked, "what was recorded before the change is still there"


async def test_what_such_a_life_had_recorded_is_recorded_anew_at_the_same_place(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, model, lambda: shout_side_by_side(["carl"]))
        everyone = ["ann", "carl"]
        first = await live(store, model, lambda: shout_side_by_side(everyone))
        asked = len(model.prompts)
        assert await live(store, model, lambda: shout_side_by_side(everyone)) == first
    assert len(model.prompts) == asked


async def test_a_life_that_made_an_effect_before_it_diverged_counts(tmp_path: Path) -> None:
    async def changed() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shout, "carl")
            tasks.start_soon(pay, "carl")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), changed)
        assert made == ["carl"]
        with pytest.raises(JournalDivergenceError, match=r"shout\(\)|pay\(\)"):
            await live(store, shouting(), lambda: shout_side_by_side(["ann"]))


async def test_a_life_that_made_only_calls_that_may_be_repeated_counts_for_nothing(tmp_path: Path) -> None:
    read: list[str] = []

    @nh.repeatable
    async def look_up(word: str) -> str:
        read.append(word)
        return word

    async def changed() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look_up, "carl")
            tasks.start_soon(shout, "carl")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), changed)
        assert read == ["carl"]
        assert await live(store, shouting(), lambda: shout_side_by_side(["ann"])) == ["ANN"]


async def test_a_fork_has_nothing_of_such_a_life(tmp_path: Path) -> None:
    async def program(words: Sequence[str]) -> list[str]:
        shouted = await shout_side_by_side(words)
        return [*shouted, await shout("last")]

    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: crash_after(["ann"]))
        with pytest.raises(JournalDivergenceError):
            await live(store, model, lambda: shout_side_by_side(["carl"]))
        await live(store, model, lambda: program(["ann"]))
        fork = store.fork("run-1", at="run/shout()[0]")  # the one of the last word
        assert await live(store, model, lambda: program(["ann"]), fork) == ["ANN", "LAST"]
    carl = [each for each in model.prompts if "carl" in each]
    assert len(carl) == 1


async def test_nothing_new_begins_after_a_recorded_call_that_is_passed_by(tmp_path: Path) -> None:
    async def rest(*, crashes: bool) -> None:
        await pay("b")
        if crashes:
            raise CrashError
        await pay("c")

    async def before() -> None:
        await nh.parallel.gather(shout("first"))
        await nh.parallel.map(lambda crashes: rest(crashes=crashes), [True])

    async def after() -> None:
        await nh.parallel.map(lambda crashes: rest(crashes=crashes), [False])

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), before)
        with pytest.raises(JournalDivergenceError, match=r"gather\[0\], which the program has passed"):
            await live(store, shouting(), after)
    assert made == ["b"]


stopped: list[str] = []
answered: dict[str, str] = {}


class KilledError(BaseException):
    """The end of a process."""


async def find_transfer(name: str) -> str | None:
    made.append(f"look for {name}")
    return answered.get(name)


@nh.once(reconcile=find_transfer)
async def transfer(name: str) -> str:
    """An effect that can be looked for."""
    if name in stopped:
        raise KilledError
    made.append(name)
    return name


@nh.repeatable
async def read(name: str) -> str:
    """A call that may be repeated."""
    if name in stopped:
        raise KilledError
    made.append(name)
    return name


@pytest.mark.parametrize("effect", [transfer, read])
async def test_what_such_a_life_has_ended_for_others_has_ended(
    tmp_path: Path, effect: Callable[[str], Awaitable[str]]
) -> None:
    async def program(word: str, *, waits: bool = False) -> list[str]:
        shouted = anyio.Event()

        async def shout_and_tell() -> None:
            await shout(word)
            shouted.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shout_and_tell)
            if waits:  # else the effect may end the life before anything of the other task is recorded
                await shouted.wait()
            return await nh.parallel.map(effect, ["ann"])
        raise AssertionError

    with opened(tmp_path) as store:
        stopped.append("ann")
        with pytest.raises(BaseException):  # noqa: B017, PT011  (a group, by the event loop)
            await live(store, shouting(), lambda: program("one", waits=True))
        stopped.clear()
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), lambda: program("two"))
        once = list(made)
        assert once.count("ann") == 1
        assert await live(store, shouting(), lambda: program("one")) == ["ann"]
    assert made == once, "it is in doubt no more, and is not made again"


async def test_people_who_answered_in_such_a_life_are_not_asked_again(tmp_path: Path) -> None:
    async def live_with(handler: Handler, word: str) -> list[object]:
        async def shout_and_tell() -> None:
            await shout(word)
            shouted.set()

        async def program() -> list[object]:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(shout_and_tell)
                return await nh.parallel.map(lambda prompt: nh.ask_user(prompt), ["Who?"])
            raise AssertionError

        executor = nh.AgentStepExecutor.from_model(shouting())
        async with nh.run(executor, journal=store, run_id="run-1", human=handler):
            return await program()

    async def be_killed(question: object) -> object:
        await shouted.wait()  # else nothing of the other task may be recorded
        raise KilledError

    shouted = anyio.Event()

    nobody = Handler()
    with opened(tmp_path) as store:
        with pytest.raises(BaseException):  # noqa: B017, PT011  (a group, by the event loop)
            await live_with(Handler(answer=be_killed), "one")
        with pytest.raises(JournalDivergenceError):
            await live_with(answering("bob"), "two")
        assert await live_with(nobody, "one") == ["bob"]
    assert nobody.questions == []


async def test_a_program_that_handles_the_error_does_not_end_the_run(tmp_path: Path) -> None:
    async def program(words: Sequence[str], name: str) -> str:
        await shout_side_by_side(words)
        try:
            return await pay(name)
        except JournalDivergenceError:
            return "went on"

    async def crashing() -> None:
        await program(["ann"], "ann")
        raise CrashError

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), crashing)
        with pytest.raises(JournalDivergenceError, match="it has not ended"):
            await live(store, shouting(), lambda: program(["ann", "carl"], "bob"))
        assert [run.status for run in store.runs()] == ["failed"]
        assert await live(store, shouting(), lambda: program(["ann"], "ann")) == "ann"
    assert made == ["ann"]


async def test_a_life_that_is_killed_after_it_diverged_counts_for_nothing(tmp_path: Path) -> None:
    async def killed() -> None:
        await shout_side_by_side(["ann", "carl"])
        with suppress(JournalDivergenceError):
            await pay("bob")
        assert [each.body for each in store.records("run-1") if each.kind == "life"][-1] == b"diverged"
        raise KilledError

    async def program(*, crashes: bool = False) -> list[str]:
        shouted = await shout_side_by_side(["ann"])
        await pay("ann")
        if crashes:
            raise CrashError
        return shouted

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(crashes=True))
        with pytest.raises(KilledError):
            await live(store, shouting(), killed)
        assert await live(store, shouting(), program) == ["ANN"]


async def test_a_replay_and_the_tree_have_nothing_of_such_a_life_after_the_next_one(tmp_path: Path) -> None:
    def count_nodes() -> int:
        return sum(1 for _ in store.tree("run-1").snapshot().walk())

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: crash_after(["ann"]))
        before = count_nodes()
        with pytest.raises(JournalDivergenceError):
            await live(store, shouting(), lambda: shout_side_by_side(["carl"]))
        assert count_nodes() > before
        first = await live(store, shouting(), lambda: shout_side_by_side(["ann"]))
        assert count_nodes() == before
        with nh.journal.replay(store, "run-1"):
            assert await live(store, shouting(), lambda: shout_side_by_side(["ann"])) == first


async def test_what_such_a_life_had_asked_counts_for_no_budget_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(words: Sequence[str]) -> int:
        async with nh.budget(turns=2) as budget:
            await shout_side_by_side(words)
        return budget.usage.requests

    async def crashing() -> None:
        await program(["ann"])
        raise CrashError

    model = shouting()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, crashing)
        with pytest.raises(JournalDivergenceError):
            await live(store, model, lambda: program(["carl"]))
        assert "have asked models" not in caplog.text
        assert await live(store, model, lambda: program(["ann", "bob"])) == 2
    assert len(model.prompts) == 3
    assert "run run-1: lives whose program had changed have asked models 1 times" in caplog.text
