"""The command line of Codex and the configuration of its threads. Pure.

Everything that Codex would take from the user's own configuration is off unless it is asked for, and so are
its own tools.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from ..catalog.coding_agents import DEFAULT_NAME
from ..configuration import ModelId
from ..types.messages import ToolDefinition
from .coding_agent_settings import CodexSettings

KEY_VARIABLE = "NIGHTHAWK_CODEX_API_KEY"
"""The environment variable of the key for `base_url`."""

_WITH_SERVERS = {
    "granular": {
        "sandbox_approval": False,
        "rules": False,
        "skill_approval": False,
        "request_permissions": False,
        "mcp_elicitations": True,
    }
}
"""An approval policy with which only calls of MCP servers are asked about.

Without servers nothing is: the gate asks about all calls, and nothing leaves the sandbox.
"""

_OFF = (
    "apps",
    "auth_elicitation",
    "browser_use",
    "code_mode",
    "computer_use",
    "daemon_auto_start",
    "fast_mode",
    "goals",
    "guardian_approval",
    "image_generation",
    "in_app_browser",
    "in_app_chat",
    "in_app_local_automation",
    "in_app_voice",
    "memories",
    "mentions_v2",
    "multi_agent",
    "plugin_sharing",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "skill_mcp_dependency_install",
    "skill_search",
    "sleep_tool",
    "tool_call_mcp_elicitation",
    "tool_suggest",
    "unified_exec_tty",
    "workspace_dependencies",
)


class Launch(Struct, frozen=True, kw_only=True):
    """One process of Codex; steps with an equal one share it.

    Args:
        executable: The command line: a path, or a name that is searched for.
        arguments: Its arguments.
        variables: Its environment variables besides those of the program, as sorted pairs.
        uses_usual_provider: Whether the models are those of Codex's usual provider.
        uses_own_home: Whether it gets a home directory of its own, without the user's configuration.
        api_key: The key of its provider; None for its own login.
    """

    executable: str
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    uses_usual_provider: bool
    uses_own_home: bool
    api_key: str | None

    def __repr__(self) -> str:  # the others are secret
        return f"Launch({self.executable!r})"


def launch_of(settings: CodexSettings) -> Launch:
    """The process that settings ask for."""
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    overrides: dict[str, Any] = {
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "thread_unload_delay_secs": 0,
    }
    variables = dict(settings.environment)
    if settings.base_url is not None:
        provider: dict[str, Any] = {
            "name": "nighthawk",
            "base_url": settings.base_url,
            "wire_api": "responses",
            "supports_websockets": False,
        }
        if key is not None:
            provider["env_key"] = KEY_VARIABLE
            variables[KEY_VARIABLE] = key
        overrides |= {"model_provider": "nighthawk", "model_providers.nighthawk": provider}
        key = None
    flags = [part for name, value in overrides.items() for part in ("-c", f"{name}={toml(value)}")]
    return Launch(
        executable=settings.executable or "codex",
        arguments=("app-server", *flags, *settings.extra_arguments),
        variables=tuple(sorted(variables.items())),
        uses_usual_provider=settings.base_url is None,
        uses_own_home="user" not in settings.setting_sources,
        api_key=key,
    )


def needs_gate(settings: CodexSettings) -> bool:
    """Whether Codex may have tools of its own that do something, so that it must ask before their calls."""
    return bool(settings.native_tools or settings.setting_sources)


def thread_parameters(
    model: ModelId,
    settings: CodexSettings,
    *,
    directory: str,
    instructions: str,
    tools: Sequence[ToolDefinition],
    gate: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The parameters of `thread/start`.

    Args:
        model: The model.
        settings: The settings.
        directory: The working directory.
        instructions: The system prompt.
        tools: The tools on offer.
        gate: The configuration that makes it ask before native calls; None if it has none.
    """
    parameters: dict[str, Any] = {
        "baseInstructions": instructions,
        "ephemeral": True,
        "cwd": directory,
        "approvalPolicy": _WITH_SERVERS if "user" in settings.setting_sources else "never",
        "sandbox": settings.sandbox if {"shell", "apply_patch"} & {*settings.native_tools} else "read-only",
        "experimentalRawEvents": True,
        "dynamicTools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.parameters,
            }
            for tool in tools
        ],
        "config": _thread_configuration(settings, gate),
    }
    if model.name != DEFAULT_NAME:
        parameters["model"] = model.name
    return parameters


def _thread_configuration(settings: CodexSettings, gate: Mapping[str, Any] | None) -> dict[str, Any]:
    has_shell, brings_own = "shell" in settings.native_tools, "user" in settings.setting_sources
    features: dict[str, Any] = dict.fromkeys(_OFF, False)
    features |= {
        "shell_tool": has_shell,
        "unified_exec": has_shell,
        "view_image": "view_image" in settings.native_tools,
        "hooks": gate is not None,
        "multi_agent_v2": {"enabled": False, "disable_native_tools": True},
    }
    configuration: dict[str, Any] = {
        "features": features,
        "web_search": "disabled",
        "include_permissions_instructions": has_shell,
        "include_apps_instructions": False,
        "include_collaboration_mode_instructions": False,
        "include_environment_context": bool(settings.native_tools),
        "skills": {"include_instructions": settings.skills, "bundled": {"enabled": False}},
        "tools": {"experimental_request_user_input": {"enabled": False}},
        "shell_environment_policy": {"ignore_default_excludes": False},
    }
    if "project" not in settings.setting_sources:
        configuration["project_doc_max_bytes"] = 0
    if settings.reasoning_effort is not None:
        configuration["model_reasoning_effort"] = settings.reasoning_effort
    if gate is not None:
        configuration["hooks"] = gate
    if not brings_own:
        configuration["mcp_servers"] = {}
    return configuration


def toml(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, cast("list[object]", value))) + "]"
    return json.dumps(value, ensure_ascii=False)
