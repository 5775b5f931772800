"""Failures of the command line of Claude Code: typed errors, nothing committed, no process left."""

import os
import signal
import traceback
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.executors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
    CodingAgentVersionError,
)
from nighthawk_async.testing import ModelReply
from nighthawk_async.testing.model_reply import RecordedRequest
from tests.unit.mcp.support import processes

from .claude_code import Claude, call, executable, nh_call, reply

pytestmark = pytest.mark.anyio


@nh.natural_function
async def decide() -> int:
    number: int = 0
    """natural
    Set <:number> to 5.
    """
    return number


def answer(request: RecordedRequest) -> ModelReply:
    return reply(nh_call("nh_outcome", kind="pass", bindings={"number": 5}))


FAULTS = {
    "garbage": (CodingAgentProtocolError, "a line that is no message: 'this is not JSON'"),
    "crash": (CodingAgentCrashedError, "exit code 3 .*the end of its standard error: panic: it is broken"),
    "vanish": (CodingAgentCrashedError, "exit code 0 before the step had a result"),
    "long": (CodingAgentProtocolError, "a line of more than 67108864 bytes"),
    "lost": (CodingAgentRequestError, r"gave up \(a request failed\): API Error: the connection was lost"),
    "too_long": (nh.ContextTooLongError, r"gave up \(a request failed\): Prompt is too long"),
    "silent": (CodingAgentRequestError, "ended its turn without an answer: I have nothing to say"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_command_line_fails_the_step_and_not_the_next_one(fault: str, tmp_path: Path) -> None:
    def talk(request: RecordedRequest) -> ModelReply:
        return reply(text="Hm.") if len(claude.requests) == 1 else answer(request)

    kind, message = FAULTS[fault]
    claude = Claude("fake", tmp_path, talk)
    async with claude.serving(), nh.run(claude.configuration()):
        broken = claude.configuration(settings={"environment": {"FAKE_CLAUDE": fault}})
        with nh.scope(step_executor_configuration=broken), pytest.raises(kind, match=message) as raised:
            await decide()
        assert processes() == []
        assert isinstance(raised.value, CodingAgentError)
        assert isinstance(raised.value, nh.ModelError)
        assert raised.value.agent == "Claude Code"
        assert raised.value.is_transient == (fault in ("crash", "vanish", "lost"))
        assert await decide() == 5
    assert processes() == []


async def test_a_native_call_that_is_never_reported_holds_nobody_up(tmp_path: Path) -> None:
    call_of_bash = call("Bash", command="true")
    claude = Claude("fake", tmp_path, lambda request: reply(call_of_bash))
    settings = {"native_tools": ("Bash",), "environment": {"FAKE_CLAUDE": "early"}}
    async with claude.serving(), nh.run(claude.configuration(settings=settings)):
        with pytest.raises(CodingAgentRequestError, match="enough"):
            await decide()


async def test_no_key_is_in_errors_and_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    claude = Claude("fake", tmp_path, answer)
    settings = {"api_key": "my-secret-key", "environment": {"FAKE_CLAUDE": "leaks"}}
    async with claude.serving(), nh.run(claude.configuration(settings=settings)):
        with pytest.raises(CodingAgentRequestError, match=r"bad key \[redacted\]") as raised:
            await decide()
    shown = "".join(traceback.format_exception(raised.value))
    assert "my-secret-key" not in shown + repr(raised.value.last_lines) + caplog.text


async def test_a_relative_path_of_the_command_line_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable("fake", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    claude = Claude("fake", tmp_path, answer)
    settings = {"executable": "./claude", "working_directory": str(tmp_path / "elsewhere")}
    async with claude.serving(), nh.run(claude.configuration(settings=settings)):
        assert await decide() == 5


async def test_a_stubborn_process_ends_with_what_it_has_started(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def answer_never(request: RecordedRequest) -> ModelReply:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    claude = Claude("fake", tmp_path, answer_never)
    file = tmp_path / "pids"
    environment = {"FAKE_CLAUDE": "stubborn", "FAKE_CLAUDE_FILE": str(file)}
    async with claude.serving(), nh.run(claude.configuration(settings={"environment": environment})):
        async with anyio.create_task_group() as group:
            group.start_soon(decide)
            await asked.wait()
            group.cancel_scope.cancel()
        assert processes() == []
    pids = [int(each) for each in file.read_text().split()]
    assert [pid for pid in pids if psutil.pid_exists(pid) and not _is_zombie(pid)] == []


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_killed_process_fails_the_step(tmp_path: Path) -> None:
    async def kill(request: RecordedRequest) -> ModelReply:
        for each in processes():
            os.kill(each.pid, signal.SIGKILL)
        await anyio.sleep_forever()
        raise AssertionError

    claude = Claude("fake", tmp_path, kill)
    async with claude.serving(), nh.run(claude.configuration()):
        with pytest.raises(CodingAgentCrashedError, match="was ended by signal 9") as raised:
            await decide()
    assert raised.value.exit_code == -9
    assert raised.value.is_transient


async def test_a_missing_command_line_is_named_with_a_remedy(tmp_path: Path) -> None:
    claude = Claude("fake", tmp_path, answer)
    async with claude.serving(), nh.run(claude.configuration(settings={"executable": "/nowhere/claude"})):
        with pytest.raises(CodingAgentMissingError, match=r"'/nowhere/claude'.*npm install -g @anthropic-ai"):
            await decide()
        no_folder = claude.configuration(settings={"working_directory": str(tmp_path / "gone")})
        gone = pytest.raises(CodingAgentMissingError, match=r"cannot be started in .*gone")
        with nh.scope(step_executor_configuration=no_folder), gone:
            await decide()
    assert claude.requests == []


async def test_a_command_line_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CLAUDE_VERSION", "2.0.14")
    claude = Claude("fake", tmp_path, answer)
    async with claude.serving(), nh.run(claude.configuration()):
        with pytest.raises(
            CodingAgentVersionError, match=r"2\.0\.14 .* too old; version 2\.1\.197"
        ) as raised:
            await decide()
    assert (raised.value.found, raised.value.needed) == ("2.0.14", "2.1.197")
    assert claude.requests == []


async def test_what_does_not_tell_its_version_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "claude-stub"
    program.write_text("#!/bin/sh\necho 'native binary not installed' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    claude = Claude("fake", tmp_path, answer)
    async with claude.serving(), nh.run(claude.configuration(settings={"executable": str(program)})):
        with pytest.raises(CodingAgentMissingError, match="native binary not installed"):
            await decide()


async def test_a_variable_of_a_parent_session_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "token")
    program = tmp_path / "recording"
    fake = executable("fake", tmp_path)
    program.write_text(f'#!/bin/sh\nenv > "{tmp_path}/env"\nexec {fake} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    claude = Claude("fake", tmp_path, answer)
    for key in (None, "fake"):
        settings = {"executable": str(program), "api_key": key}
        async with claude.serving(), nh.run(claude.configuration(settings=settings)):
            assert await decide() == 5
        names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
        assert ("CLAUDE_CODE_OAUTH_TOKEN" in names) == (key is None)  # a key goes before a login
        assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} & names
        assert "CLAUDE_CODE_DISABLE_CLAUDE_MDS" in names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"permission_mode": "yolo"}, "'permission_mode': input should be 'default', 'acceptEdits'"),
        (
            {"setting_sources": ("users",)},
            "'setting_sources.0': input should be 'user', 'project' or 'local'",
        ),
        ({"working_directory": "here"}, "'working_directory': must be an absolute path"),
        ({"native_tool": ("Bash",)}, "no setting 'native_tool' .* Did you mean 'native_tools'"),
        ({"temperature": 0.5}, "no setting 'temperature'"),
        ({"max_budget_usd": 0}, "'max_budget_usd': input should be greater than 0"),
        ({"native_tools": "Bash"}, "'native_tools': must be a sequence of strings"),
    ],
    ids=["mode", "source", "folder", "misspelt", "unknown", "amount", "one text"],
)
async def test_a_bad_setting_is_named_with_what_is_accepted(
    settings: dict[str, object], message: str
) -> None:
    configuration = nh.StepExecutorConfiguration(model="claude-code-cli:sonnet", model_settings=settings)
    with pytest.raises(ConfigurationError, match=message):
        nh.AgentStepExecutor.from_configuration(configuration)
    await anyio.lowlevel.checkpoint()


async def test_a_transport_without_an_agent_is_refused() -> None:
    configuration = nh.StepExecutorConfiguration(model="claude-code-cli:sonnet", outcome_transport="direct")
    with pytest.raises(ConfigurationError, match="outcome_transport='direct' asks a model once"):
        nh.AgentStepExecutor.from_configuration(configuration)
    await anyio.lowlevel.checkpoint()
