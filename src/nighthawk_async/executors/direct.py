"""The direct outcome transport: no tools, the model answers with the values themselves.

The model gets the full prompt and answers once, with the values of all write bindings and the outcome.
`executors.piecemeal` asks small models.
"""

from collections.abc import Mapping
from typing import Any

from ..runtime.step import Step
from ..types.outcomes import StepOutcome
from .answer_bindings import AnswerBindings
from .answer_form import answer_form_of, wrapped_schema
from .outcome_codec import answer_from_mapping
from .question import Asker, Question
from .step_prompt import StepPrompt, answer_instructions


async def answer_at_once(
    asker: Asker, step: Step, prompt: StepPrompt, bindings: AnswerBindings
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for all values and the outcome in one request.

    Args:
        asker: Asks the model.
        step: The step.
        prompt: Its prompt.
        bindings: Sets the write bindings to the values of an answer.

    Returns:
        The outcome and the values of the write bindings.

    Raises:
        AnnotationError: A type has no JSON Schema. Nothing was sent.
        ExecutionError: The model's answers stayed unacceptable.
        ModelError: A model request failed.
    """
    context = step.context
    form = answer_form_of(context, "direct", asker.model.name)
    question = Question(
        name="step",
        schema=wrapped_schema(form),
        system_prompt=prompt.system(
            tools="",
            outcome=answer_instructions(
                "direct",
                form,
                binding_types=prompt.binding_types,
                return_type=prompt.return_type,
            ),
        ),
        user_prompt=prompt.user(),
    )

    async def check(data: Mapping[str, Any]) -> tuple[StepOutcome, dict[str, object]]:
        answer = answer_from_mapping(data, form)
        await bindings.set(answer.bindings)
        changed = context.changed_bindings()
        await step.conclude(answer.outcome, changed)
        return answer.outcome, changed

    return await asker.ask(question, check)
