"""Whether a step ends with the answer that its model proposes; otherwise the model gets the reason."""

from ..errors import AnnotationError, ExecutionError, StepRejectedError, VerificationError
from ..runtime.conclude import OutcomeRefusedError, done_note
from ..runtime.step_node import write_note
from .agent_loop import AgentLoop
from .agent_protocol import AgentTask
from .outcome_codec import Answer
from .refusals import count_correction, find_host_error


async def is_final(task: AgentTask, loop: AgentLoop, answer: Answer) -> bool:
    """Whether the step ends with an answer; if not, the loop has the reason for the model.

    Args:
        task: The step.
        loop: Its loop, which has proposed the answer.
        answer: The answer.

    Raises:
        ExecutionError: The answer is refused for good.
    """
    outcome = answer.outcome
    if await _is_held_back(task, loop):
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
    return not await _is_held_back(task, loop, done_note(outcome))  # validation may take long


def report_refusals(loop: AgentLoop) -> None:
    """Show the refused outcomes of a turn to observers, and count them.

    Args:
        loop: The loop of the step in progress.
    """
    for note in loop.take_notes():
        write_note(note)
    for cause in loop.take_causes():
        count_correction(cause)


async def _is_held_back(task: AgentTask, loop: AgentLoop, note: str = "") -> bool:
    if await task.may_end() or not loop.has_turn_left:
        return False
    loop.hold_back(note)
    return True


def _without_a_turn(error: OutcomeRefusedError) -> ExecutionError:
    no_turn = "no turn is left for another one (max_turns)"
    message, without_content = f"{error}; {no_turn}", f"{error.message_without_content}; {no_turn}"
    if isinstance(error, StepRejectedError):
        return StepRejectedError(message).without_content(without_content)
    return VerificationError(message, feedback=error.feedback).without_content(without_content)
