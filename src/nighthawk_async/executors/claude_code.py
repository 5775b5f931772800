"""Drives Claude Code: one process per step, over its standard input and output."""

import logging
from collections.abc import Mapping
from typing import Any

from ..actors import BareTaskGroup
from ..catalog.coding_agents import CODING_AGENTS
from ..configuration import ModelId
from ..line_process import LineProcess
from ..runtime.shared_resources import shared_in_run
from ..types.outcomes import StepOutcome
from .agent_protocol import AgentTask
from .claude_code_command import claude_code_command
from .claude_code_session import ClaudeCodeSession
from .coding_agent_media import StagedMedia
from .coding_agent_process import ProcessPool, end_process, locate_executable
from .coding_agent_settings import ClaudeCodeCliSettings, parse_settings
from .coding_agent_turns import CodingAgentTurns

_LOGGER = logging.getLogger("nighthawk.coding_agents")
_CLOSE_SECONDS = 0.3


class ClaudeCodeAgent:
    """The agent that runs steps with Claude Code.

    Args:
        model_id: The model id.
        settings: The settings.
    """

    def __init__(self, model_id: ModelId, settings: ClaudeCodeCliSettings) -> None:
        self.model_id = model_id
        self.settings = settings

    @classmethod
    def from_settings(cls, model_id: ModelId, settings: Mapping[str, Any]) -> "ClaudeCodeAgent":
        """Make one from the settings of a configuration.

        Args:
            model_id: The model id.
            settings: The settings.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        return cls(model_id, parse_settings(ClaudeCodeCliSettings, str(model_id), settings))

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step; see `StepExecutionAgent.run`.

        Raises:
            CodingAgentError: Claude Code is not installed, or failed.
        """
        facts = CODING_AGENTS[self.model_id.provider]
        executable = locate_executable(facts, self.settings)
        command = claude_code_command(executable, self.model_id.name, self.settings)
        async with shared_in_run(command.key, lambda: ProcessPool(facts, command, _LOGGER)) as pool:
            process = await pool.take()
            has_ended = False
            try:
                with StagedMedia() as media:
                    outcome = await self._converse(task, process, pool, media)
                has_ended = True
            finally:
                await end_process(process, close_seconds=_CLOSE_SECONDS if has_ended else 0)
        return outcome

    async def _converse(
        self, task: AgentTask, process: LineProcess, pool: ProcessPool, media: StagedMedia
    ) -> StepOutcome:
        outcome: StepOutcome | None = None
        async with BareTaskGroup() as group:
            turns = CodingAgentTurns(task, str(self.model_id), group)
            session = ClaudeCodeSession(
                turns,
                process,
                group,
                media=media,
                provider=self.model_id.provider,
                replaces_prompt=not self.settings.native_tools,
            )
            error: BaseException | None = None
            try:
                outcome = await session.converse(pool.refill)
            except BaseException as raised:
                error = raised
                raise
            finally:
                turns.close(turns.failure or error)
                del error
            group.cancel_scope.cancel()
        if turns.failure is not None:
            raise turns.failure
        assert outcome is not None
        return outcome
