"""The executor of a function that is called from the command line, made when a step needs it.

The function may enter a run of its own; then no model is made, and no weights are pulled for nothing.
"""

import sys
import threading

import anyio.to_thread
from rich.console import Console

import nighthawk_async as nh

from ..configuration import StepExecutorConfiguration
from .demo_command import prepare_local_model
from .run_arguments import ArgumentError

__all__ = ["ExecutorOnDemand"]


class ExecutorOnDemand:
    """Carries steps out with a model that is made for the first of them.

    Args:
        configuration: Names the model.
    """

    def __init__(self, configuration: StepExecutorConfiguration) -> None:
        self.configuration = configuration
        self._lock = threading.Lock()
        self._executor: nh.AgentStepExecutor | None = None

    def with_configuration(self, configuration: StepExecutorConfiguration) -> "ExecutorOnDemand":
        """The same with another configuration."""
        return ExecutorOnDemand(configuration)

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: nh.StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[nh.StepOutcome, dict[str, object]]:
        """Carry a step out."""
        executor = self._executor or await anyio.to_thread.run_sync(self._make)
        return await executor.run_step_async(
            processed_natural_program=processed_natural_program,
            step_context=step_context,
            binding_names=binding_names,
            allowed_step_kinds=allowed_step_kinds,
        )

    def _make(self) -> nh.AgentStepExecutor:
        with self._lock:
            if self._executor is None:
                # Lines and no bar: a tree may be drawn meanwhile.
                lines = Console(file=sys.stderr, force_terminal=False)
                try:
                    prepare_local_model(self.configuration.model, lines)
                    self._executor = nh.AgentStepExecutor.from_configuration(configuration=self.configuration)
                except nh.ConfigurationError as error:  # of the command line, not of the script
                    raise ArgumentError(str(error)) from error
            return self._executor
