"""Equal requests that wait for each other, ended before every step of the event loop: none waits for ever."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.models import ModelRequest, UserMessage
from nighthawk_async.resilience import MemoryStore
from nighthawk_async.resilience.cached import Cached
from nighthawk_async.resilience.response_cache import StoredResponses
from nighthawk_async.testing import ScriptedModel, model_response

from .schedules import BACKENDS, explore

REQUEST = ModelRequest(messages=(UserMessage(content=("Hello",)),))


async def answered(model: ScriptedModel) -> None:
    async with open_stream(model, REQUEST) as events:
        async for _ in events:
            await checkpoint()


async def given_up(model: ScriptedModel, checkpoints: int) -> None:
    """Ask, and leave the response early."""
    async with open_stream(model, REQUEST):
        for _ in range(checkpoints):
            await checkpoint()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cancelled_request_lets_the_others_go_on(backend: str) -> None:
    model = ScriptedModel(lambda request: model_response(text="Hi"))

    async def program() -> None:
        responses = StoredResponses(MemoryStore())
        try:
            with Cached(responses), anyio.move_on_after(1_000):
                async with anyio.create_task_group() as group:
                    group.start_soon(given_up, model, 2)
                    for _ in range(3):
                        group.start_soon(answered, model)
        finally:
            assert responses.requests_in_progress == 0
        with anyio.CancelScope(shield=True), Cached(responses), anyio.fail_after(1_000):
            await answered(model)

    assert explore(program, backend=backend) == []
