"""A request is cancelled at each point at which it waits, one after the other, and leaves nothing behind.

After each cancellation the server sees the connection closed, pool and pacer are as they were before, and the
next request succeeds at once.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.errors import ModelError
from nighthawk_async.models import exchange, response_body
from nighthawk_async.models.http_pool import HttpPool, open_http_pool
from nighthawk_async.models.pacing import Demand, Pacer, PacerStatistics, Permit
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from nighthawk_async.types.model import ModelEvent

from .cancellation_points import cancel_at
from .http_support import HELLO, SECRET, collect, from_pool, retry_soon, text_of, wait_until_closed

pytestmark = pytest.mark.anyio

GOOD = ModelReply(text="Hello")
NOTHING = PacerStatistics(in_flight=0, waiting=0)
MOST_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What a request goes through, and the least number of points at which it waits."""

    replies: tuple[ModelReply, ...]
    least_points: int
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    has_used_connection: bool = False
    waits_for_turn: bool = False
    leaves_after: int | None = None


def body_in_pieces(body: bytes, status: int = 200, **headers: str) -> ModelReply:
    pacing = ReplyPacing(between_writes_seconds=0.001, write_bytes=len(body) // 4)
    return ModelReply(body=body, status=status, pacing=pacing, headers=headers)


WHOLE = b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}'
OVERLOADED = ModelReply(error={"message": "x", "type": "overloaded_error"})
BUSY = ModelReply(status=503, headers={"retry-after-ms": "2"})
LETTERS = ModelReply(
    text="Hi!", pacing=ReplyPacing(between_writes_seconds=0.001, fragment_characters=1), reasoning="h"
)

JOURNEYS = {
    "connect, send, head, first event, each event": Journey(replies=(LETTERS,), least_points=8),
    "a connection that is used again": Journey(replies=(GOOD,), has_used_connection=True, least_points=2),
    "a whole answer in pieces": Journey(
        replies=(body_in_pieces(WHOLE, **{"content-type": "application/json"}),),
        settings={"stream": False},
        least_points=6,
    ),
    "an error with a body in pieces": Journey(
        replies=(body_in_pieces(b"no such thing", 404),), least_points=6
    ),
    "an error, a backoff, another attempt": Journey(replies=(BUSY, GOOD), least_points=8),
    "a stream that fails, a backoff, another attempt": Journey(
        replies=(OVERLOADED, GOOD), settings={"max_retries": 1}, least_points=8
    ),
    "a body that does not end": Journey(replies=(ModelReply(text="Hello", ending="hang"),), least_points=5),
    "a stream that is left early": Journey(
        replies=(ModelReply(text="Hello", ending="hang", ending_after=2),), leaves_after=1, least_points=4
    ),
    "a wait for its turn": Journey(replies=(GOOD,), waits_for_turn=True, least_points=5),
}


class World:
    """A server with a script, and a model with a pool and a pacer of its own."""

    def __init__(self) -> None:
        self.script: list[ModelReply] = []
        self.server = ModelServer(self._reply)
        self.pacer = Pacer()

    def model(self, pool: HttpPool, **settings: Any) -> Model:
        return create_model(
            "openai-chat:tested",
            settings={
                "base_url": self.server.base_url,
                "api_key": SECRET,
                "max_retries": 1,
                "max_concurrent_requests": 1,
                **settings,
            },
            environment={},
            pool_source=from_pool(pool),
            pacer_source=self._give_pacer,
        )

    def _reply(self, request: RecordedRequest) -> ModelReply:
        return self.script.pop(0) if self.script else GOOD

    @asynccontextmanager
    async def _give_pacer(self, key: object) -> AsyncGenerator[Pacer, None]:
        yield self.pacer


async def travel(model: Model, leaves_after: int | None) -> None:
    seen: list[ModelEvent] = []
    with suppress(ModelError):
        async with model.stream(HELLO) as events:
            async for event in events:
                seen.append(event)
                if len(seen) == leaves_after:
                    return


async def release_when_awaited(pacer: Pacer, permit: Permit) -> None:
    while pacer.statistics().waiting == 0:
        await checkpoint()
    permit.release()


async def cancel_and_look(world: World, journey: Journey, point: int) -> bool:
    """Cancel at one point and see that nothing is left; returns whether the request came that far."""
    world.script.clear()
    async with open_http_pool() as pool:
        if journey.has_used_connection:
            await collect(world.model(pool))
        world.script[:] = journey.replies
        model = world.model(pool, **journey.settings)
        permit = await world.pacer.admit(Demand(lane="other"))
        if not journey.waits_for_turn:
            permit.release()
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(release_when_awaited, world.pacer, permit)
            is_reached = await cancel_at(point, lambda: travel(model, journey.leaves_after))
            task_group.cancel_scope.cancel()
        permit.release()
        assert pool.statistics().in_flight == 0
        assert world.pacer.statistics() == NOTHING
        await wait_until_closed(world.server, pool)
        world.script.clear()
        with anyio.fail_after(240):
            assert text_of(await collect(world.model(pool))) == "Hello"
        assert pool.statistics().in_flight == 0
    return is_reached


@pytest.mark.parametrize("name", JOURNEYS)
async def test_a_request_that_is_cancelled_at_any_point_leaves_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_body, "_DRAIN_SECONDS", 0.02)
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    journey = JOURNEYS[name]
    world = World()
    points = 0
    async with world.server:
        while await cancel_and_look(world, journey, points + 1):
            points += 1
            assert points < MOST_POINTS
        with anyio.fail_after(240):
            await world.server.wait_until_open(at_most=0)
    assert points >= journey.least_points


async def test_hundreds_cancelled_in_flight_and_in_the_queue_cost_nobody_a_turn() -> None:
    world = World()
    world.script[:] = [
        ModelReply(text="Hello", ending="hang", ending_after=number % 3) for number in range(1_000)
    ]
    async with world.server, open_http_pool() as pool:
        model = world.model(pool, max_concurrent_requests=20)
        for round_number in range(1, 4):
            async with anyio.create_task_group() as task_group:
                for _ in range(300):
                    task_group.start_soon(collect, model)
                with anyio.fail_after(240):
                    while len(world.server.requests) < 20 * round_number:
                        await checkpoint()
                assert world.pacer.statistics() == PacerStatistics(in_flight=20, waiting=280)
                task_group.cancel_scope.cancel()
            assert world.pacer.statistics() == NOTHING
            assert pool.statistics().in_flight == 0
            await wait_until_closed(world.server, pool)
        world.script.clear()
        with anyio.fail_after(240):
            assert text_of(await collect(model)) == "Hello"
