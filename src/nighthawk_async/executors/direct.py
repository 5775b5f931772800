"""The direct outcome transport: no tools, the model answers with the values themselves. Floor 4.

The model gets the full prompt and answers once, with the values of all write bindings and the outcome.
`executors.piecemeal` asks small models.
"""

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from ..errors import AnnotationError, ExecutionError
from ..runtime.annotations import return_type
from ..runtime.plain_data import data_schemas
from ..runtime.step import Step
from ..runtime.step_context import StepContext
from ..runtime.validation import type_name
from ..types.outcomes import StepOutcome
from .answer_bindings import AnswerBindings
from .answer_form import RETURN_VALUE, answer_form_of
from .answer_schemas import object_schema, variant_schemas, wrapped_schema
from .instructions import answer_instructions
from .outcome_codec import answer_from_mapping
from .question import Asker, Question
from .step_prompt import StepPrompt

__all__ = [
    "answer_at_once",
    "asked_types",
    "binding_subject",
    "object_field",
    "object_schema",
    "outcome_of_answer",
    "outcome_schemas_of",
    "schemas_of",
]


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


def binding_subject(name: str) -> str:
    """What errors call a write binding."""
    return f"write binding '{name}'"


def asked_types(context: StepContext, *names: str, is_outcome_asked: bool = False) -> dict[str, object]:
    """The types of write bindings and of the return value, by what to call them."""
    types = {binding_subject(name): context.binding_types.get(name, object) for name in names}
    if is_outcome_asked and "return" in context.allowed_kinds:
        types[RETURN_VALUE] = return_type(context)
    return types


def schemas_of(
    types: Mapping[str, object], context: StepContext
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schemas of types, and the `$defs` they refer to, which belong at the root of the whole schema."""
    for subject, annotation in types.items():
        try:
            data_schemas((annotation,))
        except Exception as error:  # code of the user's types may raise anything
            raise AnnotationError(
                f"step {context.step_id}: {subject} has the type {type_name(annotation)}, which has no JSON "
                "Schema, so the direct outcome transport cannot ask for it; use another type or "
                "outcome_transport='tool'"
            ) from error
    together = data_schemas(tuple(types.values()))
    definitions = {"$defs": together.definitions} if together.definitions else {}
    return dict(zip(types, together.schemas, strict=True)), definitions


def outcome_schemas_of(context: StepContext, typed: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The variants of specification 8.4, where `return` carries a value instead of an expression."""
    form = replace(answer_form_of(context, "direct", ""), bindings={}, return_value=typed.get(RETURN_VALUE))
    return [variant for kind in form.allowed_kinds for variant in variant_schemas(kind, form)]


def outcome_of_answer(context: StepContext, data: dict[str, object]) -> StepOutcome:
    """The outcome that an answer gives; raises `ExecutionError` when it is not allowed."""
    return answer_from_mapping(data, answer_form_of(context, "direct", "")).outcome


def object_field(answer: Mapping[str, Any], name: str) -> dict[str, object]:
    """A field of an answer that must hold an object; raises `ExecutionError` otherwise."""
    value = answer.get(name)
    if not isinstance(value, dict):
        refused = ExecutionError(f"the answer has no object in its field '{name}'")
        raise refused.caused_by("outcome_fields")
    return cast("dict[str, object]", value)
