"""`nighthawk-async top --journal`: the durable runs of a store in the terminal."""

from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.cli import top_store
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.top_app import TopApp
from nighthawk_async.cli.top_client import DashboardError
from nighthawk_async.cli.top_store import StoreClient
from nighthawk_async.cli.top_tree import Nodes, TreeRows
from nighthawk_async.journal import JournalStore, store_tree
from nighthawk_async.testing import ScriptedExecutor
from tests.unit.journal.durable_runs import change_tables, opened

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _every_look_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_tree, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(store_tree, "_REST", 0)
    monkeypatch.setattr(top_store, "POLL_SECONDS", 0.0)


@nh.once
async def send(text: str) -> str:
    """An effect."""
    return f"sent {text}"


async def live(store: JournalStore, run_id: str) -> None:
    """A life of a run."""
    async with nh.run(ScriptedExecutor(), journal=store, run_id=run_id):
        await send("a letter")


async def take(client: StoreClient, nodes: Nodes, number: int) -> None:
    """Apply changes until there are so many runs that have ended."""
    async with aclosing(client.changes()) as changes:
        async for name, data in changes:
            if name == "nodes":
                nodes.apply(data)
            runs = [view for view in nodes.views.values() if view.kind == "run"]
            if [view.state for view in runs] == ["completed"] * number:
                return


async def test_runs_are_followed_also_after_the_store_was_away(tmp_path: Path) -> None:
    nodes = Nodes()
    with opened(tmp_path) as store, opened(tmp_path) as other:
        await live(other, "order-17")
        client = StoreClient(store)
        with anyio.fail_after(240):
            await take(client, nodes, 1)
            change_tables(tmp_path, "ALTER TABLE runs RENAME TO moved_runs")
            with pytest.raises(DashboardError):
                await take(client, nodes, 2)
            change_tables(tmp_path, "ALTER TABLE moved_runs RENAME TO runs")
            await live(other, "order-18")
            await take(client, nodes, 2)
        (effect, _) = [view for view in nodes.views.values() if view.name == "send"]
        assert (await client.details(effect.id))["outputs"] == {"result": "'sent a letter'"}
        with pytest.raises(DashboardError):
            await client.details("7")
        with pytest.raises(DashboardError, match="cannot be changed"):
            await client.act(effect.id, "cancel", {})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the terminal view runs there alone
async def test_the_terminal_shows_the_runs(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, "order-17")
        app = TopApp(StoreClient(store), store.address)
        async with app.run_test(size=(100, 30)) as pilot:
            tree = app.query_one("#tree", TreeRows)
            while "order-17" not in tree.render_line(0).text:
                await pilot.pause(0.02)


@pytest.mark.parametrize("arguments", [[], ["http://127.0.0.1:1/", "--journal", "runs.db"]])
def test_a_service_or_a_store_is_watched(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["top", *arguments]) == 2
    assert "or the store of runs" in capsys.readouterr().err
