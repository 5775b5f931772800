"""The command with which Claude Code is started, and its environment."""

import os
import re
from collections.abc import Mapping
from decimal import Decimal

from ..catalog.coding_agents import DEFAULT_NAME
from .claude_code_lines import SERVER, encode
from .coding_agent_process import AgentCommand
from .coding_agent_settings import ClaudeCodeCliSettings

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
