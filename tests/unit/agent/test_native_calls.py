"""Calls that an agent carries out itself pass what all calls pass."""

from collections.abc import Sequence
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.executors import AgentTask, PassStepOutcome, StepOutcome
from nighthawk_async.types.messages import ToolCall, ToolResult

pytestmark = pytest.mark.anyio


class Shell:
    """An agent that runs one command after the other."""

    def __init__(self, commands: Sequence[str]) -> None:
        self.commands = commands
        self.run_commands: list[str] = []
        self.results: list[ToolResult] = []

    async def carry_out(self, call: ToolCall) -> ToolResult:
        self.run_commands.append(call.arguments)
        return ToolResult(call_id=call.id, name=call.name, content=("done",))

    async def run(self, task: AgentTask) -> StepOutcome:
        await task.turn_boundary()
        for number, command in enumerate(self.commands):
            call = ToolCall(id=str(number), name="Own.Shell", arguments=f'{{"command": "{command}"}}')
            self.results.append(await task.begin_native_call(call, self.carry_out)())
        await task.conclude(PassStepOutcome())
        return PassStepOutcome()


@nh.natural_function
async def work() -> None:
    """natural
    Work.
    """


def executor(shell: Shell) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_agent(agent=shell)


async def test_permissions_hold() -> None:
    shell = Shell(["ls", "rm"])
    rules = nh.permissions(allow=nh.policies.rule("Own.Shell", command="ls"), default="deny")
    async with nh.run(executor(shell), permissions=rules):
        await work()
    assert shell.run_commands == ['{"command": "ls"}']
    assert [each.is_error for each in shell.results] == [False, True]
    assert "Own.Shell" in str(shell.results[1].content[0])


async def test_budgets_count_them() -> None:
    shell = Shell(["ls", "ls"])
    async with nh.run(executor(shell)):
        with nh.budget(tool_calls=1), pytest.raises(nh.BudgetExceededError):
            await work()
    assert len(shell.run_commands) == 1


async def test_hooks_change_arguments_and_see_results_of_refused_calls_too() -> None:
    seen: list[Any] = []
    hooks = nh.Hooks()

    def before(event: nh.hooks.BeforeToolCall) -> Any:
        if event.arguments["command"] == "rm":
            return nh.hooks.Veto("not that")
        return nh.hooks.Modify({"command": "pwd"})

    def after(event: nh.hooks.AfterToolCall) -> None:
        seen.append((event.tool_name, event.is_error))

    hooks.on(nh.hooks.BeforeToolCall, before)
    hooks.on(nh.hooks.AfterToolCall, after)
    shell = Shell(["ls", "rm"])
    async with nh.run(executor(shell), hooks=hooks):
        await work()
    assert shell.run_commands == ['{"command": "pwd"}']
    assert "not that" in str(shell.results[1].content[0])
    assert seen == [("Own.Shell", False), ("Own.Shell", True)]


async def test_they_have_nodes() -> None:
    shell = Shell(["ls", "rm"])
    rules = nh.permissions(deny=nh.policies.rule("Own.*", command="rm"), default="allow")
    with nh.observe.recording() as tree:
        async with nh.run(executor(shell), permissions=rules):
            await work()
    nodes = [each for each in tree.snapshot().walk() if each.kind == "tool_call"]
    assert [(each.name, each.state) for each in nodes] == [
        ("Own.Shell", "completed"),
        ("Own.Shell", "failed"),
    ]
