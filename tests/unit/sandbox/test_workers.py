"""Workers of sandboxes: none is left, also after cancellations; a stuck one is ended; limits, absence."""

import pickle
import shutil
import sys
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError, SandboxUnavailableError
from tests.detectors.leftovers import take_stock

from .sandboxed import KINDS, Written

pytestmark = pytest.mark.anyio


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def wait_for_ever() -> None:
    """Wait."""
    await anyio.sleep_forever()


@nh.natural_function
async def count(n: int) -> int:
    """Count."""
    total = 0
    """natural
    Set <:total> with <add>, <wait_for_ever> and <n>.
    """
    return total


@pytest.mark.parametrize("kind", KINDS)
async def test_many_steps_at_once_have_workers_of_their_own(kind: Any) -> None:
    before = take_stock()
    results: dict[int, int] = {}

    async def one(n: int) -> None:
        results[n] = await count(n)

    written = Written("total = add(n)\nmine = total", "total = mine + add(n)")
    async with written.run(nh.Sandbox(kind=kind)), anyio.create_task_group() as group:
        for n in range(4 if kind == "process" else 20):
            group.start_soon(one, n)
    assert results == {n: 2 * (n + 1) for n in results}
    assert take_stock().children == before.children


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", ["while True:\n    pass", "await wait_for_ever()"])
async def test_cancelled_steps_leave_no_worker(kind: Any, code: str) -> None:
    before = take_stock()
    async with Written(f"total = add(n)\n{code}").run(nh.Sandbox(kind=kind, seconds=60)):
        for seconds in (0.0, 0.01, 0.3):
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as group:
                    for n in range(2):
                        group.start_soon(count, n)
    assert take_stock().children == before.children


async def test_200_steps_at_once_are_cancelled() -> None:
    before = take_stock()
    async with Written("while True:\n    pass").run(nh.Sandbox(seconds=60)):
        async with anyio.create_task_group() as group:
            for n in range(200):
                group.start_soon(count, n)
            await anyio.sleep(0.3)
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:  # the workers of others are as before
            group.start_soon(count, 1)
            await anyio.sleep(0.05)
            group.cancel_scope.cancel()
    assert take_stock().children == before.children


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_that_catches_everything_is_ended(kind: Any) -> None:
    code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    written = Written("kept = 3\ndef lost():\n    return 1", code, "kept", "lost()")
    async with written.run(nh.Sandbox(kind=kind, seconds=0.2)):
        await count(1)
    assert "stopped after 0.2 seconds" in str(written.said(1))
    assert written.said(2) == 3
    assert ("without lost" in str(written.said(1))) == ("'lost' is not defined" in str(written.said(3)))


def test_declarations_are_checked_values() -> None:
    sandbox = nh.Sandbox(memory=10**7, seconds=2)
    assert pickle.loads(pickle.dumps(sandbox)) == sandbox
    assert (nh.Sandbox().memory_bytes, nh.Sandbox(kind="process").memory_bytes) == (64 * 2**20, 512 * 2**20)
    assert nh.StepExecutorConfiguration(code=sandbox).code == sandbox
    wrong: list[dict[str, Any]] = [
        {"kind": "docker"},
        {"memory": 0},
        {"memory": 1.5},
        {"seconds": -1},
        {"seconds": float("inf")},
        {"seconds": True},
        {"recursion": 0},
        {"calls": "many"},
    ]
    for arguments in wrong:
        with pytest.raises(ConfigurationError, match=r"Sandbox\("):
            nh.Sandbox(**arguments)


async def test_without_its_package_there_is_no_weaker_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    async with Written("total = add(n)").run(nh.Sandbox()):
        with pytest.raises(SandboxUnavailableError, match=r"nighthawk-async\[sandbox\]"):
            await count(1)


async def test_without_bubblewrap_there_is_no_weaker_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    async with Written("total = add(n)").run(nh.Sandbox(kind="process")):
        with pytest.raises(SandboxUnavailableError, match="needs Bubblewrap"):
            await count(1)
