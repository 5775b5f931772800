"""The citations of a step: the sources that its model's answers name."""

from ..errors import TranscriptError
from ..kernel.usage_meter import find_last_step
from ..types.messages import AssistantMessage, Citation


def citations() -> tuple[Citation, ...]:
    """Return the sources that the model cites in the last step of the current task, in order, each once.

    The last step is that of `nighthawk_async.transcript`: the last one that the code of this task awaited, or
    called in synchronous code, whether it has succeeded or failed.

    Returns:
        The citations of all responses of the step; none if its model cited nothing, or if its executor asks
        no model.

    Raises:
        TranscriptError: No step has ended in the task.
    """
    last = find_last_step()
    if last is None:
        raise TranscriptError(
            "No step has ended in this task. Call nighthawk_async.citations in the task that awaits it."
        )
    return citations_of_last_step()


def citations_of_last_step() -> tuple[Citation, ...]:
    """Return the citations of the last step of the current task; none if there is no step."""
    last = find_last_step()
    kept = None if last is None else last.conversation
    if kept is None:
        return ()
    answers = [each for each in kept.messages[kept.past :] if isinstance(each, AssistantMessage)]
    return tuple(dict.fromkeys(citation for answer in answers for citation in answer.citations))
