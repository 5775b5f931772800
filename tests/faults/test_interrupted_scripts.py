"""Ctrl-C in a script with steps in flight: it ends at once, and says so once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted_script.py")
PATIENCE_SECONDS = 240


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to a child process")
@pytest.mark.parametrize("style", ["tasks", "threads", "sync", "busy", "map"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_ends_a_script_and_prints_one_interruption(backend: str, style: str) -> None:
    command = [sys.executable, "-W", "default", str(SCRIPT), backend, style]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "all in flight\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode in (1, 130, -signal.SIGINT)
    lines = [line.strip(" |") for line in said.splitlines()]
    assert lines.count("KeyboardInterrupt") == 1, said
    # On asyncio the interruption stands after the cancellation that it was; on Trio it stands alone.
    assert said.count("Traceback (most recent call last)") <= (2 if backend == "asyncio" else 1), said
    # Newer Pythons underline what a frame was doing, so frames are counted and not lines.
    assert len([line for line in lines if line.lstrip().startswith("File ")]) < 80, said
    assert not [line for line in lines if "Warning" in line or "never" in line or "ignored" in line], said
