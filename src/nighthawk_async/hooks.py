"""Hooks: functions that are called for events, and may veto or modify what is about to happen. Floor 5.

`Hooks` holds them, `nighthawk_async.run(hooks=…)` and `scope(hooks=…)` put them in force. The docstring of an
event says when it happens, and what a hook may answer.
"""

from .runtime.hooks.answers import HookAnswer, HookFunction, Modify, Veto
from .runtime.hooks.events import (
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
from .runtime.hooks.registry import Hooks
from .runtime.human.events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
)
from .runtime.oversight.abort import Abort
from .types.partial_values import PartialValues

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
    "PartialValues",
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
