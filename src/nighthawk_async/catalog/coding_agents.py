"""The coding agents that run steps: command lines of other vendors, by the first part of a model id."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgentFacts:
    """The facts about one coding agent.

    Args:
        title: Its name in prose.
        permission_name: The first part of the names of its native tools in permissions and hooks.
        command: The name of its command line on `PATH`.
        minimum_version: The oldest version that the library works with.
        package: Its package at npm.
        models: Names of models, for suggestions; other names are passed on as they are.
    """

    title: str
    permission_name: str
    command: str
    minimum_version: tuple[int, int, int]
    package: str
    models: tuple[str, ...]


_CLAUDE_CODE = CodingAgentFacts(
    title="Claude Code",
    permission_name="ClaudeCode",
    command="claude",
    minimum_version=(2, 1, 197),
    package="@anthropic-ai/claude-code",
    models=("default", "sonnet", "opus", "haiku"),
)

CODING_AGENTS: Mapping[str, CodingAgentFacts] = {
    "claude-code-cli": _CLAUDE_CODE,
    "claude-code-sdk": _CLAUDE_CODE,
    "codex": CodingAgentFacts(
        title="Codex",
        permission_name="Codex",
        command="codex",
        minimum_version=(0, 171, 0),
        package="@openai/codex",
        models=("default",),
    ),
}
"""The coding agents by the names of their providers."""

DEFAULT_NAME = "default"
"""The name that leaves the choice of a model to the agent: none is sent."""


def is_coding_agent(model_id: str) -> bool:
    """Whether a model id names a coding agent.

    Args:
        model_id: `provider:model`.
    """
    return model_id.partition(":")[0] in CODING_AGENTS
