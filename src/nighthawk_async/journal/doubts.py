"""Calls in doubt about which nothing but a person can decide."""

from collections.abc import Mapping
from typing import Any

from ..kernel.calls import below_place, current_place
from ..observe.previews import preview_values
from ..policies.people.policy import find_human_handler
from ..policies.people.questions import ask_user
from ..recording.redaction import Redactor
from .recorder import RunRecorder
from .values import decode_value

_MOST_CHARACTERS = 200  # of an argument in the text of an error


def shown_arguments(arguments: Mapping[str, object]) -> dict[str, str]:
    """The arguments of a call as short texts without secrets, for people who find out whether it was made."""
    shown = preview_values(arguments, _MOST_CHARACTERS)
    redactor = Redactor()
    return {name: str(redactor.redact(text)) for name, text in shown.items()}


def has_person() -> bool:
    """Whether there is somebody to ask: the run has a handler for questions."""
    return find_human_handler() is not None


async def ask_whether_it_happened(
    recorder: RunRecorder, place: str, name: str, key: str, result_type: object
) -> tuple[Any] | None:
    """Ask a person whether a call took effect, and what it returned.

    Each answer counts once: if the process ends again after a call that was begun anew, people are asked
    again.

    Args:
        recorder: The journal of the run.
        place: The place of the call.
        name: The name of the function.
        key: The key of the call.
        result_type: The declared type of the result; None for none.

    Returns:
        The result of the call, alone in a tuple; None if it took no effect.

    Raises:
        HumanError: Nobody answered.
    """
    number = 0
    while _was_denied(recorder, f"{place}/doubt[{number}]"):
        number += 1
    with below_place(f"{current_place()}/doubt[{number}]"):
        question = f"{place}: {name} had begun when its process ended. Its key is {key}."
        if not await ask_user(f"{question} Did it take effect?", schema=bool):
            return None
        if result_type in (None, type(None)):
            return (None,)
        return (await ask_user(f"{place}: what did {name} return?", schema=result_type),)


def _was_denied(recorder: RunRecorder, place: str) -> bool:
    record = recorder.find_record(f"{place}/question()[0]/answer[0]", "value")
    return record is not None and decode_value(record.body, place=place, declared=bool) is False
