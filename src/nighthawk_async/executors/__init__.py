"""Executors that run steps with a model, and the types of a program's own executors and agents."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..agent.task": ("AgentTask", "ContextWindowError", "StepExecutionAgent"),
            "..coding_agents.errors": (
                "CodingAgentCrashedError",
                "CodingAgentError",
                "CodingAgentMissingError",
                "CodingAgentProtocolError",
                "CodingAgentRequestError",
                "CodingAgentVersionError",
            ),
            "..configuration": ("Compaction", "LoopGuard"),
            "..kernel.context": (
                "AsyncStepExecutor",
                "ConfigurableStepExecutor",
                "StepExecutor",
                "SyncStepExecutor",
            ),
            "..types.compaction": ("CompactionPlan", "ResultDigest"),
            "..types.model": ("OutcomeTransport",),
            "..types.outcomes": (
                "BreakStepOutcome",
                "ContinueStepOutcome",
                "OutcomeKind",
                "PassStepOutcome",
                "RaiseStepOutcome",
                "ReturnStepOutcome",
                "StepOutcome",
            ),
            "agent": ("AgentStepExecutor",),
            "choice": ("ExecutorChoice",),
        },
    )

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
