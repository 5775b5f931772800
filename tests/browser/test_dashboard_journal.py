"""The page of a store: a question of a parked run, its next life, and a store that goes away."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.human import ask_user
from nighthawk_async.journal import JournalStore, RunParked
from nighthawk_async.testing import ScriptedExecutor
from tests.browser.pages import row
from tests.browser.sites import TOKEN, OpenPage, Serve
from tests.unit.journal.durable_runs import change_tables

pytestmark = [
    pytest.mark.may_leave_behind("the browser goes on between the tests, and keeps processes for its pages"),
    pytest.mark.may_block_event_loop(
        "the browser is driven by an event loop that waits while a test goes on"
    ),
]


def live(store: JournalStore) -> str | None:
    """A life of a run that asks people through the store: its answer, or None when it is parked."""

    async def program() -> str | None:
        try:
            async with nh.run(
                ScriptedExecutor(), journal=store, run_id="order-17", human=store.people(), park_after=0
            ):
                return await ask_user("What colour?")
        except RunParked:
            return None

    return _in_thread(program)


def _in_thread(program: Callable[[], Awaitable[str | None]]) -> str | None:
    """Run a program where no event loop runs: the thread of the browser counts as one that does."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(anyio.run, program).result()


def test_a_parked_run_is_answered_and_continues_on_the_open_page(
    serve: Serve, open_page: OpenPage, tmp_path: Path
) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        assert live(store) is None
        page = open_page(f"{serve(Dashboard(journal=store, token=TOKEN))}#token={TOKEN}")
        page.locator("#asked").click()
        page.locator(".asking textarea").fill("blue")
        page.locator(".asking").get_by_role("button", name="Answer").click()
        page.locator(".asking").wait_for(state="detached")
        page.locator("[role=treeitem][aria-selected=true]", has_text="ask_user").wait_for()
        assert live(store) == "blue"
        page.locator("#details", has_text="blue").wait_for()
        page.locator("[role=treeitem][aria-selected=true]", has_text="ask_user").wait_for()
        change_tables(tmp_path, "ALTER TABLE runs RENAME TO moved_runs")
        page.locator("#connection.away", has_text="cannot be read").wait_for()
        assert row(page, "order-17").is_visible()
        change_tables(tmp_path, "ALTER TABLE moved_runs RENAME TO runs")
        page.locator("#connection.live").wait_for()
