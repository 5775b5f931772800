"""Strict answers are those that the sent schema allows, and what is read otherwise is never another answer.

Exceptions to the first, each of which the documentation names, are made in `relaxed`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from hypothesis import assume, given, strategies as st
from jsonschema import Draft202012Validator

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel

from .mutations import mutated
from .plain_types import types
from .schema_values import values
from .test_answers import MODELS, PassedError, answers, block
from .test_disguised_answers import DISGUISES, response

REFUSED = "refused"
END = '{"kind": "raise", "raise_message": "It was refused."}'
FIELDS = ["kind", "extra field", "names", "beside", "bindings"]
_SCALARS = ["boolean", "integer", "null", "number", "string"]
_LOOSE = {"format", "pattern", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


def relaxed(schema: Any) -> Any:
    """A schema that also allows what validation takes beyond it.

    - Texts of numbers, dates and members, and numbers for truth values and times: pydantic's rules for JSON.
    - Objects with more names than those of the schema; a named tuple as a list of its fields.
    - Items that a set holds once, twice.
    - Null for a part that is left out, and for a field of the answer.
    """
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        return {"anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}]}
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return {"anyOf": [*map(relaxed, schema[name]), {"type": "null"}]}
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if kinds == ["string"] and not schema.keys() & _LOOSE:
        return {"type": ["string", "null"]}
    if (kinds and {*kinds} <= {*_SCALARS}) or schema.keys() & {"enum", "const"}:
        return {"type": _SCALARS}
    if kinds == ["object"] and "properties" in schema:
        parts = {name: relaxed(each) for name, each in schema["properties"].items()}
        return {
            "type": ["object", "null", "array"],
            "properties": parts,
            "required": list(schema.get("required", ())),
        }
    if kinds == ["object"]:
        more = schema.get("additionalProperties", True)
        return {"type": ["object", "null"], "additionalProperties": relaxed(more) if more else True}
    if kinds == ["array"]:
        items = {name: relaxed(schema[name]) for name in ("items",) if name in schema}
        if "prefixItems" in schema:
            items["prefixItems"] = [relaxed(each) for each in schema["prefixItems"]]
        return {"type": ["array", "null"], **items}
    return True


def relaxed_answer(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an answer: its fields are those of the schema, and its values are relaxed."""
    definitions = {name: relaxed(each) for name, each in schema.get("$defs", {}).items()}

    def variant(given_schema: Mapping[str, Any]) -> dict[str, Any]:
        fields = dict(given_schema["properties"])
        names: dict[str, Any] = {}
        for name, each in fields.items():
            if name == "kind":
                names[name] = each
            elif name in ("bindings", "expressions"):
                inner = each if "properties" in each else each["anyOf"][0]
                names[name] = {
                    "type": ["object", "null"],
                    "properties": {key: relaxed(part) for key, part in inner["properties"].items()},
                    "additionalProperties": False,
                }
            else:
                names[name] = relaxed(each)
        # A field of another kind may be null.
        return {
            "type": "object",
            "properties": names,
            "additionalProperties": {"type": "null"},
            "required": ["kind"],
        }

    if "result" not in schema["properties"]:
        flat = variant(schema)
        wrapped = {"type": "object", "properties": {"result": flat}, "required": ["result"]}
        return {"anyOf": [flat, wrapped], "$defs": definitions}
    result = schema["properties"]["result"]
    variants = {"anyOf": [variant(each) for each in result.get("anyOf", [result])]}
    whole = {"type": "object", "properties": {"result": variants}, "required": ["result"]}
    return {"anyOf": [whole, variants], "$defs": definitions}


async def committed(
    function: Any, respond: Callable[[Any], ModelResponse], *, answers: Any, transport: Any, name: str
) -> Any:
    """How a block ends by one answer: what it commits, or `REFUSED`."""
    model = ScriptedModel(respond, name=name)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport, answers=answers)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        try:
            end: Any = ("returned", await function())
        except PassedError as passed:
            end = ("passed", passed.args)
        except nh.errors.AnnotationError:  # in the direct transport, of a type that cannot be asked for
            assert not model.requests
            return REFUSED
        except (ValueError, nh.ExecutionError) as error:
            end = ("raised", str(error))
    return end if len(model.requests) == 1 else REFUSED


def schema_of(request: nh.models.ModelRequest) -> Any:
    form = request.response_format
    return request.tools[-1].parameters if form is None else form.schema


class Site:
    """A block and the schema of its answers."""

    def __init__(self, bound: Any, returned: Any, transport: str, name: str) -> None:
        self._types = bound, returned
        self._way = {"transport": transport, "name": name}
        self._transport = transport
        self.schema: Any = None
        self.end("{}")
        assume(self.schema is not None)

    def end(self, text: str, *, answers: str = "lenient") -> Any:
        """How the block ends by an answer."""

        def respond(request: nh.models.ModelRequest) -> ModelResponse:
            is_first = self.schema is None or len(request.messages) == 1
            self.schema = schema_of(request)
            return response(text if is_first else END, self._transport)

        return anyio.run(
            lambda: committed(block(*self._types), respond, answers=answers, **self._way)  # type: ignore[arg-type]
        )


SITES = {
    "bound": types(),
    "returned": types(),
    "transport": st.sampled_from(["tool", "native", "direct"]),
    "name": st.sampled_from(MODELS),
}


def without_half_characters(answer: Any) -> str:
    text = json.dumps(answer)
    assume("\\ud800" not in text)
    return text


@given(data=st.data(), **SITES)
def test_a_strict_answer_is_one_that_the_schema_allows(
    data: st.DataObject, bound: Any, returned: Any, transport: str, name: str
) -> None:
    site = Site(bound, returned, transport, name)
    answer = data.draw(mutated(data.draw(answers(site.schema))))
    text = without_half_characters(answer)
    end = site.end(text, answers="strict")
    if end == REFUSED:
        return
    found = Draft202012Validator(relaxed_answer(site.schema)).iter_errors(answer)
    assert not [each.message for each in found]
    assert repr(site.end(text)) == repr(end) or " at 0x" in repr(end)


@given(
    data=st.data(),
    fields=st.sets(st.sampled_from(FIELDS)),
    whole=st.sampled_from(["fence", "sentence", "quotes", "trailing comma", "text"]),
    **SITES,
)
def test_an_answer_in_several_odd_forms_is_read_as_itself_or_refused(
    data: st.DataObject,
    fields: set[str],
    whole: str,
    bound: Any,
    returned: Any,
    transport: str,
    name: str,
) -> None:
    site = Site(bound, returned, transport, name)
    answer = data.draw(answers(site.schema))
    plain = site.end(json.dumps(answer), answers="strict")
    assert plain != REFUSED
    changed = answer
    for each in sorted(fields, key=FIELDS.index):
        changed = json.loads(DISGUISES[each](changed))
    end = site.end(DISGUISES[whole](changed))
    assert end == REFUSED or repr(end) == repr(plain) or " at 0x" in repr(plain)


@given(data=st.data(), joint=st.sampled_from([" or ", "\n", ", ", " "]), **SITES)
def test_two_answers_are_refused(
    data: st.DataObject, joint: str, bound: Any, returned: Any, transport: str, name: str
) -> None:
    site = Site(bound, returned, transport, name)
    one, other = data.draw(answers(site.schema)), data.draw(answers(site.schema))
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert site.end(f"{json.dumps(one)}{joint}{json.dumps(other)}") == REFUSED


@given(data=st.data(), key=st.sampled_from(["one", "<:one>", ":one", "<one>"]), **SITES)
def test_a_variable_with_two_values_is_refused(
    data: st.DataObject, key: str, bound: Any, returned: Any, transport: str, name: str
) -> None:
    site = Site(bound, returned, transport, name)
    schema = bindings_of(site.schema).get("one")
    if schema is None:  # it has to be given by an expression
        return
    one, other = (data.draw(values(schema, site.schema.get("$defs", {}))) for _ in range(2))
    if other is None or json.dumps(one) == json.dumps(other):
        return
    answer = data.draw(answers(site.schema))
    fields = answer.get("result", answer)
    fields["bindings"] = (fields.get("bindings") or {}) | {"one": one}
    fields[key] = other
    assert site.end(json.dumps(answer)) == REFUSED


def bindings_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schemas of the variables that an answer may give as data."""
    given = schema["properties"].get("result", schema)
    for each in given.get("anyOf", [given]):
        if (bindings := each["properties"].get("bindings")) is not None:
            return bindings.get("properties") or bindings["anyOf"][0]["properties"]
    return {}
