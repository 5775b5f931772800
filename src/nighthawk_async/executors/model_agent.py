"""Drives the model loop over a `Model`."""

from collections.abc import Awaitable, Callable
from functools import partial

from anyio import CancelScope

from ..actors import BareTaskGroup
from ..errors import AnnotationError, ExecutionError, ModelError, StepRejectedError, VerificationError
from ..ports import Model
from ..runtime.conclude import OutcomeRefusedError, done_note
from ..runtime.step_node import write_note
from ..types.messages import ToolResult
from ..types.model import ModelRequest
from ..types.outcomes import StepOutcome
from .agent_loop import AgentLoop, ProposedOutcome
from .agent_protocol import AgentTask, plain_task
from .model_stream import find_partial_answer, load_price, open_stream, usage_of_request
from .outcome_codec import Answer
from .refusals import count_correction, find_host_error


class ModelAgent:
    """The agent that asks a model and dispatches each tool call as soon as it is complete.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step; see `StepExecutionAgent.run`."""
        task = plain_task(task)
        loop = AgentLoop(task)
        try:
            while True:
                request = loop.next_request(await task.turn_boundary())
                if task.conversation.may_be_due(request):
                    request = await self._fitting(task, request)
                await self._run_turn(task, loop, request)
                end = loop.end_turn()
                if isinstance(end, ProposedOutcome) and await self._is_final(task, loop, end.answer):
                    return end.answer.outcome
                for note in loop.take_notes():
                    write_note(note)
                for cause in loop.take_causes():
                    count_correction(cause)
        finally:
            task.keep_messages(loop.conversation)

    async def _fitting(self, task: AgentTask, request: ModelRequest) -> ModelRequest:
        """Return a request that fits the model's context."""
        tokens = await task.conversation.find_excess(request)
        if tokens is None:
            return request
        from .compaction import fitting_request  # here, because most conversations are short

        return await fitting_request(self.model, task, request, tokens)

    async def _is_final(self, task: AgentTask, loop: AgentLoop, answer: Answer) -> bool:
        """Whether the step ends with an answer; if not, the model gets the reason."""
        outcome = answer.outcome
        if await self._is_held_back(task, loop):
            return False
        try:
            if answer.bindings:
                await task.set_bindings(answer.bindings)
            await task.conclude(outcome)
        except OutcomeRefusedError as error:
            if not loop.has_turn_left:
                raise _without_a_turn(error) from error.__cause__
            loop.send_back(error.feedback)
            return False
        except (AnnotationError, VerificationError, StepRejectedError):
            raise
        except ExecutionError as error:
            if (host_error := find_host_error(error)) is not None:
                raise host_error from host_error.__cause__
            loop.refuse(error)
            return False
        return not await self._is_held_back(task, loop, done_note(outcome))  # validation may take long

    async def _is_held_back(self, task: AgentTask, loop: AgentLoop, note: str = "") -> bool:
        if await task.may_end() or not loop.has_turn_left:
            return False
        loop.hold_back(note)
        return True

    async def _run_turn(self, task: AgentTask, loop: AgentLoop, request: ModelRequest) -> None:
        """Stream one response and run its tool calls; the first error ends the turn and is raised bare."""
        failures: list[Exception] = []
        request_error: ModelError | None = None
        stream: object = None
        partial_answer = find_partial_answer()
        await load_price(self.model)

        async with BareTaskGroup() as task_group:
            try:
                stream = response = open_stream(self.model, request)
                async with response as events:
                    async for event in events:
                        effect = loop.feed(event)
                        if partial_answer is not None:
                            partial_answer.feed(event)
                        if effect is not None:
                            result = task.begin_tool_call(effect.call)
                            carry_on = partial(_finish_call, loop, effect.position, result)
                            task_group.start_soon(carry_on, failures, task_group.cancel_scope)
            except Exception as error:
                request_error = error if isinstance(error, ModelError) else None
                failures.append(error)
                task_group.cancel_scope.cancel()
            finally:
                usage = usage_of_request(self.model, stream, loop.turn_usage(request_error))
                task.report_usage(self.model.name, usage)
        if failures:
            raise failures[0]


async def _finish_call(
    loop: AgentLoop,
    position: int,
    result: Callable[[], Awaitable[ToolResult]],
    failures: list[Exception],
    cancel_scope: CancelScope,
) -> None:
    """Wait for the result of a tool call; a failure ends the turn."""
    try:
        loop.tool_finished(position, await result())
    except Exception as error:
        failures.append(error)
        cancel_scope.cancel()


def _without_a_turn(error: OutcomeRefusedError) -> ExecutionError:
    no_turn = "no turn is left for another one (max_turns)"
    message, without_content = f"{error}; {no_turn}", f"{error.message_without_content}; {no_turn}"
    if isinstance(error, StepRejectedError):
        return StepRejectedError(message).without_content(without_content)
    return VerificationError(message, feedback=error.feedback).without_content(without_content)
