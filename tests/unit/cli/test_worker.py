"""`nighthawk-async worker`: a process that makes the calls of a queue."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from tests.warm_python import WarmPopen

pytestmark = pytest.mark.usefixtures("warm_python")

SHOP = """
import anyio
import nighthawk_async as nh

class Executor:
    async def run_step_async(self, **given):
        return nh.executors.PassStepOutcome(kind="pass"), {}

@nh.natural_function
async def think():
    \"\"\"natural
    Think.
    \"\"\"

async def handle(order: int) -> str:
    await think()
    return f"handled {order}"

async def handle_many(orders: list[int]) -> None:
    await think()

async def wait(order: int) -> None:
    print("waiting", flush=True)
    await anyio.sleep_forever()

def make_run(run_id, store):
    return nh.run(Executor(), journal=store, run_id=run_id)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module with functions for workers, in a folder with a store."""
    (tmp_path / "worker_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("worker_shop")
    del sys.modules["worker_shop"]


@contextmanager
def worker_process(folder: Path, *options: str) -> Iterator[WarmPopen]:
    """A worker as a process, in a folder."""
    functions = ("worker_shop:handle", "worker_shop.py:wait")
    command = ["worker", *functions, "--run", "worker_shop:make_run", "--queue", "orders", *options]
    with WarmPopen(
        [sys.executable, "-m", "nighthawk_async", *command],
        cwd=folder,
        env={**os.environ, "NIGHTHAWK_JOURNAL": "sqlite:///runs.db"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def store_of(folder: Path) -> Iterator[nh.journal.JournalStore]:
    with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
        yield store


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_worker_serves_a_queue_and_drains(tmp_path: Path, shop: Any, backend: str) -> None:
    async def enqueue_and_wait() -> str:
        with store_of(tmp_path) as store:
            return await store.result(await store.enqueue(shop.handle, 7, queue="orders"))

    async def enqueue_waiting() -> None:
        with store_of(tmp_path) as store:
            await store.enqueue(shop.wait, 8, queue="orders", key="order-8")

    options = ("--backend", backend, "--grace", "0", "--health", "127.0.0.1:0", "--max-concurrent", "2")
    with worker_process(tmp_path, *options) as process:
        assert process.stdout.readline() == "Queue: orders (worker_shop:handle, worker_shop.py:wait)\n"
        address = process.stdout.readline().removeprefix("Health: ").strip()
        assert anyio.run(enqueue_and_wait) == "handled 7"
        anyio.run(enqueue_waiting)
        assert process.stdout.readline() == "waiting\n"
        health = json.load(urlopen(address))
        assert (health["status"], health["claimed"], health["running"]) == ("ok", 2, 1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 0
    assert errors == "draining; another signal ends the worker at once\n"
    with store_of(tmp_path) as store:
        assert [(each.status, each.lives) for each in store.queue_entries()] == [("ended", 1), ("queued", 0)]


def test_a_second_signal_ends_a_worker_at_once(
    tmp_path: Path, shop: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    async def enqueue_waiting() -> None:
        with store_of(tmp_path) as store:
            await store.enqueue(shop.wait, 8, queue="orders", key="order-8", priority=3)

    with worker_process(tmp_path) as process:
        anyio.run(enqueue_waiting)
        process.stdout.readline()
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert "draining" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == 130
    assert run_command_line(["journal", "queue", str(tmp_path / "runs.db")]) == 0
    (_, line) = capsys.readouterr().out.splitlines()
    fields = line.split()
    assert fields[:5] == ["order-8", "orders", "worker_shop:wait", "claimed", "3"]
    assert fields[-3:] == ["1", "of", "5"]


def test_topics_are_listed_without_the_values_of_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shop: ModuleType
) -> None:
    path = str(tmp_path / "runs.db")

    async def publish() -> None:
        with store_of(tmp_path) as store:
            await store.subscribe("orders", shop.handle, queue="orders", key="[id]")
            await store.subscribe("batches", shop.handle_many, count=1_000, window=60)
            await store.publish("orders", {"[id]": "a secret"}, id="order-[8]")
            await store.publish("others", 5)

    with store_of(tmp_path) as store:
        assert store.topics() == []
    assert run_command_line(["journal", "topics", path]) == 0
    assert capsys.readouterr().out == "no topics\n"
    anyio.run(publish)
    assert run_command_line(["journal", "topics", path]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["batches", "0", "worker_shop:handle_many", "default", "1,000,", "60", "s", "0", "0"],
        ["orders", "1", "worker_shop:handle", "orders", "by", "[id]", "1", "0"],
        ["others", "1"],
    ]
    assert run_command_line(["journal", "topics", path, "orders"]) == 0
    (_, line) = capsys.readouterr().out.splitlines()
    assert (line.split()[:2], line.split()[-1]) == (["1", "order-[8]"], "waiting")
    assert run_command_line(["journal", "topics", path, "nothing"]) != 0
    assert "has no topic 'nothing'; its topics: batches, orders, others" in capsys.readouterr().err


def test_a_store_without_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with store_of(tmp_path) as store:
        assert store.queue_entries() == []
    assert run_command_line(["journal", "queue", str(tmp_path / "runs.db")]) == 0
    assert capsys.readouterr().out == "no calls\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere:handle"], "there is no module 'nowhere'"),
        (["worker_shop:nothing"], "no function 'nothing'"),
        (["worker_shop"], "write module:function"),
        (["worker_shop:handle", "--journal", "runs.db"], "No such file"),
        (["worker_shop:handle", "--health", "8080"], "HOST:PORT"),
        (
            ["worker_shop:handle", "--model", "local:any", "--run", "worker_shop:make_run"],
            "exclude each other",
        ),
        (["worker_shop:handle", "--model", "anthropic:any"], "ANTHROPIC_API_KEY"),
        (["worker_shop:handle", "--model", "nobody:any"], "nobody"),
    ],
)
def test_what_cannot_be_served_is_refused(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    shop: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    journal = [] if "--journal" in arguments else ["--journal", "sqlite:///runs.db"]
    assert run_command_line(["worker", *arguments, *journal]) == 2
    assert reason in capsys.readouterr().err
