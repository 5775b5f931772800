"""The turns of conversations in the WebSocket mode of OpenAI Responses: messages in and out. Pure.

A client sends `response.create` with the body of an HTTP request, and gets the events of the stream as
messages. The server keeps the last response of each lane of a connection, so a later turn names that response
and sends the new items alone. A turn is recognized by its content: the items that were sent before, followed
by the answer as the server gave it. If the conversation was changed in between, nothing is recognized, and
everything is sent.

Source: "WebSocket mode" of the OpenAI platform documentation, read on 2026-11-30.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ...errors import ConfigurationError, ModelProtocolError
from ...types.json import is_json_list, is_json_mapping
from ..json_text import NOT_JSON, decode_json
from .input import SEARCH_ITEMS

_LEFT_OUT = frozenset({"background", "input", "stream", "stream_options"})
_DIGEST_BYTES = 16

NOT_FOUND = "previous_response_not_found"
"""The code of the error of a turn that names a response which the server does not have any more."""

CONNECTION_LIMIT = "websocket_connection_limit_reached"
"""The code of the error of a connection that has lasted as long as the server lets it."""

_TERMINALS = frozenset(
    {"response.cancelled", "response.completed", "response.failed", "response.incomplete", "error"}
)
_GOOD_TERMINALS = ("response.completed", "response.incomplete")


class SocketTurn:
    """One request, as the message that begins a turn.

    Args:
        body: The body of the HTTP request.

    Raises:
        ConfigurationError: It asks for what a WebSocket does not carry.
    """

    def __init__(self, body: bytes) -> None:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        if bytes(fields.get("background", b"false")) == b"true":
            raise ConfigurationError(
                "A response in the background cannot be requested over a WebSocket; use transport='http'."
            )
        self._input = fields.get("input", msgspec.Raw(b"[]"))
        self._fields = {name: each for name, each in fields.items() if name not in _LEFT_OUT}
        is_list = bytes(self._input).startswith(b"[")
        self._items = msgspec.json.decode(self._input, type=list[msgspec.Raw]) if is_list else []
        # A user who names the earlier response, in `extra_body`, continues the conversation without help.
        self._is_own = not is_list or "previous_response_id" in fields or "conversation" in fields
        self.model = bytes(fields.get("model", b""))
        """The model, as JSON."""
        self._digests = [] if self._is_own else _digests(self.model, self._items)

    def whole_key(self, answer: "Answer") -> bytes:
        """The key of the conversation after this turn; empty if it cannot be continued.

        Args:
            answer: The answer to it.
        """
        return b"" if self._is_own else self._digests[len(self._items)] + answer.fingerprint()

    def earlier_keys(self) -> Iterator[tuple[bytes, int]]:
        """The keys of conversations that this turn may continue, the latest first.

        Each comes with the number of items that the server knows then.
        """
        if not self._is_own:
            if self._items:  # nothing was answered before what is new
                yield self._digests[-2] + NO_ANSWER, len(self._items) - 1
            for start, end in _answers(self._items):
                answer = Answer(map(_as_object, self._items[start:end]))
                yield self._digests[start] + answer.fingerprint(), end

    @property
    def has_past(self) -> bool:
        """Whether it may continue a conversation."""
        return not self._is_own and next(_answers(self._items), None) is not None

    @property
    def can_be_continued(self) -> bool:
        """Whether a later turn may be recognized as its continuation."""
        return not self._is_own

    def is_asked_like(self, other: "SocketTurn") -> bool:
        """Whether all but the conversation equals that of another turn."""
        return self._fields == other._fields

    def new_items(self, known: int) -> list[msgspec.Raw]:
        """The items that the server does not have.

        Args:
            known: The number of items that it has.
        """
        return self._items[known:]

    def message(
        self,
        *,
        lane: str | None,
        previous_response_id: str | None,
        new_items: Sequence[msgspec.Raw] = (),
    ) -> bytes:
        """The message that begins the turn.

        Args:
            lane: The name of the lane; None for the one without a name.
            previous_response_id: The response that it continues; None sends everything.
            new_items: The items that the server does not have then.
        """
        message: dict[str, Any] = {"type": "response.create", **self._fields}
        if lane is not None:
            message["stream_id"] = lane
        if previous_response_id is None:
            message["input"] = self._input
        else:
            message["previous_response_id"] = previous_response_id
            message["input"] = new_items
        return msgspec.json.encode(message)


def _digests(model: bytes, items: Sequence[msgspec.Raw]) -> list[bytes]:
    """The digest of the first items, for each number of them from 0 on."""
    running = blake2b(model, digest_size=_DIGEST_BYTES)
    digests = [running.digest()]
    for item in items:
        running.update(b"%d:" % len(item))
        running.update(item)
        digests.append(running.digest())
    return digests


def _answers(items: Sequence[msgspec.Raw]) -> Iterator[tuple[int, int]]:
    """The places of the model's answers among the items, the latest first: their beginnings and ends.

    An answer at the end is none that could be continued: nothing is new after it.
    """
    end = len(items) - 1
    while end > 0:
        if not _is_made_by_model(items[end - 1]):
            end -= 1
            continue
        start = end - 1
        while start > 0 and _is_made_by_model(items[start - 1]):
            start -= 1
        if not _is_made_by_model(items[end]):
            yield start, end
        end = start


class _Kind(msgspec.Struct):
    type: Any = "message"
    role: Any = None


def is_result(item: msgspec.Raw) -> bool:
    """Whether an item is the result of a call."""
    return str(msgspec.json.decode(item, type=_Kind).type).endswith("_output")


def _is_made_by_model(item: msgspec.Raw) -> bool:
    try:
        kind = msgspec.json.decode(item, type=_Kind)
    except NOT_JSON:
        return False
    if kind.type == "message":
        return kind.role == "assistant"
    return kind.type in SEARCH_ITEMS or not str(kind.type).endswith("_output")


def _as_object(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    try:
        decoded: object = decode_json(bytes(raw))
    except NOT_JSON:
        decoded = None
    return decoded if is_json_mapping(decoded) else {}


class Answer:
    """The texts and calls of a model's answer, however its items are written.

    Args:
        items: The items of its output.
    """

    def __init__(self, items: Iterable[Mapping[str, Any]]) -> None:
        self._texts: list[str] = []
        self._calls: list[tuple[str, str, Any]] = []
        for item in items:
            if item.get("type") == "function_call":
                called = (str(item.get("call_id")), str(item.get("name")), _arguments(item.get("arguments")))
                self._calls.append(called)
            elif item.get("type", "message") == "message":
                self._texts += _texts(item.get("content"))

    def fingerprint(self) -> bytes:
        """A digest that is equal for the output as it arrived, and as it is sent back."""
        content = msgspec.json.encode(("".join(self._texts), self._calls), order="sorted")
        return blake2b(content, digest_size=_DIGEST_BYTES).digest()


NO_ANSWER = Answer(()).fingerprint()
"""The digest of an answer without texts and calls."""


def _arguments(arguments: object) -> object:
    try:
        return decode_json(str(arguments).encode())
    except (*NOT_JSON, UnicodeError):
        return str(arguments)


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if is_json_list(content) else ():
        if is_json_mapping(part):
            yield str(part.get("refusal" if part.get("type") == "refusal" else "text") or "")


class _Envelope(msgspec.Struct):
    type: Any = None
    stream_id: Any = None
    status: Any = None
    code: Any = None
    error: Any = None
    response: msgspec.Raw = msgspec.Raw()
    item: msgspec.Raw = msgspec.Raw()


class _Response(msgspec.Struct):
    id: Any = None
    output: Any = None


class SocketMessage:
    """A message of the server.

    Args:
        data: The message.

    Raises:
        ModelProtocolError: It is no JSON object.
    """

    __slots__ = ("_envelope", "_response", "data", "kind")

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            self._envelope = msgspec.json.decode(data, type=_Envelope)
        except NOT_JSON as error:
            raise ModelProtocolError(f"a message of the WebSocket is no JSON object: {error}") from error
        self.kind = str(self._envelope.type or "")
        self._response: _Response | None = None

    @property
    def lane(self) -> str | None:
        """The name of the lane that it belongs to; None when it names none."""
        name: object = self._envelope.stream_id
        return None if name is None else str(name)

    @property
    def is_of_response(self) -> bool:
        """Whether it is an event of a response."""
        return self.kind.startswith("response.")

    @property
    def is_error(self) -> bool:
        """Whether it is the error of a request, or of the connection."""
        return self.kind == "error"

    @property
    def is_last(self) -> bool:
        """Whether the response, or the request, has ended with it."""
        return self.kind in _TERMINALS

    @property
    def is_good_end(self) -> bool:
        """Whether the conversation can be continued after it."""
        return self.kind in _GOOD_TERMINALS

    @property
    def status(self) -> int:
        """The HTTP status of an error; 400 when it gives none, as for other refusals."""
        status: object = self._envelope.status
        return status if isinstance(status, int) and 400 <= status < 600 else 400

    @property
    def code(self) -> str:
        """The code of an error; empty when it has none."""
        error: object = self._envelope.error
        code: object = error.get("code") if is_json_mapping(error) else None
        return str(code or self._envelope.code or "")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an error, with which some servers give the time of the next attempt."""
        found: object = msgspec.json.decode(self.data, type=_WithHeaders).headers
        if not is_json_mapping(found):
            return {}
        return {str(name).lower(): str(value) for name, value in found.items()}

    @property
    def response_id(self) -> str | None:
        """The id of the response that it holds; None when it holds none."""
        name: object = self._decoded_response().id
        return name if isinstance(name, str) and name else None

    def output(self) -> list[Mapping[str, Any]]:
        """The output of the response that it holds."""
        items: object = self._decoded_response().output
        return [item for item in (items if is_json_list(items) else ()) if is_json_mapping(item)]

    def done_item(self) -> Mapping[str, Any] | None:
        """The item that is done with it; None for another message."""
        return _as_object(self._envelope.item) if self.kind == "response.output_item.done" else None

    def _decoded_response(self) -> _Response:
        if self._response is None:
            try:
                self._response = msgspec.json.decode(self._envelope.response, type=_Response)
            except NOT_JSON:
                self._response = _Response()
        return self._response


class _WithHeaders(msgspec.Struct):
    headers: Any = None


def as_stream_event(message: bytes) -> bytes:
    """A message as the server-sent event that HTTP would have brought.

    Args:
        message: The message.
    """
    if b"\n" in message or b"\r" in message:  # between the values of a document that is indented
        message = b" ".join(message.splitlines())
    return b"data: %b\n\n" % message
