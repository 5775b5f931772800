"""The WebSockets of one run, and requests on them. Loaded on use.

To the rest of the library a request on a socket looks like one over HTTP: the messages are given as the
server-sent events that HTTP would bring, an error before the first event as an HTTP status, a socket that
dies as a connection that broke. So retries, budgets, traces and recordings see the same.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType, TracebackType
from typing import Self
from urllib.parse import SplitResult

import anyio
from msgspec import Struct

from ..catalog.providers import ACCOUNT_HEADERS
from ..errors import ModelError, ModelProtocolError
from ..kernel.environment import shared_in_run
from ..types.endpoint_rules import WebSocketRule
from ..wire.openai_responses.socket_steering import Steered
from ..wire.openai_responses.socket_turns import (
    CONNECTION_LIMIT,
    NOT_FOUND,
    SocketMessage,
    SocketTurn,
    as_stream_event,
    is_result,
)
from .byte_exchange import BodyReader, ByteExchange, ForwardedExchange
from .endpoint_calls import copied_error
from .http_pool import HttpPool
from .prepared_settings import HttpRequestPlan
from .websocket_connection import Refusal, open_websocket
from .websocket_lanes import Conversation, Inbox, Lane, ResponsesSocket

_CLOSE_SECONDS = 2.0
_MOST_KEPT_CONVERSATIONS = 256
_SECONDS_BETWEEN_LOOKS = 15.0
_STREAM: Mapping[str, str] = MappingProxyType({"content-type": "text/event-stream"})
_SIGN_OF_LIFE = b": the server is there\n\n"
_HANDSHAKE_HEADERS = ACCOUNT_HEADERS | {"user-agent"}
"""Headers that open a socket, beside those of the settings; others belong to a single request."""

_NO_SOCKETS_HERE = frozenset({400, 404, 405, 410, 426, 501})
"""Statuses by which a server says that it has no WebSocket at that address."""


class _Place(Struct):
    """A place of a request.

    Args:
        socket: The socket.
        lane: The lane.
        is_new: Whether the socket has to be opened.
        conversation: The conversation that is continued; None for none.
        known: The number of items that the server knows.
        inbox: Takes the messages of the response.
    """

    socket: ResponsesSocket
    lane: Lane
    is_new: bool = False
    conversation: Conversation | None = None
    known: int = 0
    inbox: Inbox | None = None


class _Sockets:
    """The sockets of one endpoint, for one set of credentials."""

    def __init__(self, rule: WebSocketRule) -> None:
        self._rule = rule
        self._sockets: list[ResponsesSocket] = []
        self._kept: dict[bytes, Conversation] = {}
        self._looked_at = anyio.current_time()
        self.are_refused = False
        """Whether the endpoint has said that it has no sockets."""

    def __len__(self) -> int:
        return len(self._sockets)

    def take_nowait(self, inbox: Inbox, *, continues: bool) -> _Place:
        """Take a lane for a request: where its conversation is kept, or a free one, perhaps on a new socket.

        Args:
            inbox: Takes the messages of the response.
            continues: Whether it may continue a conversation.
        """
        place = self._find_kept(inbox.turn) if continues else None
        if place is None:
            place = self._find_free(is_forgetful=not inbox.turn.has_past)
        if place is None:
            socket = ResponsesSocket(self._rule, self._kept)
            place = _Place(socket, socket.first_lane, is_new=True)
            self._sockets.append(socket)
        if place.inbox is None:
            place.inbox = inbox
            place.socket.begin(place.lane, inbox)
        return place

    def _find_kept(self, turn: SocketTurn) -> _Place | None:
        """The place where a conversation goes on: its lane, or another of its socket while that is busy."""
        for key, known in turn.earlier_keys() if self._kept else ():
            if (conversation := self._kept.get(key)) is None:
                continue
            socket, lane = conversation.socket, conversation.lane
            if socket.unclaimed(lane) is not None:
                if (claimed := _claim(conversation, turn, known)) is not None:
                    return claimed
                continue
            is_there = socket.is_usable() and not socket.has_abandoned
            if is_there and socket.is_busy(lane):
                lane, is_there = socket.free_lane(may_forget=False)
            if is_there:
                return _Place(socket, lane, conversation=conversation, known=known)
        return None

    def _find_free(self, *, is_forgetful: bool) -> _Place | None:
        """A free lane, if need be one whose conversation is forgotten.

        Args:
            is_forgetful: Whether a conversation is forgotten rather than a socket opened. One that goes on
                and was forgotten shows that more are going on at once than there are lanes.
        """
        for may_forget in (False, True):
            if may_forget and not is_forgetful and len(self._kept) < _MOST_KEPT_CONVERSATIONS:
                return None
            for socket in reversed(self._sockets):
                lane, is_there = socket.free_lane(may_forget=may_forget)
                if is_there:
                    return _Place(socket, lane)
        return None

    def expired(self) -> list[ResponsesSocket]:
        """Remove the sockets that are to be closed, and return them; looks at them only now and then."""
        now = anyio.current_time()
        if now - self._looked_at < _SECONDS_BETWEEN_LOOKS:
            return []
        self._looked_at = now
        expired = [socket for socket in self._sockets if socket.is_expired()]
        for socket in expired:
            self._sockets.remove(socket)
        return expired

    def remove_nowait(self, socket: ResponsesSocket) -> list[ResponsesSocket]:
        """Remove a socket if it is to be closed; return it then."""
        if not socket.is_expired() or socket not in self._sockets:
            return []
        self._sockets.remove(socket)
        return [socket]

    def clear(self) -> list[ResponsesSocket]:
        """Remove all sockets, and return them."""
        sockets, self._sockets = self._sockets, []
        return sockets


def _claim(conversation: Conversation, turn: SocketTurn, known: int) -> _Place | None:
    """The place where the server goes on by itself, if that is what a request asks for.

    Either it answers what the user said, or it waits with that for the results of tools.
    """
    socket, lane = conversation.socket, conversation.lane
    inbox, new = socket.unclaimed(lane), turn.new_items(known)
    if inbox is None or inbox.answered is None or inbox.answered.left_of(new) is None:
        return None  # the request of another step that began in the same way
    goes_on = inbox.answered.are_all_of(new) and turn.is_asked_like(inbox.turn)
    if goes_on or is_result(new[0]):
        claimed = socket.claim(lane, turn)
        return _Place(socket, lane, conversation=conversation, known=known, inbox=claimed)
    socket.abandon(lane, inbox)
    return None


class SocketPool:
    """The sockets of one run. It belongs to one event loop."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, _Sockets] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await _close([socket for each in self._by_key.values() for socket in each.clear()], is_polite=True)

    def sockets_at(self, key: Hashable, rule: WebSocketRule) -> _Sockets:
        """The sockets of an endpoint.

        Args:
            key: Identifies the endpoint and its credentials.
            rule: What the endpoint offers.
        """
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = _Sockets(rule)
        return found


class SocketExchange(BodyReader):
    """The messages of one response on a socket, like `http_pool.RawExchange`. Made by `SocketRequests`.

    Entering it sends the request and waits for the first message. Leaving it before the last one ends the
    response, by closing the socket as soon as nobody else waits for one of it.
    """

    def __init__(
        self,
        sockets: _Sockets,
        plan: HttpRequestPlan,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        self._sockets = sockets
        self._settings = plan.settings
        self._url = url
        self._handshake = headers
        self._turn = SocketTurn(body)
        self._place: _Place | None = None
        self._inbox: Inbox | None = None
        self._waiting: list[bytes] = []
        self._was_sent = False
        self._said: Sequence[str] = ()
        self._has_begun = False  # before, the server may still speak about the words that it answers
        self.status = 0
        """The status that HTTP would have had."""
        self.headers: Mapping[str, str] = {}
        """The headers that HTTP would have had."""

    @property
    def was_sent(self) -> bool:
        """Whether the server may have received the request."""
        return self._was_sent

    @property
    def was_cut(self) -> bool:
        """Whether the response ended too early; a socket that dies is an error instead."""
        return False

    async def steer(self, said: Sequence[str]) -> None:
        """Put what the user says meanwhile into the response, once it has begun."""
        self._said = said
        if said and self._has_begun and self._place is not None and self._inbox is not None:
            await self._place.socket.steer(self._inbox, said)

    @property
    def steered(self) -> int | None:
        """The number of those to which the server goes on by itself."""
        steered = None if self._inbox is None else self._inbox.steered
        return None if steered is None else steered.taken

    async def __aenter__(self) -> Self:
        try:
            await _close(self._sockets.expired())
            await self._begin()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave()

    @property
    def is_at_end(self) -> bool:
        """Whether the last message was read."""
        inbox = self._inbox
        return not self._waiting and (inbox is None or (inbox.is_ended and not inbox.has_news))

    async def read_chunk(self) -> bytes:
        """More of the response, as server-sent events; empty at its end.

        Raises:
            ModelConnectionError: The socket died.
            ModelProtocolError: The server broke the rules.
        """
        if self._waiting:
            return self._waiting.pop()
        place, inbox = self._place, self._inbox
        if place is None or inbox is None or (inbox.is_ended and not inbox.has_news):
            return b""
        message = await place.socket.next_message(inbox)
        return _SIGN_OF_LIFE if message is None else as_stream_event(message.data)

    async def _begin(self) -> None:
        """Send the request, once more where the server has forgotten the conversation or ends the socket."""
        recovered: set[str] = set()
        while True:
            messages = await self._send(continues=NOT_FOUND not in recovered)
            if not messages:
                return
            first = messages[0]
            if not first.is_error:
                self.status, self.headers = 200, _STREAM
                self._waiting = [as_stream_event(each.data) for each in reversed(messages)]
                return
            if first.code not in (NOT_FOUND, CONNECTION_LIMIT) or first.code in recovered:
                self._note_error(first)
                return
            recovered.add(first.code)
            self._forget(first.code)
            await self._leave()

    def _forget(self, code: str) -> None:
        if (place := self._place) is None:
            return
        if code == CONNECTION_LIMIT:
            place.socket.retire()
        elif place.conversation is not None:
            place.conversation.socket.forget(place.conversation.lane)

    async def _send(self, *, continues: bool) -> list[SocketMessage]:
        """Send the request, and wait for the first messages; none if there is no socket."""
        place = await self._take(continues=continues)
        if place is None or (inbox := self._inbox) is None:
            return []
        earlier, new_items = place.conversation, self._turn.new_items(place.known)
        self._was_sent = True
        messages: list[SocketMessage] = []
        if (words := inbox.answered) is not None:
            messages, inbox.answered = await _successor(place.socket, inbox, words), None
            if messages and not (words.is_known and words.are_all_of(new_items)):
                await self._leave()
                return await self._send(continues=False)
            new_items = words.left_of(new_items) or []
        if not messages:
            inbox.is_expected = False
            previous = None if earlier is None else earlier.response_id
            message = self._turn.message(lane=place.lane, previous_response_id=previous, new_items=new_items)
            await place.socket.send(message)
        while not messages:
            messages = _listed(await place.socket.next_message(inbox))
        if not messages[0].is_error:
            self._has_begun = True
            await self.steer(self._said)
        return messages

    async def _take(self, *, continues: bool) -> _Place | None:
        while True:
            inbox = Inbox(self._turn, max_bytes=self._settings.max_response_bytes)
            place = self._place = self._sockets.take_nowait(inbox, continues=continues)
            self._inbox = place.inbox
            if place.is_new:
                await self._open(place.socket)
            else:
                await place.socket.opened.wait()
            outcome = place.socket.outcome
            if isinstance(outcome, Refusal):
                await self._leave()
                self._note_refusal(outcome)
                return None
            if outcome is not None:
                raise copied_error(outcome)
            if place.is_new or await place.socket.is_there():
                return place
            await self._leave()

    async def _open(self, socket: ResponsesSocket) -> None:
        outcome: ModelError | Refusal | None = None
        try:
            timeout = self._settings.connect_timeout
            opened = await open_websocket(self._url, self._handshake, connect_timeout=timeout)
            if not isinstance(opened, Refusal):
                socket.note_opened(opened)
                return
            outcome = opened
        except ModelError as error:
            outcome = error
        finally:
            if not socket.is_open:
                socket.note_failed(outcome)

    def _note_refusal(self, refusal: Refusal) -> None:
        self.status, self.headers = refusal.status, refusal.headers
        self._waiting = [refusal.body] if refusal.body else []
        is_other = refusal.status < 300
        self._sockets.are_refused = is_other or refusal.status in _NO_SOCKETS_HERE
        if is_other:
            raise ModelProtocolError(
                f"{self._url.netloc} answered with HTTP {refusal.status} and opened no WebSocket"
            )

    def _note_error(self, message: SocketMessage) -> None:
        self.status = message.status
        self.headers = {"content-type": "application/json", **message.headers}
        self._waiting = [message.data]
        self._inbox = None

    async def _leave(self) -> None:
        place, self._place = self._place, None
        inbox, self._inbox = self._inbox, None
        if place is None:
            return
        if inbox is not None and not inbox.is_ended:
            if self._was_sent:
                place.socket.abandon(place.lane, inbox)
            else:
                place.socket.release(place.lane, inbox)
        await _close(self._sockets.remove_nowait(place.socket))


async def _successor(socket: ResponsesSocket, inbox: Inbox, words: Steered) -> list[SocketMessage]:
    """The first messages of the response with which the server goes on by itself; none if it does not.

    They are held back until the server has said of each text whether that response answers it.
    """
    messages: list[SocketMessage] = []
    while not messages or not words.is_known:
        is_at_end = inbox.is_ended if messages else words.is_settled
        if is_at_end and not inbox.has_news:
            break
        messages += _listed(await socket.next_message(inbox))
    return messages


def _listed(message: SocketMessage | None) -> list[SocketMessage]:
    return [] if message is None else [message]


async def _close(sockets: list[ResponsesSocket], *, is_polite: bool = False) -> None:
    if not sockets:
        return
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        async with anyio.create_task_group() as task_group:
            for socket in sockets:
                task_group.start_soon(_close_one, socket, is_polite)


async def _close_one(socket: ResponsesSocket, is_polite: bool) -> None:
    await socket.aclose(is_polite=is_polite)


class _EitherExchange(ForwardedExchange):
    """A request on a socket, or over HTTP where the endpoint turns out to have no sockets."""

    def __init__(self, on_socket: SocketExchange, sockets: _Sockets, over_http: ByteExchange) -> None:
        self.exchange = on_socket
        self._sockets = sockets
        self._over_http = over_http

    async def __aenter__(self) -> Self:
        try:
            await self.exchange.__aenter__()
        except ModelProtocolError:
            if not self._sockets.are_refused:
                raise
        if self._sockets.are_refused and not self.exchange.was_sent:
            await self.exchange.__aexit__(None, None, None)
            self.exchange = self._over_http
            await self.exchange.__aenter__()
        return self


class SocketRequests:
    """Makes requests on sockets, as `http_pool.HttpPool` makes them over HTTP. Entered for one request.

    Args:
        plan: The request.
        rule: What the endpoint offers on a socket.
        other: Makes the request if the endpoint turns out to have no sockets; None to fail then.
    """

    def __init__(
        self,
        plan: HttpRequestPlan,
        rule: WebSocketRule,
        other: AbstractAsyncContextManager[HttpPool] | None,
    ) -> None:
        self._plan = plan
        self._rule = rule
        self._other = other
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._pool = await stack.enter_async_context(shared_in_run("websocket pool", SocketPool))
            self._http = None if self._other is None else await stack.enter_async_context(self._other)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._resources.__aexit__(exception_type, exception, traceback)

    def request(
        self,
        url: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout: float,
        method: str = "POST",
    ) -> ByteExchange:
        """A request, sent when the exchange is entered; see `http_pool.HttpPool.request`."""
        own = self._plan.endpoint.headers
        sockets = self._pool.sockets_at((self._plan.pacing_key, url, frozenset(own.items())), self._rule)
        kept = {name: each for name, each in headers.items() if name in own or name in _HANDSHAKE_HEADERS}
        if self._http is None:
            return SocketExchange(sockets, self._plan, url, kept, body)
        over_http = self._http.request(url, headers, body, connect_timeout=connect_timeout, method=method)
        if sockets.are_refused:
            return over_http
        return _EitherExchange(SocketExchange(sockets, self._plan, url, kept, body), sockets, over_http)
