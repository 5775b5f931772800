"""The schema of any type is sent to a provider only in the form that its documentation allows."""

import json
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.agent.schemas import compact_schema, strict_schema
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.messages import ToolDefinition, UserMessage
from nighthawk_async.types.model import ModelRequest, ResponseFormat
from nighthawk_async.values.plain_data import data_schemas
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.codec import Codec
from nighthawk_async.wire.google.codec import GoogleCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

from .plain_types import types
from .provider_rules import anthropic_problems, google_problems, openai_problems


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of answers with values of some types: as they are, compact, and as narrow as can be."""

    def answer(annotations: list[Any], rewrite: Any) -> dict[str, Any]:
        made = data_schemas(tuple(annotations))
        values = {f"value{index}": rewrite(schema) for index, schema in enumerate(made.schemas)}
        definitions = {name: rewrite(each) for name, each in made.definitions.items()}
        return closed({"bindings": closed(values)}) | ({"$defs": definitions} if definitions else {})

    rewrites = [dict, compact_schema, lambda schema: strict_schema(compact_schema(schema))]
    return st.builds(answer, st.lists(types(), min_size=1, max_size=3), st.sampled_from(rewrites))


def body(codec: Codec, schema: dict[str, Any]) -> Any:
    """The body of a request that asks for an answer in the schema, and offers a tool that takes one."""
    request = ModelRequest(
        system_prompt="",
        messages=(UserMessage(content=("Hi",)),),
        tools=(ToolDefinition(name="give", description="Gives it.", parameters=schema),),
        response_format=ResponseFormat(name="answer", schema=schema),
    )
    return json.loads(codec.encode(request, model_name="m").body)


@given(schemas())
def test_openai_is_sent_as_strict_what_it_documents(schema: dict[str, Any]) -> None:
    chat = body(OpenAIChatCodec(), schema)["response_format"]["json_schema"]
    responses = body(OpenAIResponsesCodec(), schema)
    for sent in (chat, responses["text"]["format"], responses["tools"][0]):
        problems = openai_problems(sent.get("schema", sent.get("parameters")))
        assert not (sent["strict"] and problems)


@given(schemas())
def test_anthropic_is_sent_what_it_documents_or_nothing(schema: dict[str, Any]) -> None:
    try:
        sent = body(AnthropicCodec(), schema)["output_config"]["format"]["schema"]
    except ConfigurationError:
        return
    assert not anthropic_problems(sent)


@given(schemas())
def test_google_is_sent_what_it_documents(schema: dict[str, Any]) -> None:
    sent = body(GoogleCodec(), schema)
    assert not google_problems(sent["generationConfig"]["responseJsonSchema"])
    (tool,) = sent["tools"][0]["functionDeclarations"]
    assert not google_problems(tool["parametersJsonSchema"])
