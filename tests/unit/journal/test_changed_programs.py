"""Programs that changed between two lives."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError, JournalError

from .durable_runs import AnsweringModel, assigning, live, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@nh.natural_function
async def shout(word: str, volume: int = 1) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals, with <volume>.
    """
    return loud


@nh.natural_function
async def whisper(word: str) -> str:
    """Whisper a word."""
    quiet: str
    """natural
    Set <:quiet> to <word> in small letters.
    """
    return quiet


def both() -> AnsweringModel:
    return AnsweringModel(
        lambda prompt, turn: assigning(
            *(("quiet", "word.lower()") if "quiet" in prompt else ("loud", "word.upper()"))
        )
    )


class CrashError(Exception):
    """The end of a life."""


async def test_another_input_is_named_with_its_place(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, both(), lambda: shout("a", 1))
        with pytest.raises(JournalDivergenceError, match="<volume>") as caught:
            await live(store, both(), lambda: shout("a", 2))
    assert caught.value.place == "run/shout()[0]/shout#1[0]"
    assert "<word>" not in str(caught.value)


async def test_a_call_that_is_new_before_recorded_ones_is_an_error(tmp_path: Path) -> None:
    async def old() -> str:
        return await shout("a")

    async def new() -> str:
        await whisper("b")
        return await shout("a")

    model = both()
    with opened(tmp_path) as store:
        await live(store, model, old)
        with pytest.raises(JournalDivergenceError, match=r"whisper\(\)\[0\] is not in the journal") as caught:
            await live(store, model, new)
        assert caught.value.place == "run/whisper()[0]"
    assert len(model.prompts) == 1
    with opened(tmp_path, changes="insert") as store:
        assert await live(store, model, new) == "A"
    assert len(model.prompts) == 2


async def test_a_call_that_is_gone_is_an_error_at_the_end_of_its_function(tmp_path: Path) -> None:
    async def old() -> str:
        await whisper("b")
        return await shout("a")

    async def new() -> str:
        return await whisper("b")

    with opened(tmp_path) as store:
        await live(store, both(), old)
        with pytest.raises(JournalDivergenceError, match=r"shout\(\)\[0\]"):
            await live(store, both(), new)
        assert store.runs()[0].status == "failed"
    with opened(tmp_path, changes="insert") as store:
        assert await live(store, both(), new) == "b"


async def test_new_code_at_the_end_is_no_change(tmp_path: Path) -> None:
    async def old() -> None:
        await shout("a")
        raise CrashError

    async def new() -> list[str]:
        return [await shout("a"), await whisper("B")]

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, both(), old)
        assert await live(store, both(), new) == ["A", "b"]


async def test_patched_guards_code_that_is_newer_than_a_run(tmp_path: Path) -> None:
    async def old() -> str:
        return await shout("a")

    async def new() -> list[str]:
        words = [await whisper("B")] if nh.journal.patched("whisper") else []
        return [*words, await shout("a")]

    with opened(tmp_path) as store:
        await live(store, both(), old, "old")
        assert await live(store, both(), new, "old") == ["A"]
        for _ in range(2):
            assert await live(store, both(), new, "new") == ["b", "A"]


async def test_a_function_that_is_new_shifts_no_other_one(tmp_path: Path) -> None:
    async def old() -> list[str]:
        return [await shout("a"), await shout("b")]

    async def new() -> list[str]:
        return [await shout("a"), await whisper("C"), await shout("b")]

    model = both()
    with opened(tmp_path, changes="insert") as store:
        await live(store, model, old)
        assert await live(store, model, new) == ["A", "c", "B"]
    assert len(model.prompts) == 3


def test_options_that_are_none_are_refused(tmp_path: Path) -> None:
    for url in ("sqlite://", "mysql:///x", "sqlite:///"):
        with pytest.raises(nh.ConfigurationError, match="address"):
            nh.journal.open(url)
    with pytest.raises(nh.ConfigurationError, match="changes"):
        nh.journal.open("sqlite:///x.db", changes="ignore")  # type: ignore[arg-type]
    with pytest.raises(nh.ConfigurationError, match="durability"):
        nh.journal.open("sqlite:///x.db", durability="never")  # type: ignore[arg-type]
    with pytest.raises(nh.NighthawkError, match="journal must be a path, an address, or a store"):
        nh.run(nh.AgentStepExecutor.from_model(both()), journal=3)  # type: ignore[arg-type]


async def test_changes_around_a_map_are_noticed(tmp_path: Path) -> None:
    async def old() -> list[str]:
        return await nh.parallel.map(shout, ["a", "b"])

    async def new() -> list[str]:
        return [await whisper("C"), *await old()]

    async def guarded() -> list[str]:
        return [*([await whisper("C")] if nh.journal.patched("whisper") else []), *await old()]

    async def gone() -> str:
        return "nothing"

    async def another_map() -> list[str]:
        return [*await nh.parallel.map(whisper, ["C"]), await shout("a")]

    with opened(tmp_path) as store:
        await live(store, both(), old)
        with pytest.raises(JournalDivergenceError, match=r"whisper\(\)\[0\] is not in the journal.*map\[0\]"):
            await live(store, both(), new)
        with pytest.raises(JournalDivergenceError, match=r"map\[0\] there too"):
            await live(store, both(), gone)
        assert await live(store, both(), guarded) == ["A", "B"]
        await live(store, both(), lambda: shout("a"), "run-2")
        with pytest.raises(JournalDivergenceError, match=r"map\[0\] is not in the journal"):
            await live(store, both(), another_map, "run-2")


@pytest.mark.parametrize("name", ["", "a/b", "a[0]"])
async def test_a_name_of_a_change_that_is_no_part_of_a_place_is_refused(name: str) -> None:
    with pytest.raises(nh.NighthawkError, match="name of a change"):
        nh.journal.patched(name)


made: list[str] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


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


@pytest.mark.parametrize("ends_with", [pay, shout])
async def test_nothing_new_begins_once_the_program_is_known_to_have_changed(
    tmp_path: Path, ends_with: Callable[[str], Awaitable[str]]
) -> None:
    async def program(name: str, *, is_whole: bool) -> str:
        for each in ("ann", name):
            with suppress(JournalError):
                await pay(each)
        if not is_whole:
            raise CrashError
        return await ends_with("end")

    model = both()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: program("bob", is_whole=False))
        with pytest.raises(JournalDivergenceError, match="nothing new begins in this life"):
            await live(store, model, lambda: program("eve", is_whole=True))
        assert made == ["ann", "bob"]
        assert not model.prompts
        assert await live(store, model, lambda: program("bob", is_whole=True)) in ("end", "END")


async def test_one_more_effect_started_by_hand_is_not_held_for_ever(tmp_path: Path) -> None:
    async def program(*names: str, is_whole: bool) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(pay, "ann")
            for name in names:
                group.start_soon(mail, name)
        ended = await pay(f"the end of {len(names)}")
        if not is_whole:
            raise CrashError
        return ended

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, both(), lambda: program(is_whole=False))
        with pytest.raises(JournalDivergenceError, match="<name>"):
            await live(store, both(), lambda: program("new", is_whole=True))
        assert made == ["ann", "the end of 0", "new"]


@nh.once
def send(name: str) -> str:
    made.append(name)
    return name


async def test_an_effect_in_a_worker_thread_is_not_made_before_the_call_that_is_gone(tmp_path: Path) -> None:
    """Whoever waits for the thread cannot come to the recorded call meanwhile."""

    async def program(*, asks: bool, is_whole: bool) -> str:
        said = await shout("a") if asks else "A"
        if not is_whole:
            raise CrashError
        return await anyio.to_thread.run_sync(send, said)

    model = both()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: program(asks=True, is_whole=False))
        with pytest.raises(JournalDivergenceError, match=r"recorded run/shout\(\)\[0\]"):
            await live(store, model, lambda: program(asks=False, is_whole=True))
        assert made == []
        assert await live(store, model, lambda: program(asks=True, is_whole=True)) == "A"
    assert made == ["A"]


async def test_no_item_makes_an_effect_before_a_recorded_one_that_is_gone_is_missed(tmp_path: Path) -> None:
    answered: list[str] = []

    async def program(*words: str, is_whole: bool) -> list[str]:
        async def item(word: str) -> str:
            said = await shout(word)
            answered.append(said)
            if not is_whole:
                if len(answered) < len(words):
                    await anyio.sleep_forever()
                raise CrashError
            return await pay(said)

        return await nh.parallel.map(item, words)

    model = both()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: program("a", "b", is_whole=False))
        with pytest.raises(JournalDivergenceError, match=r"item\[1\]"):
            await live(store, model, lambda: program("a", is_whole=True))
        assert made == []
        assert await live(store, model, lambda: program("a", "b", is_whole=True)) == ["A", "B"]
    assert sorted(made) == ["A", "B"]
