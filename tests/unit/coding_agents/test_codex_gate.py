"""The questions of Codex before and after calls of its own tools, through the command that it runs."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest

from nighthawk_async.coding_agents.codex_server import GateAnswer, Question, hooks_configuration, serve_gate

pytestmark = pytest.mark.anyio
QUESTION = {
    "session_id": "t1",
    "tool_name": "Bash",
    "tool_use_id": "c1",
    "hook_event_name": "PreToolUse",
    "tool_input": {"command": "ls"},
}


async def ask(directory: Path, question: bytes) -> CompletedProcess[bytes]:
    command = hooks_configuration(str(directory))["PreToolUse"][0]["hooks"][0]["command"]
    return await anyio.run_process(command, input=question, check=False)


async def asked(
    directory: Path, answer: Callable[[Question], Awaitable[GateAnswer]], question: Any = QUESTION
) -> CompletedProcess[bytes]:
    async with anyio.create_task_group() as group:
        await group.start(partial(serve_gate, str(directory), answer))
        done = await ask(directory, json.dumps(question).encode())
        group.cancel_scope.cancel()
        return done
    raise AssertionError


async def refuse(question: Question) -> GateAnswer:
    return GateAnswer(refusal=f"no {question.tool_input['command']}")


@pytest.mark.parametrize("depth", [0, 3])
async def test_a_question_gets_its_answer_however_long_the_path_of_the_directory(
    tmp_path: Path, depth: int
) -> None:
    directory = tmp_path.joinpath(*["d" * 60] * depth)
    directory.mkdir(parents=True, exist_ok=True)
    done = await asked(directory, refuse)
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert (output["permissionDecision"], output["permissionDecisionReason"]) == ("deny", "no ls")
    (socket,) = directory.iterdir()
    assert socket.stat().st_mode & 0o077 == 0


async def test_a_call_is_blocked_without_an_answer(tmp_path: Path) -> None:
    assert (await ask(tmp_path, json.dumps(QUESTION).encode())).returncode == 2
    assert (await ask(tmp_path / "missing", b"{}")).returncode == 2
    assert (await asked(tmp_path, refuse, {"surprise": 1})).returncode == 2
