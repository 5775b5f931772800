"""Permissions and the names of functions: what allows little, and denies much."""

import os
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.tools import ToolScope
from nighthawk_async.policies.permissions.guarded_calls import CallGuard
from nighthawk_async.runtime.step_context import StepContext
from nighthawk_async.types.execution import ExecutionRef
from tests.specification.permitted_steps import MAILER, SENT, send_mail  # noqa: F401  (blocks read them)
from tests.specification.scripted_steps import ScriptedSteps, executing, returning

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


def getpid() -> int:
    return 5


@nh.natural_function
async def work() -> None:
    """natural
    Use <send_mail>, <MAILER> and <getpid>.
    """


async def error_of(code: str, permissions: nh.policies.Permissions) -> Any:
    steps = ScriptedSteps(executing(code), returning("None"))
    async with nh.run(steps.executor, permissions=permissions):
        await work()
    return (steps.envelopes[0]["error"] or {}).get("kind")


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("getpid", "getpid()", None),
        ("getpid", "x = getpid\nx()", None),
        ("getpid", "import os\nos.getpid()", "oversight"),
        ("getpid", "from os import getpid\ngetpid()", "oversight"),
        ("get*", "import os\nos.getpid()", "oversight"),
        ("posix.getpid", "import os\nos.getpid()", None),
        ("send", "MAILER.send('ada')", "oversight"),
        ("Mailer.send", "MAILER.send('ada')", None),
        ("open", "open", None),
        ("eval", "eval('1')", None),
        ("*", "import os\nos.getpid()", None),
    ],
)
async def test_a_bare_name_allows_only_what_the_program_calls_by_it(
    name: str, code: str, expected: str | None
) -> None:
    allowing = nh.permissions(allow=[name, "nh_exec"], default="deny")
    assert await error_of(code, allowing) == expected


@pytest.mark.parametrize("target", ["os.getpid", "os.*", "posix.getpid", "getpid", "get*", os.getpid])
@pytest.mark.parametrize("code", ["import os as o\no.getpid()", "from os import getpid as g\ng()"])
async def test_a_function_is_denied_by_every_name_that_modules_give_it(target: Any, code: str) -> None:
    assert await error_of(code, nh.permissions(deny=target, default="allow")) == "oversight"


async def test_a_method_is_denied_by_the_name_of_a_module_that_exports_its_class() -> None:
    denying = nh.permissions(deny="json.JSONDecoder.*", default="allow")
    assert (
        await error_of("from json.decoder import JSONDecoder as D\nD().decode('1')", denying) == "oversight"
    )


class CountingGlobals(dict[str, object]):
    """Counts how often it is looked through."""

    scans = 0

    def items(self) -> Any:
        self.scans += 1
        return super().items()


def never(*arguments: object) -> Any:
    raise AssertionError(arguments)


@pytest.mark.parametrize(
    ("rules", "expected"), [({}, 0), ({"deny": os.getpid}, 0), ({"deny": "other"}, 1), ({"ask": "x*"}, 1)]
)
def test_globals_are_looked_through_once_and_only_for_rules_that_need_names(
    rules: Any, expected: int
) -> None:
    variables = CountingGlobals(send=send_mail)
    context = StepContext(
        step_id="x:1",
        execution_ref=ExecutionRef(run_id="r", scope_id="s"),
        step_globals=variables,
        step_locals={},
    )
    permissions = [nh.permissions(**rules, default="allow")]
    guard = CallGuard(context, permissions, tools=ToolScope(None), ask=never, report=never)
    for _ in range(10):
        guard.admit("send", send_mail, "ada")
    assert variables.scans == expected
