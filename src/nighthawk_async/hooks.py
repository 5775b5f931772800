"""Hooks: functions that are called for events, and may veto or modify operations.

`Hooks` holds them, `nighthawk_async.run(hooks=…)` and `scope(hooks=…)` activate them. The docstring of an
event says when it happens and which answers a hook may give.
"""

from .kernel.events import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeCompaction,
    BeforeModelRequest,
    BeforeToolCall,
    BudgetThreshold,
    OversightDecided,
    PermissionDecided,
    ProgressReported,
    Retry,
    RunFinished,
    RunStarted,
    ScopeFinished,
    ScopeStarted,
    StepFinished,
    StepResumed,
    StepStarted,
    StepSuspended,
    ToolLoopSuspected,
    VerificationRefused,
)
from .policies.hooks.registry import Hooks
from .policies.hooks.rules import HookAnswer as HookAnswer, HookFunction as HookFunction, Modify, Veto
from .policies.people.events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
)
from .types.execution import PartialValues
from .types.outcomes import Abort

__all__ = [
    "Abort",
    "AfterModelRequest",
    "AfterToolCall",
    "ApprovalAnswered",
    "ApprovalClosed",
    "ApprovalRequested",
    "BeforeCommit",
    "BeforeCompaction",
    "BeforeModelRequest",
    "BeforeToolCall",
    "BudgetThreshold",
    "Hooks",
    "Modify",
    "OversightDecided",
    "PartialValues",
    "PermissionDecided",
    "ProgressReported",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionClosed",
    "Retry",
    "RunFinished",
    "RunStarted",
    "ScopeFinished",
    "ScopeStarted",
    "StepFinished",
    "StepResumed",
    "StepStarted",
    "StepSuspended",
    "ToolLoopSuspected",
    "VerificationRefused",
    "Veto",
]
