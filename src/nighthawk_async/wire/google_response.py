"""Model events out of a Gemini answer, streamed or whole.

There is no terminal event. An answer is complete when a finish reason was seen and the input ends after it:
what follows the finish reason may still hold usage, or a signature alone. An answer with a broken chunk is
not complete, whatever an earlier one said.
"""

import msgspec

from ..errors import ModelProtocolError
from ..types.messages import ToolCall
from ..types.model import (
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
from ..types.usage import Usage
from .call_ids import new_call_id
from .google_chunks import Candidate, Chunk, FunctionCall, Part
from .google_finish import blocked_prompt, failed_response, normalized_reason
from .google_replay import PartRecord
from .provider_errors import response_failure
from .redaction import excerpt
from .response_json import NOT_JSON, check_response, is_something
from .sse import ServerSentEvent

__all__ = ["GoogleResponseDecoder"]

_COMPLAINT = "The response holds what is not a chunk of a Gemini answer"

_UNSPECIFIED = ("FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")

_decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_part = msgspec.json.Decoder(Part).decode


class GoogleResponseDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._record = PartRecord()
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
        """Whether the last event was given; before the end of input that is a failure alone."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        return False  # the end of the input does

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Take in one event of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended or event.data.strip() == b"[DONE]":  # which gateways write
            return []
        self._check(event.data)
        return [self._fail(event.data)] if event.event == "error" else self._take_chunk(event.data)

    def finish(self) -> list[ModelEvent]:
        """Take note of the end of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        if self._finish_reason is None or self._is_broken:
            raise ModelProtocolError("The stream ended before the response was finished.", is_transient=True)
        try:
            provider_content = self._record.provider_content()
        except NOT_JSON as error:
            raise self._broken(f"The response holds a part that is not JSON ({error}).") from error
        self._is_ended = True
        finished = ResponseFinished(
            reason=normalized_reason(self._finish_reason, has_calls=bool(self._call_ids)),
            provider_content=provider_content,
            provider_reason=self._finish_reason,
            response_id=self._response_id,
            model_name=self._model_name,
        )
        return [finished]

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Take in an answer that came as one JSON document: an object, or a list of the chunks of a stream.

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
        if chunk.usage_metadata is not None and (usage := chunk.usage_metadata.to_usage()) != self._usage:
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
            return blocked_prompt(feedback.block_reason, feedback.block_reason_message)
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
            self._record.add(raw, part)
        reason = candidate.finish_reason
        if not reason or reason in _UNSPECIFIED:
            return None
        self._finish_reason = reason
        return failed_response(reason, candidate.finish_message)

    def _take_part(self, part: Part, events: list[ModelEvent]) -> None:
        if part.text:
            delta = ReasoningDelta if part.thought else TextDelta
            events.append(delta(text=part.text))
        if part.function_call is not None:
            events += self._take_call(part.function_call)

    def _take_call(self, call: FunctionCall) -> list[ModelEvent]:
        if call.is_piece:
            raise self._broken("The response holds a function call in pieces, which was not asked for.")
        if not call.name:
            raise self._broken("The response holds a function call without a name.")
        # Many models send no ids, and an id that came twice would tie two results to one call.
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
    """The arguments as the JSON text that came; a text in their place, as gateways send it, is that text."""
    if not is_something(args):
        return "{}"
    text = bytes(args)
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()
