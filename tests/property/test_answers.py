"""Whatever the schema that a model is sent allows commits, through the whole step, in every transport."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from hypothesis import assume, given, strategies as st
from jsonschema import Draft202012Validator

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from nighthawk_async.values.plain_data import data_schemas

from .plain_types import types
from .schema_values import values

MODELS = ("scripted:model", "openai-responses:gpt-5.4-nano", "anthropic:claude", "google:gemini")
FIELDS = {"return": "return_value", "raise": "raise_message"}
BEFORE = object()


class PassedError(Exception):
    """The block has passed; its function returns nothing."""


def block(bound: Any, returned: Any) -> Any:
    """A function that sets two variables and may return a value, or raise."""

    async def work() -> Any:
        one: bound = BEFORE
        many: list[bound] = [BEFORE]
        """natural
        Set <:one> and <:many>, or return a value, or raise ValueError.
        """
        raise PassedError(one, many)

    work.__annotations__["return"] = returned
    return nh.natural_function(work)


@st.composite
def answers(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Answers that a request's schema allows, without Python code and with no other kind's fields."""
    definitions = schema.get("$defs", {})
    if "result" not in schema["properties"]:
        return _flat_answer(draw, schema)
    variants = schema["properties"]["result"]["anyOf"]
    given_as_data = [
        each for each in variants if not any("expression" in name for name in each["properties"])
    ]
    return {"result": draw(values({"anyOf": given_as_data}, definitions))}


def _flat_answer(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    properties, required = schema["properties"], schema.get("required", ())
    kinds = [each for each in properties["kind"]["enum"] if FIELDS.get(each, "kind") in properties]
    kind = draw(st.sampled_from(kinds))
    answer: dict[str, Any] = dict.fromkeys(required) | {"kind": kind}
    for name in ("bindings", FIELDS.get(kind)):
        if name in properties:
            answer[name] = draw(values(properties[name], schema.get("$defs", {})))
    if kind in FIELDS and answer[FIELDS[kind]] is None:
        answer[FIELDS[kind]] = draw(
            values(properties[FIELDS[kind]], schema.get("$defs", {})).filter(lambda each: each is not None)
        )
    return answer


def respond(
    data: st.DataObject, given_answers: list[dict[str, Any]], transport: str, request: nh.models.ModelRequest
) -> ModelResponse:
    is_tool = transport == "tool"
    schema = (
        request.tools[-1].parameters if request.response_format is None else request.response_format.schema
    )
    Draft202012Validator.check_schema(schema)
    assert not given_answers, request.messages[-1]  # each answer is accepted at once
    answer = data.draw(answers(schema))
    assert not [each.message for each in Draft202012Validator(schema).iter_errors(answer)]
    given_answers.append(answer)
    return (
        model_response(tool_call("nh_outcome", **answer))
        if is_tool
        else model_response(text=json.dumps(answer))
    )


@given(
    data=st.data(),
    bound=types(),
    returned=types(),
    transport=st.sampled_from(["tool", "native", "direct"]),
    name=st.sampled_from(MODELS),
)
def test_an_answer_that_the_sent_schema_allows_is_committed_at_once(
    data: st.DataObject, bound: Any, returned: Any, transport: Any, name: str
) -> None:
    # An endpoint that enforces schemas does not take what bounds the length of a text.
    assume(not (name.startswith("openai") and "Length" in repr(data_schemas((bound, returned)))))
    answered: list[dict[str, Any]] = []
    model = ScriptedModel(partial(respond, data, answered, transport), name=name)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)

    async def main() -> None:
        async with nh.run(executor):
            await block(bound, returned)()

    try:
        anyio.run(main)
    except nh.errors.AnnotationError:  # in the direct transport, of a type that cannot be asked for
        assert not model.requests
        return
    except PassedError:
        assert ending(answered[0]) == "pass"
    except (ValueError, nh.ExecutionError):
        if ending(answered[0]) != "raise":
            raise
    assert len(model.requests) == 1


def ending(answer: dict[str, Any]) -> object:
    return answer.get("result", answer)["kind"]
