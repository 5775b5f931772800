"""Workers of one queue on several machines, whose processes do not see each other."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from tests.warm_python import WarmPopen

from .durable_runs import address_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("postgresql", "warm_python")]

SHOP = """
import pathlib
import anyio
import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

def answer(request):
    with open(pathlib.Path(__file__).parent.parent / "requests.txt", "a") as file:
        file.write("asked\\n")
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"word": "yes"}))

@nh.natural_function
async def think() -> str:
    \"\"\"natural
    Set <:word>.
    \"\"\"
    return word

@nh.once
async def pay() -> str:
    with open(pathlib.Path(__file__).parent.parent / "paid.txt", "a") as file:
        file.write("paid\\n")
    return "paid"

async def handle(order: int) -> str:
    word, paid = await think(), await pay()
    print("waiting", flush=True)
    while not (pathlib.Path(__file__).parent / "go").exists():
        await anyio.sleep(0.01)
    return f"{word}, {paid} on {pathlib.Path(__file__).parent.name}"

def make_run(run_id, store):
    executor = nh.AgentStepExecutor.from_model(ScriptedModel(answer))
    return nh.run(executor, journal=store, run_id=run_id)
"""

SERVES = "Queue: default (machine_shop:handle)"


@contextmanager
def worker_on(machine: Path, address: str, backend: str, *, skew: int) -> Iterator[WarmPopen]:
    """A worker on another machine, where the program is in another folder."""
    machine.mkdir()
    (machine / "machine_shop.py").write_text(SHOP)
    command = ["worker", "machine_shop:handle", "--run", "machine_shop:make_run", "--backend", backend]
    with WarmPopen(
        [sys.executable, "-m", "tests.unit.journal.other_machine", machine.name, str(skew), *command],
        cwd=machine,
        env={
            **os.environ,
            "NIGHTHAWK_JOURNAL": address,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def line_of(process: WarmPopen) -> str:
    """The next line that a process says."""
    line: str = await anyio.to_thread.run_sync(process.stdout.readline)
    return line.strip()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_another_machine_continues_the_run_of_a_lost_one(
    tmp_path: Path, anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "machine_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path / "program")
    shop: Any = importlib.import_module("machine_shop")
    address = address_of(tmp_path)
    try:
        with (
            nh.journal.open(address) as store,
            worker_on(tmp_path / "north", address, anyio_backend_name, skew=0) as north,
        ):
            await store.enqueue(shop.handle, 1, key="order-1")
            assert [await line_of(north), await line_of(north)] == [SERVES, "waiting"]
            with worker_on(tmp_path / "south", address, anyio_backend_name, skew=3_600) as south:
                assert await line_of(south) == SERVES
                (entry,) = store.queue_entries()
                assert (entry.status, entry.lives) == ("claimed", 1)  # a clock that is ahead ends no lease
                north.send_signal(signal.SIGKILL)
                assert await line_of(south) == "waiting"
                (tmp_path / "south" / "go").touch()
                with anyio.fail_after(240):
                    assert await store.result("order-1") == "yes, paid on south"
                (entry,) = store.queue_entries()
                assert entry.lives == 2
    finally:
        del sys.modules["machine_shop"]
    assert (tmp_path / "requests.txt").read_text() == "asked\n"
    assert (tmp_path / "paid.txt").read_text() == "paid\n"
