"""The outcome in the question that a small model is asked for it, and in its answer."""

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from ..agent.answer_form import RETURN_VALUE, AnswerForm, answer_form_of, variant_schemas
from ..agent.outcome_codec import answer_from_mapping, parse_json_object
from ..agent.prompt import known_return_type
from ..agent.refusals import count_readings
from ..agent.schemas import Endpoint
from ..errors import ExecutionError
from ..kernel.context import StepContext
from ..types.outcomes import StepOutcome


def outcome_schemas_of(context: StepContext, typed: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The variants of specification 8.4, where `return` carries a value instead of an expression."""
    form = replace(_form_of(context), bindings={}, return_value=typed.get(RETURN_VALUE))
    return [variant for kind in form.allowed_kinds for variant in variant_schemas(kind, form)]


def outcome_of_answer(context: StepContext, answer: Mapping[str, Any], *, is_strict: bool) -> StepOutcome:
    """The outcome that an answer gives; raises `ExecutionError` when it is not allowed."""
    if is_strict or isinstance(answer.get("outcome"), dict):
        data: Mapping[str, Any] = _object_field(answer, "outcome")
    elif isinstance(text := answer.get("outcome"), str):
        data = parse_json_object(text)
        count_readings(("json_text",))
    else:
        data = answer if "outcome" not in answer else _object_field(answer, "outcome")
    parsed = answer_from_mapping(data, _form_of(context), is_strict=is_strict)
    count_readings(parsed.readings)
    return parsed.outcome


def _form_of(context: StepContext) -> AnswerForm:
    return answer_form_of(context, "direct", Endpoint(place="response"), returned=known_return_type(context))


def _object_field(answer: Mapping[str, Any], name: str) -> dict[str, object]:
    """A field of an answer that must hold an object; raises `ExecutionError` otherwise."""
    value = answer.get(name)
    if not isinstance(value, dict):
        refused = ExecutionError(f"the answer has no object in its field '{name}'")
        raise refused.caused_by("outcome_fields")
    return cast("dict[str, object]", value)
