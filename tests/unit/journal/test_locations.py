"""A journal is given as a path, an address or a store, wherever one is taken."""

import os
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.evals import cases_from_journal
from nighthawk_async.testing import ScriptedExecutor, pass_response

pytestmark = pytest.mark.anyio

EXECUTOR = ScriptedExecutor([])


async def roll() -> int:
    return 6


async def test_a_run_takes_a_path_an_address_and_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[str] = []

    @nh.once
    async def charge(name: str) -> str:
        calls.append(name)
        return name

    file = tmp_path / "spaced out.db"
    same = (file, str(file), "spaced out.db", f"sqlite:///{quote(str(file))}", Path("spaced out.db"))
    for life, journal in enumerate(same):
        async with nh.run(EXECUTOR, journal=journal, run_id="order"):
            assert await charge("ada") == "ada"
        assert calls == ["ada"], (life, journal)
        assert not [each for each in threading.enumerate() if "journal" in each.name], journal
    with nh.journal.open(file) as store:
        async with nh.run(EXECUTOR, journal=store, run_id="order"):
            assert await charge("ada") == "ada"
        assert [row.run_id for row in store.runs()] == ["order"]
    assert calls == ["ada"]


def test_a_run_of_a_thread_takes_a_path(tmp_path: Path) -> None:
    with nh.run(EXECUTOR, journal=tmp_path / "runs.db", run_id="order"):
        pass
    with nh.journal.open(tmp_path / "runs.db") as store:
        assert [row.status for row in store.runs()] == ["ended"]


async def test_a_run_that_cannot_begin_leaves_its_store_closed(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    async with nh.run(EXECUTOR, journal=file, run_id="order"):
        with pytest.raises(nh.journal.RunInProgressError):
            nh.run(EXECUTOR, journal=file, run_id="order").start_sync()
    async with nh.run(EXECUTOR, journal=file, run_id="order"):
        pass


async def test_services_workers_replays_and_cases_take_a_path(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    async with nh.run(ScriptedExecutor([pass_response()]), journal=file, run_id="order"):
        pass
    for location in (file, str(file), f"sqlite:///{quote(str(file))}"):
        assert await cases_from_journal(location) == []
        with nh.journal.replay(location, "order"):
            async with nh.run(EXECUTOR, journal=location, run_id="order"):
                pass
        worker = nh.journal.Worker(location, [roll], run=lambda run_id: nh.run(EXECUTOR, run_id=run_id))
        assert [row.run_id for row in worker.store.runs()] == ["order"]
        worker.store.close()
        NighthawkMiddleware(_app, model=EXECUTOR, journal=location)
        nh.asgi.Dashboard(journal=location, token="t" * 20)


async def _app(*_: object) -> None:
    raise AssertionError("not called")


@pytest.mark.parametrize(
    "journal", ["", ":memory:", "sqlite:runs.db", "mysql://x/y", "postgres:runs", 5, b"x", object()]
)
def test_what_is_no_journal_is_refused_before_anything_runs(journal: object) -> None:
    with pytest.raises(nh.NighthawkError, match="path"):
        nh.run(EXECUTOR, journal=journal)  # type: ignore[arg-type]
    if isinstance(journal, str):
        with pytest.raises(nh.ConfigurationError, match="path"):
            nh.journal.open(journal)
    assert not os.path.exists("sqlite:runs.db")
