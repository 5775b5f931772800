"""Inspection of steps before they take effect (specification 8.3 and 10).

An object with the methods of `Oversight` sees tool calls and commits, and answers each with `Accept`,
`Reject`, `Rewrite` or `Abort`; `nighthawk_async.scope(oversight=…)` activates it.

A check examines a `Proposal` and decides whether the step is done; `nighthawk_async.scope(verify=…)`
activates it.
"""

from .kernel.commit import StepCommit
from .policies.oversight.inspection import (
    Accept,
    Check as Check,
    CheckAnswer as CheckAnswer,
    Continue,
    Decision as Decision,
    Oversight,
    Proposal,
    Reject,
    Rewrite,
    ToolCallInspection,
    Verification as Verification,
    Verify as Verify,
    verification,
)
from .policies.oversight.policy import get_oversight
from .types.outcomes import Abort

__all__ = [
    "Abort",
    "Accept",
    "Continue",
    "Oversight",
    "Proposal",
    "Reject",
    "Rewrite",
    "StepCommit",
    "ToolCallInspection",
    "get_oversight",
    "verification",
]
