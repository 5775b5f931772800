"""Inspecting tool calls and commits before they happen (specification 8.3 and 10).

An oversight object sees each tool call before it is carried out and each commit before it reaches the Python
variables, and answers with `Accept`, `Reject`, `Rewrite` or `Abort`. It is asked in `asking`; what comes of
its answer is in `decisions`.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from ...errors import NighthawkError
from ...runtime.commit import StepCommit
from ...types.outcomes import Abort
from ...types.unset import UNSET

__all__ = [
    "Abort",
    "Accept",
    "Decision",
    "Oversight",
    "Reject",
    "Rewrite",
    "ToolCallInspection",
    "checked_oversight",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInspection:
    """A tool call about to be carried out.

    Args:
        step_id: The step that calls.
        tool_name: The tool.
        arguments: The arguments as the model gave them, parsed; read-only throughout.
    """

    step_id: str
    tool_name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Let it happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Do not let it happen.

    Args:
        reason: Why; reaches the model, and the caller when the model cannot answer again.
        guidance: What to do instead.
    """

    reason: str
    guidance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Let something else happen.

    Args:
        values: The arguments to use instead, or the bindings to commit instead; validated anew. None, for a
            commit, leaves the bindings. The return expression sees them, unless it was evaluated already.
        return_value: The value to return instead, for the commit of a `return` outcome; validated. The return
            expression is then not evaluated, unless it was already.
    """

    values: Mapping[str, Any] | None = None
    return_value: object = UNSET


Decision: TypeAlias = Accept | Reject | Rewrite | Abort
"""What oversight answers."""


@runtime_checkable
class Oversight(Protocol):
    """Inspects what steps do. Both methods may be `async def`."""

    def inspect_tool_call(self, inspection: ToolCallInspection) -> Decision | Awaitable[Decision]:
        """Decide about a tool call."""
        ...

    def inspect_step_commit(self, commit: StepCommit) -> Decision | Awaitable[Decision]:
        """Decide about a commit."""
        ...


def checked_oversight(oversight: Oversight | None) -> Oversight | None:
    """An oversight object, or None for none.

    Raises:
        NighthawkError: It is something else.
    """
    if not isinstance(cast("object", oversight), Oversight | None):
        raise NighthawkError(
            f"{oversight!r} is no oversight: it needs the methods inspect_tool_call and inspect_step_commit."
        )
    return oversight
