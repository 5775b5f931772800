"""Executors that run steps with a model, and the types of a program's own executors and agents."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..agent.task import (
        AgentTask as AgentTask,
        ContextWindowError as ContextWindowError,
        StepExecutionAgent,
    )
    from ..coding_agents.errors import (
        CodingAgentCrashedError as CodingAgentCrashedError,
        CodingAgentError,
        CodingAgentMissingError as CodingAgentMissingError,
        CodingAgentProtocolError as CodingAgentProtocolError,
        CodingAgentRequestError as CodingAgentRequestError,
        CodingAgentVersionError as CodingAgentVersionError,
    )
    from ..coding_agents.settings import ClaudeCodeCliSettings, ClaudeCodeSdkSettings, CodexSettings
    from ..configuration import Compaction, LoopGuard, StepContextLimits, StepPromptTemplates
    from ..kernel.context import (
        AsyncStepExecutor,
        ConfigurableStepExecutor as ConfigurableStepExecutor,
        StepExecutor,
        SyncStepExecutor,
    )
    from ..types.compaction import CompactionPlan as CompactionPlan, ResultDigest as ResultDigest
    from ..types.model import OutcomeTransport as OutcomeTransport
    from ..types.outcomes import (
        BreakStepOutcome,
        ContinueStepOutcome,
        OutcomeKind as OutcomeKind,
        PassStepOutcome,
        RaiseStepOutcome,
        ReturnStepOutcome,
        StepOutcome,
    )
    from .agent import AgentStepExecutor as AgentStepExecutor
    from .choice import ExecutorChoice as ExecutorChoice
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..agent.task": (
                "AgentTask",
                "ContextWindowError",
                "StepExecutionAgent",
            ),
            "..coding_agents.errors": (
                "CodingAgentCrashedError",
                "CodingAgentError",
                "CodingAgentMissingError",
                "CodingAgentProtocolError",
                "CodingAgentRequestError",
                "CodingAgentVersionError",
            ),
            "..configuration": (
                "Compaction",
                "LoopGuard",
                "StepContextLimits",
                "StepPromptTemplates",
            ),
            "..kernel.context": (
                "AsyncStepExecutor",
                "ConfigurableStepExecutor",
                "StepExecutor",
                "SyncStepExecutor",
            ),
            "..types.compaction": (
                "CompactionPlan",
                "ResultDigest",
            ),
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
            "..coding_agents.settings": (
                "ClaudeCodeCliSettings",
                "ClaudeCodeSdkSettings",
                "CodexSettings",
            ),
        },
    )

__all__ = [
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "ClaudeCodeCliSettings",
    "ClaudeCodeSdkSettings",
    "CodexSettings",
    "CodingAgentError",
    "Compaction",
    "ContinueStepOutcome",
    "LoopGuard",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepContextLimits",
    "StepExecutionAgent",
    "StepExecutor",
    "StepOutcome",
    "StepPromptTemplates",
    "SyncStepExecutor",
]
