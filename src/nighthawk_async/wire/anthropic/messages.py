"""A conversation as Anthropic messages, and limits for thinking and writing.

Roles alternate: messages of the same role that follow each other become one. The results of all calls of a
response are in one user message, before its other content. An empty user turn gets a placeholder: without it,
the conversation would end with the assistant, whose text the model would continue. Content is always a list
of blocks, and the same message always gives the same blocks, so that a longer conversation begins as the
shorter one did.

The protocol carries text, images (JPEG, PNG, GIF and WebP bytes, and URLs), documents (PDF bytes and URLs,
and plain text) and files uploaded beforehand, in user messages and in tool results alike. URLs are those that
the provider fetches itself, no `data:` URLs. It carries neither audio nor video.

Source: `image_block_param.py`, `document_block_param.py` and the `…_source_param.py` of the official SDK.

Thinking counts towards `max_tokens`, which the protocol demands. The amount of thinking is set by a word
(`output_config.effort` beside adaptive thinking) or, for older models, by a number of tokens that must stay
below `max_tokens`, unless thinking continues between calls and all of it counts.

Source: `thinking_config_param.py` and `output_config_param.py` of the official SDK, and "Extended thinking",
"Interleaved thinking", of the provider's documentation.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError, UnsupportedContentError
from ...lazy_exports import LazyModule
from ...types.endpoint_rules import CallIdRule
from ...types.messages import (
    AssistantMessage,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    Message,
    MultimodalContent,
    ToolResult,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ...types.model import ModelCapabilities
from ..call_ids import fitting_id
from ..json_text import NO_TEXT, arguments_object
from ..media import WEB_SCHEMES, bare_media_type, describe_media, has_scheme, media_kind
from .native_tools import CONTAINER

if TYPE_CHECKING:
    from .. import held_media
else:
    held_media = LazyModule("nighthawk_async.wire.held_media")  # few answers hold media

FILE_PROVIDERS = frozenset({"anthropic"})
"""The providers whose uploaded files an endpoint of this protocol may know."""

_IMAGE_TYPES = {
    "image/gif": "image/gif",
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/webp": "image/webp",
}
_PDF = "application/pdf"


def text_block(text: str) -> list[dict[str, Any]]:
    """A text as a list of one block, or of none: the endpoint refuses blocks without a visible character.

    Args:
        text: The text.
    """
    return [{"type": "text", "text": text}] if text.strip() else []


def encode_user_content(content: Iterable[UserContent]) -> list[dict[str, Any]]:
    """The content of a user message.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    blocks: list[dict[str, Any]] = []
    for item in content:
        blocks += text_block(item) if isinstance(item, str) else [_encode_or_refuse(item)]
    return blocks


def encode_result_content(result: ToolResult) -> list[dict[str, Any]]:
    """The content of a tool result; content that the protocol cannot carry there is described in words.

    Args:
        result: The result. That of a failed call must hold text, and nothing else.
    """
    blocks: list[dict[str, Any]] = []
    texts: list[str] = []
    for item in result.content:
        if isinstance(item, str):
            texts.append(item)
        elif result.is_error or find_refusal(item) is not None:
            texts.append(f"[{describe_media(item)}; it cannot be shown to this model]")
        else:
            blocks += [*_joined(texts), _encode_media(item)]
            texts.clear()
    blocks += _joined(texts)
    return blocks or (text_block(NO_TEXT) if result.is_error else [])


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    if isinstance(item, UploadedFile):
        is_carried = item.provider_name in FILE_PROVIDERS and kind in ("image", "document")
    elif isinstance(item, FileUrl):
        is_fit = kind == "image" or (kind == "document" and _may_be_pdf(item))
        is_carried = is_fit and has_scheme(item, WEB_SCHEMES)
    else:
        is_carried = _image_type(item) is not None or _is_pdf(item) or _plain_text(item) is not None
    return None if is_carried else f"the Anthropic Messages protocol cannot carry {describe_media(item)}"


def _joined(texts: Sequence[str]) -> list[dict[str, Any]]:
    # One block: servers that know only text join several without a separator.
    return text_block("\n".join(texts))


def _encode_or_refuse(item: MultimodalContent) -> dict[str, Any]:
    refusal = find_refusal(item)
    if refusal is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    block_type = "image" if media_kind(item) == "image" else "document"
    if isinstance(item, UploadedFile):
        return {"type": block_type, "source": {"type": "file", "file_id": item.file_id}}
    if isinstance(item, FileUrl):
        return {"type": block_type, "source": {"type": "url", "url": item.url}}
    block = {"type": block_type, "source": _inline_source(item)}
    return block | {"title": item.identifier} if block_type == "document" and item.identifier else block


def _inline_source(item: BinaryContent) -> dict[str, Any]:
    text = _plain_text(item)
    if text is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    data = base64.b64encode(item.data).decode()
    return {"type": "base64", "media_type": _image_type(item) or _PDF, "data": data}


def _image_type(item: BinaryContent) -> str | None:
    return _IMAGE_TYPES.get(bare_media_type(item.media_type))


def _is_pdf(item: BinaryContent) -> bool:
    return bare_media_type(item.media_type) == _PDF


def _may_be_pdf(item: FileUrl) -> bool:
    """Whether the endpoint may find a PDF at the URL, the only kind of document that it fetches."""
    if item.media_type is None:
        return isinstance(item, DocumentUrl)
    return bare_media_type(item.media_type) == _PDF


def _plain_text(item: BinaryContent) -> str | None:
    """The characters of a text of any kind, Markdown and CSV included; None when it is no UTF-8 text."""
    if not bare_media_type(item.media_type).startswith("text/"):
        return None
    try:
        return item.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


_MAX_DEFAULT_TOKENS = 16_384
_UNKNOWN_MAX_TOKENS = 4_096
_MIN_BUDGET_TOKENS = 1_024
_MIN_ANSWER_TOKENS = 4_096
_INTERLEAVED_BETA = "interleaved-thinking-"

_EFFORTS = {"minimal": "low"}
_TOKENS_OF_EFFORTS = {
    "minimal": _MIN_BUDGET_TOKENS,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPlan:
    """The thinking fields of a request's body.

    Args:
        max_tokens: Tokens that the response may hold, thinking included.
        config: The body's object `thinking`; None to leave it to the model.
        effort: The word for `output_config.effort`; None to leave it to the model.
    """

    max_tokens: int
    config: Mapping[str, Any] | None
    effort: str | None

    @property
    def is_asked_to_think(self) -> bool:
        """Whether the request itself turns thinking on."""
        return self.config is not None and self.config.get("type") != "disabled"

    @property
    def has_fixed_budget(self) -> bool:
        """Whether the model always thinks first; with other plans, it decides by itself."""
        return self.config is not None and self.config.get("type") == "enabled"


def plan_thinking(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> ThinkingPlan:
    """Choose the body's settings of thinking.

    Args:
        settings: The checked settings.
        capabilities: The capabilities of the model.

    Raises:
        ConfigurationError: The budget and `max_tokens` do not fit together, or the model takes a word.
    """
    max_tokens: int | None = settings.get("max_tokens")
    if max_tokens is None:
        max_tokens = _default_max_tokens(_wanted_tokens(settings), capabilities)
    return ThinkingPlan(
        max_tokens=max_tokens,
        config=_thinking_config(settings, capabilities, max_tokens),
        effort=_effort_word(settings, capabilities),
    )


def _effort_word(settings: Mapping[str, Any], capabilities: ModelCapabilities) -> str | None:
    effort: str | None = settings.get("reasoning_effort")
    if effort is None or effort == "none" or capabilities.reasoning_control != "effort":
        return None
    return _EFFORTS.get(effort, effort)


def _wanted_tokens(settings: Mapping[str, Any]) -> int:
    """The tokens of thinking that the settings ask for, as far as known."""
    thinking: Mapping[str, Any] = settings.get("thinking", {})
    if isinstance(own := thinking.get("budget_tokens"), int):
        return own
    budget: int | None = settings.get("thinking_budget_tokens")
    if budget is not None:
        return budget
    return _TOKENS_OF_EFFORTS.get(settings.get("reasoning_effort", ""), 0)


def _default_max_tokens(wanted: int, capabilities: ModelCapabilities) -> int:
    limit = capabilities.max_output_tokens
    answer = min(limit or _UNKNOWN_MAX_TOKENS, _MAX_DEFAULT_TOKENS)
    return answer + wanted if limit is None else min(answer + wanted, limit)


def _thinking_config(
    settings: Mapping[str, Any], capabilities: ModelCapabilities, max_tokens: int
) -> Mapping[str, Any] | None:
    own: Mapping[str, Any] | None = settings.get("thinking")
    if own is not None:
        _check_room("thinking.budget_tokens", own.get("budget_tokens"), max_tokens, settings)
        return own
    if (budget := settings.get("thinking_budget_tokens")) is not None:
        return _explicit_budget(budget, max_tokens, settings, capabilities)
    effort: str | None = settings.get("reasoning_effort")
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"}
    if capabilities.reasoning_control == "effort":
        return {"type": "adaptive"}
    return _budget_of_effort(effort, max_tokens)


def _explicit_budget(
    budget: int, max_tokens: int, settings: Mapping[str, Any], capabilities: ModelCapabilities
) -> Mapping[str, Any]:
    if budget == 0:
        return {"type": "disabled"}
    if capabilities.reasoning and capabilities.reasoning_control == "effort":
        raise ConfigurationError(
            "The model is told by a word how much to think, so it takes no 'thinking_budget_tokens'; set "
            "'reasoning_effort', or give the protocol's own object in the model setting 'thinking'."
        )
    if budget < _MIN_BUDGET_TOKENS:
        raise ConfigurationError(
            f"Model setting 'thinking_budget_tokens' is {budget}; it must be at least {_MIN_BUDGET_TOKENS}, "
            "or 0 to turn thinking off."
        )
    _check_room("thinking_budget_tokens", budget, max_tokens, settings)
    return {"type": "enabled", "budget_tokens": budget}


def _check_room(name: str, budget: object, max_tokens: int, settings: Mapping[str, Any]) -> None:
    """Refuse a budget that leaves no room, unless it is shared by several responses with calls in between."""
    is_shared = any(str(beta).startswith(_INTERLEAVED_BETA) for beta in settings.get("betas", ()))
    if isinstance(budget, int) and budget >= max_tokens and not is_shared:
        raise ConfigurationError(
            f"Model setting {name!r} is {budget}; it must be less than 'max_tokens', which is {max_tokens}."
        )


def _budget_of_effort(effort: str, max_tokens: int) -> Mapping[str, Any]:
    """The budget for a word; since a word promises no number, room is left for the answer."""
    if max_tokens <= _MIN_BUDGET_TOKENS:
        raise ConfigurationError(
            f"Model setting 'max_tokens' is {max_tokens}; thinking takes at least {_MIN_BUDGET_TOKENS} of "
            "them, so it must be larger, or 'reasoning_effort' must be 'none'."
        )
    room = max_tokens - min(_MIN_ANSWER_TOKENS, max_tokens // 2)
    budget = max(_MIN_BUDGET_TOKENS, min(_TOKENS_OF_EFFORTS[effort], room))
    return {"type": "enabled", "budget_tokens": budget}


PROTOCOL_NAME = "anthropic"

Block = dict[str, Any]

THINKING = frozenset({"redacted_thinking", "thinking"})
"""The types of blocks that hold thinking."""

_LOOP_CLOSED = "Noted."
# Every server of the protocol has this rule. Ids of other protocols hold other characters.
_IDS = CallIdRule(pattern="[a-zA-Z0-9_-]+", length=57)


def encode_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages of a request.

    Args:
        messages: The conversation, oldest first.

    Raises:
        ConfigurationError: There is no message.
        UnsupportedContentError: The protocol cannot carry an item of a user message.
    """
    encoded: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        is_continued = bool(encoded) and encoded[-1]["role"] == role
        blocks = _encode_message(message)
        if role == "user" and not is_continued:
            blocks = blocks or text_block(NO_TEXT)
        if not blocks:  # the endpoint refuses empty messages
            continue
        if is_continued:
            encoded[-1]["content"] = _results_first([*encoded[-1]["content"], *blocks])
        else:
            encoded.append({"role": role, "content": blocks})
    if not encoded:
        raise ConfigurationError("The Anthropic Messages protocol needs a message.")
    return encoded


def close_foreign_loops(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages, with a word of the assistant between the results of its calls and a new question.

    A model that always thinks first must have done so before its calls, as long as their results are in the
    last question. Calls that it did not make itself, or whose response broke off, have no thinking.

    Args:
        messages: The encoded messages.
    """
    closed: list[dict[str, Any]] = []
    has_thought = False  # since the last question
    for message in messages:
        blocks: list[Block] = message["content"]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        question = [block for block in blocks if block.get("type") != "tool_result"]
        if message["role"] == "assistant":
            has_thought = has_thought or any(block.get("type") in THINKING for block in blocks)
        elif results and question and not has_thought:
            closed.append({"role": "user", "content": results})
            closed.append({"role": "assistant", "content": text_block(_LOOP_CLOSED)})
            closed.append({"role": "user", "content": question})
            continue
        elif not results:
            has_thought = False
        closed.append({**message})
    return closed


def _encode_message(message: Message) -> list[Block]:
    match message:
        case UserMessage():
            return encode_user_content(message.content)
        case AssistantMessage():
            return _encode_assistant_message(message)
        case ToolResultsMessage():
            return [_encode_result(result) for result in message.results]


def _encode_assistant_message(message: AssistantMessage) -> list[Block]:
    content = message.provider_content
    if content is not None and content.protocol == PROTOCOL_NAME:
        return [_with_valid_id(item) for item in content.items if item.get("type") != CONTAINER]
    text = held_media.text_with_media(message) if message.media else message.text
    calls = [
        {
            "type": "tool_use",
            "id": fitting_id(call.id, _IDS),
            "name": call.name,
            "input": arguments_object(call.arguments),
        }
        for call in message.tool_calls
    ]
    return [*text_block(text), *calls]


def _encode_result(result: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": fitting_id(result.call_id, _IDS)}
    if content := encode_result_content(result):
        block["content"] = content
    return block | {"is_error": True} if result.is_error else block


def _results_first(blocks: list[Block]) -> list[Block]:
    """The same blocks; the endpoint wants tool results right after the calls, before any text."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _with_valid_id(item: Mapping[str, Any]) -> Block:
    block = dict(item)
    if block.get("type") == "tool_use":
        block["id"] = fitting_id(str(block.get("id", "")), _IDS)
    return block
