"""Outcomes as JSON (specification 8.4). Floor 4, no I/O.

The outcome is a flat object with the fields of its kind and no others. Where a provider's schema subset
forbids a union at the root it travels as `{"result": …}`; both forms are understood.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

from ..errors import ExecutionError
from ..types.outcomes import (
    OUTCOME_KINDS,
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)
from ..wire.response_json import NOT_JSON, decode_json

__all__ = [
    "flat_outcome_schema",
    "outcome_from_mapping",
    "outcome_variants",
    "parse_json_object",
    "parse_outcome",
    "wrapped_outcome_schema",
]

_FIELDS: Mapping[OutcomeKind, tuple[str, ...]] = {
    "pass": (),
    "return": ("return_expression",),
    "break": (),
    "continue": (),
    "raise": ("raise_message", "raise_error_type"),
}

_DESCRIPTIONS = {
    "return_expression": "For kind 'return' only: the Python expression whose value the function returns.",
    "raise_message": "For kind 'raise' only: the message of the exception.",
    "raise_error_type": "For kind 'raise' only: the type of the exception; leave it out for the default.",
}


def flat_outcome_schema(
    allowed_kinds: Sequence[OutcomeKind], raise_error_types: Sequence[str]
) -> dict[str, Any]:
    """One object schema without a union, for the arguments of `nh_outcome`."""
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": list(allowed_kinds)}}
    for kind in allowed_kinds:
        for field in _FIELDS[kind]:
            if field != "raise_error_type" or raise_error_types:
                properties[field] = _field_schema(field, raise_error_types)
    return _object_schema(properties, required=["kind"])


def outcome_variants(
    allowed_kinds: Sequence[OutcomeKind], raise_error_types: Sequence[str]
) -> list[dict[str, Any]]:
    """One object schema for each kind, exactly its fields."""
    return [_variant(kind, raise_error_types) for kind in allowed_kinds]


def wrapped_outcome_schema(
    allowed_kinds: Sequence[OutcomeKind], raise_error_types: Sequence[str]
) -> dict[str, Any]:
    """The union of the variants below `result`, for a provider's structured output."""
    union = {"anyOf": outcome_variants(allowed_kinds, raise_error_types)}
    return _object_schema({"result": union}, required=["result"])


def parse_outcome(
    text: str, *, allowed_kinds: Sequence[str], raise_error_types: Sequence[str]
) -> StepOutcome:
    """Parse an outcome strictly.

    Raises:
        ExecutionError: The text is not JSON, or not an outcome this block allows; says what is wrong.
    """
    data = parse_json_object(text)
    if set(data) == {"result"} and isinstance(data["result"], dict):
        data = cast("dict[str, Any]", data["result"])
    return outcome_from_mapping(data, allowed_kinds=allowed_kinds, raise_error_types=raise_error_types)


def outcome_from_mapping(
    data: Mapping[str, Any], *, allowed_kinds: Sequence[str], raise_error_types: Sequence[str]
) -> StepOutcome:
    """An outcome from its decoded JSON object.

    Raises:
        ExecutionError: It is no outcome that this block allows; says what is wrong.
    """
    kind = data.get("kind")
    if not _is_kind(kind) or kind not in allowed_kinds:
        raise ExecutionError(
            f"the outcome kind {kind!r} is not allowed here; allowed: {', '.join(allowed_kinds)}"
        )
    fields = {name: value for name, value in data.items() if name != "kind" and value is not None}
    unknown = sorted(set(fields) - set(_FIELDS[kind]))
    if unknown:
        raise ExecutionError(f"an outcome of kind '{kind}' has no field {', '.join(map(repr, unknown))}")
    for name, value in fields.items():
        if not isinstance(value, str):
            raise ExecutionError(f"the outcome's field '{name}' must be a string, not {type(value).__name__}")
    error_type = fields.get("raise_error_type")
    if error_type is not None and error_type not in raise_error_types:
        raise ExecutionError(
            f"raise_error_type {error_type!r} is not allowed here; "
            f"allowed: {', '.join(raise_error_types) or 'none, leave it out'}"
        )
    return _build(kind, fields)


def _is_kind(value: object) -> TypeGuard[OutcomeKind]:
    return value in OUTCOME_KINDS


def _build(kind: OutcomeKind, fields: Mapping[str, str]) -> StepOutcome:
    try:
        match kind:
            case "pass":
                return PassStepOutcome()
            case "return":
                return ReturnStepOutcome(return_expression=fields["return_expression"])
            case "break":
                return BreakStepOutcome()
            case "continue":
                return ContinueStepOutcome()
            case _:  # raise
                return RaiseStepOutcome(
                    raise_message=fields["raise_message"], raise_error_type=fields.get("raise_error_type")
                )
    except KeyError as error:
        raise ExecutionError(f"an outcome of kind '{kind}' needs the field {error}") from None


def parse_json_object(text: str) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        ExecutionError: The text is not JSON, or not an object.
    """
    try:
        data: object = decode_json(text)  # strict: unlike the standard library it takes no NaN
    except NOT_JSON as error:
        raise ExecutionError(
            f"the answer is not JSON: {error}; write JSON alone, without a fence or other text"
        ) from error
    if not isinstance(data, dict):
        raise ExecutionError(f"the answer is not a JSON object but {type(data).__name__}")
    return cast("dict[str, Any]", data)


def _variant(kind: OutcomeKind, raise_error_types: Sequence[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": [kind]}}
    for field in _FIELDS[kind]:
        if field != "raise_error_type" or raise_error_types:
            properties[field] = _field_schema(field, raise_error_types)
    if "raise_error_type" in properties:
        # Strict structured output wants every property required, so "left out" is spelled null.
        schema = properties["raise_error_type"]
        properties["raise_error_type"] = {
            **schema,
            "type": ["string", "null"],
            "enum": [*schema["enum"], None],
        }
    return _object_schema(properties, required=list(properties))


def _field_schema(field: str, raise_error_types: Sequence[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "description": _DESCRIPTIONS[field]}
    if field == "raise_error_type":
        schema["enum"] = list(raise_error_types)
    return schema


def _object_schema(properties: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
