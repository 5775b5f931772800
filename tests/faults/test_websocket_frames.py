"""The frames of a WebSocket: split anywhere, mixed with control frames, wrong in every way."""

import json
import random
import struct
from collections.abc import Awaitable, Callable

import anyio
import pytest

from nighthawk_async.errors import ModelConnectionError, ModelError, ModelProtocolError
from nighthawk_async.models import websocket_connection
from nighthawk_async.testing.model_server_websocket import frames_of

from .http_support import collect, raw_server, text_of
from .websocket_support import RawSocket, hello, raw_sockets, socket_model

pytestmark = pytest.mark.anyio


def whole() -> bytes:
    return b"".join(frames_of(json.dumps(message).encode()) for message in hello())


def control(opcode: int, payload: bytes = b"") -> bytes:
    return bytes([0x80 | opcode, len(payload)]) + payload


def closing(code: int, reason: str = "") -> bytes:
    return control(0x8, struct.pack("!H", code) + reason.encode())


async def answer(written: bytes | list[bytes]) -> str:
    """The text of a response that a server writes so."""
    pieces = [written] if isinstance(written, bytes) else written
    return await answered_by(writer_of(pieces))


def writer_of(pieces: list[bytes]) -> Callable[[RawSocket], Awaitable[None]]:
    async def serve(socket: RawSocket) -> None:
        await socket.read()
        for piece in pieces:
            await socket.stream.send(piece)
            await anyio.lowlevel.checkpoint()
        await socket.read()

    return serve


async def answered_by(serve: Callable[[RawSocket], Awaitable[None]]) -> str:
    failure: ModelError | None = None
    async with raw_sockets(serve) as base_url:
        with anyio.fail_after(240):
            try:
                return text_of(await collect(socket_model(base_url)))
            except ModelError as error:
                failure = error  # raised outside of the server's task group, which would wrap it
    raise failure


async def test_messages_may_be_split_and_mixed_with_control_frames_anywhere() -> None:
    chance = random.Random(20261130)
    for number in range(12):
        written = bytearray()
        for message in hello(text="Grüße, Welt: 🦉"):
            data = json.dumps(message, ensure_ascii=False).encode()
            frames = frames_of(data, chance.randint(1, 40))
            written += (
                control(0x9, b"ping") * chance.randint(0, 2) + frames + control(0xA) * chance.randint(0, 2)
            )
        size = chance.choice([1, 2, 3, 7, 50, 1000])
        pieces = [bytes(written[start : start + size]) for start in range(0, len(written), size)]
        assert await answer(pieces) == "Grüße, Welt: 🦉", f"number {number}, {size} bytes at once"


async def test_a_ping_between_two_frames_of_a_message_is_answered() -> None:
    pongs: list[bytes] = []

    async def serve(socket: RawSocket) -> None:
        await socket.read()
        first, *rest = hello()
        data = frames_of(json.dumps(first).encode(), 20)
        await socket.stream.send(data[:22] + control(0x9, b"there?") + data[22:])
        await socket.write(*rest)
        await socket.read()
        pongs.extend(socket.pongs)

    assert await answered_by(serve) == "Hello"
    assert pongs == [b"there?"]


BROKEN = {
    "masked": bytes([0x81, 0x82]) + b"mask" + b"xy",
    "a binary message": bytes([0x82, 2]) + b"{}",
    "an unknown opcode": bytes([0x83, 0]),
    "a reserved bit": bytes([0xC1, 2]) + b"{}",
    "no beginning": bytes([0x80, 2]) + b"{}",
    "a message within a message": bytes([0x01, 1]) + b"{" + bytes([0x81, 2]) + b"{}",
    "bad UTF-8": frames_of(b'{"type": "\xff\xfe"}'),
    "UTF-8 cut off": frames_of('{"type": "é'.encode()[:-1]),
    "no JSON": frames_of(b"<html>"),
    "no object": frames_of(b"[1, 2]"),
    "nothing": frames_of(b""),
    "a long control frame": bytes([0x89, 126]) + struct.pack("!H", 200) + b"x" * 200,
    "a control frame in parts": bytes([0x09, 1]) + b"x",
    "a length without end": bytes([0x81, 127]) + b"\xff" * 8,
    "an event of another response": frames_of(
        b'{"type": "response.created", "response": {"id": "resp_2"}}',
    )
    + frames_of(b'{"type": "response.in_progress", "response": {"id": "resp_3"}}'),
}


async def test_what_no_server_may_send_is_a_typed_error() -> None:
    for name, written in BROKEN.items():
        for before in (b"", frames_of(json.dumps(hello()[0]).encode())):
            with pytest.raises(ModelProtocolError) as caught:
                await answer(before + written)
            assert caught.value.message, name


async def test_closing_is_an_error_that_names_the_code_and_is_retried_where_that_helps() -> None:
    kinds: dict[int, type[ModelError]] = {
        **dict.fromkeys((1000, 1001, 1011, 1012, 1013, 3000, 4000), ModelConnectionError),
        **dict.fromkeys((1002, 1003, 1007, 1008, 1009, 1010), ModelProtocolError),
    }
    for code, kind in kinds.items():
        for number in range(3):
            before = b"".join(frames_of(json.dumps(each).encode()) for each in hello()[:number])
            with pytest.raises(ModelError, match=rf"code {code}: so long") as caught:
                await answer(before + closing(code, "so long"))
            assert type(caught.value) is kind, code
            assert caught.value.is_transient is (kind is ModelConnectionError), code
    with pytest.raises(ModelError):
        await answer(control(0x8))
    with pytest.raises(ModelProtocolError):
        await answer(control(0x8, b"\x01"))
    assert await answer(whole() + closing(1000)) == "Hello"


async def test_a_socket_cut_anywhere_is_never_a_whole_response() -> None:
    written, last = whole(), len(frames_of(json.dumps(hello()[-1]).encode()))
    ends = sorted({*range(0, len(written) - last, 17), *range(len(written) - last, len(written), 23)})

    async def serve(socket: RawSocket) -> None:
        await socket.read()
        await socket.stream.send(written[: ends[0]])

    async with raw_sockets(serve) as base_url:
        model = socket_model(base_url)
        while ends:
            with pytest.raises(ModelConnectionError, match="broke") as caught:
                await collect(model)
            assert caught.value.is_transient, ends[0]
            del ends[0]


async def test_a_message_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        websocket_connection.WebSocketConnection.__init__, "__kwdefaults__", {"max_message_bytes": 50_000}
    )
    for at_once in (None, 1000):
        with pytest.raises(ModelProtocolError, match="message of over 50,000 bytes"):
            await answer(frames_of(b'{"type": "' + b"x" * 70_000 + b'"}', at_once))


async def test_a_response_is_bounded() -> None:
    event = {"type": "response.output_text.delta", "output_index": 0, "delta": "x" * 500}
    flood = frames_of(json.dumps(event).encode()) * 200
    async with raw_sockets(writer_of([frames_of(json.dumps(hello()[0]).encode()) + flood])) as base_url:
        with pytest.raises(ModelProtocolError, match="max_response_bytes"):
            await collect(socket_model(base_url, max_response_bytes=20_000))


async def test_a_server_that_speaks_out_of_turn_is_a_typed_error() -> None:
    strange = [{"type": "response.created", "response": {"id": "resp_9"}, "stream_id": "nobody"}]

    async def serve(socket: RawSocket) -> None:
        await socket.read()
        await socket.write(*strange, *hello("lane-0"))
        await socket.read()

    async with raw_sockets(serve) as base_url:
        with pytest.raises(ModelProtocolError, match=r"out of turn.*'response.created' on the lane 'nobody'"):
            await collect(socket_model(base_url, endpoint_rules="openai-responses"))


async def test_news_of_the_account_and_signs_of_life_are_no_events() -> None:
    news = [{"type": "codex.rate_limits", "x": 1}, {"type": "keepalive"}]

    async def serve(socket: RawSocket) -> None:
        await socket.read()
        for message in hello("lane-0"):
            await socket.write(*news, message)
        await socket.read()

    async with raw_sockets(serve) as base_url:
        model = socket_model(base_url, endpoint_rules="openai-responses")
        assert text_of(await collect(model)) == "Hello"


async def test_a_handshake_that_is_none_is_a_typed_error() -> None:
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    answers = {
        head + "\r\n": "does not answer as a server of WebSockets",
        head + "Sec-WebSocket-Accept: abc\r\n\r\n": "does not answer as a server of WebSockets",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK": "HTTP 200 and opened no WebSocket",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nNo": "HTTP 403: No",
        "SSH-2.0\r\n\r\n": "does not answer with HTTP",
        "": "the server broke it off",
    }
    for written, complaint in answers.items():

        async def serve(stream: anyio.abc.SocketStream, written: str = written) -> None:
            await stream.receive()
            if written:
                await stream.send(written.encode())

        async with raw_server(serve) as base_url:
            with pytest.raises(ModelError) as caught:
                await collect(socket_model(base_url))
            assert complaint in caught.value.message, (written, caught.value.message)
