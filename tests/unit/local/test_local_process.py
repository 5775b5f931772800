"""The child process: what it may do wrong, and that it always ends."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models.local_process import LocalServerLaunch, ServerProcess, available_processors

MakeLaunch = Callable[..., LocalServerLaunch]
READY = json.dumps({"address": "http://127.0.0.1:9"})


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("100000 100000", 1), ("50000 100000", 1), ("99900000 100000", None), ("max 100000", None), ("", None)],
)
def test_no_more_processors_are_counted_than_a_container_may_use(
    quota: str, expected: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "cpu.max"
    unlimited = available_processors(file)
    assert unlimited >= 1
    file.write_text(quota)
    assert available_processors(file) == (expected or unlimited)


async def failure_of(launch: LocalServerLaunch, program: Path) -> str:
    with anyio.fail_after(240):
        process = await ServerProcess.spawn(launch, program)
        try:
            with pytest.raises(ConfigurationError) as failure:
                await process.wait_until_ready()
        finally:
            await process.stop()
    assert process.has_ended
    return str(failure.value)


@pytest.mark.anyio
async def test_a_child_that_ends_before_it_is_ready_is_reported_with_its_last_words(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    message = await failure_of(make_launch(exit=3, stderr="a\nb\nc\nd\nout of memory\n"), fake_program)
    assert "ended before it was ready" in message
    assert message.endswith("It said: b / c / d / out of memory")


@pytest.mark.anyio
async def test_a_child_that_is_never_ready_is_given_up_in_time_and_ended(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    message = await failure_of(make_launch(start_timeout=0.3, deaf=True), fake_program)
    assert "was not ready within 0.3 seconds" in message
    assert "start_timeout" in message


@pytest.mark.parametrize("line", ["hello", "[]", '{"address": 5}'])
@pytest.mark.anyio
async def test_a_child_that_writes_something_else_is_reported(
    line: str, make_launch: MakeLaunch, fake_program: Path
) -> None:
    assert "in place of its address" in await failure_of(make_launch(line=line), fake_program)


@pytest.mark.anyio
async def test_a_child_that_ignores_the_end_of_its_input_is_killed(
    make_launch: MakeLaunch, fake_program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.models.local_process._STOP_SECONDS", 0.2)
    with anyio.fail_after(240):
        process = await ServerProcess.spawn(make_launch(line=READY, deaf=True), fake_program)
        await process.wait_until_ready()
        await process.stop()
    assert process.has_ended


@pytest.mark.anyio
async def test_stopping_twice_is_harmless_and_goes_through_when_cancelled(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    with anyio.fail_after(240):
        process = await ServerProcess.spawn(make_launch(line=READY), fake_program)
        await process.wait_until_ready()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.stop()
        assert process.has_ended
        await process.stop()


@pytest.mark.anyio
async def test_waiting_that_was_cancelled_can_be_taken_up_again(
    make_launch: MakeLaunch, fake_program: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with anyio.fail_after(240):
        process = await ServerProcess.spawn(make_launch(line=READY, until_file=str(go)), fake_program)
        try:
            with anyio.move_on_after(0.05):
                await process.wait_until_ready()
            go.touch()
            assert (await process.wait_until_ready()).address == "http://127.0.0.1:9"
        finally:
            await process.stop()


@pytest.mark.anyio
async def test_each_child_gets_a_key_of_its_own_where_nobody_else_can_read_it(
    make_launch: MakeLaunch, fake_program: Path, tmp_path: Path
) -> None:
    record, keys = tmp_path / "told.json", set[str]()
    with anyio.fail_after(240):
        for _ in range(2):
            launch = make_launch(line=READY, record=str(record))
            process = await ServerProcess.spawn(launch, fake_program)
            access = await process.wait_until_ready()
            await process.stop()
            told = json.loads(record.read_text(encoding="utf-8"))
            assert told["line"] == f"{access.key}\n"
            assert len(access.key) >= 32
            assert access.key not in json.dumps([told["arguments"], told["environment"]])
            assert access.key not in repr(access)
            keys.add(access.key)
    assert len(keys) == 2


@pytest.mark.anyio
async def test_a_process_that_the_system_refuses_is_a_configuration_error(
    make_launch: MakeLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ConfigurationError, match="Cannot start a local model server"):
        await ServerProcess.spawn(make_launch(line=READY))
