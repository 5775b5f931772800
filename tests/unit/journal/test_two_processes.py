"""Two processes that contend for one run."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from nighthawk_async.journal import JournalStore, RunInProgressError, tables
from tests.warm_python import WarmPopen

from .contender import LEASE_SECONDS, pay
from .durable_runs import address_of, live, opened, shout, shouting, stop_between_transactions

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database", "warm_python")]


async def test_a_process_that_was_stopped_beyond_its_lease_has_lost_its_run(
    tmp_path: Path, anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LEASE_SECONDS", LEASE_SECONDS)
    model = shouting()

    async def program() -> str:
        assert await shout("a") == "A"
        return await pay(str(tmp_path), "successor")

    command = [sys.executable, "-m", "tests.unit.journal.contender"]
    with (
        WarmPopen(
            [*command, anyio_backend_name, address_of(tmp_path), str(tmp_path)],
            cwd=Path(__file__).parents[3],
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        opened(tmp_path) as store,
    ):
        try:
            assert await anyio.to_thread.run_sync(process.stdout.readline) == "A\n"
            with pytest.raises(RunInProgressError, match=f"process {process.pid} on "):
                await live(store, model, program)
            await stop_between_transactions(process, address_of(tmp_path))
            assert await _live_when_free(store, model, program) == "successor"
            records = store.records("run-1")
            process.send_signal(signal.SIGCONT)
            output, _ = await anyio.to_thread.run_sync(process.communicate, "go on\n")
        finally:
            process.kill()
        assert output == "taken over\n"
        assert process.returncode == 0
        assert store.records("run-1") == records
        assert store.runs()[0].status == "ended"
    assert (tmp_path / "paid.txt").read_text() == "successor\n"
    assert not model.prompts


async def _live_when_free(store: JournalStore, model: Any, program: Any) -> Any:
    """A life of the run, once its lease has ended."""
    while True:
        try:
            return await live(store, model, program)
        except RunInProgressError:
            await anyio.sleep(0.05)
