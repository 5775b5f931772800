"""Media that the model made, as values of a block: bytes are not written as data.

A write binding, or the return value, of the type `BinaryContent` takes an image or a sound that the model
made in the step; `ImageUrl` and the like take one that the provider keeps. With a list, it takes all of them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, get_origin

from msgspec.structs import replace

from ..errors import ExecutionError
from ..kernel.environment import find_environment
from ..types.messages import BinaryContent, FileUrl
from ..types.outcomes import PassStepOutcome, ReturnStepOutcome
from ..types.unset import UNSET
from ..values.media_types import is_list_type, is_optional_type, media_classes
from .answer_form import RETURN_VALUE, AnswerForm
from .outcome_codec import Answer, MadeValue

Medium: TypeAlias = BinaryContent | FileUrl


def answer_of_media(form: AnswerForm, media: Sequence[Medium]) -> Answer | None:
    """The answer of a response that holds media and ends the block with no words; None if it is none.

    Args:
        form: The ways to answer the block.
        media: The media that the model made in the step, oldest first.
    """
    names = [name for name in form.media if name != RETURN_VALUE]
    others = [*form.bindings, *(name for name in form.expressions if name not in form.media)]
    if others or not media:
        return None
    if names and "pass" in form.allowed_kinds:
        answer = Answer(outcome=PassStepOutcome(), bindings={})
    elif not names and RETURN_VALUE in form.media:
        answer = Answer(outcome=ReturnStepOutcome(), bindings={})
    else:
        return None
    try:
        return with_made_media(answer, form, media)
    except ExecutionError:
        return None


def with_made_media(answer: Answer, form: AnswerForm, media: Sequence[Medium]) -> Answer:
    """The answer with the media that the model made, for values that it does not give.

    Args:
        answer: The answer.
        form: The ways to answer the block.
        media: The media that the model made in the step, oldest first.

    Raises:
        ExecutionError: It has to return a medium, and the model has made none.
    """
    names = [name for name in form.media if name != RETURN_VALUE and name not in answer.bindings]
    if names and isinstance(answer.outcome, PassStepOutcome | ReturnStepOutcome):
        values = _values({name: form.media[name] for name in names}, media)
        for name in names:
            if name not in values and form.takes_data_alone and not is_optional_type(form.media[name]):
                raise _lacks(name)
        answer = replace(answer, bindings={**answer.bindings, **values})
    outcome = answer.outcome
    if (
        isinstance(outcome, ReturnStepOutcome)
        and not outcome.return_expression
        and outcome.return_value is UNSET
    ):
        found = _values({RETURN_VALUE: form.media[RETURN_VALUE]}, media)
        if not found:
            raise _lacks("the return value")
        value = found[RETURN_VALUE].value
        environment = find_environment()
        if environment is not None and environment.step is not None:
            environment.step.context.converted["return"] = value
        answer = replace(answer, outcome=ReturnStepOutcome(return_value=value))
    return answer


def _lacks(name: str) -> ExecutionError:
    return ExecutionError(
        f"{name} takes an image or a sound that you make, and you have made none of its kind: make it, and "
        "end the block in the same answer or in the next one"
    ).caused_by("binding_value")


def _values(types: Mapping[str, object], media: Sequence[Medium]) -> dict[str, MadeValue]:
    """The last media for each name; those of one kind are given out in their order."""
    values: dict[str, MadeValue] = {}
    singles = [name for name, annotation in types.items() if not is_list_type(annotation)]
    wanted = len(singles)
    for name, annotation in types.items():
        fit = [each for each in media if isinstance(each, media_classes(annotation))]
        if not fit:
            continue
        if is_list_type(annotation):
            values[name] = MadeValue(tuple(fit) if get_origin(annotation) is tuple else list(fit))
            continue
        latest = fit[-wanted:]
        place = singles.index(name)
        if place < len(latest):
            values[name] = MadeValue(latest[place])
    return values
