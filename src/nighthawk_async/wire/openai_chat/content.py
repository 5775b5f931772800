"""Content items as parts of a Chat Completions message, and responses as assistant messages.

The protocol carries text, images (bytes, and URLs of the web or with the data inside), audio (WAV and MP3
bytes), and documents (bytes, and files uploaded beforehand). It carries no video, no audio or documents by
URL, and no uploaded files of other kinds: a file part is read as a document.

An assistant message goes back to the endpoint with every later request. Only this module makes the shape,
both for the library's own messages and for responses, which are kept in the provider's form (`ReplayRecord`).
"""

import base64
from collections.abc import Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from ...errors import UnsupportedContentError
from ...lazy_exports import LazyModule
from ...types.endpoint_rules import NO_RULES, EndpointRules, ReasoningForm
from ...types.json import is_json_list
from ...types.messages import (
    AssistantMessage,
    BinaryContent,
    FileUrl,
    MultimodalContent,
    ProviderContent,
    ToolCall,
    UploadedFile,
    UserContent,
)
from ...types.usage import MAX_COUNT, Usage
from ..json_text import as_object, valid_arguments
from ..media import (
    OPENAI_FILE_PROVIDERS,
    WEB_SCHEMES,
    bare_media_type,
    data_url,
    describe_media,
    document_name,
    has_scheme,
    media_kind,
)

if TYPE_CHECKING:
    from .. import held_media
else:
    held_media = LazyModule("nighthawk_async.wire.held_media")  # few answers hold media

PROTOCOL = "openai-chat"
"""The name of the protocol, in model ids and in `ProviderContent`."""

USUAL_REASONING_FIELD: Literal["reasoning_content"] = "reasoning_content"
OTHER_REASONING_FIELD: Literal["reasoning"] = "reasoning"
"""The fields in which servers send reasoning text: vLLM renamed its field, and others use either name."""


def assistant_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The message in the form that every server understands.

    Args:
        text: The visible text.
        calls: The tool calls, in order.
    """
    if not calls:
        return {"role": "assistant", "content": text}
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": valid_arguments(call.arguments)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}


def thinking_content(reasoning: str, text: str) -> list[dict[str, Any]]:
    """The content of a message in which the reasoning is a part before the text, as with Mistral.

    Args:
        reasoning: The reasoning text.
        text: The visible text.
    """
    texts = [{"type": "text", "text": text}] if text else []
    return [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}, *texts]


def encode_assistant_message(
    message: AssistantMessage, *, replays_reasoning: bool, rules: EndpointRules = NO_RULES
) -> dict[str, Any]:
    """The message as a request carries it.

    It depends on nothing but this message, so that it stays the same in every request.

    Args:
        message: The message.
        replays_reasoning: Whether the model gets its reasoning text back.
        rules: The rules of the endpoint, which say where.
    """
    own = _own_content(message)
    plain = assistant_message(message.text, message.tool_calls)
    if own is None:
        encoded = _with_media(plain, message)
    elif rules.ignores_unknown_fields:
        encoded = {name: value for name, value in own.items() if name not in _NOT_SENT}
        if isinstance(encoded.get("content"), list):
            encoded["content"] = plain["content"]
        encoded = (
            held_media.with_media(encoded, message.media)
            if "images" in own
            else _with_media(encoded, message)
        )
    else:
        encoded = _with_media(plain, message)
    if own is not None and "audio" in own and _is_kept(own["audio"]):
        encoded |= {"audio": {"id": own["audio"]["id"]}} | ({"content": None} if "content" in encoded else {})
    if replays_reasoning:
        encoded |= _returned_reasoning(message, plain, own, rules)
    return encoded


_NOT_SENT = frozenset({OTHER_REASONING_FIELD, "audio", "executed_tools"})
"""Fields of an answer that go back in no request as they came."""


def _with_media(encoded: Mapping[str, Any], message: AssistantMessage) -> dict[str, Any]:
    """The message with media in words; a sound whose words are the text needs none."""
    images = tuple(each for each in message.media if media_kind(each) != "audio" or not message.text)
    if not images:
        return {**encoded}
    return {**encoded, "content": held_media.text_with_media(message, images)}


def _is_kept(audio: Mapping[str, Any]) -> bool:
    """Whether the provider still has the sound of an answer; if not, its words go back."""
    return "expires_at" not in audio or time() < audio["expires_at"]


def _returned_reasoning(
    message: AssistantMessage, plain: Mapping[str, Any], own: Mapping[str, Any] | None, rules: EndpointRules
) -> dict[str, Any]:
    """The fields of the message in which the endpoint takes its reasoning; none for a turn without any.

    Groq and Mistral refuse the field of the others, even an empty one. DeepSeek refuses a turn with calls
    that lacks it, even if another model without reasoning has made them.
    """
    text, form = message.reasoning, rules.reasoning_form
    if form == "as sent":
        form = _sent_form(own)
    if rules.demands_reasoning and message.tool_calls:
        return {USUAL_REASONING_FIELD: text}
    if not text or form == "none":
        return {}
    if form == "thinking part":
        return {"content": thinking_content(text, plain["content"] or "")}
    return {form: text}


def _sent_form(own: Mapping[str, Any] | None) -> ReasoningForm:
    """The form in which the server sent reasoning; what has no other form came in the usual field."""
    if own is None:
        return USUAL_REASONING_FIELD
    if OTHER_REASONING_FIELD in own:
        return OTHER_REASONING_FIELD
    return "thinking part" if isinstance(own.get("content"), list) else USUAL_REASONING_FIELD


def _own_content(message: AssistantMessage) -> Mapping[str, Any] | None:
    """The message as a server of this protocol sent it, when it was kept."""
    content = message.provider_content
    return content.items[0] if content is not None and content.protocol == PROTOCOL else None


_IMAGE_SCHEMES = WEB_SCHEMES | {"data"}

_AUDIO_FORMATS = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


def encode_user_content(content: tuple[UserContent, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message: a plain text if there are no media, which every server understands.

    Args:
        content: The items, in order.

    Raises:
        UnsupportedContentError: The protocol cannot carry an item.
    """
    texts = [item for item in content if isinstance(item, str)]
    if len(texts) == len(content):
        return "\n\n".join(texts)
    return [
        {"type": "text", "text": item} if isinstance(item, str) else _encode_or_refuse(item)
        for item in content
    ]


def find_refusal(item: MultimodalContent) -> str | None:
    """Return the reason why the protocol cannot carry a media item; None when it can.

    Args:
        item: The media item.
    """
    kind = media_kind(item)
    if isinstance(item, UploadedFile):
        is_carried = item.provider_name in OPENAI_FILE_PROVIDERS and kind == "document"
    elif isinstance(item, FileUrl):
        is_carried = kind == "image" and has_scheme(item, _IMAGE_SCHEMES)
    else:
        is_carried = _audio_format(item) is not None if kind == "audio" else kind != "video"
    return None if is_carried else f"the Chat Completions protocol cannot carry {describe_media(item)}"


def encode_media(item: MultimodalContent) -> dict[str, Any] | None:
    """A media item as a content part; None when the protocol cannot carry it.

    Args:
        item: The media item.
    """
    return None if find_refusal(item) else _encode_media(item)


def _encode_or_refuse(item: MultimodalContent) -> dict[str, Any]:
    refusal = find_refusal(item)
    if refusal is not None:
        raise UnsupportedContentError(f"{refusal}.")
    return _encode_media(item)


def _encode_media(item: MultimodalContent) -> dict[str, Any]:
    if isinstance(item, UploadedFile):
        return {"type": "file", "file": {"file_id": item.file_id}}
    if isinstance(item, FileUrl):
        return {"type": "image_url", "image_url": {"url": item.url}}
    kind = media_kind(item)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    return _encode_audio(item) if kind == "audio" else _encode_document(item)


def _audio_format(item: BinaryContent) -> str | None:
    return _AUDIO_FORMATS.get(bare_media_type(item.media_type))


def _encode_audio(item: BinaryContent) -> dict[str, Any]:
    data = base64.b64encode(item.data).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": _audio_format(item)}}


def _encode_document(item: BinaryContent) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": document_name(item), "file_data": data_url(item)}}


_TEXT_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of details that are streamed in pieces, and the field of the piece. All others come complete."""


class ReplayRecord:
    """Collects the reasoning of one response."""

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._thinking: list[str] = []
        self._details: list[_Detail] = []
        self._extra_content: dict[str, Any] = {}
        self.added: Mapping[str, Any] = {}
        """Media, and calls of the server's own tools, as fields of the message."""

    def add_reasoning(self, text: str) -> None:
        """Add reasoning text from the field that fewer servers have.

        Args:
            text: The text.
        """
        self._reasoning.append(text)

    def add_thinking(self, text: str) -> None:
        """Add reasoning text from the content of the message.

        Args:
            text: The text.
        """
        self._thinking.append(text)

    def add_extra_content(self, extra_content: object) -> None:
        """Add what the provider has attached to the message.

        Args:
            extra_content: A JSON value, usually an object.
        """
        self._extra_content |= as_object(extra_content)

    def add_details(self, details: object, *, is_whole: bool) -> None:
        """Add entries of `reasoning_details`, or pieces of them.

        Args:
            details: A JSON value, usually a list of objects.
            is_whole: Whether the entries are complete.
        """
        for detail in _objects(details):
            if is_whole or not self._details or not self._details[-1].goes_on_in(detail):
                self._details.append(_Detail(fields=dict(detail)))
            else:
                self._details[-1].append(detail)

    def provider_content(
        self, text: str, calls: Sequence[tuple[ToolCall, Mapping[str, Any]]]
    ) -> ProviderContent | None:
        """The response as the server wants it back; None when it is only text and calls.

        Args:
            text: The emitted text.
            calls: The emitted calls, each with the data that the server attached to it.
        """
        has_record = any((self._reasoning, self._thinking, self._details, self._extra_content, self.added))
        if not has_record and not any(extra for _, extra in calls):
            return None
        message = assistant_message(text, [call for call, _ in calls])
        for encoded, (_, extra) in zip(message.get("tool_calls", ()), calls, strict=True):
            encoded.update(extra)
        if self._reasoning:
            message[OTHER_REASONING_FIELD] = "".join(self._reasoning)
        elif self._thinking:
            message["content"] = thinking_content("".join(self._thinking), text)
        if self._details:
            message["reasoning_details"] = [detail.joined() for detail in self._details]
        if self._extra_content:
            message["extra_content"] = self._extra_content
        message |= self.added
        return ProviderContent(protocol=PROTOCOL, items=(message,))


class _Detail(Struct, kw_only=True, eq=False):
    """One entry of `reasoning_details`, and the pieces of its text that came after the first."""

    fields: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def goes_on_in(self, other: Mapping[str, Any]) -> bool:
        """Whether another entry is the next piece of this one.

        In a stream the index of every entry may be 0, so the type distinguishes entries; a signature ends an
        entry.
        """
        text_field = _TEXT_FIELDS.get(str(self.fields.get("type")))
        if text_field is None or other.get("type") != self.fields["type"]:
            return False
        if not all(isinstance(each.get(text_field), str | None) for each in (self.fields, other)):
            return False
        if self.fields.get("signature") and other.get(text_field):
            return False
        return all(
            self.fields.get(name) is None or other.get(name) in (None, self.fields[name])
            for name in ("id", "index")
        )

    def append(self, other: Mapping[str, Any]) -> None:
        """Add the next piece."""
        text_field = _TEXT_FIELDS[self.fields["type"]]
        self.pieces.append(other.get(text_field) or "")
        self.fields |= {
            name: value for name, value in other.items() if value is not None and name != text_field
        }

    def joined(self) -> dict[str, Any]:
        """The complete entry."""
        if not any(self.pieces):
            return self.fields
        text_field = _TEXT_FIELDS[self.fields["type"]]
        return {**self.fields, text_field: (self.fields.get(text_field) or "") + "".join(self.pieces)}


def _objects(value: object) -> list[dict[str, Any]]:
    entries = value if is_json_list(value) else []
    return [as_object(each) for each in entries if as_object(each)]


class PromptTokens(msgspec.Struct):
    """Parts of the input tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionTokens(msgspec.Struct):
    """Parts of the output tokens."""

    reasoning_tokens: int | None = None
    image_tokens: int | None = None


class WireUsage(msgspec.Struct):
    """Consumption, as the endpoint counts it.

    Servers have the tokens read from a cache in the details, or under a name of their own: Mistral in
    `num_cached_tokens`, Moonshot in `cached_tokens`, DeepSeek in `prompt_cache_hit_tokens`.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    num_cached_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: PromptTokens | None = None
    completion_tokens_details: CompletionTokens | None = None

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """The tokens sent and received."""
        return self.prompt_tokens, self.completion_tokens

    def to_usage(self) -> Usage:
        """The same as usage of one request."""
        prompt = self.prompt_tokens_details or PromptTokens()
        completion = self.completion_tokens_details or CompletionTokens()
        sent, received = self.prompt_tokens or 0, self.completion_tokens or 0
        # Some servers count reasoning in the total alone (Gemini, xAI). Others report more reasoning than
        # output, which is then a count of their own, and not a part to be added.
        total = self.total_tokens or 0
        if sent >= 0 and received >= 0 and total > sent + received:
            received = total - sent
        read, written = self._read_from_cache(prompt), prompt.cache_write_tokens or 0
        if min(read, written) > 0 and max(read, written) <= sent < read + written:
            # OpenRouter reports a cache that is made and read in one request as both; it is billed as made.
            read = 0
        return Usage(
            requests=1,
            input_tokens=sent,
            output_tokens=received,
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=_reasoning_of(completion, received),
            image_output_tokens=completion.image_tokens or 0,
        )

    def _read_from_cache(self, prompt: PromptTokens) -> int:
        counts = (
            prompt.cached_tokens,
            self.num_cached_tokens,
            self.cached_tokens,
            self.prompt_cache_hit_tokens,
        )
        return next((count for count in counts if count), 0)


def _reasoning_of(completion: CompletionTokens, received: int) -> int:
    """The tokens of reasoning, which are a part of the output whatever a server counts beside it."""
    reasoning = completion.reasoning_tokens or 0
    return received if 0 <= received < reasoning <= MAX_COUNT else reasoning
