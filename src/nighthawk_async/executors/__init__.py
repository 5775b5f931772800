"""Executors that run steps with a model, and the types of a program's own executors and agents. Floor 5."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "..configuration": ("Compaction", "LoopGuard"),
        "..runtime.step_executor": (
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
        "agent_protocol": ("AgentTask", "StepExecutionAgent"),
        "choice": ("ExecutorChoice",),
        "coding_agent_errors": (
            "CodingAgentCrashedError",
            "CodingAgentError",
            "CodingAgentMissingError",
            "CodingAgentProtocolError",
            "CodingAgentRequestError",
            "CodingAgentVersionError",
        ),
        "errors": ("ContextWindowError",),
    },
)
