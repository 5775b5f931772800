"""Event streams under real servers: whole, cut off and gone on with, and left."""

import re
import socket
import threading

import pytest

from tests.faults.asgi_processes import SERVERS, Service, dechunked, read_answer, serving
from tests.unit.asgi.event_stream_reader import StreamReader

pytestmark = pytest.mark.usefixtures("warm_python")

TAKES_AS_MANY = 20
"""Places that the service has."""


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


def read_stream(client: socket.socket, after: StreamReader | None = None) -> StreamReader:
    """Everything that comes until the server closes the connection."""
    status, head, body = read_answer(client)
    assert (status, "content-type: text/event-stream" in head) == (200, True)
    return StreamReader(after).feed(dechunked(head, body))


def read_until_step(client: socket.socket) -> StreamReader:
    """The events up to that of the step, as far as they arrive whole."""
    received = b""
    while b'"kind":"step"' not in received or not received.endswith(b"\n\n\r\n"):
        part = client.recv(65_536)
        assert part, received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return StreamReader().feed(dechunked(head.decode().lower(), body))


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_stream_is_whole_and_its_connection_closes(server: str, version: str) -> None:
    """Servers may say that the client has left while they still take the end of the response."""
    with serving(server) as service:
        service.model.may_answer.set()
        clients = [service.connect("/live", version=version) for _ in range(8)]
        for client in clients:
            with client:
                told = read_stream(client)
            assert (told.names[0], told.told[-1]) == ("step", {"value": 3})
            assert {node["kind"] for node in told.known.nodes.values()} >= {"task", "function", "step"}
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.end()
        service.wait()


def test_a_client_that_leaves_ends_the_call(server: str) -> None:
    with serving(server) as service:
        tasks = service.state()["tasks"]
        with service.connect("/live") as client:
            read_until_step(client)
            service.wait_until(lambda: len(service.model_server.requests) == 1)
        service.wait_until(lambda: service.model_server.connections.open == 0)
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.wait_until(lambda: service.state()["tasks"] <= tasks)
        service.end()
        service.wait()


def test_a_client_that_has_lost_the_connection_goes_on_where_it_was(server: str) -> None:
    with serving(server) as service:
        path = "/live?resume=60"
        with service.connect(path) as client:
            before = read_until_step(client)
        service.wait_until(lambda: len(service.model_server.requests) == 1)
        with service.connect(path, headers=f"last-event-id: {before.ids[-1]}\r\n") as client:
            service.wait_until(lambda: service.state()["in_progress"] == 2)  # the one who asks, too
            service.model.may_answer.set()
            after = read_stream(client, before)
        numbers = [int(each.rpartition(".")[2]) for each in (*before.ids, *after.ids)]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert (after.told[-1], after.known.shown()["state"]) == ({"value": 3}, "completed")
        status, _, _ = service.ask(path, headers=f"last-event-id: {after.ids[-1]}\r\n")
        assert (status, len(service.model_server.requests)) == (204, 1)
        service.end()
        service.wait()


def test_a_client_comes_back_to_a_service_that_takes_nobody_else(server: str) -> None:
    with serving(server) as service:
        path = "/live?resume=60"
        with service.connect(path) as client:
            before = read_until_step(client)
        others = [service.connect("/rate") for _ in range(TAKES_AS_MANY + 5)]  # some of them wait
        service.wait_until(lambda: len(service.model_server.requests) == TAKES_AS_MANY)
        with service.connect(path, headers=f"last-event-id: {before.ids[-1]}\r\n") as client:
            assert re.match(rb"HTTP/1.1 200", client.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL))
            service.model.may_answer.set()
            assert read_stream(client, before).told[-1] == {"value": 3}
        for other in others:
            with other:
                assert read_answer(other)[0] == 200
        service.end()
        service.wait()


def leave(service: Service, path: str, *, is_answered: bool) -> None:
    """Ask for something, and leave at once or when the answer has begun."""
    with service.open_socket("***") if path == "/talk" else service.connect(path) as client:
        if is_answered:
            client.recv(1)


def test_clients_that_leave_leave_nothing_in_the_log(server: str) -> None:
    """Whatever they have asked for, and however far it was."""
    paths = ("/busy", "/many", "/stream", "/busy?resume=0.1", "/talk", "/rate", "/live")
    with serving(server) as service:
        service.model.may_answer.set()
        for number in range(3):
            clients = [
                threading.Thread(
                    target=leave, args=(service, path), kwargs={"is_answered": (number + turn) % 2 == 0}
                )
                for turn in range(2)
                for path in paths
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.end()
        log = service.wait()
    assert [line for line in log.splitlines() if not re.search(r"\bINFO\b", line)] == []
