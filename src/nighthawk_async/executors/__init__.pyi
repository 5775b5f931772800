"""Exports of `nighthawk_async.executors`. Each name is loaded on first use."""

from ..agent.task import AgentTask, ContextWindowError, StepExecutionAgent
from ..coding_agents.errors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
    CodingAgentVersionError,
)
from ..configuration import Compaction, LoopGuard
from ..kernel.context import AsyncStepExecutor, ConfigurableStepExecutor, StepExecutor, SyncStepExecutor
from ..types.compaction import CompactionPlan, ResultDigest
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
from .choice import ExecutorChoice

__all__ = [
    "AgentStepExecutor",
    "AgentTask",
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "CodingAgentCrashedError",
    "CodingAgentError",
    "CodingAgentMissingError",
    "CodingAgentProtocolError",
    "CodingAgentRequestError",
    "CodingAgentVersionError",
    "Compaction",
    "CompactionPlan",
    "ConfigurableStepExecutor",
    "ContextWindowError",
    "ContinueStepOutcome",
    "ExecutorChoice",
    "LoopGuard",
    "OutcomeKind",
    "OutcomeTransport",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ResultDigest",
    "ReturnStepOutcome",
    "StepExecutionAgent",
    "StepExecutor",
    "StepOutcome",
    "SyncStepExecutor",
]
