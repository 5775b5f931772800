"""Requests with an idempotency key: once for each key, in all lives of the service."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware, stream_response
from nighthawk_async.testing import CallbackExecutor, StepCall, pass_response
from tests.unit.asgi.applications import answer, stars
from tests.unit.asgi.asgi_client import Connection, http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio


class Model:
    """An executor that counts its steps, and lets them wait or fail."""

    def __init__(self) -> None:
        self.reviews: list[str] = []
        self.failures: list[Exception] = []
        self.gate: anyio.Event | None = None
        self.gates: dict[str, anyio.Event] = {}
        self.executor = CallbackExecutor(self._count)
        self._changed = anyio.Event()

    async def wait_for(self, steps: int) -> None:
        """Wait until so many steps have begun."""
        while len(self.reviews) < steps:
            await self._changed.wait()

    async def _count(self, call: StepCall) -> Any:
        review = str(call.step_locals["review"])
        self.reviews.append(review)
        self._changed.set()
        self._changed = anyio.Event()
        gate = self.gates.get(review, self.gate)
        if gate is not None:
            await gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return pass_response(count=review.count("*"))


class Service:
    """An application that rates two reviews for each request, and its middleware."""

    def __init__(self, model: Model, store: nh.journal.JournalStore, **arguments: Any) -> None:
        self.sent: list[int] = []
        self.run_ids: list[str] = []
        self.status = 200
        self.middleware = NighthawkMiddleware(self.app, model=model.executor, journal=store, **arguments)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"  # it takes no part in a lifespan
        body = (await receive())["body"].decode()
        self.run_ids.append(nh.get_execution_ref().run_id)
        first = await stars(body)
        receipt = await self.charge(first)
        second = await stars(body + "*")
        await answer(send, f"{first} {receipt} {second}", status=self.status)

    async def charge(self, amount: int) -> str:
        @nh.once
        async def charge(amount: int) -> str:
            self.sent.append(amount)
            return f"charged {amount}"

        return await charge(amount)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nh.journal.JournalStore]:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        yield store


@asynccontextmanager
async def posting(
    app: Any, body: str = "***", *, key: str | None = '"one"', path: str = "/", **headers: str
) -> AsyncIterator[Connection]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if key is not None:
        given["idempotency-key"] = key
    asgi_scope = http_scope(path, method="POST", headers=given)
    message = {"type": "http.request", "body": body.encode(), "more_body": False}
    async with open_connection(app, asgi_scope, message) as connection:
        yield connection


async def post(app: Any, body: str = "***", **more: Any) -> Connection:
    async with posting(app, body, **more) as connection:
        pass
    return connection


async def test_a_request_that_comes_again_gets_the_recorded_response(store: nh.journal.JournalStore) -> None:
    model = Model()
    service = Service(model, store)
    first = await post(service.middleware)
    other_life = Service(Model(), store)
    again = [await post(service.middleware), await post(other_life.middleware)]
    assert first.body == b"3 charged 3 4"
    assert [(each.status, each.body) for each in again] == [(200, first.body)] * 2
    assert [each.headers["idempotent-replayed"] for each in again] == ["true", "true"]
    assert "idempotent-replayed" not in first.headers
    assert (model.reviews, service.sent, other_life.sent) == (["***", "****"], [3], [])


async def test_headers_of_the_response_are_recorded_but_those_of_one_connection(
    store: nh.journal.JournalStore,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [
            (b"content-type", b"text/x"),
            (b"Location", b"/7"),
            (b"Date", b"today"),
            (b"x-request-id", b"q"),
        ]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    middleware = NighthawkMiddleware(app, model=Model().executor, journal=store)
    first = await post(middleware)
    again = await post(middleware, x_request_id="another")
    assert (first.body, first.headers["Date"]) == (b"one two", "today")
    assert (again.status, again.body) == (201, b"one two")
    assert again.headers == {
        "content-type": "text/x",
        "Location": "/7",
        "content-length": "7",
        "idempotent-replayed": "true",
        "x-request-id": "another",
    }


async def test_the_application_is_told_nothing_of_single_connections(store: nh.journal.JournalStore) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told.append((scope["extensions"], dict(scope["headers"]).keys(), scope["path_params"]))
        await answer(send)

    extensions = {"http.response.pathsend": {}, "tls": {"version": 1}}
    headers = {"idempotency-key": "one", "last-event-id": "abc.7", "accept": "*/*"}
    middleware = NighthawkMiddleware(app, model=Model().executor, journal=store)
    scope = http_scope("/", method="POST", headers=headers, extensions=extensions, path_params={"id": "7"})
    async with open_connection(middleware, scope):
        pass
    assert told == [({"tls": {"version": 1}}, {b"idempotency-key", b"accept"}, {"id": "7"})]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/", {}),
        ("POST", "/other", {"idempotency-key": "one"}),
        ("PATCH", "/", {"idempotency-key": "one"}),
        ("POST", "/", {"idempotency-key": "two"}),
        ("POST", "/", {"idempotency-key": "one", "authorization": "Bearer another"}),
    ],
)
async def test_another_key_method_path_or_caller_is_another_request(
    store: nh.journal.JournalStore, method: str, path: str, headers: dict[str, str]
) -> None:
    model = Model()
    service = Service(model, store)
    await post(service.middleware)
    message = {"type": "http.request", "body": b"*", "more_body": False}
    async with open_connection(
        service.middleware, http_scope(path, method=method, headers=headers), message
    ) as other:
        pass
    assert other.body == b"1 charged 1 2"
    assert len(set(service.run_ids)) == 2


async def test_the_client_of_the_service_counts_instead_of_its_credentials(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    service = Service(model, store, client_of=lambda asgi_scope: "ann")
    await post(service.middleware, authorization="Bearer 1")
    again = await post(service.middleware, authorization="Bearer 2")
    assert again.headers["idempotent-replayed"] == "true"
    assert len(model.reviews) == 2


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_same_key_with_another_body_is_refused(
    store: nh.journal.JournalStore, is_known: bool
) -> None:
    service = Service(Model(), store)
    await post(service.middleware)
    if not is_known:
        service = Service(Model(), store)
    other = await post(service.middleware, "**")
    assert (other.status, other.headers["content-type"]) == (422, "application/problem+json")
    assert "retry-after" not in other.headers
    assert (await post(service.middleware)).body == b"3 charged 3 4"


async def test_a_key_whose_response_was_pruned_is_refused_and_not_run_again(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    service = Service(model, store)
    await post(service.middleware)
    assert len(store.prune(timedelta(0)).runs) == 1
    for body in ("***", "another"):
        again = await post(service.middleware, body)
        assert again.status == 422
        assert b"urn:nighthawk-async:problem:idempotency-key-expired" in again.body
    assert (len(model.reviews), service.sent) == (2, [3])
    assert (await post(service.middleware, key="two")).status == 200


async def test_the_same_key_with_another_body_is_refused_while_the_first_is_in_progress(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    async with posting(service.middleware) as first:
        await model.wait_for(1)
        assert (await post(service.middleware, "**")).status == 422
        model.gate.set()
    assert first.status == 200


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "tab\there"])
async def test_a_malformed_key_is_refused(store: nh.journal.JournalStore, key: str) -> None:
    service = Service(Model(), store)
    refused = await post(service.middleware, key=key)
    assert (refused.status, refused.headers.get("retry-after")) == (400, None)
    assert service.run_ids == []


async def test_requests_with_one_key_share_the_response_in_progress(store: nh.journal.JournalStore) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    async with posting(service.middleware) as first, posting(service.middleware, key="one") as second:
        await model.wait_for(1)
        await anyio.wait_all_tasks_blocked()
        assert service.middleware.requests_in_progress == 2
        model.gate.set()
    assert first.body == second.body == b"3 charged 3 4"
    assert (len(model.reviews), service.sent) == (2, [3])


async def test_it_goes_on_without_the_client_that_began_it(store: nh.journal.JournalStore) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    async with posting(service.middleware) as first:
        await model.wait_for(1)
        first.disconnect()
        await anyio.wait_all_tasks_blocked()
        async with posting(service.middleware) as second:
            await anyio.wait_all_tasks_blocked()
            model.gate.set()
    assert (second.status, second.body) == (200, b"3 charged 3 4")
    assert (len(model.reviews), service.sent) == (2, [3])


async def test_a_client_that_joined_may_leave(store: nh.journal.JournalStore) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    async with posting(service.middleware) as first:
        await model.wait_for(1)
        async with posting(service.middleware) as second:
            await anyio.wait_all_tasks_blocked()
            second.disconnect()
        assert (second.sent, first.sent) == ([], [])
        model.gate.set()
    assert first.body == b"3 charged 3 4"


async def test_a_client_that_cannot_be_sent_to_does_not_end_the_request(
    store: nh.journal.JournalStore,
) -> None:
    service = Service(Model(), store)

    async def refuse(message: Any) -> None:
        raise OSError("the client has left")

    scope = http_scope("/", method="POST", headers={"idempotency-key": "one"})
    connection = Connection()
    connection.feed({"type": "http.request", "body": b"***", "more_body": False})
    await service.middleware(scope, connection.receive, refuse)
    again = await post(service.middleware)
    assert (again.body, again.headers["idempotent-replayed"]) == (b"3 charged 3 4", "true")


async def test_another_request_goes_on_when_the_task_of_the_first_is_cancelled(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def begin() -> None:
            with scope:
                await post(service.middleware)

        tasks.start_soon(begin)
        await model.wait_for(1)
        async with posting(service.middleware) as second:
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await model.wait_for(2)
            model.gate.set()
    assert second.body == b"3 charged 3 4"


async def test_a_request_whose_time_is_over_continues_when_it_is_sent_again(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    service = Service(model, store, request_timeout=0.5)
    model.gates["****"] = anyio.Event()
    first = await post(service.middleware)
    again = await post(Service(Model(), store).middleware)
    assert (first.status, again.body) == (504, b"3 charged 3 4")


async def test_an_error_is_not_the_last_word(store: nh.journal.JournalStore) -> None:
    model = Model()
    service = Service(model, store)
    model.failures = [nh.errors.ModelStatusError("busy", status=429, is_transient=True)]
    failed = await post(service.middleware)
    assert (failed.status, service.sent) == (503, [])
    assert (await post(service.middleware)).body == b"3 charged 3 4"


async def test_everybody_who_waits_gets_the_error(store: nh.journal.JournalStore) -> None:
    model = Model()
    model.gate = anyio.Event()
    model.failures = [nh.errors.ModelStatusError("busy", status=429, is_transient=True)]
    service = Service(model, store)
    async with posting(service.middleware) as first, posting(service.middleware) as second:
        await model.wait_for(1)
        await anyio.wait_all_tasks_blocked()
        model.gate.set()
    assert [first.status, second.status] == [503, 503]


@pytest.mark.parametrize(("status", "is_last"), [(404, True), (429, False), (500, False), (503, False)])
async def test_a_response_that_asks_to_try_again_is_not_recorded(
    store: nh.journal.JournalStore, status: int, is_last: bool
) -> None:
    model = Model()
    service = Service(model, store)
    service.status = status
    assert (await post(service.middleware)).status == status
    service.status = 200
    again = await post(service.middleware)
    assert again.status == (status if is_last else 200)
    assert (len(model.reviews), service.sent) == (2, [3])


async def test_a_response_that_is_too_large_to_record_is_made_again(
    store: nh.journal.JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.asgi.kept_response.MOST_BYTES", 3)
    model = Model()
    service = Service(model, store)
    for _ in range(2):
        answered = await post(service.middleware)
        assert (answered.body, answered.headers.get("idempotent-replayed")) == (b"3 charged 3 4", None)
    assert (len(model.reviews), service.sent) == (2, [3])


async def test_a_request_in_progress_elsewhere_is_refused_for_now(
    store: nh.journal.JournalStore, tmp_path: Path
) -> None:
    model = Model()
    model.gate = anyio.Event()
    service = Service(model, store)
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as other_store:
        elsewhere = Service(Model(), other_store)
        async with posting(service.middleware) as first:
            await model.wait_for(1)
            refused = await post(elsewhere.middleware)
            model.gate.set()
        assert (refused.status, refused.headers["retry-after"]) == (409, "1")
        assert (await post(elsewhere.middleware)).body == first.body


async def test_a_request_that_the_service_interrupted_continues_in_the_next_life(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    service = Service(model, store, grace_seconds=0)
    lives: list[Connection] = []

    async def ask() -> None:
        lives.append(await post(service.middleware))

    async with anyio.create_task_group() as tasks, open_lifespan(service.middleware) as lifespan:
        model.gates["****"] = anyio.Event()
        tasks.start_soon(ask)
        await model.wait_for(2)
        lifespan.feed({"type": "lifespan.shutdown"})
        await lifespan.ended.wait()
    later = Model()
    assert [each.status for each in lives] == [503]
    assert (await post(Service(later, store).middleware)).body == b"3 charged 3 4"
    assert later.reviews == ["****"]


async def test_requests_without_a_key_or_a_journal_are_as_ever(store: nh.journal.JournalStore) -> None:
    model = Model()
    service = Service(model, store)
    for _ in range(2):
        assert (await post(service.middleware, key=None)).body == b"3 charged 3 4"
    assert (len(model.reviews), store.runs()) == (4, [])
    plain = NighthawkMiddleware(service.app, model=model.executor)
    for _ in range(2):
        assert (await post(plain)).body == b"3 charged 3 4"
    assert len(model.reviews) == 8


async def test_a_body_that_is_too_large_is_refused(store: nh.journal.JournalStore) -> None:
    service = Service(Model(), store)
    refused = await post(service.middleware, "*" * (16 * 1024 * 1024 + 1))
    assert refused.status == 413


async def test_a_client_that_leaves_before_its_body_came_begins_nothing(
    store: nh.journal.JournalStore,
) -> None:
    service = Service(Model(), store)
    scope = http_scope("/", method="POST", headers={"idempotency-key": "one"})
    part = {"type": "http.request", "body": b"*", "more_body": True}
    async with open_connection(service.middleware, scope, part) as connection:
        await anyio.wait_all_tasks_blocked()
        connection.disconnect()
    assert (connection.sent, store.runs()) == ([], [])


async def test_an_error_of_the_application_goes_to_the_server_and_is_not_the_last_word(
    store: nh.journal.JournalStore,
) -> None:
    errors = [RuntimeError("a bug")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if errors:
            raise errors.pop()
        await answer(send, "fixed")

    middleware = NighthawkMiddleware(app, model=Model().executor, journal=store)
    failed = await post(middleware)
    assert isinstance(failed.error, RuntimeError)
    assert (await post(middleware)).body == b"fixed"


def streaming(model: Model, store: nh.journal.JournalStore, **arguments: Any) -> NighthawkMiddleware:
    """A service that answers with the events of two steps."""

    async def rate_twice() -> int:
        return await stars("***") + await stars("*")

    return NighthawkMiddleware(stream_response(rate_twice, **arguments), model=model.executor, journal=store)


def event_names(body: bytes) -> list[str]:
    return [line[7:].decode() for line in body.split(b"\n") if line.startswith(b"event: ")]


async def test_a_stream_of_events_is_shared_from_its_beginning_and_then_its_result_is_kept(
    store: nh.journal.JournalStore,
) -> None:
    model = Model()
    model.gate = anyio.Event()
    app = streaming(model, store, profile="full")
    async with posting(app) as first:
        await first.wait_for_sent(2)
        async with posting(app, last_event_id="abc.7") as second:
            await second.wait_for_sent(2)
            model.gate.set()
    again = await post(app)
    assert first.body == second.body
    assert event_names(first.body)[-1] == "result"
    assert event_names(again.body) == ["result"]
    assert again.headers["content-type"].startswith("text/event-stream")
    assert again.body.endswith(b'data: {"value":4}\n\n')
    assert len(model.reviews) == 2


@pytest.mark.parametrize("resume_seconds", [0, 60])
async def test_a_stream_that_has_failed_continues_when_it_is_asked_for_again(
    store: nh.journal.JournalStore, resume_seconds: float
) -> None:
    model = Model()
    model.gate = anyio.Event()
    app = streaming(model, store, resume_seconds=resume_seconds)
    async with posting(app) as failed:
        await model.wait_for(1)
        model.failures = [nh.errors.ModelStatusError("busy", status=429, is_transient=True)]
        await failed.wait_for_sent(1)
        model.gate.set()
    again = await post(app)
    assert (event_names(failed.body)[-1], event_names(again.body)[-1]) == ("error", "result")
    assert (await post(app)).headers["idempotent-replayed"] == "true"


async def test_a_stream_of_another_kind_is_kept_as_a_whole(store: nh.journal.JournalStore) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in (b"data: 1\n\n", b"data: [DONE]\n\n"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    middleware = NighthawkMiddleware(app, model=Model().executor, journal=store)
    await post(middleware)
    assert (await post(middleware)).body == b"data: 1\n\ndata: [DONE]\n\n"


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(nh.NighthawkError, match="journal must be a path, an address, or a store"):
        NighthawkMiddleware(answer, model=Model().executor, journal=3)  # type: ignore[arg-type]
