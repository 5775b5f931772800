"""A server that opens no WebSocket, or dies between requests, is as one that does the same over HTTP."""

from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

import nighthawk_async as nh
from nighthawk_async.errors import (
    ConnectTimeoutError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
    ModelTimeoutError,
)

from .http_support import collect, raw_server, text_of
from .websocket_support import LANES, SECRET, RawSocket, executor_at, hello, raw_sockets, socket_model

pytestmark = pytest.mark.anyio


def answer(status: str, body: str = '{"error": {"message": "no, says the server"}}', *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", body]).encode()


REFUSALS = {
    "401": answer("401 Unauthorized"),
    "403": answer("403 Forbidden"),
    "403, a page": answer("403 Forbidden", "<html>go away</html>"),
    "404": answer("404 Not Found"),
    "408": answer("408 Request Timeout"),
    "429": answer("429 Too Many Requests", '{"error": {"message": "slow"}}', "Retry-After-Ms: 1"),
    "429, no money": answer(
        "429 Too Many Requests", '{"error": {"message": "pay", "code": "insufficient_quota"}}'
    ),
    "429, a long wait": answer("429 Too Many Requests", "{}", "Retry-After: 86400"),
    "500": answer("500 Internal Server Error", "{}", "Retry-After-Ms: 1"),
    "503": answer("503 Service Unavailable", "{}", "Retry-After-Ms: 1"),
    "a redirect": answer("301 Moved Permanently", "", "Location: http://127.0.0.1:1/v1/responses"),
    "a redirect to here": answer("307 Temporary Redirect", "", "Location: /v1/responses"),
}


async def outcome(written: bytes, transport: str, **settings: Any) -> tuple[Any, ...]:
    """How a request ends at a server that answers every one so: the error, and how often it was asked."""
    asked = 0
    failure: ModelError | None = None

    async def serve(stream: SocketStream) -> None:
        nonlocal asked
        received = b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive()
        asked += 1
        await stream.send(written)

    async with raw_server(serve) as base_url:
        with anyio.fail_after(60):
            try:
                await collect(socket_model(base_url, transport, max_retries=2, **settings))
            except ModelError as error:
                failure = error
    assert failure is not None
    assert SECRET not in str(failure)
    status = failure.status if isinstance(failure, ModelStatusError) else None
    return (
        type(failure),
        status,
        failure.is_transient,
        failure.retries,
        asked,
        failure.message.partition("at ")[0],
    )


async def test_a_refused_handshake_is_what_the_same_refusal_is_over_http() -> None:
    for name, written in REFUSALS.items():
        over_http = await outcome(written, "http")
        for settings in ({}, LANES):
            assert await outcome(written, "websocket", **settings) == over_http, name


async def test_a_server_that_never_answers_is_a_timeout_wherever_it_stops() -> None:
    async def accept_nothing(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    async with raw_server(accept_nothing) as base_url:
        with pytest.raises(ConnectTimeoutError, match=r"no WebSocket .* within 0\.05 seconds"):
            await collect(socket_model(base_url, connect_timeout=0.05))

    async def answer_nothing(socket: RawSocket) -> None:
        await socket.read()
        await anyio.sleep_forever()

    async def begin_only(socket: RawSocket) -> None:
        await socket.read()
        await socket.write(*hello()[:2])
        await anyio.sleep_forever()

    for serve in (answer_nothing, begin_only):
        async with raw_sockets(serve) as base_url:
            model = socket_model(base_url, timeout=0.1)
            with pytest.raises(ModelTimeoutError):
                await collect(model)


async def test_a_socket_that_ends_between_requests_costs_no_attempt() -> None:
    """With a close frame, without one, and after an error of the connection itself."""
    farewells: dict[str, list[bytes | dict[str, Any]]] = {
        "closed": [b"\x88\x02\x03\xe8"],
        "broken off": [],
        "at its limit": [
            {"type": "error", "status": 400, "error": {"code": "websocket_connection_limit_reached"}}
        ],
    }
    for name, farewell in farewells.items():
        sockets = 0

        async def serve(socket: RawSocket, farewell: list[Any] = farewell) -> None:
            nonlocal sockets
            sockets += 1
            await socket.read()
            await socket.write(*hello())
            for each in farewell:
                await (socket.stream.send(each) if isinstance(each, bytes) else socket.write(each))
            if farewell and isinstance(farewell[0], dict):
                await socket.read()

        async with raw_sockets(serve) as base_url:
            async with nh.run(executor_at(base_url)):
                model = socket_model(base_url)
                for _ in range(3):
                    assert text_of(await collect(model)) == "Hello", name
                    await anyio.wait_all_tasks_blocked()
            assert sockets == 3, name


async def test_a_socket_that_dies_after_the_request_is_tried_again_until_output_has_come() -> None:
    for number, is_retried in ((0, True), (1, True), (2, False)):
        sockets = 0

        async def serve(socket: RawSocket, number: int = number) -> None:
            nonlocal sockets
            sockets += 1
            await socket.read()
            await socket.write(*hello()[: number if sockets == 1 else 3])

        async with raw_sockets(serve) as base_url:
            model = socket_model(base_url, max_retries=1)
            if is_retried:
                assert text_of(await collect(model)) == "Hello", number
            else:
                with pytest.raises(ModelConnectionError):
                    await collect(model)
            assert sockets == (2 if is_retried else 1)
