"""A worker's end of a socket, while its event loop runs and while it is blocked."""

import socket
import struct
import threading
from collections.abc import Generator

import anyio
import anyio.to_thread
import pytest

from nighthawk_async.distributed.frames import frame_header
from nighthawk_async.distributed.socket_endpoint import SocketEndpoint

pytestmark = pytest.mark.anyio

LARGE = b"x" * 3_000_000


@pytest.fixture
def pair() -> Generator[tuple[SocketEndpoint, socket.socket], None, None]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield SocketEndpoint(ours), theirs


def read_frame(connection: socket.socket) -> bytes:
    _, length = struct.unpack(">4sI", connection.recv(8, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL)


def write_frame(connection: socket.socket, body: bytes) -> None:
    connection.sendall(frame_header(body) + body)


def echo(connection: socket.socket, number: int) -> None:
    for _ in range(number):
        write_frame(connection, read_frame(connection))


async def test_messages_arrive_whole_and_in_order(pair: tuple[SocketEndpoint, socket.socket]) -> None:
    endpoint, theirs = pair
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, echo, theirs, 3)
        await endpoint.send([b"first", LARGE])
        await endpoint.send([b""])
        assert [await endpoint.receive() for _ in range(3)] == [b"first", LARGE, b""]


async def test_messages_are_exchanged_while_the_loop_is_blocked(
    pair: tuple[SocketEndpoint, socket.socket],
) -> None:
    endpoint, theirs = pair
    received: list[bytes] = []

    async def receive() -> None:
        received.append(await endpoint.receive())

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(endpoint.send, [LARGE])  # stops in the middle, as nobody reads yet
        await anyio.wait_all_tasks_blocked()
        thread = threading.Thread(target=echo, args=(theirs, 2))
        thread.start()
        exchanged: list[bytes] = []
        to_send = [b"second"]
        while len(exchanged) < 2:
            exchanged += endpoint.exchange(to_send, 60)
            to_send = []
        thread.join()
        assert exchanged == [LARGE, b"second"]
        write_frame(theirs, b"later")
    assert received == [b"later"]


async def test_an_exchange_ends_when_nothing_comes(pair: tuple[SocketEndpoint, socket.socket]) -> None:
    endpoint, theirs = pair
    assert endpoint.exchange([b"sent"], 0.001) == []
    assert await anyio.to_thread.run_sync(read_frame, theirs) == b"sent"


async def test_the_end_of_the_other_side_is_noticed(pair: tuple[SocketEndpoint, socket.socket]) -> None:
    endpoint, theirs = pair
    theirs.close()
    with pytest.raises(anyio.EndOfStream):
        endpoint.exchange([], 60)
    with pytest.raises(anyio.EndOfStream):
        await endpoint.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await endpoint.send([b"lost"])
