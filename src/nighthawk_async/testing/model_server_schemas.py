"""Refusals of strict tools whose schemas OpenAI's endpoints do not enforce, for a `ModelServer`.

Other violations of the strict subset pass.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..wire.schema_rules import schemas_in
from .model_reply import ModelReply, refusal


def find_strict_refusal(functions: Iterable[Mapping[str, Any]]) -> ModelReply | None:
    """Return the refusal of the first strict function with an object that is open or has optional properties.

    Args:
        functions: Definitions of functions, with `name`, `parameters` and `strict`.
    """
    for function in functions:
        fault = _find_fault(function.get("parameters")) if function.get("strict") is True else None
        if fault is not None:
            return refusal(f"Invalid schema for function {str(function.get('name'))!r}: {fault}")
    return None


def _find_fault(parameters: object) -> str | None:
    for path, schema in schemas_in(parameters):
        if schema.get("type") != "object":
            continue
        place = f"In context={path!r},"
        if schema.get("additionalProperties") is not False:
            return f"{place} 'additionalProperties' is required to be supplied and to be false."
        missing = [name for name in schema.get("properties", {}) if name not in schema.get("required", ())]
        if missing:
            return (
                f"{place} 'required' is required to be supplied and to be an array including every key in "
                f"properties. Missing {missing[0]!r}."
            )
    return None
