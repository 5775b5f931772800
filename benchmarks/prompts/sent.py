"""Requests as each provider is sent them, and their tokens.

Tokens are those of OpenAI's tokenizer at every provider, so that what is sent can be compared.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

import nighthawk_async as nh
from nighthawk_async.catalog.models import find_model_facts, find_schema_rules
from nighthawk_async.wire.anthropic.codec import AnthropicCodec
from nighthawk_async.wire.openai_chat.codec import OpenAIChatCodec
from nighthawk_async.wire.openai_responses.codec import OpenAIResponsesCodec

__all__ = ["CHAT", "PROVIDERS", "Form", "Provider", "body_of", "texts_of"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider, and the model of it whose requests are measured.

    Args:
        title: Its name in tables.
        model: The model.
    """

    title: str
    model: str

    @property
    def protocol(self) -> str:
        """The protocol of its requests."""
        return self.model.partition(":")[0]


CHAT = Provider(title="OpenAI Chat", model="openai-chat:gpt-5.4-nano")
PROVIDERS = (
    CHAT,
    Provider(title="OpenAI Responses", model="openai-responses:gpt-5.4-nano"),
    Provider(title="Anthropic", model="anthropic:claude-fable-5"),
    Provider(title="an unknown server", model="openai-chat:a-model-of-ours"),
)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form of requests.

    Args:
        title: Its name in tables.
        profile: The profile of its configuration.
        provided_tools: The provided tools on offer.
    """

    title: str
    profile: Any = "concise"
    provided_tools: Any = "auto"

    @property
    def configuration(self) -> nh.StepExecutorConfiguration:
        """The configuration of an executor that sends it."""
        return nh.StepExecutorConfiguration(profile=self.profile, provided_tools=self.provided_tools)


_CODECS: Mapping[str, Any] = {
    "openai-chat": OpenAIChatCodec(),
    "openai-responses": OpenAIResponsesCodec(),
    "anthropic": AnthropicCodec(),
}


def body_of(request: nh.models.ModelRequest, provider: Provider = CHAT) -> Mapping[str, Any]:
    """The JSON of a request as a provider is sent it, with the strict schemas that it enforces.

    Args:
        request: The request.
        provider: The provider.
    """
    enforced = provider.protocol != "anthropic" and "tool" in find_schema_rules(provider.model).strict_places
    settings = {**({"strict_tools": True} if enforced else {}), **request.settings}
    encoded = _CODECS[provider.protocol].encode(
        replace(request, settings=settings),
        model_name=provider.model.partition(":")[2],
        capabilities=find_model_facts(provider.model).capabilities,
    )
    return json.loads(encoded.body)


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """The texts of a request in any of the protocols, and its tools one by one; media count as nothing.

    Args:
        body: The JSON of the request.
    """
    said = [body.get(name) for name in ("system", "instructions", "messages", "input")]
    texts = [text for each in said if each is not None for text in _said(each)]
    texts += [_json(tool) for tool in body.get("tools", ())]
    return texts + [_json(body[name]) for name in ("response_format", "text") if name in body]


def _said(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        for each in value:
            yield from _said(each)
    elif isinstance(value, Mapping):
        if "arguments" in value:  # a call of a function
            yield _json({name: value[name] for name in ("name", "arguments")})
        elif value.get("type") == "tool_use":
            yield _json({"name": value["name"], "arguments": value["input"]})
        else:
            for name in ("text", "content", "output", "tool_calls", "function"):
                yield from _said(value.get(name) or ())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
