"""Ends of Responses answers, streamed or whole.

The terminal event is `response.completed`, `response.incomplete` or `response.failed`, or an error in its
place. The end of the stream, or `[DONE]`, alone is no success: Ollama swallows errors and just stops.
"""

from ..errors import ModelProtocolError
from ..types.model import FinishReason, ModelEvent, ResponseFailed, ResponseFinished, UsageReported
from .codec import MANY_WAITING_CALLS
from .openai_responses_events import COMPLAINT, Envelope, Event, Response, decode_as
from .openai_responses_output import ResponseOutput, is_output_event
from .provider_errors import response_failure
from .redaction import excerpt
from .response_json import check_response, is_something
from .sse import ServerSentEvent

__all__ = ["ResponsesDecoder"]

_TERMINALS = {
    "response.cancelled": "cancelled",
    "response.completed": "completed",
    "response.failed": "failed",
    "response.incomplete": "incomplete",
}
_TERMINAL_NAMES = tuple(name.encode() for name in _TERMINALS)
_FAILURES = ("cancelled", "failed")
_REASONS: dict[str | None, FinishReason] = {
    "content_filter": "content_filter",
    "max_output_tokens": "length",
    "max_tokens": "length",
}


class ResponsesDecoder:
    """Decodes one answer. See `wire.codec.ResponseDecoder`."""

    def __init__(self) -> None:
        self._output = ResponseOutput()
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the last event was given."""
        return self._is_ended

    def may_take_long(self, event: ServerSentEvent) -> bool:
        """Whether decoding an event may take long; see `wire.codec.ResponseDecoder`."""
        many_wait = self._output.waiting_calls > MANY_WAITING_CALLS
        return many_wait or any(name in event.data for name in _TERMINAL_NAMES)

    def feed(self, event: ServerSentEvent) -> list[ModelEvent]:
        """Take in one event of the stream; see `wire.codec.ResponseDecoder`."""
        if self._is_ended:
            return []
        if event.data.strip() == b"[DONE]":
            raise ModelProtocolError(
                "The stream said [DONE] before the response was finished.", is_transient=True
            )
        check_response(event.data, complaint=COMPLAINT)
        if event.event == "error":
            return self._fail(event.data)
        return self._take_event(event)

    def finish(self) -> list[ModelEvent]:
        """Take note of the end of the stream; see `wire.codec.ResponseDecoder`."""
        if not self._is_ended:
            raise ModelProtocolError("The stream ended before the response was finished.", is_transient=True)
        return []

    def feed_whole(self, body: bytes) -> list[ModelEvent]:
        """Take in an answer that came as one JSON document.

        Args:
            body: The document.

        Raises:
            ModelProtocolError: It is not a finished Responses answer.
        """
        check_response(body, complaint=COMPLAINT)
        response = decode_as(Response, body)
        if response.output is None and response.status is None and is_something(response.error):
            return self._fail(body)
        # The document is complete, whatever it leaves out.
        ending = response.status or ("completed" if response.output is not None else "missing")
        if ending not in _TERMINALS.values():
            raise ModelProtocolError(f"The answer is no finished response: {excerpt(body)}")
        return self._end(response, ending)

    def _take_event(self, sse: ServerSentEvent) -> list[ModelEvent]:
        try:
            event = decode_as(Event, sse.data)
        except ModelProtocolError:
            envelope = decode_as(Envelope, sse.data)
            name = envelope.type or sse.event
            if name in _TERMINALS or is_output_event(name) or is_something(envelope.error):
                raise
            return []  # unknown events may give known fields another form
        name = event.type or sse.event
        if name == "error" or is_something(event.error):
            return self._fail(sse.data)
        if name in _TERMINALS:
            response = decode_as(Response, event.response) if is_something(event.response) else Response()
            return self._end(response, _TERMINALS[name])
        return self._output.feed(name, event)

    def _end(self, response: Response, ending: str) -> list[ModelEvent]:
        # vLLM sends `response.completed` whatever became of the response; the status then tells.
        endings = (ending, response.status)
        failure = next((each for each in _FAILURES if each in endings), None)
        events: list[ModelEvent] = []
        if failure is None:
            is_cut_off = "incomplete" in endings
            events += self._output.finish(response.output or (), is_cut_off=is_cut_off)
            end: ModelEvent = self._finished(response, is_cut_off=is_cut_off)
        else:
            end = _failed_response(response, failure)
        if response.usage is not None:
            events.append(UsageReported(usage=response.usage.to_usage()))
        self._is_ended = True
        return [*events, end]

    def _finished(self, response: Response, *, is_cut_off: bool) -> ResponseFinished:
        details = response.incomplete_details
        detail = details.reason if is_cut_off and details is not None else None
        return ResponseFinished(
            reason=_REASONS.get(detail) or self._reason("other" if is_cut_off else "stop"),
            provider_content=self._output.to_provider_content(),
            provider_reason=detail or ("incomplete" if is_cut_off else "completed"),
            response_id=response.id,
            model_name=response.model,
        )

    def _reason(self, otherwise: FinishReason) -> FinishReason:
        """The finish reason that the output gives.

        A model that refuses and does nothing else has filtered its own answer. Whoever asked must learn it at
        once, as with the provider's filter, rather than ask for a better answer again and again.
        """
        if self._output.has_calls:
            return "tool_calls"
        return "content_filter" if self._output.is_refusal else otherwise

    def _fail(self, data: bytes) -> list[ModelEvent]:
        self._is_ended = True
        return [response_failure(data)]


def _failed_response(response: Response, ending: str) -> ResponseFailed:
    if is_something(response.error):
        return response_failure(bytes(response.error))
    message = f"The provider ended the response with the status {ending!r}."
    return ResponseFailed(message=message, is_transient=ending == "failed")
