"""Programs in which Ray is not installed, or not used."""

import subprocess
import sys
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.distributed import ray_cluster

PROCESSES_ALONE = """
import sys
import anyio
import nighthawk_async as nh
from nighthawk_async import parallel

def double(number: int) -> int:
    assert "ray" not in sys.modules
    return 2 * number

async def main():
    async with nh.distributed.Processes(1) as workers:
        assert await parallel.map(double, [1], on=workers) == [2]

if __name__ == "__main__":
    anyio.run(main)
    assert "ray" not in sys.modules
    print(*sorted(name for name in sys.modules if name.startswith("nighthawk_async.distributed.ray_")))
"""


def test_ray_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    with pytest.raises(nh.ConfigurationError, match=r"pip install 'nighthawk-async\[ray\]'"):
        nh.distributed.RayWorkers(1)


def test_processes_do_not_load_ray(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROCESSES_ALONE, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
