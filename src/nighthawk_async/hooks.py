"""Hooks: functions that are called for events, and may veto or modify what is about to happen. Floor 5.

`Hooks` holds them, `nighthawk_async.run(hooks=…)` and `scope(hooks=…)` put them in force. The docstring of an
event says when it happens, and what a hook may answer.
"""

from .runtime.abort import Abort
from .runtime.hook_answers import HookAnswer, HookFunction, Modify, Veto
from .runtime.hook_events import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeModelRequest,
    BeforeToolCall,
    BudgetThreshold,
    OversightDecided,
    PermissionDecided,
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
from .runtime.hooks import Hooks
from .runtime.human_events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
)

__all__ = [
    "Abort",
    "AfterModelRequest",
    "AfterToolCall",
    "ApprovalAnswered",
    "ApprovalClosed",
    "ApprovalRequested",
    "BeforeCommit",
    "BeforeModelRequest",
    "BeforeToolCall",
    "BudgetThreshold",
    "HookAnswer",
    "HookFunction",
    "Hooks",
    "Modify",
    "OversightDecided",
    "PermissionDecided",
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
