"""Whole programs with workers on Ray: with a cluster of their own, and with one that exists."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.marked_processes import marked_processes, wait_until_ended

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed; the nox session `ray` has it"
)

OWN_CLUSTER = """
import anyio
import nighthawk_async as nh
from nighthawk_async import parallel

def double(number: int) -> int:
    return 2 * number

async def main() -> None:
    try:
        async with (
            nh.distributed.RayWorkers(1, address="local", num_cpus=0) as workers,
            nh.distributed.RayWorkers(1, num_cpus=0) as others,
        ):
            print(await parallel.map(double, [1, 2], on=workers), flush=True)
            print(await parallel.map(double, [3], on=others), flush=True)
            await anyio.sleep_forever()
    finally:
        import ray
        print("connected:", ray.is_initialized(), flush=True)

if __name__ == "__main__":
    anyio.run(main)
"""

OTHER_CLUSTER = """
import os, sys
from pathlib import Path
import anyio
import nighthawk_async as nh
from nighthawk_async import parallel
from helping import read

def read_here(name: str) -> str:
    return f"{read(name)} {Path.cwd().name}"

async def main() -> None:
    environment = {"working_dir": "."}
    async with nh.distributed.RayWorkers(
        1, address=sys.argv[1], num_cpus=0, runtime_env=environment
    ) as workers:
        text, folder = (await parallel.map(read_here, ["data.txt"], on=workers))[0].split()
        print(text, folder != Path.cwd().name)

if __name__ == "__main__":
    anyio.run(main)
"""

UNREACHABLE = """
import anyio
import nighthawk_async as nh

async def main() -> None:
    try:
        async with nh.distributed.RayWorkers(1, address="127.0.0.1:1"):
            pass
    except nh.distributed.WorkerStartError as error:
        print(error)

anyio.run(main)
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A variable in the environment of a program, which all its processes have."""
    mark = f"NIGHTHAWK_TEST_{uuid.uuid4().hex}"
    yield mark
    assert wait_until_ended(mark) == {}


def started(program: str, folder: Path, *arguments: str, mark: str = "") -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(program, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        env={**os.environ, mark or "NIGHTHAWK_TEST": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_ends_a_cluster_that_was_started(tmp_path: Path, mark: str) -> None:
    with started(OWN_CLUSTER, tmp_path, mark=mark) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == ["[2, 4]\n", "[6]\n"]
            assert len(marked_processes(mark)) > 5
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in errors
    assert printed == "connected: False\n"


def test_a_program_uses_a_cluster_with_a_copy_of_its_folder(ray_address: str, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("found", encoding="utf-8")
    helping = "from pathlib import Path\n\ndef read(name: str) -> str:\n    return Path(name).read_text()\n"
    (tmp_path / "helping.py").write_text(helping, encoding="utf-8")
    with started(OTHER_CLUSTER, tmp_path, ray_address) as process:
        printed, errors = process.communicate(timeout=240)
    assert (process.returncode, printed) == (0, "found True\n"), errors
    import ray

    assert [each["Alive"] for each in ray.nodes()] == [True]


def test_a_cluster_that_cannot_be_reached_is_an_error_at_once(tmp_path: Path) -> None:
    with started(UNREACHABLE, tmp_path) as process:
        printed, errors = process.communicate(timeout=240)
    assert printed.startswith("Ray cannot be reached or started at '127.0.0.1:1': "), errors
