"""Exports of `nighthawk_async.executors`. Each name is loaded on first use."""

from ..configuration import Compaction, LoopGuard
from ..runtime.step_executor import (
    AsyncStepExecutor,
    ConfigurableStepExecutor,
    StepExecutor,
    SyncStepExecutor,
)
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
from .agent_protocol import AgentTask, StepExecutionAgent
from .choice import ExecutorChoice
from .coding_agent_errors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentMissingError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
    CodingAgentVersionError,
)
from .errors import ContextWindowError

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
