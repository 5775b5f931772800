"""The direct outcome transport: no tools, the model answers with the values themselves. Floor 4.

The model gets the full prompt and answers once, with the values of all write bindings and the outcome.
`executors.piecemeal` asks small models.
"""

from collections.abc import Mapping
from typing import Any, cast

from ..errors import AnnotationError, ExecutionError
from ..runtime.annotations import return_type
from ..runtime.step import Step
from ..runtime.step_context import StepContext
from ..runtime.validation import json_schemas, type_name
from ..types.outcomes import ReturnStepOutcome, StepOutcome
from .instructions import direct_instructions
from .outcome_codec import outcome_from_mapping, outcome_variants
from .question import Asker, Question
from .step_prompt import StepPrompt, binding_type_names

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

_RETURN_VALUE = "the return value"


async def answer_at_once(
    asker: Asker, step: Step, prompt: StepPrompt
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for all values and the outcome in one request.

    Returns:
        The outcome and the values of the write bindings.

    Raises:
        AnnotationError: A type has no JSON Schema. Nothing was sent.
        ExecutionError: The model's answers stayed unacceptable.
        ModelError: A model request failed.
    """
    context = step.context
    types = asked_types(context, *context.write_names, is_outcome_asked=True)
    schemas, definitions = schemas_of(types, context)
    outcome_schemas = outcome_schemas_of(context, schemas)
    bindings_schema = object_schema({name: schemas[binding_subject(name)] for name in context.write_names})
    question = Question(
        name="step",
        schema=object_schema({"bindings": bindings_schema, "outcome": {"anyOf": outcome_schemas}})
        | definitions,
        system_prompt=prompt.system(
            tools="",
            outcome=direct_instructions(
                context.allowed_kinds, tuple(context.raise_error_types), binding_type_names(context)
            ),
        ),
        user_prompt=prompt.user(),
    )

    async def check(answer: Mapping[str, Any]) -> tuple[StepOutcome, dict[str, object]]:
        bindings = object_field(answer, "bindings")
        outcome = outcome_of_answer(context, object_field(answer, "outcome"))
        await step.conclude(outcome, bindings)
        return outcome, bindings

    return await asker.ask(question, check)


def binding_subject(name: str) -> str:
    """What errors call a write binding."""
    return f"write binding '{name}'"


def asked_types(context: StepContext, *names: str, is_outcome_asked: bool = False) -> dict[str, object]:
    """The types of write bindings and of the return value, by what to call them."""
    types = {binding_subject(name): context.binding_types.get(name, object) for name in names}
    if is_outcome_asked and "return" in context.allowed_kinds:
        types[_RETURN_VALUE] = return_type(context)
    return types


def schemas_of(
    types: Mapping[str, object], context: StepContext
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schemas of types, and the `$defs` they refer to, which belong at the root of the whole schema."""
    for subject, annotation in types.items():
        try:
            json_schemas((annotation,))
        except Exception as error:  # code of the user's types may raise anything
            raise AnnotationError(
                f"step {context.step_id}: {subject} has the type {type_name(annotation)}, which has no JSON "
                "Schema, so the direct outcome transport cannot ask for it; use another type or "
                "outcome_transport='tool'"
            ) from error
    together = json_schemas(tuple(types.values()))
    definitions = {"$defs": together.definitions} if together.definitions else {}
    return dict(zip(types, together.schemas, strict=True)), definitions


def outcome_schemas_of(context: StepContext, typed: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The variants of specification 8.4, where `return` carries a value instead of an expression."""
    variants = outcome_variants(context.allowed_kinds, tuple(context.raise_error_types))
    for variant in variants:
        if "return_expression" in variant["properties"]:
            del variant["properties"]["return_expression"]
            variant["properties"]["return_value"] = typed[_RETURN_VALUE]
            variant["required"] = list(variant["properties"])
    return variants


def outcome_of_answer(context: StepContext, data: dict[str, object]) -> StepOutcome:
    """The outcome that an answer gives; raises `ExecutionError` when it is not allowed."""
    if data.get("kind") == "return" and "return" in context.allowed_kinds:
        if set(data) != {"kind", "return_value"}:
            raise ExecutionError("an outcome of kind 'return' has the fields 'kind' and 'return_value'")
        # A JSON value is a Python literal, so the expression is evaluated like any other.
        return ReturnStepOutcome(return_expression=repr(data["return_value"]))
    return outcome_from_mapping(
        data, allowed_kinds=context.allowed_kinds, raise_error_types=tuple(context.raise_error_types)
    )


def object_field(answer: Mapping[str, Any], name: str) -> dict[str, object]:
    """A field of an answer that must hold an object; raises `ExecutionError` otherwise."""
    value = answer.get(name)
    if not isinstance(value, dict):
        raise ExecutionError(f"the answer has no object in its field '{name}'")
    return cast("dict[str, object]", value)


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
