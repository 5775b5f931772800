"""Step executors and outcomes, importable here by specification 14.3; see `kernel.context`."""

from ..kernel.context import (
    AsyncStepExecutor,
    BreakStepOutcome,
    ConfigurableStepExecutor,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepExecutor,
    StepOutcome,
    SyncStepExecutor,
)

__all__ = [
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "ConfigurableStepExecutor",
    "ContinueStepOutcome",
    "OutcomeKind",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepExecutor",
    "StepOutcome",
    "SyncStepExecutor",
]
