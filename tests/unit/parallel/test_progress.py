"""Progress of combinators."""

import gc
import io
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from rich.console import Console
from rich.progress import Progress as RichProgress, TextColumn

from nighthawk_async import parallel
from nighthawk_async.parallel import Progress
from nighthawk_async.parallel.progress_line import describe
from nighthawk_async.parallel.task_node import get_task_hooks, install_task_hooks
from nighthawk_async.types.usage import Usage

pytestmark = pytest.mark.anyio


@contextmanager
def usage_of(find_usage: Callable[[], Any]) -> Iterator[None]:
    """Let progress find usage where a runtime is not there to count it."""
    before = install_task_hooks(replace(get_task_hooks(), find_usage=find_usage))
    try:
        yield
    finally:
        install_task_hooks(before)


async def fail_at_one(number: int) -> int:
    await checkpoint()
    if number == 1:
        raise ValueError(number)
    return number


def figures(reports: list[Progress]) -> list[tuple[int | None, int, int, int]]:
    return [(report.total, report.started, report.finished, report.failed) for report in reports]


async def test_a_callback_hears_of_every_beginning_and_end() -> None:
    reports: list[Progress] = []
    await parallel.settle(fail_at_one, range(2), max_concurrent=1, progress=reports.append)
    assert figures(reports) == [(2, 1, 0, 0), (2, 1, 1, 0), (2, 2, 1, 0), (2, 2, 2, 1)]
    assert {report.usage for report in reports} == {None}


async def test_the_total_is_unknown_until_the_items_have_ended() -> None:
    reports: list[Progress] = []

    async def items() -> AsyncGenerator[int, None]:
        yield 0
        yield 2

    await parallel.map(fail_at_one, items(), progress=reports.append)
    assert reports[0].total is None
    assert figures(reports)[-1] == (2, 2, 2, 0)


class Listener:
    """A callback that hears of progress: as a plain function, or as an async one that takes its time."""

    def __init__(self, kind: str) -> None:
        self.reports: list[Progress] = []
        self.callback: Any = self.reports.append if kind == "function" else self.listen

    async def listen(self, progress: Progress) -> None:
        for _ in range(3):
            await checkpoint()
        self.reports.append(progress)


both_kinds = pytest.mark.parametrize("kind", ["function", "async function"])


@both_kinds
async def test_a_callback_hears_of_the_failure_that_ends_everything(kind: str) -> None:
    listener = Listener(kind)
    with pytest.raises(ValueError, match="1"):
        await parallel.map(fail_at_one, [1], progress=listener.callback)
    assert figures(listener.reports)[-1] == (1, 1, 1, 1)


@both_kinds
async def test_a_callback_hears_of_the_call_that_wins(kind: str) -> None:
    async def win_or_wait(number: int) -> int:
        if number > 0:
            await anyio.sleep_forever()
        await anyio.wait_all_tasks_blocked()
        return number

    listener = Listener(kind)
    assert await parallel.race(win_or_wait, range(3), progress=listener.callback) == 0
    assert figures(listener.reports)[-1] == (3, 3, 1, 0)


@both_kinds
async def test_a_callback_hears_of_the_failure_that_ends_a_stream(kind: str) -> None:
    listener = Listener(kind)
    async with parallel.stream(fail_at_one, [1], progress=listener.callback) as results:
        with pytest.raises(ValueError, match="1"):
            await anext(results)
    assert figures(listener.reports)[-1] == (1, 1, 1, 1)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("deadline", "lasts"), [(None, 10), (60, 10), (4, 4)])
async def test_the_last_report_holds_up_the_end_for_some_seconds_and_no_longer_than_the_deadline(
    deadline: float | None, lasts: float
) -> None:
    async def report(progress: Progress) -> None:
        if progress.finished:
            await anyio.sleep_forever()

    began = anyio.current_time()
    assert await parallel.race(fail_at_one, [0], progress=report, deadline=deadline) == 0
    assert anyio.current_time() - began == pytest.approx(lasts)


async def test_an_async_callback_is_awaited_one_report_at_a_time() -> None:
    reports: list[Progress] = []
    busy = 0

    async def report(progress: Progress) -> None:
        nonlocal busy
        assert busy == 0
        busy += 1
        await checkpoint()
        reports.append(progress)
        busy -= 1

    await parallel.settle(fail_at_one, range(10), progress=report)
    finished = [progress.finished for progress in reports]
    assert finished == sorted(finished)
    assert figures(reports)[-1] == (10, 10, 10, 1)
    assert len(reports) == 20


async def test_a_report_that_never_came_to_its_turn_complains_of_nothing() -> None:
    async def report(progress: Progress) -> None:
        await anyio.sleep_forever()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(partial(parallel.map, fail_at_one, range(3), progress=report))
        await anyio.wait_all_tasks_blocked()
        task_group.cancel_scope.cancel()
    gc.collect()


@pytest.mark.parametrize("combinator", [parallel.map, parallel.settle, parallel.race])
async def test_what_a_callback_raises_ends_everything(combinator: Any) -> None:
    def complain(progress: Progress) -> None:
        raise LookupError("progress")

    with pytest.raises(LookupError, match="progress"):
        await combinator(anyio.sleep, [0], progress=complain)


async def test_a_rich_progress_gets_a_bar_of_its_own() -> None:
    bars = RichProgress(disable=True)
    async with parallel.stream(fail_at_one, [0, 2, 3], max_concurrent=1, progress=bars) as results:
        assert [result async for result in results] == [0, 2, 3]
    (bar,) = bars.tasks
    assert (bar.description, bar.total, bar.completed) == ("parallel.stream", 3, 3)
    assert bar.fields == {"failed": 0, "usage": None}


async def test_a_bar_learns_of_the_total_and_of_failures() -> None:
    bars = RichProgress(disable=True)
    await parallel.settle(fail_at_one, (number for number in range(3)), progress=bars)
    (bar,) = bars.tasks
    assert (bar.total, bar.completed, bar.fields["failed"]) == (3, 3, 1)


async def test_usage_is_what_was_used_since_the_beginning() -> None:
    used = 100
    reports: list[Progress] = []

    async def use(number: int) -> None:
        nonlocal used
        used += number

    with usage_of(lambda: used):
        await parallel.map(use, [3, 4], max_concurrent=1, progress=reports.append)
    assert [report.usage for report in reports] == [0, 3, 3, 7]


async def test_a_bar_shows_usage_from_its_beginning() -> None:
    columns = TextColumn("{task.fields[usage].amount}")  # fails for a bar without usage
    bars = RichProgress(columns, console=Console(file=io.StringIO()))
    with usage_of(lambda: Opaque(3)):
        async with parallel.stream(fail_at_one, [0], progress=bars) as results:
            assert "3" in str(bars.columns[0](bars.tasks[0]))  # type: ignore[operator]
            assert [result async for result in results] == [0]


async def test_usage_that_cannot_be_subtracted_is_shown_whole() -> None:
    reports: list[Progress] = []
    with usage_of(lambda: Opaque(3)):
        await parallel.map(anyio.sleep, [0], progress=reports.append)
    assert [report.usage.amount for report in reports] == [3, 3]


class Opaque:
    def __init__(self, amount: int) -> None:
        self.amount = amount


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestOneLine:
    """`progress=True`."""

    async def _map(self, items: Iterable[int], **options: Any) -> list[int]:
        async def double(item: int) -> int:
            await checkpoint()
            if item == 13:
                raise ValueError("unlucky")
            return 2 * item

        return await parallel.map(double, items, progress=True, **options)

    async def test_on_a_terminal_it_is_one_line_that_is_written_over(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        terminal = _Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        with usage_of(lambda: "17 tokens"):
            assert await self._map([1, 2, 3], max_concurrent=1) == [2, 4, 6]
        shown = terminal.getvalue().split("\r\x1b[K")
        assert shown[1].startswith("parallel.map  0/3 done  1 in flight  17 tokens  ")
        assert shown[-1].startswith("parallel.map  3/3 done  17 tokens  ")
        assert shown[-1].endswith("s\n")
        assert terminal.getvalue().count("\n") == 1

    @pytest.mark.parametrize("terminal", ["dumb", "none"])
    async def test_elsewhere_it_is_written_once(self, terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
        output = _Terminal() if terminal == "dumb" else io.StringIO()
        monkeypatch.setattr(sys, "stderr", output)
        monkeypatch.setenv("TERM", "dumb" if terminal == "dumb" else "xterm")
        await self._map([1, 2])
        assert output.getvalue().startswith("parallel.map  2/2 done  ")
        assert output.getvalue().count("\n") == 1

    async def test_a_failure_ends_the_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        output = io.StringIO()
        monkeypatch.setattr(sys, "stderr", output)
        with pytest.raises(ValueError, match="unlucky"):
            await self._map([13])
        assert "1/1 done  1 failed" in output.getvalue()
        await self._map([1])
        assert output.getvalue().count("\n") == 2

    async def test_a_line_inside_another_waits_for_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = _Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")

        async def outer(item: int) -> list[int]:
            return await self._map([item, item])

        await parallel.map(outer, [1], progress=True)
        lines = terminal.getvalue().split("\n")
        assert len(lines) == 3
        assert "parallel.map  2/2 done" in lines[0]
        assert "parallel.map  1/1 done" in lines[1]

    async def test_a_notebook_updates_one_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown: list[str] = []

        def display(data: Any, **options: Any) -> Any:
            assert options == {"raw": True, "display_id": True}
            shown.append(data["text/plain"])
            return SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

        shell = SimpleNamespace(kernel=object())
        monkeypatch.setitem(
            sys.modules, "IPython", SimpleNamespace(__name__="IPython", get_ipython=lambda: shell)
        )
        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
        await self._map([1, 2])
        assert shown[0].startswith("parallel.map  0/2 done")
        assert shown[-1].startswith("parallel.map  2/2 done")

    async def test_a_program_without_standard_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", None)
        assert await self._map([1]) == [2]

    async def test_false_shows_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        async def same(item: int) -> int:
            return item

        assert await parallel.map(same, [1], progress=False) == [1]
        assert capsys.readouterr().err == ""

    def test_the_remaining_time(self) -> None:
        progress = Progress(total=1_000, started=260, finished=250, failed=2)
        text = describe(progress, title="parallel.map", seconds=10)
        assert text == "parallel.map  250/1,000 done  2 failed  10 in flight  about 30.0s left"
        unknown = Progress(total=None, started=3, finished=2)
        assert describe(unknown, title="x", seconds=1.25) == "x  2 done  1 in flight  1.2s"


def test_usage_as_text() -> None:
    usage = Usage(requests=2, input_tokens=1200, output_tokens=34)
    assert str(usage) == "1,234 tokens"
    assert str(replace(usage, cost=Decimal("0.01234"))) == "1,234 tokens, $0.0123"
    assert str(replace(usage, cost=Decimal("0.00001"), is_complete=False)) == "~1,234 tokens, ~<$0.0001"
    assert str(replace(usage, cost=Decimal(1), unpriced_requests=1)) == "1,234 tokens, $1.0000+"
