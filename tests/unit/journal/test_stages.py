"""Stages: done once, skipped afterwards, continued where they were interrupted, retried alone."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError, NighthawkError
from nighthawk_async.journal import JournalDivergenceError, JournalValueError
from nighthawk_async.types.usage import Usage

from .durable_runs import live, opened, places, shout
from .test_errors_in_lives import CrashError, FailingModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@dataclass
class Fact:
    """The result of a stage."""

    text: str
    loud: tuple[str, ...]


class Counted:
    """Counts the runs of the bodies of stages, in private: what is public around it must stay."""

    def __init__(self) -> None:
        self._bodies = 0

    @property
    def bodies(self) -> int:
        return self._bodies

    def count(self) -> None:
        self._bodies += 1


def extracting(counted: Counted, **options: Any) -> Callable[[list[str]], Awaitable[Fact]]:
    @nh.journal.stage("extract", **options)
    async def extract(words: list[str]) -> Fact:
        """Shout words."""
        counted.count()
        return Fact(" ".join(words), tuple([await shout(word) for word in words]))

    return extract


async def test_a_stage_that_has_ended_is_skipped_in_later_lives(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted)

    async def program(*, crash: bool) -> tuple[Fact, str]:
        fact = await extract(["lamp", "cup"])
        if crash:
            raise CrashError
        return fact, await shout("end")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: program(crash=True))
        for _ in range(2):
            result = await live(store, model, lambda: program(crash=False))
            assert result == (Fact("lamp cup", ("LAMP", "CUP")), "END")
        assert "run/stage:extract()[0]/shout()[1]/shout#1[0]/turn[0]" in places(store, "response")
        assert places(store, "result") == ["run/stage:extract()[0]"]
    assert counted.bodies == 1
    assert len(model.prompts) == 3


async def test_a_stage_that_was_interrupted_continues_from_the_records_inside_it(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted)
    with opened(tmp_path) as store:
        model.failures["vase"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(ModelStatusError):
            await live(store, model, lambda: extract(["lamp", "cup", "vase"]))
        model.failures.clear()
        for _ in range(2):
            fact = await live(store, model, lambda: extract(["lamp", "cup", "vase"]))
            assert fact.loud == ("LAMP", "CUP", "VASE")
    assert counted.bodies == 2
    assert len(model.prompts) == 4  # the one that failed twice


async def test_a_stage_is_retried_alone(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted, retries=2, wait=0)
    model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)

    async def program(*, crash: bool) -> tuple[str, Fact]:
        first = await shout("first")
        fact = await extract(["lamp", "cup"])
        if crash:
            raise CrashError
        return first, fact

    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):  # all three attempts
            await live(store, model, lambda: program(crash=True))
        assert counted.bodies == 3
        model.failures.clear()
        with pytest.raises(CrashError):
            await live(store, model, lambda: program(crash=True))
        assert counted.bodies == 4  # the last attempt again, and no earlier one
        assert await live(store, model, lambda: program(crash=False)) == (
            "FIRST",
            Fact("lamp cup", ("LAMP", "CUP")),
        )
        attempts = [place.partition("/attempt")[2] for place in places(store, "intent")]
        assert attempts == ["", "[1]", "[2]", "[3]"]
    assert counted.bodies == 4


async def test_the_usage_of_a_skipped_stage_counts(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted, retries=1)
    usages: list[tuple[Usage, int, Usage, int, int]] = []

    async def program() -> None:
        with nh.budget(turns=5, steps=5) as budget:
            await extract(["lamp", "cup"])
            meter = nh.get_usage_meter()
            usages.append((meter.usage, meter.steps, budget.usage, budget.spent.turns, budget.spent.steps))

    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, model, program)
    assert counted.bodies == 1
    assert usages[0] == usages[1]
    assert usages[0][0].requests == 2


async def test_the_arguments_of_a_stage_are_those_that_were_recorded(tmp_path: Path) -> None:
    model, extract = FailingModel(), extracting(Counted())
    with opened(tmp_path) as store:
        await live(store, model, lambda: extract(["lamp"]))
        with pytest.raises(JournalDivergenceError, match="<words>"):
            await live(store, model, lambda: extract(["cup"]))


async def test_a_stage_that_changes_an_argument_is_refused(tmp_path: Path) -> None:
    @nh.journal.stage("extract")
    async def extract(words: list[str]) -> None:
        words.append(await shout("cup"))

    with opened(tmp_path) as store, pytest.raises(JournalValueError, match=r"changed <words> in place"):
        await live(store, FailingModel(), lambda: extract([]))


async def test_a_result_of_a_stage_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    @nh.journal.stage("extract")
    async def extract() -> object:
        return object()

    with opened(tmp_path) as store, pytest.raises(JournalValueError, match=r"stage:extract.*type object"):
        await live(store, FailingModel(), extract)


async def test_a_program_that_changed_inside_a_stage_in_progress_is_noticed(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted)

    @nh.journal.stage("extract")
    async def shorter(words: list[str]) -> None:
        await shout(words[counted.bodies - counted.bodies])  # it carries what the stage before had carried

    with opened(tmp_path) as store:
        model.failures["vase"] = ModelStatusError("busy", status=400)
        with pytest.raises(ModelStatusError):
            await live(store, model, lambda: extract(["lamp", "cup", "vase"]))
        with pytest.raises(JournalDivergenceError, match=r"shout\(\)\[1\]"):
            await live(store, model, lambda: shorter(["lamp", "cup", "vase"]))


async def test_stages_run_side_by_side(tmp_path: Path) -> None:
    model, counted = FailingModel(), Counted()
    extract = extracting(counted)
    words = [["lamp"], ["cup"], ["vase"]]
    with opened(tmp_path) as store:
        for _ in range(2):
            facts = await live(store, model, lambda: nh.parallel.map(extract, words))
            assert [fact.text for fact in facts] == ["lamp", "cup", "vase"]
    assert counted.bodies == 3


async def test_a_stage_without_a_journal_is_its_function() -> None:
    calls: list[int] = []

    @nh.journal.stage("extract", retries=1, on=OSError, wait=0)
    async def extract(words: list[str]) -> list[str]:
        """Extract words."""
        calls.append(1)
        if len(calls) == 1:
            raise OSError
        words.append("end")
        return words

    assert await extract(["lamp"]) == ["lamp", "end"]
    assert extract.__doc__ == "Extract words."


async def attempts_until(error: Exception, **options: Any) -> int:
    """The number of attempts of a stage whose first two fail so."""
    attempts: list[int] = []

    @nh.journal.stage("extract", retries=2, wait=0, **options)
    async def extract() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise error
        return "done"

    with suppress(Exception):
        await extract()
    return len(attempts)


REFUSED = ModelStatusError("no such key", status=401, is_transient=False)


@pytest.mark.parametrize(
    ("error", "count"),
    [
        (ValueError("odd"), 3),
        (ExceptionGroup("both", [OSError(), KeyError("a")]), 3),
        (ModelStatusError("busy", status=503, is_transient=True), 3),
        (nh.ExecutionError("failed"), 3),
        (REFUSED, 1),
        (ExceptionGroup("both", [OSError(), REFUSED]), 1),
        (nh.ConfigurationError("no model"), 1),
        (nh.journal.JournalError("broken"), 1),
    ],
    ids=repr,
)
async def test_a_stage_is_begun_anew_after_any_error_that_may_pass(error: Exception, count: int) -> None:
    assert await attempts_until(error) == count


async def test_a_stage_is_begun_anew_after_the_errors_that_are_named() -> None:
    assert await attempts_until(ValueError("odd"), on=OSError) == 1
    assert await attempts_until(REFUSED, on=(OSError, ModelStatusError)) == 3


def test_what_cannot_be_a_stage_is_refused() -> None:
    with pytest.raises(NighthawkError, match="name of a stage"):
        nh.journal.stage("a/b")
    with pytest.raises(NighthawkError, match="retries"):
        nh.journal.stage("a", retries=-1)
    with pytest.raises(TypeError, match="async function"):
        nh.journal.stage("a")(lambda: None)
