"""Drives Codex: one process for all steps of a run, a thread for each step."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ..agent.task import AgentTask
from ..configuration import ModelId
from ..kernel.environment import find_environment
from ..parallel.resources import use_resource
from ..types.outcomes import StepOutcome
from .codex_host import CodexHost, Launch, launch_of, open_host
from .codex_step import CodexStep
from .settings import CodexSettings, parse_settings


class CodexAgent:
    """The agent that runs steps with Codex.

    Args:
        model: The model id.
        settings: The settings.
    """

    def __init__(self, model: ModelId, settings: CodexSettings) -> None:
        self.model_id = model
        self.settings = settings

    @classmethod
    def from_settings(cls, model: ModelId, settings: Mapping[str, Any]) -> "CodexAgent":
        """Make one from the settings of a configuration.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        return cls(model, parse_settings(CodexSettings, str(model), settings))

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step; see `StepExecutionAgent.run`."""
        async with _host_in_run(launch_of(self.settings)) as host:
            step = CodexStep(
                task, self.model_id, self.settings, self.settings.working_directory or os.getcwd()
            )
            return await step.run(host)


@asynccontextmanager
async def _host_in_run(launch: Launch) -> AsyncGenerator[CodexHost, None]:
    """The process of the run; one for the step alone where the run keeps nothing on this event loop."""
    environment = find_environment()
    keeper = None if environment is None else environment.run_state.find_keeper()
    if keeper is None or not keeper.is_here or keeper.is_ending:
        async with open_host(launch) as host:
            yield host
        return
    opener = _Opener(launch)
    yield await use_resource(keeper, ("codex", launch), "codex", opener, ends_last=True)


class _Opener:
    """Opens the process of a run."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def __call__(self) -> Any:
        return open_host(self._launch)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opener) and other._launch == self._launch

    def __hash__(self) -> int:
        return hash(self._launch)
