"""Scripts with calls on worker processes that are interrupted or killed leave no process behind."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.placed.processes_seen import has_ended, number_in
from tests.warm_python import WarmPopen

SCRIPT = Path(__file__).with_name("placed_script.py")
VARIABLES = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
PIPES = {"stdin": -1, "stdout": -1, "stderr": -1, "text": True, "env": VARIABLES}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="worker processes need inherited sockets")


def command_of(backend: str, *arguments: str) -> list[str]:
    return [sys.executable, str(SCRIPT), backend, *arguments]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_leaves_no_process(backend: str, tmp_path: Path) -> None:
    with WarmPopen(command_of(backend, "wait_with_cleanup", str(tmp_path)), **PIPES) as script:
        workers = [number_in(tmp_path / name) for name in "01"]
        script.send_signal(signal.SIGINT)
        _, said = script.communicate(timeout=60)
    assert all(map(has_ended, workers))
    assert {each.name for each in tmp_path.glob("*.cleaned")} == {"0.cleaned", "1.cleaned"}
    assert script.returncode in (1, 130, -signal.SIGINT)
    assert [line.strip(" |") for line in said.splitlines()].count("KeyboardInterrupt") == 1, said


@pytest.mark.parametrize(
    ("backend", "function"),
    [
        ("trio", "wait_with_cleanup"),
        ("asyncio", "block_loop"),
        ("trio", "block_thread"),
        ("trio", "start_and_wait"),
    ],
)
def test_workers_end_with_a_program_that_is_killed(backend: str, function: str, tmp_path: Path) -> None:
    with WarmPopen(command_of(backend, function, str(tmp_path)), **PIPES) as script:
        processes = [number_in(tmp_path / name) for name in "01"]
        if function == "start_and_wait":
            processes += [number_in(tmp_path / f"{name}.other") for name in "01"]
        script.kill()
        assert all(map(has_ended, processes))
    if function == "wait_with_cleanup":
        assert {each.name for each in tmp_path.glob("*.cleaned")} == {"0.cleaned", "1.cleaned"}


def test_the_standard_streams_are_the_programs() -> None:
    with WarmPopen(command_of("trio", "read", "a call prints"), **PIPES) as script:
        printed, said = script.communicate("its input", timeout=60)
    assert printed == "a call prints\nthe program reads its input\n", said
    assert said == ""
