"""Who is let in, who waits, and who is refused."""

from collections import Counter
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.asgi.admission import Admission, RefusedError, Turn
from tests.unit.asgi.applications import Steps, answer
from tests.unit.asgi.asgi_client import Connection, get, http_scope, open_connection, open_lifespan

pytestmark = pytest.mark.anyio


class Gates:
    """An application whose requests wait for their gate, and say in which order they began."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._gates: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()

    def open(self, name: str) -> None:
        self._gates[name].set()

    async def wait_for(self, number: int) -> None:
        while len(self.order) < number:
            await self._changed.wait()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"][1:]
        gate = self._gates[name] = anyio.Event()
        self.order.append(name)
        self._changed.set()
        self._changed = anyio.Event()
        await gate.wait()
        await answer(send, name)


def client_of(asgi_scope: Any) -> str | None:
    return asgi_scope["path"][1:2]


async def test_requests_are_let_in_in_the_order_in_which_they_came() -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(gates.app, model=Steps().executor, max_concurrent_requests=1)
    async with anyio.create_task_group() as tasks:
        for number, name in enumerate("abc"):
            tasks.start_soon(get, middleware, f"/{name}")
            await anyio.wait_all_tasks_blocked()
            assert (middleware.requests_in_progress, middleware.requests_waiting) == (1, number)
        for number, name in enumerate("abc"):
            await gates.wait_for(number + 1)
            assert gates.order == list("abc"[: number + 1])
            gates.open(name)
    assert (middleware.requests_in_progress, middleware.requests_waiting) == (0, 0)


async def test_one_of_each_client_is_let_in_in_turn() -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(
        gates.app, model=Steps().executor, max_concurrent_requests=1, client_of=client_of
    )
    async with anyio.create_task_group() as tasks:
        for name in ("a1", "a2", "a3", "b1", "c1"):
            tasks.start_soon(get, middleware, f"/{name}")
            await anyio.wait_all_tasks_blocked()
        for number in range(5):
            await gates.wait_for(number + 1)
            gates.open(gates.order[-1])
    assert gates.order == ["a1", "a2", "b1", "c1", "a3"]


async def test_a_request_beyond_the_queue_is_refused_before_the_application_sees_it() -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(
        gates.app,
        model=Steps().executor,
        max_concurrent_requests=1,
        max_queued_requests=1,
        retry_after_seconds=2.5,
    )
    async with open_connection(middleware, http_scope("/a")), open_connection(middleware, http_scope("/b")):
        await gates.wait_for(1)
        await anyio.wait_all_tasks_blocked()
        refused = await get(middleware, "/c")
        first = gates.order[0]
        gates.open(first)
        await gates.wait_for(2)
        gates.open(gates.order[1])
    assert (refused.status, refused.headers["retry-after"]) == (503, "3")
    assert refused.headers["content-type"] == "application/problem+json"
    assert sorted(gates.order) == ["a", "b"]


async def test_one_client_does_not_take_all_places_of_the_queue() -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(
        gates.app,
        model=Steps().executor,
        max_concurrent_requests=1,
        max_queued_requests=3,
        client_of=client_of,
    )
    statuses: dict[str, int | None] = {}

    async def ask(name: str) -> None:
        statuses[name] = (await get(middleware, f"/{name}")).status

    async with anyio.create_task_group() as tasks:
        for name in ("a1", "a2", "a3", "a4", "b1", "c1", "a5", "b2"):
            tasks.start_soon(ask, name)
            await anyio.wait_all_tasks_blocked()
        assert statuses == {"a4": 503, "a3": 503, "a5": 503, "b2": 503}
        assert middleware.requests_waiting == 3
        for number in range(4):
            await gates.wait_for(number + 1)
            gates.open(gates.order[-1])
    assert gates.order == ["a1", "a2", "b1", "c1"]


async def test_a_client_beyond_its_limit_is_refused_and_others_are_not() -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(
        gates.app, model=Steps().executor, max_requests_per_client=1, client_of=client_of
    )
    async with open_connection(middleware, http_scope("/a1")):
        await gates.wait_for(1)
        refused = await get(middleware, "/a2")
        async with open_connection(middleware, http_scope("/b1")):
            await gates.wait_for(2)
            gates.open("b1")
        gates.open("a1")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    async with open_connection(middleware, http_scope("/a3")) as later:
        await gates.wait_for(3)
        gates.open("a3")
    assert later.status == 200


@pytest.mark.parametrize("body", [None, b"ab"])
async def test_a_waiting_request_whose_client_leaves_gives_its_place_back(body: bytes | None) -> None:
    gates = Gates()
    middleware = NighthawkMiddleware(
        gates.app, model=Steps().executor, max_concurrent_requests=1, max_queued_requests=1
    )
    headers = {} if body is None else {"content-length": str(len(body))}
    messages = () if body is None else ({"type": "http.request", "body": body, "more_body": True},)
    async with open_connection(middleware, http_scope("/a")):
        await gates.wait_for(1)
        async with open_connection(middleware, http_scope("/b", headers=headers), *messages) as leaving:
            await anyio.wait_all_tasks_blocked()
            assert middleware.requests_waiting == 1
            leaving.disconnect()
        assert (middleware.requests_waiting, leaving.sent) == (0, [])
        gates.open("a")
    assert gates.order == ["a"]


@pytest.mark.virtual_time
async def test_a_waiting_request_whose_time_is_over_is_answered() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(
        steps.app, model=steps.executor, max_concurrent_requests=1, request_timeout=5
    )
    async with open_connection(middleware, http_scope()) as first:
        await steps.wait_for_begun(1)
        second = await get(middleware)
    assert (first.status, second.status, steps.begun) == (504, 504, 1)


async def test_who_waits_is_refused_when_the_service_ends() -> None:
    steps = Steps()
    middleware = NighthawkMiddleware(steps.app, model=steps.executor, max_concurrent_requests=1)
    answered: list[Connection] = []

    async def ask() -> None:
        answered.append(await get(middleware))

    async with anyio.create_task_group() as tasks, open_lifespan(middleware) as lifespan:
        tasks.start_soon(ask)
        await steps.wait_for_begun(1)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        lifespan.feed({"type": "lifespan.shutdown"})
        await anyio.wait_all_tasks_blocked()
        assert [each.status for each in answered] == [503]
        steps.release.set()
        await lifespan.ended.wait()
    assert [each.status for each in answered] == [503, 200]


@given(
    st.integers(1, 3),
    st.integers(0, 4),
    st.lists(st.one_of(st.sampled_from("xyz"), st.integers(0, 9)), max_size=40),
)
def test_places_add_up_whatever_happens(
    max_concurrent: int, max_queued: int, actions: list[str | int]
) -> None:
    """A letter asks for a client of that name, a number leaves from that place."""
    admission = Admission(max_concurrent=max_concurrent, max_queued=max_queued, max_per_client=3)
    turns: list[Turn] = []
    for action in actions:
        if isinstance(action, str):
            own = sum(turn.client == action for turn in turns)
            waiting = Counter(turn.client for turn in turns if not turn.is_admitted)
            is_full = len(turns) >= max_concurrent + max_queued
            gets_place = not is_full or max(waiting.values(), default=0) >= waiting[action] + 2
            if own == 3 or not gets_place:
                with pytest.raises(RefusedError) as refused:
                    admission.ask(action)
                assert refused.value.problem.status == (429 if own == 3 else 503)
            else:
                turns.append(admission.ask(action))
            for turn in [turn for turn in turns if turn.problem is not None]:
                turns.remove(turn)
                admission.leave(turn)
        elif turns:
            admission.leave(turns.pop(action % len(turns)))
        admitted = sum(turn.is_admitted for turn in turns)
        assert admitted == admission.in_progress == min(len(turns), max_concurrent)
        assert admission.queued == len(turns) - admitted
    for turn in turns:
        admission.leave(turn)
    assert (admission.in_progress, admission.queued) == (0, 0)
