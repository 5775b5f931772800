"""Requests with an idempotency key under real servers, killed and started again on the same journal."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from tests.faults.asgi_processes import (
    GOOD,
    SERVERS,
    Model,
    Service,
    dechunked,
    launched,
    read_answer,
)

pytestmark = pytest.mark.usefixtures("warm_python")

STEPS = 20
"""The steps of one request."""
KEY = 'idempotency-key: "nightly"\r\n'


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


class HoldingModel(Model):
    """A model that answers some requests, and the next ones when it is told to."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self._at_once = at_once
        self._asked = 0

    async def answer(self, request: RecordedRequest) -> ModelReply:
        self._asked += 1
        if self._asked > self._at_once:
            await anyio.to_thread.run_sync(self.may_answer.wait, abandon_on_cancel=True)
        return GOOD


class Deployment:
    """The processes of a service, one after the other, on one journal and one model."""

    def __init__(self, server: str, journal: Path, model: Model, model_server: ModelServer) -> None:
        self._server = server
        self._journal = journal
        self.model = model
        self.model_server = model_server

    @contextmanager
    def process(self) -> Iterator[Service]:
        journal = f"sqlite:///{self._journal}"
        arguments = ("40", "has-lifespan", journal)
        with launched(self._server, self.model, self.model_server, *arguments) as service:
            yield service


@contextmanager
def deployed(server: str, folder: Path, *, at_once: int) -> Iterator[Deployment]:
    model = HoldingModel(at_once)
    with ModelServer.in_thread(model.answer) as model_server:
        yield Deployment(server, folder / "runs.db", model, model_server)


def post(service: Service, path: str, body: bytes = b"{}") -> tuple[int, str, bytes]:
    status, head, answer = service.ask(path, body=body, headers=KEY)
    return status, head, dechunked(head, answer)


def test_a_request_that_a_kill_interrupted_continues_and_is_then_answered_from_its_record(
    server: str, tmp_path: Path
) -> None:
    with deployed(server, tmp_path, at_once=STEPS // 2) as deployment:
        with deployment.process() as service, service.connect("/many", body=b"{}", headers=KEY) as client:
            service.wait_until(lambda: len(deployment.model_server.requests) == STEPS // 2 + 1)
            service.process.kill()
            assert read_answer(client)[0] == 0
        with deployment.process() as service:
            status, head, body = post(service, "/many")
            assert (status, json.loads(body)) == (200, 3 * STEPS)
            assert "idempotent-replayed" not in head
            assert len(deployment.model_server.requests) == STEPS + 1  # the one in flight is asked again
            service.process.kill()
        with deployment.process() as service:
            status, head, body = post(service, "/many")
            assert (status, json.loads(body)) == (200, 3 * STEPS)
            assert "idempotent-replayed: true" in head
            assert post(service, "/many", b"other")[0] == 422
            assert len(deployment.model_server.requests) == STEPS + 1
            service.end()
            service.wait()


def test_a_stream_of_events_that_a_kill_interrupted_continues(server: str, tmp_path: Path) -> None:
    with deployed(server, tmp_path, at_once=STEPS // 2) as deployment:
        with deployment.process() as service, service.connect("/busy", body=b"{}", headers=KEY):
            service.wait_until(lambda: len(deployment.model_server.requests) == STEPS // 2 + 1)
            service.process.kill()
        with deployment.process() as service:
            _, _, body = post(service, "/busy")
            last = body.strip().split(b"\n\n")[-1]
            assert b"event: result" in last
            assert f'data: {{"value":{3 * STEPS}}}'.encode() in last
        with deployment.process() as service:
            assert post(service, "/busy")[2] == last + b"\n\n"
            assert len(deployment.model_server.requests) == STEPS + 1


def test_a_request_goes_on_when_its_client_leaves_and_another_one_joins(server: str, tmp_path: Path) -> None:
    with deployed(server, tmp_path, at_once=STEPS // 2) as deployment, deployment.process() as service:
        client = service.connect("/many", body=b"{}", headers=KEY)
        service.wait_until(lambda: len(deployment.model_server.requests) == STEPS // 2 + 1)
        client.close()
        with service.connect("/many", body=b"{}", headers=KEY) as joined:
            service.wait_until(lambda: service.state()["in_progress"] == 3)
            deployment.model.may_answer.set()
            status, head, body = read_answer(joined)
        assert (status, json.loads(dechunked(head, body))) == (200, 3 * STEPS)
        assert len(deployment.model_server.requests) == STEPS
        service.end()
        service.wait()


def test_a_request_in_progress_in_another_process_is_refused_for_now(server: str, tmp_path: Path) -> None:
    with (
        deployed(server, tmp_path, at_once=0) as deployment,
        deployment.process() as service,
        deployment.process() as elsewhere,
    ):
        with service.connect("/many", body=b"{}", headers=KEY) as client:
            service.wait_until(lambda: len(deployment.model_server.requests) == 1)
            status, head, body = post(elsewhere, "/many")
            assert (status, json.loads(body)["title"]) == (409, "The request is in progress")
            assert "retry-after: 1" in head
            deployment.model.may_answer.set()
            status, head, body = read_answer(client)
        assert (status, json.loads(dechunked(head, body))) == (200, 3 * STEPS)
        assert json.loads(post(elsewhere, "/many")[2]) == 3 * STEPS
        assert len(deployment.model_server.requests) == STEPS
