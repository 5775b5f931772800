"""Model events out of a Gemini answer, streamed or whole.

There is no terminal event. An answer is complete when a finish reason was seen and the input ends after it:
data after the finish reason may still hold usage, or a signature alone. An answer with a broken chunk is not
complete, whatever an earlier chunk reported.

One wire shape serves a chunk of a stream and a whole answer. Fields that this library does not use are left
out and ignored; every field may be missing or null. Parts are kept as the original bytes, since a signed
response is sent back unchanged.

Source: `GenerateContentResponse` and `Part` in `types.py` of the official SDK.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ...errors import ModelProtocolError
from ...types.messages import ProviderContent, ToolCall
from ...types.model import (
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ...types.model_output import Refusal
from ...types.usage import Usage
from ..held_media import HeldMedia, url_class_of
from ..json_text import NOT_JSON, check_response, is_something, new_call_id, split_documents, total_count
from ..provider_errors import response_failure
from ..redaction import excerpt
from ..sse import ServerSentEvent
from ..unknown_kinds import report_unknown
from .citations import Citations, GroundingMetadata
from .contents import PROTOCOL
from .native_tools import NativeCalls


class FunctionCall(msgspec.Struct, rename="camel"):
    """A complete function call; `will_continue` and `partial_args` are of a form that is never requested."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    partial_args: list[Any] | None = None
    will_continue: bool | None = None

    @property
    def is_piece(self) -> bool:
        """Whether more of the call is to follow, or this is such a sequel."""
        return bool(self.will_continue) or self.partial_args is not None


class InlineData(msgspec.Struct, rename="camel"):
    """An image or a sound that the model made, as base64."""

    mime_type: str | None = None
    data: str | None = None


class FileData(msgspec.Struct, rename="camel"):
    """The same, where the provider keeps it."""

    mime_type: str | None = None
    file_uri: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """A part of the answer; other content has no fields here."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: InlineData | None = None
    file_data: FileData | None = None


class SafetyRating(msgspec.Struct, rename="camel"):
    """The provider's judgement of one kind of content."""

    category: str | None = None
    blocked: bool | None = None


class Content(msgspec.Struct, rename="camel"):
    """The pieces, in order."""

    parts: list[msgspec.Raw] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    """One of the answers; this library asks for one."""

    index: int | None = None
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: GroundingMetadata | None = None
    citation_metadata: msgspec.Raw = msgspec.Raw()
    safety_ratings: list[SafetyRating] | None = None

    @property
    def refusal(self) -> Refusal:
        """The reason of a filter that ended the answer."""
        return Refusal(
            category=_blocked_category(self.safety_ratings) or self.finish_reason,
            explanation=self.finish_message or None,
        )


class PromptFeedback(msgspec.Struct, rename="camel"):
    """The provider's judgement of the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: list[SafetyRating] | None = None

    @property
    def refusal(self) -> Refusal:
        """The reason of a filter that blocked the prompt."""
        return Refusal(
            category=_blocked_category(self.safety_ratings) or self.block_reason,
            explanation=self.block_reason_message or None,
        )


def _blocked_category(ratings: list[SafetyRating] | None) -> str | None:
    return next((each.category for each in ratings or () if each.blocked and each.category), None)


class ModalityCount(msgspec.Struct, rename="camel"):
    """Tokens of one kind of content."""

    modality: str | None = None
    token_count: int | None = None


class UsageMetadata(msgspec.Struct, rename="camel"):
    """Consumption since the beginning of the response, as the endpoint counts it."""

    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    candidates_tokens_details: list[ModalityCount] | None = None
    thoughts_token_count: int | None = None

    def to_usage(self) -> Usage:
        """The same as usage of one request: thoughts are output, and results of the server's tools input."""
        thoughts = self.thoughts_token_count or 0
        details = self.candidates_tokens_details or ()
        images = [each.token_count or 0 for each in details if each.modality == "IMAGE"]
        return Usage(
            requests=1,
            input_tokens=total_count(self.prompt_token_count or 0, self.tool_use_prompt_token_count or 0),
            output_tokens=total_count(self.candidates_token_count or 0, thoughts),
            cache_read_tokens=self.cached_content_token_count or 0,
            reasoning_tokens=thoughts,
            image_output_tokens=total_count(0, *images),
        )


class Chunk(msgspec.Struct, rename="camel"):
    """One event of a stream, or a whole answer, or an error in place of either."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageMetadata | None = None
    response_id: str | None = None
    model_version: str | None = None
    error: msgspec.Raw = msgspec.Raw()


FINISH_REASONS: Mapping[str, FinishReason] = MappingProxyType(
    {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        "CONTINUATION": "length",
        "BLOCKLIST": "content_filter",
        "ESCALATION": "content_filter",
        "IMAGE_OTHER": "content_filter",
        "IMAGE_PROHIBITED_CONTENT": "content_filter",
        "IMAGE_RECITATION": "content_filter",
        "IMAGE_SAFETY": "content_filter",
        "LANGUAGE": "content_filter",
        "MODEL_ARMOR": "content_filter",
        "PROHIBITED_CONTENT": "content_filter",
        "RECITATION": "content_filter",
        "SAFETY": "content_filter",
        "SPII": "content_filter",
    }
)

# Whether the same request may succeed later. A faulty output may be correct when it is sampled again; a
# missing signature is missing in every request, and an account stays closed.
FAILURES: Mapping[str, bool] = MappingProxyType(
    {
        "MALFORMED_FUNCTION_CALL": True,
        "MALFORMED_RESPONSE": True,
        "MISSING_THOUGHT_SIGNATURE": False,
        "PUP_LIMITED_DISABLED": False,
        "TOO_MANY_TOOL_CALLS": True,
        "UNEXPECTED_TOOL_CALL": True,
    }
)


def normalized_reason(reason: str, *, has_calls: bool) -> FinishReason:
    """The finish reason under the library's names; an ordinary end after function calls is `tool_calls`.

    Args:
        reason: The provider's word.
        has_calls: Whether the response holds function calls.
    """
    normalized = FINISH_REASONS.get(reason, "other")
    return "tool_calls" if has_calls and normalized in ("stop", "other") else normalized


def failed_response(reason: str, message: str | None) -> ResponseFailed | None:
    """The failure that a finish reason means; None when it means none.

    Args:
        reason: The provider's word.
        message: The provider's text about it.
    """
    if reason not in FAILURES:
        return None
    return ResponseFailed(
        message=_explained(f"The provider ended the response with the finish reason {reason}", message),
        error_type=reason,
        is_transient=FAILURES[reason],
    )


def _explained(sentence: str, message: str | None) -> str:
    return f"{sentence}: {excerpt(message)}" if message else f"{sentence}."


_TEXT_FIELDS = ({"text"}, {"text", "thought"})


class PartRecord:
    """The parts of one response."""

    def __init__(self) -> None:
        self._parts: list[msgspec.Raw | dict[str, Any]] = []
        self._is_signed = False

    def add(self, raw: msgspec.Raw | dict[str, Any], part: Part) -> None:
        """Add the next part.

        Args:
            raw: The part as it came; decoded if its medium is kept elsewhere.
            part: The same part, decoded.
        """
        self._parts.append(raw)
        self._is_signed = self._is_signed or bool(part.thought_signature)

    def provider_content(self, *, has_more: bool) -> ProviderContent | None:
        """The response in the provider's own form; None when no part is signed, and none needs it otherwise.

        Args:
            has_more: Whether a part is a native call or a medium, which keeps its place among the others.
        """
        if not self._is_signed and not has_more:
            return None
        items: list[dict[str, Any]] = []
        texts: list[str] = []  # of the last item, if it is an unfinished text
        for raw in self._parts:
            part: dict[str, Any] = raw if isinstance(raw, dict) else msgspec.json.decode(raw)
            if items and _is_more_text(items[-1], part):
                texts = texts or [items[-1]["text"]]
                texts.append(part["text"])
                continue
            _join(items, texts)
            texts = []
            items.append(part)
        _join(items, texts)
        return ProviderContent(protocol=PROTOCOL, items=tuple(items))


def _join(items: list[dict[str, Any]], texts: list[str]) -> None:
    if texts:
        items[-1]["text"] = "".join(texts)


def _is_more_text(former: dict[str, Any], part: dict[str, Any]) -> bool:
    return (
        part.keys() in _TEXT_FIELDS
        and former.keys() == part.keys()
        and former.get("thought") == part.get("thought")
        and isinstance(former["text"], str)
        and isinstance(part["text"], str)
    )


PART_FIELDS = frozenset(
    {
        *("audioMetadata", "audioTranscription", "codeExecutionResult", "documentMetadata", "executableCode"),
        *("fileData", "functionCall", "functionResponse", "inlineData", "mediaProcessing", "mediaResolution"),
        *("partMetadata", "speechMetadata", "spreadsheetMetadata", "text", "thought", "thoughtSignature"),
        *("toolCall", "toolResponse", "videoMetadata"),
    }
)
"""The fields of parts that are known, whether they are used or not."""


def _report_unknown(raw: msgspec.Raw) -> None:
    """Report the fields of a part without a text or call that are unknown: they name its kind."""
    part: dict[str, Any] = msgspec.json.decode(raw)
    for name in sorted(part.keys() - PART_FIELDS):
        report_unknown(PROTOCOL, name)


_COMPLAINT = "The response holds what is not a chunk of a Gemini answer"

_UNSPECIFIED = ("FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")

_decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_part = msgspec.json.Decoder(Part).decode


class GoogleResponseDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._record = PartRecord()
        self._native_calls = NativeCalls()
        self._media = HeldMedia()
        self._citations = Citations()
        self._text: list[str] = []
        self._refusal: Refusal | None = None
        self._metadata: UsageMetadata | None = None
        self._call_ids: set[str] = set()
        self._candidate_index: int | None = None
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._response_id: str | None = None
        self._model_name: str | None = None
        self._is_broken = False
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was emitted; before the end of input, only a failure can be."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        return False  # the end of the input does

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Process one event of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended or event.data.strip() == b"[DONE]":  # gateways write this
            return []
        self._check(event.data)
        return [self._fail(event.data)] if event.event == "error" else self._take_chunks(event.data)

    def finish(self) -> list[ModelEvent]:
        """Process the end of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        if self._finish_reason is None or self._is_broken:
            raise ModelProtocolError("The stream ended before the response was finished.", is_transient=True)
        try:
            has_more = self._native_calls.has_any or self._media.has_any
            provider_content = self._record.provider_content(has_more=has_more)
        except NOT_JSON as error:
            raise self._broken(f"The response holds a part that is not JSON ({error}).") from error
        self._is_ended = True
        finished = ResponseFinished(
            reason=self._normalized_reason(self._finish_reason),
            provider_content=provider_content,
            provider_reason=self._finish_reason,
            response_id=self._response_id,
            model_name=self._model_name,
            refusal=self._refusal,
        )
        return [*self._citations.events("".join(self._text)), finished]

    def _normalized_reason(self, reason: str) -> FinishReason:
        if self._refusal is not None:
            return "content_filter"
        return normalized_reason(reason, has_calls=bool(self._call_ids))

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Process an answer that is one JSON document: an object, or a list of the chunks of a stream.

        Args:
            body: The document.

        Raises:
            ModelProtocolError: It is not a complete Gemini answer.
        """
        self._check(body)
        events: list[ModelEvent] = []
        for chunk in self._chunks_in(body):
            if not self._is_ended:
                events += self._take_chunk(chunk)
        if not self._is_ended and self._finish_reason is None:
            raise self._broken(f"The answer holds no finish reason: {excerpt(body)}")
        return events + self.finish()

    def _check(self, data: bytes) -> None:
        try:
            check_response(data, complaint=_COMPLAINT)
        except ModelProtocolError:
            self._is_broken = True
            raise

    def _chunks_in(self, body: bytes) -> list[bytes]:
        if not body.lstrip().startswith(b"["):
            return [body]
        try:
            return [bytes(each) for each in _decode_list(body)]
        except NOT_JSON as error:
            raise self._broken(_complaint(error, body)) from error

    def _take_chunks(self, data: bytes) -> list[ModelEvent]:
        """Process an event that holds a chunk, or several of them: some servers forget the line between."""
        was_broken = self._is_broken
        try:
            return self._take_chunk(data)
        except ModelProtocolError:
            documents = split_documents(data)
            if len(documents) < 2:
                raise
        self._is_broken = was_broken
        return [
            each for document in documents for each in ([] if self._is_ended else self._take_chunk(document))
        ]

    def _take_chunk(self, data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        try:
            chunk = _decode_chunk(data)
            if is_something(chunk.error):
                return [self._fail(data)]
            failure = self._take_candidates(chunk, events)
        except NOT_JSON as error:
            raise self._broken(_complaint(error, data)) from error
        self._response_id = chunk.response_id or self._response_id
        self._model_name = chunk.model_version or self._model_name
        self._metadata = chunk.usage_metadata or self._metadata
        if self._metadata is not None:
            usage = self._metadata.to_usage() + self._native_calls.uses
            if usage != self._usage:
                self._usage = usage
                events.append(UsageReported(usage=usage))
        if failure is not None:
            self._is_ended = True
            events.append(failure)
        return events

    def _take_candidates(self, chunk: Chunk, events: list[ModelEvent]) -> ResponseFailed | None:
        """The events of the first candidate, and the failure that ends the response, when there is one."""
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason and feedback.block_reason not in _UNSPECIFIED:
            self._finish_reason = feedback.block_reason
            self._refusal = feedback.refusal
            return None
        for candidate in chunk.candidates or ():
            index = candidate.index or 0
            if self._candidate_index is None:
                self._candidate_index = index
            if index == self._candidate_index:
                return self._take_candidate(candidate, events)
        return None

    def _take_candidate(self, candidate: Candidate, events: list[ModelEvent]) -> ResponseFailed | None:
        for raw in (candidate.content and candidate.content.parts) or ():
            part = _decode_part(raw)
            self._take_part(part, events)
            native_events = self._native_calls.take(raw)
            if part.text is None and part.function_call is None and not native_events:
                _report_unknown(raw)
            events += native_events
            self._record.add(self._take_medium(raw, part, events), part)
        if candidate.grounding_metadata is not None:
            self._native_calls.ground(candidate.grounding_metadata)
            self._citations.ground(candidate.grounding_metadata)
        if candidate.citation_metadata:
            self._citations.attribute(candidate.citation_metadata)
        reason = candidate.finish_reason
        if not reason or reason in _UNSPECIFIED:
            return None
        self._finish_reason = reason
        if FINISH_REASONS.get(reason) == "content_filter":
            self._refusal = candidate.refusal
        return failed_response(reason, candidate.finish_message)

    def _take_part(self, part: Part, events: list[ModelEvent]) -> None:
        if part.text:
            delta = ReasoningDelta if part.thought else TextDelta
            events.append(delta(text=part.text))
            if not part.thought:
                self._text.append(part.text)
        if part.function_call is not None:
            events += self._take_call(part.function_call)

    def _take_medium(
        self, raw: msgspec.Raw, part: Part, events: list[ModelEvent]
    ) -> msgspec.Raw | dict[str, Any]:
        """Emit the medium that a part holds, and return the part with a number for it.

        A model may draw while it thinks; these images are no part of its answer.
        """
        if part.thought:
            return raw
        if part.inline_data is not None and part.inline_data.data:
            event, held = self._media.take(part.inline_data.data, part.inline_data.mime_type)
            events.append(event)
            whole: dict[str, Any] = msgspec.json.decode(raw)
            return {**whole, "inlineData": {**whole["inlineData"], "data": held}}
        if part.file_data is not None and part.file_data.file_uri:
            kind = url_class_of(part.file_data.mime_type)
            events.append(self._media.take_url(part.file_data.file_uri, kind)[0])
        return raw

    def _take_call(self, call: FunctionCall) -> list[ModelEvent]:
        if call.is_piece:
            raise self._broken("The response holds a function call in pieces, which was not asked for.")
        if not call.name:
            raise self._broken("The response holds a function call without a name.")
        # Many models send no ids, and a repeated id would assign two results to one call.
        call_id = call.id if call.id and call.id not in self._call_ids else new_call_id()
        index = len(self._call_ids)
        self._call_ids.add(call_id)
        arguments = _arguments_text(call.args)
        return [
            ToolCallStarted(index=index, id=call_id, name=call.name),
            ToolCallArgumentsDelta(index=index, fragment=arguments),
            ToolCallCompleted(index=index, call=ToolCall(id=call_id, name=call.name, arguments=arguments)),
        ]

    def _fail(self, data: bytes) -> ResponseFailed:
        self._is_ended = True
        return response_failure(data)

    def _broken(self, message: str) -> ModelProtocolError:
        self._is_broken = True
        return ModelProtocolError(message)


def _complaint(error: Exception, data: bytes) -> str:
    return f"{_COMPLAINT} ({error}): {excerpt(data)}"


def _arguments_text(args: msgspec.Raw) -> str:
    """The arguments as the received JSON text; if they are a string, as gateways send, its content."""
    if not is_something(args):
        return "{}"
    text = bytes(args)
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()
