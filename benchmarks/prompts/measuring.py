"""What the first request of each block shows and costs, and whether the perfect reader gets it right."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

import nighthawk_async as nh
from nighthawk_async.prompt.tokens import TokenCounter

from .block import Block
from .facts import Shown
from .reader import MODEL, perfect_reader
from .sent import CHAT, Form, Provider, body_of, texts_of

__all__ = [
    "PARTS",
    "Measured",
    "first_request",
    "measure_block",
    "measure_blocks",
    "parts_of_peer",
    "tokens_of_body",
    "tokens_of_request",
    "tokens_of_text",
]

PARTS = ("system", "program", "types", "locals", "globals", "rest", "tools", "outcome", "schema")
"""Where the tokens of a request go: the system prompt but for its types, the sections of the user prompt and
what is between them, the tools that look and act, `nh_outcome`, and the schema of the values in it."""

DEFAULT = Form(title="the default")
WITHOUT_TOOLS = Form(title="without tools", provided_tools=())
ALL_TOOLS = Form(title="all three tools", provided_tools=("nh_eval", "nh_assign", "nh_exec"))
OLD = Form(
    title='as before, `profile="specification"`',
    profile="specification",
    provided_tools=("nh_eval", "nh_assign", "nh_exec"),
)

_HEADED = re.compile(
    r"(?:^|\n\n)(?P<name>LOCALS|GLOBALS)\n(?P<text>.*?)(?=\n\n(?:GLOBALS\n|<hidden>)|\Z)", re.DOTALL
)
_SECTION = re.compile(r"<<<NH:(?P<name>[A-Z]+)>>>\n(?P<text>.*?)\n?<<<NH:END_(?P=name)>>>", re.DOTALL)
_TYPES = re.compile(r"^TYPES:.*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one block.

    Args:
        name: The block's name.
        tokens: Tokens of the whole first request.
        until_answered: Tokens of all requests of the first step, which the perfect reader answers.
        parts: The same by part.
        facts: How many facts an answer needs.
        missing: Those that are not in the first request.
        steps: Steps that the block's function took.
        responses: Responses of the perfect reader, who knows all facts.
        own_round_trips: How many responses a step takes by its nature.
        round_trips: Responses of a step, with one more where something has to be looked up or corrected.
        failure: Why the answer was not right, if it was not.
    """

    name: str
    tokens: int
    until_answered: int
    parts: Mapping[str, int]
    facts: int
    missing: tuple[str, ...]
    steps: int
    responses: int
    own_round_trips: int
    round_trips: int
    failure: str | None = None


async def measure_blocks(
    blocks: Iterable[Block], *, form: Form = DEFAULT, provider: Provider = CHAT
) -> Sequence[Measured]:
    """Measure blocks, one after the other.

    Args:
        blocks: The blocks.
        form: The form of requests.
        provider: The provider that is asked.
    """
    return [await measure_block(block, form=form, provider=provider) for block in blocks]


async def measure_block(block: Block, *, form: Form = DEFAULT, provider: Provider = CHAT) -> Measured:
    """Let the perfect reader answer a block, and look at what it was shown first.

    Args:
        block: The block.
        form: The form of requests.
        provider: The provider that is asked.
    """
    reader = perfect_reader(block.answers, model=provider.model)
    failure: str | None = None
    configuration = form.configuration
    async with nh.run(nh.AgentStepExecutor.from_model(model=reader, configuration=configuration)):
        try:
            if not block.is_right(result := await block.call()):
                failure = f"not right: {result!r}"
        except Exception as error:  # what goes wrong in one block must not hide the others
            failure = f"{type(error).__name__}: {error}"
        steps = nh.get_usage_meter().steps
    of_first_step = reader.requests[: block.answers[0].responses]
    body = body_of(reader.requests[0], CHAT) if reader.requests else {"messages": ()}
    shown = Shown("\n".join(texts_of_body(body)))
    sent = [sum(map(tokens_of_text, texts_of(body_of(each, provider)))) for each in of_first_step]
    missing = tuple(fact.what for fact in block.facts if not fact.is_in(shown))
    own = block.own_round_trips
    return Measured(
        name=block.name,
        tokens=sent[0] if sent else 0,
        until_answered=sum(sent),
        parts=_parts(body),
        facts=len(block.facts),
        missing=missing,
        steps=steps,
        responses=len(reader.requests),
        own_round_trips=own,
        round_trips=own + bool(missing or failure),
        failure=failure,
    )


async def first_request(block: Block, *, form: Form = DEFAULT) -> str:
    """The texts of a block's first request, to be read.

    Args:
        block: The block.
        form: The form of requests.
    """
    reader = perfect_reader(block.answers)
    executor = nh.AgentStepExecutor.from_model(model=reader, configuration=form.configuration)
    async with nh.run(executor):
        try:
            await block.call()
        finally:
            texts = texts_of_body(body_of(reader.requests[0])) if reader.requests else []
    return "\n\n".join(texts)


def tokens_of_body(body: Mapping[str, Any]) -> int:
    """Tokens of a request to Chat Completions: its texts, calls, tools and schemas.

    A picture counts as nothing, and so do the ids of calls.

    Args:
        body: The JSON of the request.
    """
    return sum(tokens_of_text(text) for text in texts_of_body(body, with_media=False))


def tokens_of_request(request: nh.models.ModelRequest) -> int:
    """Tokens of a request, as `tokens_of_body` counts them.

    Args:
        request: The request.
    """
    return tokens_of_body(body_of(request))


def tokens_of_text(text: str) -> int:
    """Tokens of a text.

    Args:
        text: The text.
    """
    return TokenCounter.resolve(encoding_name=None, model_name=MODEL).count(text)


def parts_of_peer(body: Mapping[str, Any]) -> Mapping[str, int]:
    """Where the tokens of a request of the peer go; its user prompt is what our locals show.

    Args:
        body: The JSON of the request.
    """
    parts = {"system": 0, "locals": 0, "tools": 0, "schema": 0}
    for message in body["messages"]:
        part = "system" if message["role"] == "system" else "locals"
        parts[part] += tokens_of_body({"messages": [message]})
    for tool in body.get("tools", ()):
        part = "schema" if tool["function"]["name"].startswith("final_result") else "tools"
        parts[part] += tokens_of_text(_json(tool))
    return parts


def texts_of_body(body: Mapping[str, Any], *, with_media: bool = True) -> list[str]:
    """The texts of a request: messages with their calls, tools one by one, and the schema of the answer.

    Args:
        body: The JSON of the request.
        with_media: Whether addresses and data of media are texts too.
    """
    texts: list[str] = []
    for message in body["messages"]:
        texts += [_json(call["function"]) for call in message.get("tool_calls", ())]
        content = message.get("content") or ()
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
            elif with_media:
                texts.append(json.dumps(part))
    texts += [_json(tool) for tool in body.get("tools", ())]
    if "response_format" in body:
        texts.append(_json(body["response_format"]))
    return texts


def _parts(body: Mapping[str, Any]) -> Mapping[str, int]:
    parts: dict[str, int] = dict.fromkeys(PARTS, 0)
    for message in body["messages"]:
        for text in texts_of_body({"messages": [message]}, with_media=False):
            if message["role"] == "system":
                parts["types"] += sum(map(tokens_of_text, _TYPES.findall(text)))
                parts["system"] += tokens_of_text(_TYPES.sub("", text))
                continue
            for section in _SECTION.finditer(text):
                name = section["name"].lower()
                parts[name if name in parts else "rest"] += tokens_of_text(section["text"])
            if "<<<NH:" in text:
                parts["rest"] += tokens_of_text(_SECTION.sub("<<<NH:X>>>\n\n<<<NH:END_X>>>", text))
                continue
            for section in _HEADED.finditer(text):
                parts[section["name"].lower()] += tokens_of_text(section["text"])
                parts["rest"] += tokens_of_text(f"{section['name']}\n")
            parts["program"] += tokens_of_text(_HEADED.sub("", text))
    for tool in body.get("tools", ()):
        if tool["function"]["name"] == "nh_outcome":
            bare = _without_values(tool)
            parts["outcome"] += tokens_of_text(_json(bare))
            parts["schema"] += tokens_of_text(_json(tool)) - tokens_of_text(_json(bare))
        else:
            parts["tools"] += tokens_of_text(_json(tool))
    if "response_format" in body:
        parts["schema"] += tokens_of_text(_json(body["response_format"]))
    return parts


def _without_values(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The outcome's tool without the types of the values that it takes."""
    function = tool["function"]
    schema = {key: value for key, value in function["parameters"].items() if key != "$defs"}
    schema["properties"] = {
        name: {} if name in ("bindings", "return_value") else value
        for name, value in schema["properties"].items()
    }
    return {**tool, "function": {**function, "parameters": schema}}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
