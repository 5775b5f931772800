"""JSON Schemas of servers: those that are used are ones by the meta-schema, and no data breaks the check."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

pytest.importorskip("mcp")

from nighthawk_async.mcp.schemas import BadSchemaError, check_json, checked_schema

TEXTS = st.sampled_from(["a", "#", "#/$defs/a", "#/properties/a", "string", "object", "int", "^a+$", "(", ""])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([0.5, float("nan"), 2.0, 10**400])
    | TEXTS
    | st.lists(TEXTS, max_size=2)
)
KEYWORDS = [
    *("type", "properties", "required", "items", "enum", "const", "anyOf", "allOf", "not", "$ref", "$defs"),
    *("pattern", "patternProperties", "additionalProperties", "minimum", "maxLength", "multipleOf", "format"),
    *("description", "title", "default", "examples", "uniqueItems", "prefixItems", "dependentRequired"),
    *(
        "propertyNames",
        "if",
        "minContains",
        "deprecated",
        "$anchor",
        "$id",
        "definitions",
        "dependentSchemas",
    ),
]


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(TEXTS, inner, max_size=2)
    return (
        st.dictionaries(st.sampled_from(KEYWORDS), inner | named, max_size=3)
        | named
        | st.lists(inner, max_size=2)
    )


SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=15)


@given(SCHEMAS)
def test_a_schema_that_is_used_is_one(schema: Any) -> None:
    try:
        check_json(schema)
        used = checked_schema(schema)
    except BadSchemaError:
        return
    Draft202012Validator.check_schema(used)
    assert checked_schema(used) == used
