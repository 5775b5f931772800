"""Executors that run steps with a model, and the types of a program's own executors and agents. Floor 5."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
