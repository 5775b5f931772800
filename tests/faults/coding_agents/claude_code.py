"""Claude Code for tests: the real one from npm, or `fake_claude`, asking a server on loopback."""

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer
from nighthawk_async.testing.model_reply import RecordedRequest
from nighthawk_async.types.messages import ToolCall
from tests.npm_packages import find_binary

Kind = Literal["fake", "real"]
USAGE = nh.Usage(input_tokens=100, output_tokens=20)
SERVER = "mcp__nighthawk__"


def executable(kind: Kind, folder: Path) -> str:
    """The path of a command line; skips the test when it is not installed."""
    if kind == "real":
        return find_binary("@anthropic-ai/claude-code-linux-x64", "claude")
    program = folder / "claude"
    fake = Path(__file__).with_name("fake_claude.py").read_text(encoding="utf-8")
    program.write_text(f"#!{sys.executable} -SE\n{fake}", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a native tool."""
    return ToolCall(id="", name=name, arguments=json.dumps(arguments))


def nh_call(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a tool of the step."""
    return call(f"{SERVER}{name}", **arguments)


def reply(*calls: ToolCall, text: str = "", reasoning: str = "") -> ModelReply:
    """A response of the model."""
    return ModelReply(text=text, reasoning=reasoning, tool_calls=calls, usage=USAGE)


class Claude:
    """Claude Code with a scripted model.

    Attributes:
        requests: The requests to the model so far.
    """

    def __init__(self, kind: Kind, folder: Path, replies: "Sequence[ModelReply] | Answer") -> None:
        self.kind: Kind = kind
        self.folder = folder
        self.requests: list[RecordedRequest] = []
        self._replies = replies
        self._base_url = ""

    def _answer(self, request: RecordedRequest) -> Any:
        if request.body is None or "tools" not in request.body:
            return ModelReply(status=404)
        self.requests.append(request)
        if callable(self._replies):
            return self._replies(request)
        return self._replies[len(self.requests) - 1]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["Claude", None]:
        """Serve its model."""
        async with ModelServer(self._answer, checks_requests=False) as server:
            self._base_url = server.base_url.removesuffix("/v1")
            yield self

    def settings(
        self, *, environment: dict[str, str] | None = None, **more: Any
    ) -> nh.executors.ClaudeCodeCliSettings:
        """Its settings."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        given: dict[str, Any] = {
            "executable": executable(self.kind, self.folder),
            "base_url": self._base_url,
            "api_key": "fake",
            "environment": {
                "HOME": str(home),
                "CLAUDE_CONFIG_DIR": str(home / "claude"),
                "CLAUDE_CODE_MAX_RETRIES": "0",
                **(environment or {}),
            },
            "working_directory": str(self.folder),
        }
        return nh.executors.ClaudeCodeCliSettings.model_validate({**given, **more})

    def configuration(
        self, *, settings: dict[str, Any] | None = None, **more: Any
    ) -> nh.StepExecutorConfiguration:
        """A configuration with it."""
        tools = ("nh_eval", "nh_assign", "nh_exec")  # it calls what is on offer alone
        more = {"provided_tools": tools, **more}
        return nh.StepExecutorConfiguration(
            model="claude-code-cli:sonnet", model_settings=self.settings(**(settings or {})), **more
        )

    def sent(self, number: int) -> str:
        """The text of a request."""
        return self.requests[number].content.decode()


Answer = Callable[[RecordedRequest], ModelReply | Awaitable[ModelReply]]
