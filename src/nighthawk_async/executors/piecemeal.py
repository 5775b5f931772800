"""Asks a small model one short thing at a time. Floor 4.

Each write binding by itself, with the program as the system prompt and the variables the program reads as the
user prompt, then the outcome when there is a choice left.
"""

from collections.abc import Mapping
from typing import Any

from ..errors import ExecutionError
from ..runtime.oversight.verification import OutcomeRefusedError
from ..runtime.step import Step
from ..runtime.step_context import StepContext
from ..runtime.validation import validate_value
from ..types.outcomes import PassStepOutcome, StepOutcome
from .direct import (
    asked_types,
    binding_subject,
    object_field,
    object_schema,
    outcome_of_answer,
    outcome_schemas_of,
    schemas_of,
)
from .question import Asker, Question
from .step_prompt import StepPrompt

__all__ = ["answer_piecemeal"]


async def answer_piecemeal(
    asker: Asker, step: Step, prompt: StepPrompt
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for one short thing at a time. Arguments, result and errors are those of `direct.answer_at_once`.

    When a check refuses the outcome, everything is asked anew, with its feedback.
    """
    schemas_of(asked_types(step.context, *step.context.write_names, is_outcome_asked=True), step.context)
    while True:
        try:
            return await _answer_piecemeal_once(asker, step, prompt)
        except OutcomeRefusedError as refused:
            prompt = prompt.with_feedback(refused.feedback)


async def _answer_piecemeal_once(
    asker: Asker, step: Step, prompt: StepPrompt
) -> tuple[StepOutcome, dict[str, object]]:
    context = step.context
    bindings = {name: await _ask_binding(asker, context, prompt, name) for name in context.write_names}
    if "pass" in context.allowed_kinds and (bindings or len(context.allowed_kinds) == 1):
        outcome = PassStepOutcome()
        await step.conclude(outcome, bindings)
        return outcome, bindings
    typed, definitions = schemas_of(asked_types(context, is_outcome_asked=True), context)
    schemas = outcome_schemas_of(context, typed)
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
    question = _short_question(context, prompt, "outcome", schema, definitions)

    async def check(answer: Mapping[str, Any]) -> StepOutcome | OutcomeRefusedError:
        outcome = outcome_of_answer(context, object_field(answer, "outcome"))
        try:
            await step.conclude(outcome, bindings)
        except OutcomeRefusedError as refused:
            return refused  # asking for the outcome again would not change the bindings
        return outcome

    answered = await asker.ask(question, check)
    if isinstance(answered, OutcomeRefusedError):
        raise answered
    return answered, bindings


async def _ask_binding(asker: Asker, context: StepContext, prompt: StepPrompt, name: str) -> object:
    schemas, definitions = schemas_of(asked_types(context, name), context)
    question = _short_question(context, prompt, name, schemas[binding_subject(name)], definitions)
    annotation = context.binding_types.get(name, object)

    async def check(answer: Mapping[str, Any]) -> object:
        if name not in answer:
            raise ExecutionError(f"the answer has no field '{name}'")
        return validate_value(answer[name], annotation, subject=binding_subject(name))

    return await asker.ask(question, check)


def _short_question(
    context: StepContext,
    prompt: StepPrompt,
    name: str,
    schema: Mapping[str, Any],
    definitions: dict[str, Any],
) -> Question:
    """The program alone as the system prompt, and the variables it reads alone as the user prompt.

    Small models attend to little: with the full prompt they classify markedly worse.
    """
    values = [name for name, value in context.referenced_globals.items() if not callable(value)]
    shown = prompt.section("locals", only=_read_roots(context)).parts
    if values:
        shown = (*shown, "\n" if shown else "", *prompt.section("globals", only=values).parts)
    if len(context.write_names) > 1:
        shown = (*shown, f"\n\n{name}?")
    if all(isinstance(part, str) for part in shown):
        shown = ("".join(map(str, shown)),)
    return Question(
        name=name,
        schema=object_schema({name: schema}) | definitions,
        system_prompt=prompt.with_system_fragments(prompt.program.strip()),
        user_prompt=prompt.with_user_fragments(shown),
    )


def _read_roots(context: StepContext) -> list[str]:
    """The names the program reads, write bindings left out unless they are read as well."""
    roots = dict.fromkeys(reference.partition(".")[0] for reference in context.references)
    return [name for name in roots if name in context.read_names or name not in context.write_names]
