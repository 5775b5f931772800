"""Exports of `nighthawk_async.executors`. Each name is loaded on first use."""

from ..configuration import Compaction, LoopGuard
from ..runtime.step_executor import (
    AsyncStepExecutor,
    ConfigurableStepExecutor,
    StepExecutor,
    SyncStepExecutor,
)
from ..types.model import OutcomeTransport
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)
from .agent import AgentStepExecutor
from .agent_protocol import AgentTask, StepExecutionAgent
from .choice import ExecutorChoice

__all__ = [
    "AgentStepExecutor",
    "AgentTask",
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "Compaction",
    "ConfigurableStepExecutor",
    "ContinueStepOutcome",
    "ExecutorChoice",
    "LoopGuard",
    "OutcomeKind",
    "OutcomeTransport",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepExecutionAgent",
    "StepExecutor",
    "StepOutcome",
    "SyncStepExecutor",
]
