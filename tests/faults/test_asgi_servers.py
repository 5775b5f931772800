"""A service under real servers: clients that leave, read slowly, and are there when it ends."""

import json
import sys

import pytest

from tests.faults.asgi_processes import SERVERS, dechunked, read_answer, serving

pytestmark = pytest.mark.usefixtures("warm_python")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


def test_requests_are_answered_in_one_run(server: str) -> None:
    with serving(server) as service:
        service.model.may_answer.set()
        before = service.state()
        trace = "0af7651916cd43dd8448eb211c80319c"
        headers = f"traceparent: 00-{trace}-b7ad6b7169203331-01\r\n"
        status, head, body = service.ask("/rate", body=b"***", headers=headers)
        assert (status, json.loads(dechunked(head, body))) == (200, {"count": 3, "id": trace})
        assert f"x-request-id: {trace}" in head
        after = service.state()
        assert (after["run"], after["steps"], after["requests"]) == (before["run"], 1, 1)
        service.end()
        service.wait()


@pytest.mark.parametrize("body", [None, b"***"])
def test_a_client_that_leaves_before_the_first_byte_ends_the_model_request(
    server: str, body: bytes | None
) -> None:
    with serving(server) as service:
        tasks = service.state()["tasks"]
        clients = [service.connect("/rate", body=body) for _ in range(5)]
        service.wait_until(lambda: service.model_server.connections.open == 5)
        service.wait_until(lambda: len(service.model_server.requests) == 5)
        for client in clients:
            client.close()
        service.wait_until(lambda: service.model_server.connections.open == 0)
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.wait_until(lambda: service.state()["tasks"] <= tasks)
        state = service.state()
        assert (state["steps"], state["requests"]) == (5, 5)
        service.model.may_answer.set()
        assert service.ask("/rate")[0] == 200
        service.end()
        service.wait()


BODIES = {
    "chunked": ("transfer-encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    "on its way": ("content-length: 1000\r\n", b"abc"),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_client_that_leaves_is_noticed_behind_a_body_that_nobody_reads(server: str, body: str) -> None:
    headers, sent = BODIES[body]
    with serving(server) as service:
        client = service.connect("/unread", headers=headers)
        client.sendall(sent)
        service.wait_until(lambda: len(service.model_server.requests) == 1)
        client.close()
        service.wait_until(lambda: service.model_server.connections.open == 0)
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.end()
        service.wait()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_ends_behind_a_response_in_parts(server: str, version: str) -> None:
    with serving(server) as service:
        service.model.may_answer.set()
        for _ in range(4):
            status, head, body = service.ask("/stream", version=version)
            assert (status, dechunked(head, body)) == (200, b"first\n3")
        service.end()
        service.wait()


def test_an_application_that_fails_in_its_lifespan_serves(server: str) -> None:
    with serving(server, lifespan="fails-in-lifespan") as service:
        service.model.may_answer.set()
        assert [service.ask("/rate")[0] for _ in range(2)] == [200, 200]
        service.end()
        service.wait()


def test_a_client_that_leaves_during_the_response_ends_the_model_request(server: str) -> None:
    with serving(server) as service:
        client = service.connect("/stream")
        received = b""
        while b"first" not in received:
            received += client.recv(65_536)
        service.wait_until(lambda: len(service.model_server.requests) == 1)
        client.close()
        service.wait_until(lambda: service.model_server.connections.open == 0)
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.end()
        service.wait()


def test_clients_that_wait_for_their_turn_and_leave_give_it_back(server: str) -> None:
    with serving(server) as service:
        clients = [service.connect("/rate") for _ in range(19)]  # one place is left for the state
        service.wait_until(lambda: len(service.model_server.requests) == 19)
        clients += [service.connect("/rate", body=b"***")]
        service.wait_until(lambda: len(service.model_server.requests) == 20)
        waiting = [service.connect("/rate", body=b"***" if each % 2 else None) for each in range(6)]
        for client in (*waiting, *clients):
            client.close()
        service.wait_until(lambda: service.model_server.connections.open == 0)
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        assert service.state()["waiting"] == 0
        service.end()
        service.wait()


def test_a_client_that_does_not_read_is_ended_when_it_leaves(server: str) -> None:
    with serving(server) as service:
        client = service.connect("/large")
        assert client.recv(1000)
        service.wait_until(lambda: service.state()["in_progress"] == 2)
        client.close()
        service.wait_until(lambda: service.state()["in_progress"] == 1)
        service.end()
        service.wait()


def test_a_request_in_progress_is_answered_when_the_service_ends(server: str) -> None:
    with serving(server) as service, service.connect("/rate") as client:
        service.wait_until(lambda: len(service.model_server.requests) == 1)
        service.end()
        service.model.may_answer.set()
        assert read_answer(client)[0] == 200
        service.wait()


def test_a_request_that_takes_longer_than_the_grace_is_cancelled(server: str) -> None:
    if server == "hypercorn-asyncio" and sys.version_info >= (3, 12):
        pytest.skip("Hypercorn waits for open connections first, as asyncio's servers do from Python 3.12 on")
    with serving(server, grace_seconds=0.2) as service, service.connect("/rate") as client:
        service.wait_until(lambda: len(service.model_server.requests) == 1)
        service.end()
        assert read_answer(client)[0] in (0, 500, 503)
        service.wait()
        assert service.model_server.connections.open == 0
