"""The direct outcome transport: no tools, the model answers with the values themselves. Floor 4.

An ordinary model gets the full prompt and answers once, with the values of all write bindings and the
outcome. A small one is asked one short thing at a time: each write binding by itself, with the program as
its system prompt and the variables the program reads as the user prompt, then the outcome when there is a
choice left.
"""

from collections.abc import Mapping
from typing import Any, cast

from ..errors import AnnotationError, ExecutionError
from ..runtime.annotations import return_type
from ..runtime.oversight.verification import OutcomeRefusedError
from ..runtime.step import Step
from ..runtime.step_context import StepContext
from ..runtime.validation import json_schemas, type_name, validate_value
from ..types.outcomes import PassStepOutcome, ReturnStepOutcome, StepOutcome
from .instructions import direct_instructions
from .outcome_codec import outcome_from_mapping, outcome_variants
from .question import Asker, Question
from .step_prompt import StepPrompt

__all__ = ["answer_at_once", "answer_piecemeal"]

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
    types = _types(context, *context.write_names, is_outcome_asked=True)
    schemas, definitions = _schemas_of(types, context)
    outcome_schemas = _outcome_schemas(context, schemas)
    bindings_schema = _object_schema({name: schemas[_subject(name)] for name in context.write_names})
    question = Question(
        name="step",
        schema=_object_schema({"bindings": bindings_schema, "outcome": {"anyOf": outcome_schemas}})
        | definitions,
        system_prompt=prompt.system(
            tools="",
            outcome=direct_instructions(
                context.allowed_kinds,
                tuple(context.raise_error_types),
                prompt.binding_types,
            ),
        ),
        user_prompt=prompt.user(),
    )

    async def check(answer: Mapping[str, Any]) -> tuple[StepOutcome, dict[str, object]]:
        bindings = _object_field(answer, "bindings")
        outcome = _outcome(context, _object_field(answer, "outcome"))
        await step.conclude(outcome, bindings)
        return outcome, bindings

    return await asker.ask(question, check)


async def answer_piecemeal(
    asker: Asker, step: Step, prompt: StepPrompt
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for one short thing at a time. Arguments, result and errors are those of `answer_at_once`.

    When a check refuses the outcome, everything is asked anew, with its feedback.
    """
    _schemas_of(_types(step.context, *step.context.write_names, is_outcome_asked=True), step.context)
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
    typed, definitions = _schemas_of(_types(context, is_outcome_asked=True), context)
    schemas = _outcome_schemas(context, typed)
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
    question = _short_question(context, prompt, "outcome", schema, definitions)

    async def check(answer: Mapping[str, Any]) -> StepOutcome | OutcomeRefusedError:
        outcome = _outcome(context, _object_field(answer, "outcome"))
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
    schemas, definitions = _schemas_of(_types(context, name), context)
    question = _short_question(context, prompt, name, schemas[_subject(name)], definitions)
    annotation = context.binding_types.get(name, object)

    async def check(answer: Mapping[str, Any]) -> object:
        if name not in answer:
            raise ExecutionError(f"the answer has no field '{name}'")
        return validate_value(answer[name], annotation, subject=_subject(name))

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
        schema=_object_schema({name: schema}) | definitions,
        system_prompt=prompt.with_system_fragments(prompt.program.strip()),
        user_prompt=prompt.with_user_fragments(shown),
    )


def _read_roots(context: StepContext) -> list[str]:
    """The names the program reads, write bindings left out unless they are read as well."""
    roots = dict.fromkeys(reference.partition(".")[0] for reference in context.references)
    return [name for name in roots if name in context.read_names or name not in context.write_names]


def _subject(name: str) -> str:
    return f"write binding '{name}'"


def _types(context: StepContext, *names: str, is_outcome_asked: bool = False) -> dict[str, object]:
    """The types of write bindings and of the return value, by what to call them."""
    types = {_subject(name): context.binding_types.get(name, object) for name in names}
    if is_outcome_asked and "return" in context.allowed_kinds:
        types[_RETURN_VALUE] = return_type(context)
    return types


def _schemas_of(
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


def _outcome_schemas(context: StepContext, typed: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The variants of specification 8.4, where `return` carries a value instead of an expression."""
    variants = outcome_variants(context.allowed_kinds, tuple(context.raise_error_types))
    for variant in variants:
        if "return_expression" in variant["properties"]:
            del variant["properties"]["return_expression"]
            variant["properties"]["return_value"] = typed[_RETURN_VALUE]
            variant["required"] = list(variant["properties"])
    return variants


def _outcome(context: StepContext, data: dict[str, object]) -> StepOutcome:
    if data.get("kind") == "return" and "return" in context.allowed_kinds:
        if set(data) != {"kind", "return_value"}:
            raise ExecutionError("an outcome of kind 'return' has the fields 'kind' and 'return_value'")
        # A JSON value is a Python literal, so the expression is evaluated like any other.
        return ReturnStepOutcome(return_expression=repr(data["return_value"]))
    return outcome_from_mapping(
        data, allowed_kinds=context.allowed_kinds, raise_error_types=tuple(context.raise_error_types)
    )


def _object_field(answer: Mapping[str, Any], name: str) -> dict[str, object]:
    value = answer.get(name)
    if not isinstance(value, dict):
        raise ExecutionError(f"the answer has no object in its field '{name}'")
    return cast("dict[str, object]", value)


def _object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
