"""Progress of calls for clients that ask for it."""

import anyio
import pytest

import nighthawk_async as nh

from .serving_support import CLIENT_WARNINGS, ERAS, Era, connected, count_run, stars, text_of

pytestmark = [
    pytest.mark.anyio,
    *(CLIENT_WARNINGS, pytest.mark.parametrize("era", ERAS)),
]


class Gate:
    """Lets the parts of a call through one by one, as their progress is reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, float | None, str | None]] = []
        self._may_go = anyio.Semaphore(0)

    async def work(self) -> str:
        """Work on four parts."""
        await nh.parallel.map(self._part, range(4), max_concurrent=1)
        await self._may_go.acquire()
        return "done"

    async def _part(self, number: int) -> int:
        await self._may_go.acquire()
        return number

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))
        self._may_go.release()


@pytest.mark.parametrize("recorded", [False, True], ids=["not recorded", "recorded"])
async def test_each_report_is_greater_than_the_last(era: Era, recorded: bool) -> None:
    gate = Gate()
    tree = nh.observe.TaskTree() if recorded else None
    async with connected(nh.mcp.serve([gate.work], run=count_run, tree=tree), era) as client:
        result = await client.call_tool("work", {}, progress_callback=gate.report)
    assert text_of(result) == "done"
    values = [progress for progress, _, _ in gate.reports]
    assert values == sorted(set(values))
    assert values[0] < 1
    assert values[-1] >= 4
    assert {total for _, total, _ in gate.reports} == {4.0}
    assert gate.reports[0][2] is not None
    assert gate.reports[0][2].startswith("parallel.map")


async def test_a_client_that_does_not_ask_gets_no_progress(era: Era) -> None:
    async def recorded() -> bool:
        return nh.observe.find_tree() is not None

    async with connected(nh.mcp.serve([recorded], run=count_run), era) as client:
        assert text_of(await client.call_tool("recorded", {})) == "false"


async def test_steps_are_units_of_progress(era: Era) -> None:
    ended = anyio.Event()
    reports: list[tuple[float, float | None]] = []

    async def twice() -> int:
        counted = await stars("*") + await stars("**")
        await ended.wait()
        return counted

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))
        if progress >= 2:
            ended.set()

    async with connected(nh.mcp.serve([twice], run=count_run), era) as client:
        assert text_of(await client.call_tool("twice", {}, progress_callback=report)) == "3"
    assert reports[-1] == (2.0, 2.0)


async def test_a_call_reports_its_progress_itself(era: Era) -> None:
    reports: list[tuple[float, float | None, str | None]] = []
    may_go = anyio.Semaphore(0)

    async def read() -> str:
        """Read three pages."""
        for page in (1, 2, 3):
            nh.progress(f"reading page {page}", done=page, total=3)
            await may_go.acquire()
        return "done"

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        may_go.release()

    async with connected(nh.mcp.serve([read], run=count_run), era) as client:
        assert text_of(await client.call_tool("read", {}, progress_callback=note)) == "done"
    assert [(progress, total) for progress, total, _ in reports] == [(1.0, 3.0), (2.0, 3.0), (3.0, 3.0)]
    assert "reading page 2 (2 of 3)" in str(reports[1][2])
