"""Upper bound on the tokens of a model request. Pure.

Providers render requests in their own formats, so the tokens sent are counted with a margin: a small one with
the model's own tokenizer, a larger one with another. A text of n bytes has at most n tokens in any tokenizer.
Media have no exact measure: each counts as much as it takes with most models.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from math import ceil
from typing import Any

from msgspec import Struct, field

from ..catalog.providers import PROVIDERS
from ..prompt.encodings import encoding_of_model, has_tiktoken
from ..prompt.tokens import TokenCounter
from ..types.json import is_json_mapping
from ..types.messages import (
    AssistantMessage,
    BinaryContent,
    FileUrl,
    ImageUrl,
    Message,
    ToolDefinition,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ..types.model import ModelCapabilities, ModelRequest
from ..types.native_tools import CodeExecution
from ..types.usage import Usage
from ..wire.added_tools import added_native_tools
from ..wire.native_tools import native_tools_of
from ..wire.transport_settings import TRANSPORT_SETTINGS

_MARGIN_OF_OWN_TOKENIZER = 1.1
_MARGIN_OF_ANOTHER = 1.5
_TOKENS_OF_REQUEST = 64
_TOKENS_OF_TOOL_USE = 600
"""Providers add instructions of their own to a request that offers tools."""
_TOKENS_OF_TOOL = 16
_TOKENS_OF_MESSAGE = 8

_TOKENS_OF_MEDIUM = 5_000
"""More than most models take for an image. For a few (such as gpt-4o-mini) a large image takes several times
as many; a bound for these would refuse requests to all others that fit a budget."""
_TOKENS_OF_FILE = 50_000
"""For a file that is known only by its URL or id, and may be long."""
_BYTES_PER_TOKEN_OF_SOUND = 64

TOKENS_OF_NATIVE_USE = 10_000
"""More than most results of a provider's own tools take, which are sent to the model like the request."""
ASSUMED_USES = 10
"""The uses of a native tool without a limit: those after which Anthropic pauses a response."""
USES: Mapping[str, str] = {
    "web_search": "web_searches",
    "code_execution": "code_executions",
    "file_search": "file_searches",
}
"""The fields of `Usage` that count the uses of native tools."""

_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_ANSWERS = ("n", "candidateCount", "candidate_count")
_UNKNOWN_INPUTS = dict.fromkeys(
    (
        "previous_response_id",
        "conversation",
        "prompt",
        "cachedContent",
        "cached_content",
        "mcp_servers",
        "web_search_options",
    )
).keys()
_GENERATION_SETTINGS = ("generationConfig", "generation_config")
"""Google's names for the object of settings."""


class RequestBound(Struct, frozen=True, kw_only=True):
    """Upper bound on the tokens of one request, and on the uses of native tools.

    Args:
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        uses: The most uses of native tools.
        unlimited: The native tools that may be used any number of times.
        caches_for_an_hour: Whether the request may ask the provider to keep tokens for an hour.
    """

    input_tokens: int
    output_tokens: int
    uses: Usage = field(default_factory=Usage)
    unlimited: tuple[str, ...] = ()
    caches_for_an_hour: bool = False


class TokenMeasure:
    """Measures requests to a model.

    Args:
        counter: Counts tokens.
        model_name: The model id.
    """

    __slots__ = ("_counter", "_model_name")

    def __init__(self, counter: TokenCounter, model_name: str) -> None:
        self._counter = counter
        self._model_name = model_name

    @property
    def is_loaded(self) -> bool:
        """Whether measuring is possible without reading a file first."""
        return self._counter.is_loaded

    def most_tokens_of(self, request: ModelRequest, text: "RequestText") -> int:
        """Upper bound on the tokens that are sent with a request.

        Args:
            request: The request.
            text: Its text, from `request_text`.
        """
        measure = _kept_size if len(text.kept) <= _LONGEST_KEPT else _size
        kept_tokens, kept_bytes = measure(self._counter, text.kept)
        sent_tokens, sent_bytes = _size(self._counter, text.rest)
        tokens = self._bounded(kept_tokens + sent_tokens, kept_bytes + sent_bytes)
        return tokens + _tokens_beside_text(request)

    def most_bytes_of(self, request: ModelRequest, text: "RequestText") -> int:
        """A larger bound on the same, without counting: a text has at most as many tokens as bytes.

        Args:
            request: The request.
            text: Its text, from `request_text`.
        """
        return _length(text.kept) + _length(text.rest) + _tokens_beside_text(request)

    def most_tokens(self, text: str) -> int:
        """Upper bound on the tokens of a text.

        Args:
            text: The text.
        """
        return self._bounded(*_size(self._counter, text))

    def _bounded(self, tokens: int, length: int) -> int:
        is_own = _has_own_tokenizer(self._model_name) and self._counter.is_exact
        margin = _MARGIN_OF_OWN_TOKENIZER if is_own else _MARGIN_OF_ANOTHER
        return min(ceil(tokens * margin), length)


class RequestText(Struct, frozen=True, kw_only=True):
    """All text that is sent with a request.

    Args:
        kept: The system prompt and the tools, which all requests of a block have in common; ends a line.
        rest: The other text.
    """

    kept: str
    rest: str

    def __len__(self) -> int:
        return len(self.kept) + len(self.rest)


def request_text(request: ModelRequest) -> RequestText:
    """All text that is sent with a request.

    Args:
        request: The request.
    """
    return RequestText(kept="\n".join((*_kept_texts(request), "")), rest="\n".join(_other_texts(request)))


def _size(counter: TokenCounter, text: str) -> tuple[int, int]:
    """The tokens and the bytes of a text."""
    return counter.count(text), _length(text)


def _length(text: str) -> int:
    """The bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _tokens_beside_text(request: ModelRequest) -> int:
    """Upper bound on the tokens of a request beside those of its text."""
    tokens = sum(_tokens_of_medium(item) for item in _media(request))
    tokens += _TOKENS_OF_REQUEST + _TOKENS_OF_MESSAGE * len(request.messages)
    if request.tools:
        tokens += _TOKENS_OF_TOOL_USE + _TOKENS_OF_TOOL * len(request.tools)
    return tokens


_NO_USES = Usage()
_LONGEST_KEPT = 64 * 1024
_kept_size = lru_cache(maxsize=64)(_size)


def find_output_limit(settings: Mapping[str, Any]) -> int:
    """The greatest number of tokens of each answer in a response; 0 if the settings set no limit.

    The largest limit counts. A None in `extra_body` removes the limit.

    Args:
        settings: The settings of a request.
    """
    in_body = _parts_of_extra_body(settings)
    if in_body and any(part.get(name, 0) is None for part in in_body for name in _OUTPUT_LIMITS):
        return 0
    return max(_numbers([settings, *in_body], _OUTPUT_LIMITS), default=0)


def find_unknown_input(settings: Mapping[str, Any]) -> str | None:
    """The field of a request that lets the provider add stored or retrieved content; None for none.

    Args:
        settings: The settings of a request.
    """
    body = _object(settings, "extra_body")
    if not body and _UNKNOWN_INPUTS.isdisjoint(settings):
        return None
    parts = (settings, body) if body else (settings,)
    names = (name for part in parts for name in _UNKNOWN_INPUTS if part.get(name) not in (None, [], ""))
    tools = (name for name, _ in added_native_tools(body.get("tools")) if name not in USES)
    return next(chain(names, tools), None)


def count_native_uses(settings: Mapping[str, Any]) -> tuple[Usage, tuple[str, ...]]:
    """Return the most uses of each native tool, and the names of the tools that have no limit.

    Tools of `extra_body` count, too.

    Args:
        settings: The settings of a request.

    Raises:
        ConfigurationError: The setting `native_tools` is malformed.
    """
    body = _object(settings, "extra_body")
    if not body and settings.get("native_tools") is None:
        return _NO_USES, ()
    overall: object = body.get("max_tool_calls", settings.get("max_tool_calls"))
    most = overall if isinstance(overall, int) and overall > 0 else None
    tools = [
        (type(tool).__name__, tool.name, None if isinstance(tool, CodeExecution) else tool.max_uses)
        for tool in native_tools_of(settings)
    ]
    if "max_tool_calls" in body:  # it replaces the limit that the tools have
        tools = [(title, name, most and max(most, limit or 0)) for title, name, limit in tools]
    tools += [(name, name, limit) for name, limit in added_native_tools(body.get("tools")) if name in USES]
    uses: dict[str, Any] = {}
    for _, name, limit in tools:
        uses[USES[name]] = uses.get(USES[name], 0) + (limit or most or ASSUMED_USES)
    unlimited = [title for title, _, limit in tools if limit is None and most is None]
    return Usage(**uses), tuple(unlimited)


def may_cache_for_an_hour(settings: Mapping[str, Any]) -> bool:
    """Whether a request may ask the provider to keep what it caches for an hour.

    In `extra_body`, any mention of that time counts: marks can stand anywhere in a body.

    Args:
        settings: The settings of a request.
    """
    if settings.get("prompt_caching") == "1h":
        return True
    body = _object(settings, "extra_body")
    return bool(body) and "'1h'" in repr(body)


def count_answers(settings: Mapping[str, Any]) -> int:
    """Return the number of answers in a response, each of which may be as long as the limit.

    Args:
        settings: The settings of a request.
    """
    return max(_numbers([settings, *_parts_of_extra_body(settings)], _ANSWERS), default=1)


def reasons(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> bool:
    """Whether a model may reason: it can, and the settings do not disable it.

    Args:
        settings: The settings of a request.
        capabilities: The capabilities of the model.
    """
    thinking = _object(settings, "thinking").get("type")
    is_disabled = settings.get("reasoning_effort") == "none" or thinking == "disabled"
    return capabilities.reasoning and not is_disabled


def _numbers(parts: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[int]:
    """Return the positive numbers under some names."""
    return [
        number
        for part in parts
        for name in names
        if (number := part.get(name)) is not None and isinstance(number, int) and number > 0
    ]


def _parts_of_extra_body(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of `extra_body` that can hold a protocol's limit on the length of responses.

    Other objects have fields of the same names with other meanings, the length of the reasoning for example.
    """
    body = _object(settings, "extra_body")
    if not body:
        return []
    return [body, *(_object(body, name) for name in _GENERATION_SETTINGS)]


def _object(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return value if value is not None and is_json_mapping(value) else {}


@lru_cache(maxsize=256)
def _has_own_tokenizer(model_name: str) -> bool:
    """Whether the token counter for a model's name uses the model's own tokenizer."""
    provider, _, name = model_name.partition(":")
    facts = PROVIDERS.get(provider)
    is_tiktoken = facts is not None and facts.tokenizers == "tiktoken"
    return is_tiktoken and has_tiktoken() and encoding_of_model(name) is not None


def _kept_texts(request: ModelRequest) -> Iterator[str]:
    yield request.system_prompt
    for tool in request.tools:
        yield tool.name
        yield tool.description
        yield _schema_text(tool)


_MOST_SCHEMAS = 1_000
_SCHEMA_TEXTS: dict[int, tuple[Mapping[str, Any], str]] = {}
"""The texts of the schemas of tools, by the identity of the schema, which is kept alive."""


def _schema_text(tool: ToolDefinition) -> str:
    """The schema of a tool's arguments as JSON; written once, as it does not change."""
    known = _SCHEMA_TEXTS.get(id(tool.parameters))
    if known is not None and known[0] is tool.parameters:
        return known[1]
    text = _json(tool.parameters)
    if len(_SCHEMA_TEXTS) >= _MOST_SCHEMAS:
        _SCHEMA_TEXTS.clear()
    _SCHEMA_TEXTS[id(tool.parameters)] = tool.parameters, text
    return text


def _other_texts(request: ModelRequest) -> Iterator[str]:
    if request.response_format is not None:
        yield _json(request.response_format.schema)
    for message in request.messages:
        yield from _texts_of_message(message)
    yield from _texts_of_settings(request.settings)


def _texts_of_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """Return the texts that settings add to a request; unknown settings are sent unchanged."""
    for name, value in settings.items():
        is_sent = name == "extra_body" or name not in TRANSPORT_SETTINGS
        if is_sent and value and not isinstance(value, int | float):
            yield _json(value)


def _texts_of_message(message: Message) -> Iterator[str]:
    if not isinstance(message, AssistantMessage):
        yield from (item for item in _contents(message) if isinstance(item, str))
        return
    if message.provider_content is not None:
        yield _json(message.provider_content.items)
        return
    yield message.text
    yield message.reasoning
    for call in message.tool_calls:
        yield call.name
        yield call.arguments


def _contents(message: Message) -> Iterator[UserContent]:
    if isinstance(message, UserMessage):
        yield from message.content
    elif isinstance(message, AssistantMessage):
        yield from message.media
    else:
        for result in message.results:
            yield from result.content


def _media(request: ModelRequest) -> Iterator[BinaryContent | FileUrl | UploadedFile]:
    for message in request.messages:
        yield from (item for item in _contents(message) if not isinstance(item, str))


def _tokens_of_medium(item: BinaryContent | FileUrl | UploadedFile) -> int:
    match item:
        case BinaryContent() if item.is_image:
            return _TOKENS_OF_MEDIUM
        case BinaryContent() if item.is_document:
            return max(_TOKENS_OF_MEDIUM, len(item.data))
        case BinaryContent():
            return max(_TOKENS_OF_MEDIUM, len(item.data) // _BYTES_PER_TOKEN_OF_SOUND)
        case ImageUrl():
            return _TOKENS_OF_MEDIUM
        case _:
            return _TOKENS_OF_FILE


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
