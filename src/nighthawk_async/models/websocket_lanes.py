"""One WebSocket of the Responses protocol, and the responses in flight on it. Loaded on use.

A lane carries one response at a time, and after a steered one that with which the server goes on by itself.
With several lanes, whichever request waits receives for all: no task of its own reads, so nothing outlives
the requests, and a cancelled one leaves the others going.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

import anyio
from msgspec import Struct

from ..errors import ModelConnectionError, ModelError, ModelProtocolError
from ..types.endpoint_rules import WebSocketRule
from ..wire.openai_responses.socket_steering import (
    NOT_SUPPORTED,
    STEERING,
    Steered,
    SteeringEvent,
    steering_message,
)
from ..wire.openai_responses.socket_turns import Answer, SocketMessage, SocketTurn
from .byte_exchange import too_long
from .endpoint_calls import copied_error
from .websocket_connection import Refusal, WebSocketConnection

_LONGEST_IDLE_SECONDS = 300.0
_LONGEST_UNCLAIMED_SECONDS = 30.0

Lane: TypeAlias = str | None
"""The name of a lane; None for the only one of an endpoint without names."""


class Conversation(Struct, eq=False, frozen=True):
    """A conversation that a server can continue.

    Args:
        key: Its content, as `SocketTurn.whole_key` gives it.
        socket: The socket that keeps it.
        lane: The lane that keeps it.
        response_id: Its last response.
    """

    key: bytes
    socket: "ResponsesSocket"
    lane: Lane
    response_id: str


class Inbox:
    """The messages of one response that nobody has read yet.

    Args:
        turn: The request.
        max_bytes: Bytes that may wait; None for no limit.
    """

    def __init__(self, turn: SocketTurn, *, max_bytes: int | None) -> None:
        self.turn = turn
        self.is_ended = False
        """Whether the last message arrived."""
        self.max_bytes = max_bytes
        self._messages: deque[SocketMessage | None] = deque()
        self._bytes = 0
        self._failure: ModelError | None = None
        self._arrived = anyio.Event()
        self._response_id: str | None = None
        self._items: list[object] = []
        self.has_begun = False
        """Whether anything arrived for it."""
        self.is_waiting = False
        """Whether its request waits for another one that receives."""
        self.steered: Steered | None = None
        """The words of the user meanwhile; None for none."""
        self.answered: Steered | None = None
        """The words said during the response before, to which the server goes on by itself with this one."""
        self.unclaimed_since: float | None = None
        """The time since which the next request may claim it; None when it was requested."""
        self.is_expected = False
        """Whether the server begins it by itself, or has done so."""
        self.end: SocketMessage | None = None
        """Its last message, when that came before it was claimed."""

    @property
    def words(self) -> Steered | None:
        """The words about which the server speaks: nothing is put into an answer before it is claimed."""
        return self.answered or self.steered

    @property
    def response_id(self) -> str | None:
        """The response; None as long as it has no name."""
        return self._response_id

    @property
    def has_news(self) -> bool:
        """Whether something can be taken at once."""
        return bool(self._messages) or self._failure is not None

    def put(self, message: SocketMessage) -> None:
        """Add a message."""
        self.has_begun = True
        if self.is_ended or self._failure is not None:
            return
        if message.is_of_response and (name := message.response_id) is not None:
            self._response_id = self._response_id or name
            if name != self._response_id:
                self.fail(_out_of_turn(f"an event of {name!r} in the middle of {self._response_id!r}"))
                return
        if (item := message.done_item()) is not None:
            self._items.append(item)
        self.is_ended = message.is_last
        self._bytes += len(message.data)
        if self.max_bytes is not None and self._bytes > self.max_bytes:
            self.fail(ModelProtocolError(too_long(self.max_bytes)))
            return
        self._messages.append(message)
        if message.is_last and self.unclaimed_since is not None:
            self.end = message
        self.wake()

    def put_sign(self) -> None:
        """Note that the server is there."""
        if not self._messages and not self.is_ended:
            self._messages.append(None)
            self.wake()

    def fail(self, error: ModelError) -> None:
        """Let the reader of the messages get an error after them."""
        if self._failure is None and not self.is_ended:
            self._failure = error
        self.wake()

    def take(self) -> SocketMessage | None:
        """The next message; None for a mere sign of life.

        Raises:
            ModelError: There are no more, and the response cannot be received.
        """
        if self._messages:
            message = self._messages.popleft()
            self._bytes -= 0 if message is None else len(message.data)
            return message
        assert self._failure is not None
        raise self._failure

    async def wait(self) -> None:
        """Wait until something arrives, or it is this response's turn to receive for all."""
        self.is_waiting = True
        try:
            await self._arrived.wait()
        finally:
            self.is_waiting = False
        self._arrived = anyio.Event()

    def wake(self) -> None:
        """End the wait."""
        self._arrived.set()

    def answer(self, end: SocketMessage) -> tuple[str, Answer] | None:
        """The response and its output, when the conversation can be continued."""
        if not end.is_good_end or self._response_id is None:
            return None
        items = end.output() or [item for item in self._items if isinstance(item, dict)]
        return self._response_id, Answer(items)


class ResponsesSocket:
    """A WebSocket, opened by the first request that takes it.

    Args:
        rule: What the endpoint offers on a socket.
        kept: The conversations that any socket of the endpoint keeps, by their keys.
    """

    def __init__(self, rule: WebSocketRule, kept: dict[bytes, Conversation]) -> None:
        self._rule = rule
        self._lanes: list[Lane] = [f"lane-{number}" for number in range(rule.lanes)] or [None]
        self._kept_by_key = kept
        self._connection: WebSocketConnection | None = None
        self._opened_at = anyio.current_time()
        self._in_flight: dict[Lane, Inbox] = {}
        self._abandoned: set[Lane] = set()
        self._is_receiving = False
        self._failure: ModelError | None = None
        self.opened = anyio.Event()
        """Set when the attempt to open it has ended."""
        self.outcome: ModelError | Refusal | None = None
        """The reason why it could not be opened; None if it was, or if that was cancelled."""
        self._kept: dict[Lane, Conversation] = {}  # the one used longest ago first
        self._unclaimed: dict[Lane, Inbox] = {}  # those in flight that nobody has requested
        self._unsteered: set[bytes] = set()  # models that cannot be steered
        self.used_at = self._opened_at
        """The time of the last request, or the end of one."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent on it."""
        return self._connection is not None and self._failure is None

    @property
    def in_flight(self) -> int:
        """The number of responses in flight, those that nobody wants any more included."""
        return len(self._in_flight) + len(self._abandoned)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a response of it."""
        return len(self._in_flight) > len(self._unclaimed)

    @property
    def has_abandoned(self) -> bool:
        """Whether the server is busy with a response that nobody wants any more."""
        return bool(self._abandoned)

    @property
    def first_lane(self) -> Lane:
        """The lane of the request that opens it."""
        return self._lanes[0]

    @property
    def is_shared(self) -> bool:
        """Whether several responses may be in flight on it."""
        return self._rule.lanes > 0

    def is_usable(self) -> bool:
        """Whether a request may begin on it."""
        is_old = anyio.current_time() - self._opened_at >= self._rule.lifetime_seconds
        return self._failure is None and not is_old

    def is_expired(self) -> bool:
        """Whether it is to be closed: it has failed, or is idle and too old, or was idle for too long."""
        if self._failure is not None:
            return not self.is_wanted
        is_idle = not self.is_wanted and not self._expected() and self.opened.is_set()
        waited = anyio.current_time() - self.used_at
        return is_idle and (self.has_abandoned or not self.is_usable() or waited > _LONGEST_IDLE_SECONDS)

    def free_lane(self, *, may_forget: bool) -> tuple[Lane, bool]:
        """A lane for a request, and whether there is one.

        Args:
            may_forget: Whether it may be one that keeps a conversation, the one used longest ago.
        """
        self._expected()
        if not self.is_usable() or self.has_abandoned or len(self._in_flight) >= max(self._rule.in_flight, 1):
            return None, False
        for lane in self._kept if may_forget else self._lanes:
            if lane not in self._in_flight and (may_forget or lane not in self._kept):
                return lane, True
        return None, False

    def is_busy(self, lane: Lane) -> bool:
        """Whether a response is in flight on a lane."""
        return lane in self._in_flight or lane in self._abandoned

    def begin(self, lane: Lane, inbox: Inbox) -> None:
        """Take a lane for a request."""
        self._in_flight[lane] = inbox
        self.used_at = anyio.current_time()

    def note_opened(self, connection: WebSocketConnection) -> None:
        """Note that it is open."""
        self._connection = connection
        self._opened_at = anyio.current_time()
        self.opened.set()

    def note_failed(self, outcome: ModelError | Refusal | None) -> None:
        """Note that it could not be opened; None if the request that tried it was cancelled."""
        self.outcome = outcome
        self._failure = ModelConnectionError("the WebSocket could not be opened", is_transient=True)
        self.opened.set()

    async def is_there(self) -> bool:
        """Whether the server has not left while nobody waited for a response.

        Raises:
            ModelProtocolError: It has sent what nobody asked for.
        """
        if self._failure is not None or self._connection is None:
            return False
        if self._is_receiving or len(self._in_flight) - len(self._unclaimed) > 1:  # one of those receives
            return True
        self._is_receiving = True
        try:
            news = [SocketMessage(data) for data in await self._connection.drain_news()]
            messages = [message for message in news if not self._take_expected(message)]
            if events := [message for message in messages if message.is_of_response]:
                raise _out_of_turn(f"{events[0].kind!r}, while no response was awaited")
        except ModelConnectionError as error:
            self.fail(error)
            return False
        except ModelError as error:
            self.fail(error)
            raise
        finally:
            self._is_receiving = False
            self._wake_another(None)
        if any(message.is_error for message in messages):
            self.retire()
            return False
        return True

    async def send(self, message: bytes) -> None:
        """Send the message that begins a response.

        Raises:
            ModelError: The connection is broken.
        """
        if self._connection is None or self._failure is not None:
            raise ModelConnectionError("the WebSocket is closed", is_transient=True)
        try:
            await self._connection.send(message, is_shared=self.is_shared)
        except ModelError as error:
            self.fail(error)
            raise

    async def steer(self, inbox: Inbox, said: Sequence[str]) -> None:
        """Put what the user says meanwhile into a response.

        Args:
            inbox: Takes the messages of the response.
            said: All that was said since its request was made.
        """
        is_offered = self._rule.has_steering and inbox.turn.model not in self._unsteered
        if not is_offered or inbox.response_id is None or not inbox.turn.can_be_continued:
            return
        steered = inbox.steered = inbox.steered or Steered()
        for text in said[len(steered.sent) :]:
            if inbox.is_ended:
                return
            steered.add(text)
            with suppress(ModelError):  # which ends the response, too
                await self.send(steering_message(text, inbox.response_id))

    def unclaimed(self, lane: Lane) -> Inbox | None:
        """The response of a lane with which the server goes on by itself; None if there is none."""
        self._expected()
        return self._unclaimed.get(lane)

    def claim(self, lane: Lane, turn: SocketTurn) -> Inbox:
        """Take that response for the request to which it is the answer.

        Args:
            lane: The lane.
            turn: The request.
        """
        inbox = self._unclaimed.pop(lane)
        inbox.turn, inbox.unclaimed_since = turn, None
        self.used_at = anyio.current_time()
        if inbox.end is not None:
            self._end(lane, inbox, inbox.end)
        return inbox

    def _expected(self) -> bool:
        """Whether a response is yet to be claimed; those that nobody claimed in time are ended."""
        now = anyio.current_time()
        for lane, inbox in list(self._unclaimed.items()):
            if now - (inbox.unclaimed_since or now) > _LONGEST_UNCLAIMED_SECONDS:
                self.abandon(lane, inbox)
        return bool(self._unclaimed)

    async def next_message(self, inbox: Inbox) -> SocketMessage | None:
        """The next message of a response; None for a mere sign of life.

        Raises:
            ModelError: The response cannot be received.
        """
        while not inbox.has_news:
            if self._is_receiving:
                await inbox.wait()
                continue
            self._is_receiving = True
            try:
                await self._receive()
            except ModelError as error:
                self.fail(error)
            finally:
                self._is_receiving = False
                self._wake_another(inbox)
        return inbox.take()

    async def _receive(self) -> None:
        assert self._connection is not None
        data = await self._connection.receive()
        if data is None:
            for each in self._in_flight.values():
                each.put_sign()
        else:
            self._dispatch(SocketMessage(data))

    def _wake_another(self, inbox: Inbox | None) -> None:
        """Let another request receive, which waits for its own messages."""
        for each in self._in_flight.values():
            if each is not inbox and each.is_waiting and not each.has_news:
                each.wake()
                return

    def _dispatch(self, message: SocketMessage) -> None:
        """Give a message to its response.

        Raises:
            ModelProtocolError: Nobody asked for it.
        """
        if message.kind.startswith(STEERING):
            self._note_steering(message)
            return
        lane = self._lane_of(message)
        if lane in self._abandoned:
            if message.is_last:
                self._abandoned.discard(lane)
            return
        inbox = self._in_flight.get(lane)
        if inbox is not None:
            inbox.put(message)
            if message.is_last:
                self._end(lane, inbox, message)
        elif message.is_error:
            self._take_error(message)
        elif message.is_of_response:
            where = "" if message.lane is None else f" on the lane {message.lane!r}"
            raise _out_of_turn(f"{message.kind!r}{where}, where no response is awaited")
        else:  # news about the connection or the account
            for each in self._in_flight.values():
                each.put_sign()

    def _lane_of(self, message: SocketMessage) -> Lane:
        return message.lane if self._rule.lanes else None

    def _take_expected(self, message: SocketMessage) -> bool:
        """Dispatch a message that may come though nobody has requested anything; return whether it is one."""
        inbox = self._in_flight.get(self._lane_of(message))
        is_expected = message.kind.startswith(STEERING) or (inbox is not None and inbox.is_expected)
        if is_expected:
            self._dispatch(message)
        return is_expected

    def _note_steering(self, message: SocketMessage) -> None:
        """Note what the server says about a text that was put into a response."""
        event = SteeringEvent(message.kind.removeprefix(STEERING), message.data)
        inbox = self._in_flight.get(self._lane_of(message))
        if inbox is None or inbox.words is None:  # a failure need not name the lane
            words = [(each, each.words) for each in self._in_flight.values()]
            inbox = next((each for each, said in words if said is not None and event.text in said.sent), None)
        if inbox is None or inbox.words is None:
            return
        inbox.words.note(event)
        if event.code == NOT_SUPPORTED:
            self._unsteered.add(inbox.turn.model)
        inbox.put_sign()

    def _take_error(self, message: SocketMessage) -> None:
        """Process an error that names no lane: of a request that has not begun, or of the connection."""
        waiting = [(lane, inbox) for lane, inbox in self._in_flight.items() if not inbox.has_begun]
        for lane, inbox in waiting or list(self._in_flight.items()):
            inbox.put(message)
            self._end(lane, inbox, message)

    def _end(self, lane: Lane, inbox: Inbox, message: SocketMessage) -> None:
        if inbox.unclaimed_since is not None:
            return
        self._in_flight.pop(lane, None)
        self.forget(lane)
        self.used_at = anyio.current_time()
        if (answer := inbox.answer(message)) is not None:
            response_id, output = answer
            if key := inbox.turn.whole_key(output):
                kept = self._kept[lane] = Conversation(key, self, lane, response_id)
                self._kept_by_key[key] = kept
                if inbox.steered is not None and inbox.steered.is_queued:
                    self._expect(lane, inbox)

    def _expect(self, lane: Lane, inbox: Inbox) -> None:
        """Expect that the server goes on by itself after a response."""
        expected = Inbox(inbox.turn, max_bytes=inbox.max_bytes)
        expected.answered, expected.is_expected = inbox.steered, True
        expected.unclaimed_since = anyio.current_time()
        self._in_flight[lane] = self._unclaimed[lane] = expected

    def forget(self, lane: Lane) -> None:
        """Note that the server does not keep the conversation of a lane any more."""
        kept = self._kept.pop(lane, None)
        if kept is not None and self._kept_by_key.get(kept.key) is kept:
            del self._kept_by_key[kept.key]

    def _forget_all(self) -> None:
        for lane in list(self._kept):
            self.forget(lane)

    def abandon(self, lane: Lane, inbox: Inbox) -> None:
        """End a response that nobody wants any more."""
        if self._in_flight.get(lane) is inbox:
            del self._in_flight[lane]
            self._unclaimed.pop(lane, None)
            self.forget(lane)
            if inbox.end is None:
                self._abandoned.add(lane)
            self.used_at = anyio.current_time()
            self._wake_another(inbox)

    def release(self, lane: Lane, inbox: Inbox) -> None:
        """Give back a lane whose request was not sent."""
        if self._in_flight.get(lane) is inbox:
            del self._in_flight[lane]

    def retire(self) -> None:
        """Let no request begin on it any more, without a failure of those in flight."""
        self._opened_at = float("-inf")
        self._forget_all()

    def fail(self, error: ModelError) -> None:
        """End all responses with an error."""
        self._failure = self._failure or error
        self._forget_all()
        inboxes = list(self._in_flight.values())
        self._in_flight.clear()
        self._unclaimed.clear()
        for each in inboxes:
            each.fail(copied_error(error))

    async def aclose(self, *, is_polite: bool = False) -> None:
        """Close it."""
        self.fail(ModelConnectionError("the WebSocket was closed", is_transient=True))
        if self._connection is not None:
            await self._connection.aclose(is_polite=is_polite)


def _out_of_turn(what: str) -> ModelProtocolError:
    return ModelProtocolError(f"the server spoke out of turn over the WebSocket: {what}", is_transient=True)
