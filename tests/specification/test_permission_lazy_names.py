"""A rule about a name that a module exports holds before the name is used, and so what it means is loaded.

In fresh interpreters, because everything is loaded in this one; each case in a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy_machine import without_held_loops

PROGRAM = """
import contextlib, json, os, sys, warnings
sys.path.append(sys.argv[2])
import anyio, anyio._backends._asyncio, msgspec, pydantic
import nighthawk_async as nh
from tests.specification.scripted_steps import ScriptedSteps, executing, returning

used = nh

@nh.natural_function
async def work() -> None:
    '''natural
    Use <used>.
    '''

async def deny(name, code):
    steps = ScriptedSteps(executing(code), returning("None"))
    permissions = nh.permissions(deny=[name], default="allow")
    async with nh.run(steps.executor, permissions=permissions):
        await work()
    error = steps.envelopes[0]["error"]
    assert error is not None, f"{code}: the call was made"
    assert error["kind"] == "oversight", (code, error)

# Libraries that each process would load again: a vocabulary takes longer than all the rest.
with contextlib.suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import bpe_openai

for imports, name, code in json.loads(sys.argv[1]):
    if os.fork() == 0:
        exec(imports)
        anyio.run(deny, name, code)
        break
    assert os.wait()[1] == 0, (imports, name, code)
"""

ROOT = Path(__file__).parents[2]


def run_denied(folder: Path, *cases: tuple[str, str, str]) -> None:
    """Have steps make calls that rules about names deny.

    Args:
        folder: Where the program stands, and packages beside it.
        cases: The imports, the name that is denied, and the call, each case in a process of its own.
    """
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), json.dumps(cases), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert (result.returncode, without_held_loops(result.stderr)) == (0, [])


@pytest.mark.timeout(300)
def test_a_rule_about_an_export_of_the_package_holds(tmp_path: Path) -> None:
    deadline = "import nighthawk_async.parallel.deadlines as used"
    run_denied(
        tmp_path,
        ("import nighthawk_async.human as used", "nighthawk_async.ask_user", "used.ask_user('May I?')"),
        ("import nighthawk_async.parallel as used", "nighthawk_async.deadline", "used.deadline(1)"),
        (deadline, "nighthawk_async.parallel.deadline", "used.deadline(1)"),
        ("", "nighthawk_async.BudgetLimits", "used.BudgetLimits()"),
        ("", "nighthawk_async.*", "used.BudgetLimits()"),
    )


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
    run_denied(tmp_path, ("import shop.till as used", "shop.pay", "used.pay()"))


def test_what_a_lazy_package_cannot_load_stands_in_nobodys_way(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__all__ = ['pay']\ndef __getattr__(name):\n    raise ImportError('a library is not installed')\n"
    )
    (package / "till.py").write_text("def pay(): pass\n")
    run_denied(tmp_path, ("import shop.till as used", "shop.till.pay", "used.pay()"))
