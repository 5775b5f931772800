"""Drives Claude Code: its command line, and one process per step."""

import logging
import os
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..actors import BareTaskGroup
from ..agent.task import AgentTask
from ..catalog.coding_agents import CODING_AGENTS, DEFAULT_NAME
from ..configuration import ModelId
from ..kernel.environment import shared_in_run
from ..line_process import LineProcess
from ..types.outcomes import StepOutcome
from .claude_protocol import SERVER, encode
from .claude_session import ClaudeCodeSession
from .process import AgentCommand, ProcessPool, StagedMedia, end_process, locate_executable
from .settings import ClaudeCodeCliSettings, parse_settings
from .turns import CodingAgentTurns

_KEPT = re.compile(r"CLAUDE_CODE_(OAUTH_TOKEN|USE_\w+|SKIP_\w+_AUTH|CLIENT_\w+|API_KEY_HELPER_TTL_MS)")
"""Variables of Claude Code that are passed on: those of logins. Others may be those of a parent session."""

_OTHER_LOGINS = frozenset(
    {
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    }
)
"""Variables that Claude Code prefers to a key."""

_ALWAYS = {
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # a command would outlive the step
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",  # every response is streamed
    "ENABLE_TOOL_SEARCH": "false",  # the tools of the step are deferred by the library
    "MCP_TOOL_TIMEOUT": "1000000000",
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "0",
}


def claude_code_command(executable: str, model: str, settings: ClaudeCodeCliSettings) -> AgentCommand:
    """Return the command of a step.

    Args:
        executable: The path of the command line.
        model: The name of the model, or `default`.
        settings: The settings.
    """
    servers = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
    arguments = [
        *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--no-session-persistence"),
        *("--strict-mcp-config", "--mcp-config", encode(servers).decode()),
        *("--allowed-tools", f"mcp__{SERVER}", "--permission-prompt-tool", "stdio"),
        *("--permission-mode", settings.permission_mode),
        *("--setting-sources=" + ",".join(settings.setting_sources),),
        *("--tools", ",".join((*settings.native_tools, *(("Skill",) if settings.skills else ())))),
    ]
    if not settings.skills:
        arguments.append("--disable-slash-commands")
    if model != DEFAULT_NAME:
        arguments += ["--model", model]
    if settings.max_budget_usd is not None:
        arguments += ["--max-budget-usd", f"{Decimal(str(settings.max_budget_usd)):f}"]
    if settings.permission_mode == "bypassPermissions":
        arguments.append("--allow-dangerously-skip-permissions")
    return AgentCommand(
        name="Claude Code",
        arguments=(executable, *arguments, *settings.extra_arguments),
        environment=_environment(os.environ, settings),
        folder=settings.working_directory or None,
    )


def _environment(given: Mapping[str, str], settings: ClaudeCodeCliSettings) -> dict[str, str]:
    """The environment of the program, without what it inherits from a Claude Code that runs the program."""
    environment = {
        name: value
        for name, value in given.items()
        if name != "CLAUDECODE" and (not name.startswith("CLAUDE_CODE_") or _KEPT.fullmatch(name))
    }
    environment |= _ALWAYS
    if not settings.setting_sources:
        environment["CLAUDE_CODE_DISABLE_CLAUDE_MDS"] = "1"
    if settings.base_url is not None:
        environment["ANTHROPIC_BASE_URL"] = settings.base_url
    if settings.api_key is not None:
        for name in _OTHER_LOGINS & environment.keys():
            del environment[name]
        environment["ANTHROPIC_API_KEY"] = settings.api_key.get_secret_value()
    return {**environment, **settings.environment}


_LOGGER = logging.getLogger("nighthawk.coding_agents")
_CLOSE_SECONDS = 0.3


class ClaudeCodeAgent:
    """The agent that runs steps with Claude Code.

    Args:
        model_id: The model id.
        settings: The settings.
    """

    def __init__(self, model_id: ModelId, settings: ClaudeCodeCliSettings) -> None:
        self.model_id = model_id
        self.settings = settings

    @classmethod
    def from_settings(cls, model_id: ModelId, settings: Mapping[str, Any]) -> "ClaudeCodeAgent":
        """Make one from the settings of a configuration.

        Args:
            model_id: The model id.
            settings: The settings.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        return cls(model_id, parse_settings(ClaudeCodeCliSettings, str(model_id), settings))

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step; see `StepExecutionAgent.run`.

        Raises:
            CodingAgentError: Claude Code is not installed, or failed.
        """
        facts = CODING_AGENTS[self.model_id.provider]
        executable = locate_executable(facts, self.settings)
        command = claude_code_command(executable, self.model_id.name, self.settings)
        async with shared_in_run(command.key, lambda: ProcessPool(facts, command, _LOGGER)) as pool:
            process = await pool.take()
            has_ended = False
            try:
                with StagedMedia() as media:
                    outcome = await self._converse(task, process, pool, media)
                has_ended = True
            finally:
                await end_process(process, close_seconds=_CLOSE_SECONDS if has_ended else 0)
        return outcome

    async def _converse(
        self, task: AgentTask, process: LineProcess, pool: ProcessPool, media: StagedMedia
    ) -> StepOutcome:
        outcome: StepOutcome | None = None
        async with BareTaskGroup() as group:
            turns = CodingAgentTurns(task, str(self.model_id), group)
            session = ClaudeCodeSession(
                turns,
                process,
                group,
                media=media,
                provider=self.model_id.provider,
                replaces_prompt=not self.settings.native_tools,
            )
            error: BaseException | None = None
            try:
                outcome = await session.converse(pool.refill)
            except BaseException as raised:
                error = raised
                raise
            finally:
                turns.close(turns.failure or error)
                del error
            group.cancel_scope.cancel()
        if turns.failure is not None:
            raise turns.failure
        assert outcome is not None
        return outcome
