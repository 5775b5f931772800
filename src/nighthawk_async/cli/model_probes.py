"""The tiny requests of `models check`, and what they find out about a model behind a server.

With `--capabilities`, the statements of the server count (`server_facts`). Each open question is settled by a
small request, whose answer can only come from a server that has the capability. When a request gets no answer
in time, no other one follows.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio

from ..errors import ModelConnectionError, ModelError, ModelStatusError, ModelTimeoutError
from ..ports import Model
from ..types.messages import BinaryContent, ToolCall, ToolDefinition, UserMessage
from ..types.model import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    ToolCallCompleted,
    UsageReported,
)
from ..types.usage import Usage
from ..wire.json_text import NOT_JSON, decode_json
from .server_facts import ServerFacts, Statement

WORD = "ready"
TOOL_NAME = "say_word"
_WORD_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


def _question(text: str) -> tuple[UserMessage]:
    return (UserMessage(content=(text,)),)


DIRECT_QUESTION = ModelRequest(messages=_question(f"Answer with this one word: {WORD}"))
"""A request that needs only an answer."""

TOOL_REQUEST = ModelRequest(
    messages=_question(f"Call the tool {TOOL_NAME} with the word {WORD}."),
    tools=(ToolDefinition(name=TOOL_NAME, description="Says a word.", parameters=_WORD_SCHEMA),),
    tool_choice="required",  # as the agent executor asks
)
"""A request for one tool call."""

FORM_REQUEST = ModelRequest(
    messages=_question(f'Answer with a JSON object whose field "word" is "{WORD}".'),
    response_format=ResponseFormat(name="word", schema=_WORD_SCHEMA),
)
"""A request for an answer that follows a JSON Schema."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its result.

    Args:
        text: The visible text.
        calls: The tool calls.
        has_reasoned: Whether reasoning came with it.
        reason: The reason why the response ended; None when it did not end well.
        usage: Its usage; None when it is unknown.
        first_event_seconds: Seconds until the first event; None when there was none.
        seconds: Seconds in all.
        error: The error if there is no complete response.
    """

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    has_reasoned: bool = False
    reason: FinishReason | None = None
    usage: Usage | None = None
    first_event_seconds: float | None = None
    seconds: float = 0.0
    error: ModelError | None = None

    def take(self, event: ModelEvent) -> None:
        """Record one event.

        Args:
            event: The event.
        """
        match event:
            case TextDelta():
                self.text += event.text
            case ReasoningDelta():
                self.has_reasoned = True
            case ToolCallCompleted():
                self.calls.append(event.call)
            case UsageReported():
                self.usage = event.usage
                self.has_reasoned = self.has_reasoned or event.usage.reasoning_tokens > 0
            case ResponseFinished():
                self.reason = event.reason
            case _:
                pass


async def ask_model(model: Model, request: ModelRequest) -> Exchange:
    """Send a request and collect its response; a failure is part of the exchange.

    Args:
        model: The model.
        request: The request.

    Raises:
        ConfigurationError: The request could not be sent as it is.
    """
    exchange = Exchange()
    began = anyio.current_time()
    try:
        async with model.stream(request) as events:
            async for event in events:
                if exchange.first_event_seconds is None:
                    exchange.first_event_seconds = anyio.current_time() - began
                exchange.take(event)
    except ModelError as error:
        exchange.error = error
    exchange.seconds = anyio.current_time() - began
    return exchange


ALL_CAPABILITIES: Mapping[str, Any] = {
    "tools": True,
    "parallel_tool_calls": True,
    "forced_tool_choice": True,
    "structured_output": True,
    "structured_output_with_tools": True,
    "images": True,
    "reasoning": True,
    "reasoning_efforts": None,
    "reasoning_with_tools": True,
    "sampling": True,
    "context_window": None,
    "max_output_tokens": None,
}
"""All capabilities, so that no request is refused before it is sent."""

_LONGEST_QUOTE = 80
_MOST_TOKENS = 1_024  # enough for a model that reasons before its first word
_RIDDLE = "How many letters has the word strawberry?"
_CODES = ("k7", "m3")
_CODE_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "enum": list(_CODES)}},
    "required": ["code"],
    "additionalProperties": False,
}
_CODE_FORMAT = ResponseFormat(name="code", schema=_CODE_SCHEMA)
_PASSING_STATUSES = frozenset({408, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """One capability, as found.

    Args:
        name: The field of `ModelCapabilities`.
        value: Its value; None when it could not be determined.
        detail: The evidence, or the reason why there is none.
    """

    name: str
    value: object
    detail: str


_Judgement: TypeAlias = tuple[bool | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """A request that shows whether the model does one thing.

    Args:
        name: The field of `ModelCapabilities`.
        request: The request.
        judge: Whether the answer shows it, and the reason.
        needs: Another field, without which there is nothing to probe.
        opposite: A request that asks the model not to do it, if that has to make a difference.
        otherwise: A request that asks for less, for a server that refuses the first one.
    """

    name: str
    request: ModelRequest
    judge: Callable[[Exchange], _Judgement]
    needs: str = ""
    opposite: ModelRequest | None = None
    otherwise: ModelRequest | None = None


async def find_abilities(
    model: Model, facts: ServerFacts, report: Callable[[Ability], None], *, is_limited: bool
) -> None:
    """Determine the capabilities of a model, one after the other.

    Args:
        model: The model, with `ALL_CAPABILITIES`.
        facts: The statements of its server.
        report: Called with each ability as soon as it is known.
        is_limited: Whether the model's own settings bound the length of responses.

    Raises:
        ConfigurationError: A request could not be sent as it is.
    """
    found: dict[str, object] = {}
    trouble = ""
    settings = {} if is_limited else _limit(facts.statements.get("context_window"))
    for probe in _probes():
        said = facts.statements.get(probe.name)
        if said is not None and (said.value is False or probe.name in ("images", "reasoning")):
            ability = Ability(name=probe.name, value=said.value, detail=said.detail)
        elif probe.needs and found.get(probe.needs) is not True:
            value = None if found.get(probe.needs) is None else False
            ability = Ability(name=probe.name, value=value, detail=f"it needs {probe.needs}")
        elif trouble:
            ability = Ability(name=probe.name, value=None, detail=f"not asked: {trouble}")
        else:
            ability, trouble = await _ask(model, probe, settings)
        found[probe.name] = ability.value
        if probe.name == "sampling" and ability.value:
            settings["temperature"] = 0.0  # the other answers should not depend on chance
        report(ability)
    for name, said in facts.statements.items():
        if name not in found:
            report(Ability(name=name, value=said.value, detail=said.detail))


async def _ask(model: Model, probe: _Probe, settings: Mapping[str, Any]) -> tuple[Ability, str]:
    """One probe's ability, and the reason why no other one should follow; empty when others may."""
    exchange = await ask_model(model, _with_settings(probe.request, settings))
    if probe.otherwise is not None and _is_refusal(exchange.error):
        exchange = await ask_model(model, _with_settings(probe.otherwise, settings))
    error = exchange.error
    if error is None:
        value, detail = probe.judge(exchange)
        if value and probe.opposite is not None:
            other = await ask_model(model, _with_settings(probe.opposite, settings))
            if other.error is None and probe.judge(other)[0]:
                value, detail = False, "what it is told makes no difference"
        return Ability(name=probe.name, value=value, detail=detail), ""
    reason = error.message.removeprefix(f"{model.name}: ")
    if _is_refusal(error):
        return Ability(name=probe.name, value=False, detail=reason), ""
    is_hopeless = isinstance(error, ModelTimeoutError | ModelConnectionError)
    trouble = "the request before it got no answer" if is_hopeless else ""
    return Ability(name=probe.name, value=None, detail=reason), trouble


def _is_refusal(error: ModelError | None) -> bool:
    """Whether a server has refused a request and would do so again."""
    return isinstance(error, ModelStatusError) and error.status not in _PASSING_STATUSES


def _with_settings(request: ModelRequest, more: Mapping[str, Any]) -> ModelRequest:
    return replace(request, settings={**request.settings, **more})


def _limit(window: Statement | None) -> dict[str, Any]:
    size = window.value if window is not None else None
    return {"max_tokens": min(_MOST_TOKENS, size // 2) if isinstance(size, int) else _MOST_TOKENS}


def _probes() -> Iterator[_Probe]:
    """The requests, each after the probe that it needs."""
    tool = TOOL_REQUEST.tools[0]
    yield _Probe(
        name="sampling",
        request=_request("Answer with this one word: ready", temperature=0.5),
        judge=lambda exchange: (True, "it took a temperature"),
    )
    yield _Probe(
        name="tools",
        request=TOOL_REQUEST,
        judge=_judge_call,
        otherwise=replace(TOOL_REQUEST, tool_choice="auto"),
    )
    yield _Probe(
        name="parallel_tool_calls",
        request=replace(
            _request(
                f"Call the tool {TOOL_NAME} twice in this one response: with the word red, and with the word "
                "blue."
            ),
            tools=(tool,),
        ),
        judge=_judge_calls,
        needs="tools",
    )
    yield _Probe(
        name="forced_tool_choice",
        request=replace(_request("Say hello."), tools=(tool,), tool_choice="required"),
        judge=_judge_forced_call,
        needs="tools",
    )
    yield _Probe(
        name="structured_output",
        request=replace(_request("Say hello."), response_format=_CODE_FORMAT),
        judge=_judge_code,
    )
    yield _Probe(
        name="structured_output_with_tools",
        request=replace(
            _request("Say hello. Call no tool."), tools=(_unneeded_tool(),), response_format=_CODE_FORMAT
        ),
        judge=_judge_code,
        needs="structured_output",
    )
    yield _Probe(
        name="images",
        request=_image_request(),
        judge=_judge_colour,
    )
    yield _Probe(
        name="reasoning",
        request=_request(_RIDDLE, reasoning_effort="high"),
        judge=_judge_reasoning,
        opposite=_request(_RIDDLE, reasoning_effort="none"),
    )


def _request(text: str, **settings: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(content=(text,)),), settings=settings)


def _unneeded_tool() -> ToolDefinition:
    return ToolDefinition(
        name="ring_bell", description="Rings the bell.", parameters={"type": "object", "properties": {}}
    )


def _image_request() -> ModelRequest:
    image = BinaryContent(data=_red_square(), media_type="image/png")
    question = "Which colour has this picture? Answer with one word."
    return ModelRequest(messages=(UserMessage(content=(image, question)),))


def _red_square(size: int = 64) -> bytes:
    """A red picture as PNG; models refuse much smaller ones."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = (b"\0" + b"\xff\0\0" * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"".join(
        (b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    )


def _judge_call(exchange: Exchange) -> _Judgement:
    for call in exchange.calls:
        if call.name == TOOL_NAME and isinstance(_decoded(call.arguments).get("word"), str):
            return True, f"it called {call.name} {_quoted(call.arguments)}"
    if exchange.calls:
        call = exchange.calls[0]
        return False, f"its call does not fit the tool: {call.name} {_quoted(call.arguments)}"
    return False, f"it called nothing, but answered {_quoted(exchange.text)}"


def _judge_calls(exchange: Exchange) -> _Judgement:
    count = len(exchange.calls)
    return count > 1, f"asked for two calls in one response, it made {count}"


def _judge_forced_call(exchange: Exchange) -> _Judgement:
    if any(call.name == TOOL_NAME for call in exchange.calls):
        return True, "told to call a tool where none was needed, it did"
    return False, f"told to call a tool, it answered {_quoted(exchange.text)}"


def _judge_code(exchange: Exchange) -> _Judgement:
    if _decoded(exchange.text).get("code") in _CODES:
        return True, f"it answered {_quoted(exchange.text)}"
    if exchange.calls:
        return False, f"it called {exchange.calls[0].name} where a schema was to be kept"
    return False, f"the answer does not keep to the schema: {_quoted(exchange.text)}"


def _judge_colour(exchange: Exchange) -> _Judgement:
    return "red" in exchange.text.lower(), f"shown a red picture, it answered {_quoted(exchange.text)}"


def _judge_reasoning(exchange: Exchange) -> _Judgement:
    if not exchange.has_reasoned:
        return False, "told to reason much, it did not reason"
    return True, "told to reason much, it reasoned; told not to, it did not"


def _quoted(text: str) -> str:
    """Words of a model, on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _LONGEST_QUOTE else f"{line[: _LONGEST_QUOTE - 1]}…")


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        value: object = decode_json(text)
    except NOT_JSON:
        return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
