"""Oversight: what inspects tool calls and commits before they happen (specification 8.3 and 10). Floor 5.

An object with the methods of `Oversight` answers each with `Accept`, `Reject`, `Rewrite` or `Abort`;
`nighthawk_async.scope(oversight=…)` puts it in force.
"""

from .runtime.abort import Abort
from .runtime.oversight import Accept, Decision, Oversight, Reject, Rewrite, StepCommit, ToolCallInspection

__all__ = [
    "Abort",
    "Accept",
    "Decision",
    "Oversight",
    "Reject",
    "Rewrite",
    "StepCommit",
    "ToolCallInspection",
]
