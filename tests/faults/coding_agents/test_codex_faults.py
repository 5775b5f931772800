"""Codex that is missing, too old, crashes or hangs: errors with names, and the next step works."""

import json
import os
import pickle
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.executors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
    CodingAgentVersionError,
)
from tests.faults.coding_agents import fake_codex
from tests.unit.mcp.support import processes, wait_until

pytestmark = pytest.mark.anyio


@nh.natural_function
async def work(start: int = 1) -> int:
    number = start
    """natural
    Set <:number> to more than <start>.
    """
    return number


class FakeCodex:
    """An executable `codex`.

    Args:
        folder: Its folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "codex"
        self.path.write_text(f'#!/bin/sh\nexec {sys.executable} -I {fake_codex.__file__} "$@"\n')
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def executor(self, fault: str = "", **settings: Any) -> nh.AgentStepExecutor:
        fields = {name: settings.pop(name) for name in [*settings] if name.startswith("step_")}
        given: dict[str, Any] = {
            "executable": str(self.path),
            "extra_arguments": [f"fault={fault}"],
            "environment": {"FAKE_FOLDER": str(self.folder)},
            **settings,
        }
        return nh.AgentStepExecutor.from_configuration(
            nh.StepExecutorConfiguration(model="codex:default", model_settings=given, **fields)
        )

    @property
    def received(self) -> str:
        """What it has received, as lines."""
        path = self.folder / "received.jsonl"
        return path.read_text() if path.exists() else ""

    @property
    def left(self) -> list[str]:
        """The threads that were left."""
        messages = [json.loads(line) for line in self.received.splitlines(keepends=True) if line[-1] == "\n"]
        return sorted(
            each["params"]["threadId"] for each in messages if each.get("method") == "thread/unsubscribe"
        )

    def has_done(self, fault: str) -> bool:
        """Whether it has misbehaved."""
        return (self.folder / f"{fault}.done").exists()

    def go(self) -> None:
        """Let it go on."""
        (self.folder / "go").touch()


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCodex:
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return FakeCodex(tmp_path)


async def test_a_step_works_and_leaves_nothing(codex: FakeCodex, tmp_path: Path) -> None:
    async with nh.run(codex.executor()) as run:
        assert await work() == 1
    assert run.usage_meter.usage.input_tokens == 3
    assert not processes()
    assert os.listdir(tmp_path / "caches/nighthawk_async/codex") == []


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("crash", CodingAgentCrashedError, "exit code -9.*panicked at the disco"),
        ("exit", CodingAgentCrashedError, "exit code 0.*goodbye"),
        ("closed", CodingAgentCrashedError, "closed its output"),
        ("garbage", CodingAgentProtocolError, "a warning nobody expected"),
        ("half-a-line", CodingAgentProtocolError, "turn/"),
        ("exit-at-start", CodingAgentCrashedError, "exit code 3.*no such configuration"),
        ("refused", CodingAgentRequestError, "failed to load configuration"),
        ("failed", CodingAgentRequestError, "exceeded retry limit"),
    ],
)
async def test_a_fault_fails_the_step_and_the_next_one_works(
    codex: FakeCodex, fault: str, kind: type[CodingAgentError], words: str
) -> None:
    async with nh.run(codex.executor(fault)):
        with pytest.raises(kind, match=words):
            await work()
        assert await work(3) == 3
    assert not processes()


async def test_all_steps_in_flight_fail_with_their_server(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("crash")):
        results = await nh.parallel.settle(work, [1, 2, 3])
        assert await work(4) == 4
    errors = [each.error for each in results if each.error is not None]
    assert errors
    assert all(isinstance(each, CodingAgentCrashedError) for each in errors)


async def test_steps_that_are_cancelled_while_it_starts_leave_it_to_the_others(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("slow-start")):
        async with nh.open_tasks(at_end="wait") as tasks:
            first, second = tasks.start(work, 1), tasks.start(work, 2)
            await wait_until(processes)
            first.cancel()
            assert await second == 2
        assert await work(3) == 3
    assert codex.received.count('"initialize"') == 1


async def test_a_failed_request_has_its_status(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("failed")):
        with pytest.raises(CodingAgentRequestError) as caught:
            await work()
    assert (caught.value.status, caught.value.is_transient) == (503, True)


async def test_a_failed_request_is_of_its_kind(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("too-long")):
        with pytest.raises(nh.ContextTooLongError, match="out of room") as caught:
            await work()
    assert isinstance(caught.value, CodingAgentRequestError)
    assert not caught.value.is_transient
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


async def test_a_missing_command_line_is_named(codex: FakeCodex) -> None:
    async with nh.run(codex.executor(executable="/nowhere/codex")):
        with pytest.raises(CodingAgentMissingError, match=r"/nowhere/codex.*npm install"):
            await work()


async def test_an_old_version_is_refused_with_the_needed_one(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("old")):
        with pytest.raises(CodingAgentVersionError, match=r"0\.12\.0.*too old.*0\.171\.0") as caught:
            await work()
    assert (caught.value.found, caught.value.needed) == ("0.12.0", "0.171.0")


async def test_a_version_without_a_server_is_too_old(codex: FakeCodex) -> None:
    codex.path.write_text("""#!/bin/sh
if [ "$1" = --version ]; then echo codex-cli 0.20.1; exit; fi
echo "error: unrecognized subcommand 'app-server'" >&2; exit 2
""")
    async with nh.run(codex.executor()):
        with pytest.raises(CodingAgentVersionError, match=r"0\.20\.1.*too old.*0\.171\.0"):
            await work()


async def test_settings_for_another_process_get_one(codex: FakeCodex) -> None:
    other = codex.executor(environment={"FAKE_FOLDER": str(codex.folder), "OTHER": "1"})
    async with nh.run(codex.executor()):
        assert await work(1) == 1
        with nh.scope(step_executor=other):
            assert await work(2) == 2
        assert await work(3) == 3
    assert codex.received.count('"initialize"') == 2


async def test_a_program_that_is_not_codex_is_refused(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("no-version")):
        with pytest.raises(CodingAgentProtocolError, match="surprise"):
            await work()


async def test_native_tools_are_refused_when_codex_would_not_ask(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("untrusted", native_tools=["shell"])):
        with pytest.raises(CodingAgentProtocolError, match="would not ask"):
            await work()


async def test_a_hung_server_ends_with_the_cancelled_step_that_used_it(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("hung")):
        async with nh.open_tasks() as tasks:
            handle = tasks.start(work)
            await wait_until(lambda: "turn/start" in codex.received)
            (first, *_) = processes()
            handle.cancel()
            await handle.wait_ended()
        await wait_until(lambda: not first.is_running())
        assert not processes()


async def test_a_step_that_takes_too_long_ends(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("hung", step_timeout=0.1)):
        with pytest.raises(nh.errors.StepLimitError, match=r"0\.1"):
            await work()
    assert not processes()


async def test_a_step_with_a_server_of_its_own_is_interrupted_before_that_ends(codex: FakeCodex) -> None:
    async with nh.open_tasks() as tasks:
        with nh.run(codex.executor("hung")):
            handle = tasks.start(work)
            await wait_until(lambda: "turn/start" in codex.received)
            handle.cancel()
            await handle.wait_ended()
    assert "turn/interrupt" in codex.received
    assert not processes()


async def test_a_hung_server_fails_the_other_steps_and_is_replaced(
    codex: FakeCodex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.coding_agents.codex_server._DOUBT_SECONDS", 0.6)
    async with nh.run(codex.executor("hung")), nh.open_tasks(at_end="wait") as tasks:
        cancelled, other = tasks.start(work), tasks.start(work)
        await wait_until(lambda: codex.received.count('"turn/start"') == 2)
        cancelled.cancel()
        await cancelled.wait_ended()
        with pytest.raises(CodingAgentProtocolError, match="did not answer"):
            await other
    assert not processes()


async def test_a_step_that_is_cancelled_in_the_middle_of_a_long_message_disturbs_no_other(
    codex: FakeCodex,
) -> None:
    async with nh.run(codex.executor("deaf")), nh.open_tasks(at_end="wait") as tasks:
        message = nh.models.UserMessage(content=("x" * 2_000_000,))
        with nh.scope(past=nh.Transcript(step_id="a:1", model="", system_prompt="", messages=(message,))):
            handle = tasks.start(work)
        await wait_until(lambda: codex.has_done("deaf"))
        other = tasks.start(work, 3)
        await anyio.wait_all_tasks_blocked()
        handle.cancel()
        await handle.wait_ended()
        codex.go()
        assert await other == 3


async def test_a_thread_that_opens_after_its_step_was_cancelled_is_left(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("late-thread")), nh.open_tasks(at_end="wait") as tasks:
        handle = tasks.start(work)
        await wait_until(lambda: codex.has_done("late-thread"))
        other = tasks.start(work, 3)
        await anyio.wait_all_tasks_blocked()
        handle.cancel()
        await handle.wait_ended()
        codex.go()
        assert await other == 3
        await wait_until(lambda: codex.left == ["t1", "t2"])


async def test_a_turn_that_ends_by_itself_while_it_is_interrupted_is_left_too(codex: FakeCodex) -> None:
    async with nh.run(codex.executor("over")):
        assert await work(3) == 3
        await wait_until(lambda: codex.left == ["t1"])
        assert "backgroundTerminals/clean" in codex.received


def test_settings_are_checked() -> None:
    def configure(**settings: Any) -> None:
        nh.AgentStepExecutor.from_configuration(
            nh.StepExecutorConfiguration(model="codex:default", model_settings=settings)
        )

    with pytest.raises(nh.errors.ConfigurationError, match=r"'shell'.*'apply_patch'|shell, apply_patch"):
        configure(native_tools=["bash"])
    with pytest.raises(nh.errors.ConfigurationError, match="setting source 'user'"):
        configure(native_tools=["mcp__files__read"])
    with pytest.raises(nh.errors.ConfigurationError, match="sandbox"):
        configure(sandbox="none")
    with pytest.raises(nh.errors.ConfigurationError, match="sandbox_mode"):
        configure(sandbox_mode="read-only")
