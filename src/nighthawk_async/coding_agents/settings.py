"""The settings of coding agents: `model_settings` of a configuration whose model is one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from ..errors import ConfigurationError
from ..suggestions import did_you_mean

SettingSource: TypeAlias = Literal["user", "project", "local"]
"""Files of settings of Claude Code: of the user, of the project, and the uncommitted ones of the project."""

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
"""Permission modes of Claude Code. The permissions of the run are checked first, whatever the mode."""

CodexSandbox: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
"""Sandboxes of Codex."""

CodexSettingSource: TypeAlias = Literal["user", "project"]
"""Configuration of Codex: its home directory, and the files `AGENTS.md` of the working directory."""

_CODEX_TOOLS = ("shell", "apply_patch", "view_image")
_NAME = r"^[A-Za-z][A-Za-z0-9_]*$"


class CodingAgentSettings(BaseModel):
    """Settings that all coding agents have.

    Args:
        working_directory: The directory in which the agent works, an absolute path; symbolic links are
            resolved. Empty for that of the program.
        native_tools: The tools of its own that the agent may use, by its own names; all others are off.
        skills: Whether the agent may use the skills that it finds by itself. Those of the scope work always.
        executable: The path or name of its command line; empty for the usual name on `PATH`.
        extra_arguments: Further arguments of its command line.
        environment: Further environment variables of its process.
        base_url: The URL of the endpoint of its model; None for its own choice.
        api_key: The key of that endpoint; None for its own login or the environment's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    working_directory: str = ""
    native_tools: tuple[Annotated[str, Field(pattern=_NAME)], ...] = ()
    skills: bool = False
    executable: str = ""
    extra_arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    base_url: Annotated[str, Field(min_length=1)] | None = None
    api_key: SecretStr | None = None

    @field_validator("working_directory", mode="before")
    @classmethod
    def _resolve(cls, value: object) -> object:
        if isinstance(value, Path):
            value = str(value)
        if not isinstance(value, str) or not value:
            return value
        path = Path(value)
        if not path.is_absolute():
            raise ValueError("must be an absolute path, or empty for the directory of the program")
        return str(path.resolve())

    @field_validator("native_tools", "extra_arguments", mode="before")
    @classmethod
    def _refuse_one_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("must be a sequence of strings, not one string")
        return value


class ClaudeCodeCliSettings(CodingAgentSettings):
    """Settings of Claude Code, for models `claude-code-cli:NAME`.

    Args:
        working_directory: See `CodingAgentSettings`.
        native_tools: Its own tools, such as `Read`, `Edit`, `Bash`. In permissions and hooks their names
            begin with `ClaudeCode.`: `ClaudeCode.Bash`.
        skills: See `CodingAgentSettings`.
        executable: See `CodingAgentSettings`; the usual name is `claude`.
        extra_arguments: See `CodingAgentSettings`.
        environment: See `CodingAgentSettings`.
        base_url: See `CodingAgentSettings`; it becomes `ANTHROPIC_BASE_URL`.
        api_key: See `CodingAgentSettings`; it becomes `ANTHROPIC_API_KEY`.
        setting_sources: The files of settings, with their hooks and memory (`CLAUDE.md`), that Claude Code
            reads; empty for none.
        permission_mode: The permission mode. The permissions of the run are checked first; what they permit,
            Claude Code may still refuse in the modes `plan` and `dontAsk`.
        max_budget_usd: The amount in US dollars at which Claude Code ends a step by itself; None for no such
            limit. Budgets of the library hold in any case.
    """

    setting_sources: tuple[SettingSource, ...] = ()
    permission_mode: PermissionMode = "default"
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @field_validator("setting_sources", mode="before")
    @classmethod
    def _refuse_one_source(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("must be a sequence of 'user', 'project' and 'local', not one string")
        return value


class ClaudeCodeSdkSettings(ClaudeCodeCliSettings):
    """Settings of Claude Code, for models `claude-code-sdk:NAME`, the same as `claude-code-cli:NAME`.

    Args:
        working_directory: See `ClaudeCodeCliSettings`.
        native_tools: See `ClaudeCodeCliSettings`.
        skills: See `ClaudeCodeCliSettings`.
        executable: See `ClaudeCodeCliSettings`.
        extra_arguments: See `ClaudeCodeCliSettings`.
        environment: See `ClaudeCodeCliSettings`.
        base_url: See `ClaudeCodeCliSettings`.
        api_key: See `ClaudeCodeCliSettings`.
        setting_sources: See `ClaudeCodeCliSettings`.
        permission_mode: See `ClaudeCodeCliSettings`.
        max_budget_usd: See `ClaudeCodeCliSettings`.
    """


class CodexSettings(CodingAgentSettings):
    """Settings of Codex, for models `codex:NAME`.

    Args:
        working_directory: See `CodingAgentSettings`.
        native_tools: Its own tools: `shell`, `apply_patch`, `view_image`, and, with the setting source
            `user`, those of the user's servers, such as `mcp__server__tool`. In permissions and hooks their
            names begin with `Codex.`: `Codex.shell`.
        skills: See `CodingAgentSettings`.
        executable: See `CodingAgentSettings`; the usual name is `codex`.
        extra_arguments: See `CodingAgentSettings`; those of `codex app-server`.
        environment: See `CodingAgentSettings`.
        base_url: See `CodingAgentSettings`; the endpoint serves OpenAI Responses below it.
        api_key: See `CodingAgentSettings`.
        setting_sources: The configuration that Codex reads: `user` for its home directory, with servers and
            hooks, `project` for the files `AGENTS.md` of the working directory; empty for none.
        sandbox: The sandbox in which its commands run and its patches are applied. Nothing leaves it,
            whatever is permitted.
        reasoning_effort: The effort of the model's reasoning; None for the usual one of the model.
        max_budget_usd: The amount in US dollars, by the price list, from which on a step is refused a further
            turn; None for no such limit. Budgets of the library hold in any case.
    """

    setting_sources: tuple[CodexSettingSource, ...] = ()
    sandbox: CodexSandbox = "read-only"
    reasoning_effort: Annotated[str, Field(pattern=r"^[a-z]+$")] | None = None
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @field_validator("setting_sources", mode="before")
    @classmethod
    def _refuse_one_source(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("must be a sequence of 'user' and 'project', not one string")
        return value

    @model_validator(mode="after")
    def _check_tools(self) -> "CodexSettings":
        for name in self.native_tools:
            if name in _CODEX_TOOLS:
                continue
            if not name.startswith("mcp__"):
                raise ValueError(f"native_tools: there is no {name!r}; there are {', '.join(_CODEX_TOOLS)}")
            if "user" not in self.setting_sources:
                raise ValueError(
                    f"native_tools: {name!r} is a tool of a server of the user's; it needs the "
                    "setting source 'user'"
                )
        return self


Settings = TypeVar("Settings", bound=CodingAgentSettings)


def parse_settings(kind: type[Settings], model_id: str, given: Mapping[str, Any]) -> Settings:
    """Check the settings of a configuration.

    Args:
        kind: The settings of the agent.
        model_id: The model, for errors.
        given: The settings, as the configuration holds them.

    Raises:
        ConfigurationError: A setting is unknown or bad; the message names all of them, with accepted values.
    """
    try:
        return kind.model_validate({**given})
    except ValidationError as error:
        faults = [_fault(kind, each) for each in error.errors(include_input=False, include_url=False)]
        raise ConfigurationError(f"{model_id}: {'; '.join(faults)}.") from None


def _fault(kind: type[CodingAgentSettings], fault: ErrorDetails) -> str:
    name = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        known = ", ".join(kind.model_fields)
        hint = did_you_mean(name, kind.model_fields)
        return f"there is no setting {name!r} ({kind.__name__} has {known}){hint}"
    reason = fault["msg"].removeprefix("Value error, ")
    return f"the setting {name!r}: {reason[:1].lower()}{reason[1:]}"
