"""Drives the model loop over a `Model`. Floor 4."""

from collections.abc import Awaitable, Callable

from anyio.lowlevel import checkpoint_if_cancelled

from ..actors import BareTaskGroup
from ..errors import ExecutionError, ModelError
from ..ports import Model
from ..runtime.model_access import find_interception_error, open_stream
from ..types.messages import ToolResult
from ..types.model import ModelRequest
from ..types.outcomes import StepOutcome
from .agent_loop import AgentLoop, ProposedOutcome, RunToolCall
from .agent_protocol import AgentTask
from .request_usage import usage_of_request

__all__ = ["ModelAgent"]


class ModelAgent:
    """The agent that asks a model and dispatches each tool call as soon as it is complete.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    async def run(self, task: AgentTask) -> StepOutcome:
        """Carry out a step; see `StepExecutionAgent.run`."""
        loop = AgentLoop(task)
        while True:
            await checkpoint_if_cancelled()  # a call in a worker thread may have outlasted a cancellation
            stop_reason = task.stop_reason()
            if stop_reason is not None:
                raise ExecutionError(f"step {task.step_id} was stopped: {stop_reason}")
            await self._run_turn(task, loop, loop.next_request(task.take_steered()))
            end = loop.end_turn()
            if isinstance(end, ProposedOutcome):
                try:
                    await task.conclude(end.outcome)
                except ExecutionError as error:
                    if (interception := find_interception_error(error)) is not None:
                        raise interception from None
                    loop.refuse(str(error))
                else:
                    return end.outcome

    async def _run_turn(self, task: AgentTask, loop: AgentLoop, request: ModelRequest) -> None:
        """Stream one response and carry out its tool calls; the first error ends the turn and leaves bare."""
        failures: list[Exception] = []
        in_progress: dict[int, Callable[[], Awaitable[ToolResult]]] = {}
        request_error: ModelError | None = None
        stream: object = None

        async def finish(effect: RunToolCall) -> None:
            try:
                loop.tool_finished(effect.position, await in_progress[effect.position]())
            except Exception as error:
                failures.append(error)
                task_group.cancel_scope.cancel()

        async with BareTaskGroup() as task_group:
            try:
                stream = response = open_stream(self.model, request)
                async with response as events:
                    async for event in events:
                        effect = loop.feed(event)
                        if effect is not None:
                            in_progress[effect.position] = task.begin_tool_call(effect.call)
                            task_group.start_soon(finish, effect)
            except Exception as error:
                request_error = error if isinstance(error, ModelError) else None
                failures.append(error)
                task_group.cancel_scope.cancel()
            finally:
                usage = usage_of_request(stream, loop.turn_usage(request_error))
                task.report_usage(self.model.name, usage)
        if failures:
            raise failures[0]
