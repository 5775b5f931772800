"""`allowed-tools`: the calls that may be made while a skill is active.

The open format leaves the patterns to each host. Understood are the names of tools and functions here, as in
the rules of `nighthawk_async.permissions`; and the tools of other hosts that have a counterpart in the
function library.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ..policies.permissions.permissions import Permissions
    from ..policies.permissions.rules import PermissionRule
else:
    Permissions = PermissionRule = object

_WORKSPACE = "nighthawk_async.library.workspace.Workspace"

COUNTERPARTS: Mapping[str, tuple[str, ...]] = {
    "Read": (f"{_WORKSPACE}.read", f"{_WORKSPACE}.image"),
    "Grep": (f"{_WORKSPACE}.search",),
    "Glob": (f"{_WORKSPACE}.find",),
    "LS": (f"{_WORKSPACE}.list", f"{_WORKSPACE}.find"),
    "Edit": (f"{_WORKSPACE}.edit", f"{_WORKSPACE}.patch"),
    "MultiEdit": (f"{_WORKSPACE}.edit", f"{_WORKSPACE}.patch"),
    "Write": (f"{_WORKSPACE}.create",),
    "Bash": (f"{_WORKSPACE}.shell",),
    "WebFetch": ("nighthawk_async.library.web.fetch", "nighthawk_async.library.web.Web.fetch"),
}
"""The tools of other hosts, and the functions of the function library that do the same."""

WITHOUT_COUNTERPART = frozenset(
    (
        *("Agent", "AskUserQuestion", "BashOutput", "ExitPlanMode", "KillShell", "NotebookEdit"),
        *("NotebookRead", "Skill", "SlashCommand", "Task", "TodoRead", "TodoWrite", "WebSearch"),
    )
)
"""The tools of other hosts that nothing here corresponds to."""

UNDERSTOOD = (
    "understood are names of tools and functions (`look_up`, `Mailer.*`, `shop.orders.*`), "
    f"{', '.join(COUNTERPARTS)}, and Bash(command) and Bash(prefix:*)"
)

_TOKEN = re.compile(r"[^\s()]+(?:\([^()]*\))?(?!\S)|\S+")
_NAME = re.compile(r"[A-Za-z_*?][\w*?]*(?:\.[A-Za-z_*?][\w*?]*)*", re.ASCII)
_COMMAND = re.compile(r"Bash\((?P<command>[^()]*)\)")
_ONE_COMMAND = re.compile(r"[^;&|<>$`\\\n\r(){}]*")
"""A text in which a shell finds one simple command, without substitutions and redirections."""


class AllowedTool(Struct, frozen=True, kw_only=True):
    """One of the allowed tools of a skill.

    Args:
        text: The text in the skill.
        names: The patterns of the names of calls that it stands for.
        command: For a command of a shell, the command or its beginning; None for any arguments.
        is_prefix: Whether the command may go on.
    """

    text: str
    names: tuple[str, ...]
    command: str | None = None
    is_prefix: bool = False

    def rules(self) -> "Iterator[PermissionRule]":
        """Yield the rules of permissions that it stands for."""
        from ..policies.permissions.rules import rule  # here, because few skills have allowed tools

        for name in self.names:
            if self.command is None:
                yield rule(name)
            else:
                yield rule(name, command=partial(fits_command, self.command, self.is_prefix))


def fits_command(allowed: str, is_prefix: bool, command: object) -> bool:
    """Whether a command of a shell is the allowed one, or begins with its words, and is a single command."""
    if not isinstance(command, str) or _ONE_COMMAND.fullmatch(command) is None:
        return False
    words = command.split()
    wanted = allowed.split()
    return words[: len(wanted)] == wanted if is_prefix else words == wanted


def parse_allowed_tools(text: str) -> tuple[list[AllowedTool], list[str]]:
    """Return the allowed tools of a text, and the faults in it."""
    tools: list[AllowedTool] = []
    faults: list[str] = []
    for match in _TOKEN.finditer(text):
        try:
            tools.append(_parse(match[0]))
        except ValueError as error:
            faults.append(str(error))
    if not tools and not faults:
        faults.append("'allowed-tools' is empty; leave it out, or name what is allowed")
    return tools, faults


def _parse(text: str) -> AllowedTool:
    if "," in text and "(" not in text:
        raise ValueError(f"'allowed-tools' are separated by spaces, not by commas: {text!r}")
    if text in COUNTERPARTS:
        return AllowedTool(text=text, names=COUNTERPARTS[text])
    if (bash := _COMMAND.fullmatch(text)) is not None:
        return _parse_command(text, bash["command"].strip())
    if _NAME.fullmatch(text) and text not in WITHOUT_COUNTERPART:
        return AllowedTool(text=text, names=(text,))
    problem = "has no counterpart here" if text in WITHOUT_COUNTERPART else "is not understood"
    raise ValueError(f"the allowed tool {text!r} {problem}; {UNDERSTOOD}")


def _parse_command(text: str, command: str) -> AllowedTool:
    words = command.removesuffix(":*").removesuffix(" *").strip()
    is_prefix = words != command
    if command == "*":
        return AllowedTool(text=text, names=COUNTERPARTS["Bash"])
    if not words or "*" in words or _ONE_COMMAND.fullmatch(words) is None:
        raise ValueError(f"the allowed tool {text!r} is not understood; {UNDERSTOOD}")
    return AllowedTool(text=text, names=COUNTERPARTS["Bash"], command=words, is_prefix=is_prefix)


def permissions_of(tools: tuple[AllowedTool, ...]) -> "Permissions":
    """Return permissions that allow these calls, and deny all others."""
    from ..policies.permissions.permissions import permissions

    return permissions(allow=[each for tool in tools for each in tool.rules()], default="deny")
