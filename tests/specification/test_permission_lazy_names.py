"""A rule about a name that a module exports holds before the name is used, and so what it means is loaded.

In fresh interpreters, because everything is loaded in this one.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy_machine import without_held_loops

PROGRAM = """
import sys
sys.path.append(sys.argv[3])
import anyio
import nighthawk_async as nh
from tests.specification.scripted_steps import ScriptedSteps, executing, returning
{imports}

@nh.natural_function
async def work() -> None:
    '''natural
    Use <used>.
    '''

async def main():
    steps = ScriptedSteps(executing(sys.argv[2]), returning("None"))
    permissions = nh.permissions(deny=[sys.argv[1]], default="allow")
    async with nh.run(steps.executor, permissions=permissions):
        await work()
    error = steps.envelopes[0]["error"]
    assert error is not None, "the call was made"
    assert error["kind"] == "oversight", error

anyio.run(main)
"""

ROOT = Path(__file__).parents[2]


def run_denied(imports: str, name: str, code: str, folder: Path) -> None:
    """Have a step make a call that a rule about a name denies."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(imports=imports), encoding="utf-8")
    command = [sys.executable, str(program), name, code, str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, without_held_loops(result.stderr)) == (0, [])


@pytest.mark.parametrize(
    ("imports", "name", "code"),
    [
        ("import nighthawk_async.human as used", "nighthawk_async.ask_user", "used.ask_user('May I?')"),
        ("import nighthawk_async.parallel as used", "nighthawk_async.deadline", "used.deadline(1)"),
        (
            "import nighthawk_async.parallel.deadlines as used",
            "nighthawk_async.parallel.deadline",
            "used.deadline(1)",
        ),
        ("used = nh", "nighthawk_async.oversight.Accept", "used.Accept()"),
        ("used = nh", "nighthawk_async.oversight.*", "used.Accept()"),
    ],
)
def test_a_rule_about_an_export_of_the_package_holds(
    imports: str, name: str, code: str, tmp_path: Path
) -> None:
    run_denied(imports, name, code, tmp_path)


def test_a_rule_about_an_export_of_a_lazy_package_of_the_program_holds(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import importlib\n"
        "__all__ = ['pay']\n"
        "def __getattr__(name):\n"
        "    return getattr(importlib.import_module('shop.till'), name)\n"
    )
    (package / "till.py").write_text("def pay(): pass\n")
    run_denied("import shop.till as used", "shop.pay", "used.pay()", tmp_path)


def test_what_a_lazy_package_cannot_load_stands_in_nobodys_way(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__all__ = ['pay']\ndef __getattr__(name):\n    raise ImportError('a library is not installed')\n"
    )
    (package / "till.py").write_text("def pay(): pass\n")
    run_denied("import shop.till as used", "shop.till.pay", "used.pay()", tmp_path)
