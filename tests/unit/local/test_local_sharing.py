"""One server for all steps: started once, whoever asks and whoever is cancelled."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from nighthawk_async.errors import ConfigurationError, ModelConnectionError
from nighthawk_async.models.local import LocalServer, open_local_server
from nighthawk_async.models.local_process import LocalServerLaunch

pytestmark = pytest.mark.anyio

MakeLaunch = Callable[..., LocalServerLaunch]
READY = json.dumps({"address": "http://127.0.0.1:9"})


def recorded_starts(launch: LocalServerLaunch) -> list[int]:
    record = Path(f"{launch.gguf}.starts")
    return [int(line) for line in record.read_text().split()] if record.exists() else []


async def ask(server: LocalServer) -> str:
    async with server.admit() as access:
        return access.address


async def test_nothing_is_started_before_somebody_asks(make_launch: MakeLaunch, fake_program: Path) -> None:
    launch = make_launch(line=READY)
    async with open_local_server(launch, program=fake_program) as server:
        assert server.process_id is None
    assert recorded_starts(launch) == []


async def test_a_thousand_askers_at_once_start_one_process(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    launch = make_launch(line=READY)
    addresses: list[str] = []

    async def asker() -> None:
        addresses.append(await ask(server))

    with anyio.fail_after(240):
        async with (
            open_local_server(launch, program=fake_program) as server,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(1_000):
                tasks.start_soon(asker)
    assert addresses == ["http://127.0.0.1:9"] * 1_000
    assert len(recorded_starts(launch)) == 1


async def test_cancelling_the_asker_who_starts_the_server_does_not_disturb_the_others(
    make_launch: MakeLaunch, fake_program: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    launch = make_launch(line=READY, until_file=str(go))
    addresses: list[str] = []

    async def asker() -> None:
        addresses.append(await ask(server))

    async def first_asker(scope: anyio.CancelScope) -> None:
        with scope:
            await ask(server)

    with anyio.fail_after(240):
        async with (
            open_local_server(launch, program=fake_program) as server,
            anyio.create_task_group() as tasks,
        ):
            first = anyio.CancelScope()
            tasks.start_soon(first_asker, first)
            while server.process_id is None:
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(asker)
            tasks.start_soon(asker)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
            await anyio.wait_all_tasks_blocked()
            go.touch()
    assert addresses == ["http://127.0.0.1:9"] * 2
    assert len(recorded_starts(launch)) == 1


async def test_no_more_are_let_in_than_the_server_takes_and_the_rest_come_in_order(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    inside: list[int] = []
    leave = [anyio.Event() for _ in range(10)]

    async def asker(number: int) -> None:
        async with server.admit():
            inside.append(number)
            await leave[number].wait()

    with anyio.fail_after(240):
        async with open_local_server(make_launch(line=READY), program=fake_program) as server:
            await ask(server)
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(asker, number)
                    await anyio.wait_all_tasks_blocked()
                assert inside == [0, 1, 2, 3]
                for number in range(10):
                    leave[number].set()
                    await anyio.wait_all_tasks_blocked()
                    assert inside == list(range(min(10, number + 5)))


async def test_a_server_that_crashed_is_started_again(make_launch: MakeLaunch, fake_program: Path) -> None:
    launch = make_launch(line=READY)
    with anyio.fail_after(240):
        async with open_local_server(launch, program=fake_program) as server:
            await ask(server)
            await crash(server)
            assert await ask(server) == "http://127.0.0.1:9"
            assert server.starts == 2


async def test_a_server_that_crashes_again_and_again_is_given_up(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    with anyio.fail_after(240):
        async with open_local_server(make_launch(line=READY), program=fake_program) as server:
            for _ in range(4):
                await ask(server)
                await crash(server)
            for _ in range(2):
                with pytest.raises(ModelConnectionError, match="crashed 4 times"):
                    await ask(server)
            assert server.process_id is None


async def crash(server: LocalServer) -> None:
    """Kill the child and wait until its parent knows."""
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    while server.is_running:  # noqa: ASYNC110  (the system tells nobody; each turn looks once)
        await anyio.sleep(0.001)


async def test_a_failed_start_is_told_to_every_asker_without_starting_again(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    launch = make_launch(
        line=json.dumps({"error": "RuntimeError: bad file"}), stderr="llama: no such tensor\n"
    )
    failures: list[str] = []

    async def asker() -> None:
        with pytest.raises(ConfigurationError) as failure:
            await ask(server)
        failures.append(str(failure.value))

    with anyio.fail_after(240):
        async with (
            open_local_server(launch, program=fake_program) as server,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(100):
                tasks.start_soon(asker)
    assert len(failures) == 100
    assert len(set(failures)) == 1
    assert "RuntimeError: bad file" in failures[0]
    assert "llama: no such tensor" in failures[0]
    assert str(launch.gguf) in failures[0]
    assert len(recorded_starts(launch)) == 1


async def test_asking_after_the_run_is_over_is_refused(make_launch: MakeLaunch, fake_program: Path) -> None:
    async with open_local_server(make_launch(line=READY), program=fake_program) as server:
        pass
    with pytest.raises(ModelConnectionError, match="over"):
        await ask(server)


async def test_a_missing_model_file_is_named(make_launch: MakeLaunch) -> None:
    launch = make_launch()
    launch.gguf.unlink()
    with pytest.raises(ConfigurationError, match=r"There is no model file .*model.gguf"):
        async with open_local_server(launch):
            raise AssertionError("opened")
