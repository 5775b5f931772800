"""Programs whose main module is given to workers, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nighthawk_async.distributed.main_module import describe_main, load_main
from tests.warm_python import run_warm

PROGRAM = """
import sys

import anyio
import nighthawk_async as nh
from nighthawk_async import parallel
from .helper import LIMIT

EXTRA = int(sys.argv[1])


class TooBigError(Exception):
    pass


def small(number: int) -> int:
    if number > LIMIT:
        raise TooBigError(number)
    return number + EXTRA


async def main() -> None:
    async with nh.distributed.Processes(1) as workers:
        print(await parallel.map(small, [1, 2], on=workers))
        try:
            await parallel.map(small, [9], on=workers)
        except TooBigError as error:
            print("too big:", error)


if __name__ == "__main__":
    anyio.run(main)
"""


@pytest.mark.usefixtures("warm_python")
def test_a_module_of_a_package_is_the_main_module_on_workers(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("LIMIT = 5\n")
    (package / "program.py").write_text(PROGRAM)
    done = run_warm([sys.executable, "-m", "shop.program", "10"], folder=tmp_path, variables=dict(os.environ))
    assert (done.stdout, done.returncode) == ("[11, 12]\ntoo big: 9\n", 0), done.stderr


SCRIPT = """
import anyio
import nighthawk_async as nh
from nighthawk_async import parallel


def double(number: int) -> int:
    return number * 2


async def main() -> None:
    async with nh.distributed.Processes(1) as workers:
        try:
            print(await parallel.map(double, [1, 2], on=workers))
        except nh.distributed.CrossingError as error:
            print(str(error).partition(" cannot run on a worker: ")[2].partition(". Use")[0])


if __name__ == "__main__":
    anyio.run(main)
"""


@pytest.mark.parametrize(
    ("file", "command", "printed"),
    [
        ("my-script.py", ["my-script.py"], "[2, 4]"),
        ("shop/__main__.py", ["-m", "shop"], "workers do not load shop.__main__, which starts the program"),
        ("script", ["script"], "workers load only files whose names end with .py, and not {folder}/script"),
    ],
)
def test_workers_have_the_functions_of_a_script(
    file: str, command: list[str], printed: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == (printed.format(folder=tmp_path) + "\n", 0), done.stderr


def test_workers_of_a_worker_load_the_same_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys\nSEEN = sys.argv[1:]\n")
    for name in ("__main__", "__mp_main__"):
        monkeypatch.setitem(sys.modules, name, sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", sys.argv[:])
    load_main(None, str(script), ["program.py", "10"])
    assert sys.modules["__main__"].SEEN == ["10"]
    assert describe_main() == (None, str(script))
