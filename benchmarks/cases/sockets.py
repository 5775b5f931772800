"""A long step of OpenAI Responses over a WebSocket, beside the same over HTTP, from a server far away."""

from functools import partial

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ReplyPacing, tool_call

from ..measure import Benchmark
from ..stopwatch import Stopwatch

__all__ = ["BENCHMARKS"]

SECONDS_EACH_WAY = 0.1
TURNS = 20
PAGE = "A page of words. " * 250
FAR = ReplyPacing(first_byte_seconds=2 * SECONDS_EACH_WAY)
NEAR = ReplyPacing()


async def page(number: int) -> str:
    """Return a page."""
    return f"page({number}): {PAGE}"


@nh.natural_function(tools=[page])
async def read() -> str:
    result = ""
    """natural
    Read each <page>, then set <:result> to the last word.
    """
    return result


def reply_after(turns: int, pacing: ReplyPacing, request: RecordedRequest) -> ModelReply:
    """Ask for the next page; after the last one, return."""
    items = [*request.earlier_items, *request.body["input"]]
    number = sum(item.get("type") == "function_call" for item in items)
    if number < turns - 1:
        return ModelReply(tool_calls=(tool_call("page", number=number),), pacing=pacing)
    return ModelReply(
        tool_calls=(tool_call("nh_outcome", kind="pass", bindings={"result": "words"}),), pacing=pacing
    )


def executor_at(server: ModelServer, transport: str) -> nh.AgentStepExecutor:
    """An executor with several lanes on a socket."""
    settings = {
        "base_url": server.base_url,
        "api_key": "none",
        "transport": transport,
        "endpoint_rules": "openai-responses",
    }
    configuration = nh.StepExecutorConfiguration(
        model="openai-responses:any", model_settings=settings, max_turns=100
    )
    return nh.AgentStepExecutor.from_configuration(configuration)


async def read_from_afar(turns: int, transport: str) -> dict[str, float]:
    """One step; an operation is a turn of it."""
    with ModelServer.in_thread(partial(reply_after, turns, FAR)) as server:
        async with nh.run(executor_at(server, transport)):
            stopwatch = Stopwatch()
            await read()
            return stopwatch.figures(turns)


async def many_steps(steps: int) -> dict[str, float]:
    """Steps of two turns, sixteen at once."""
    with ModelServer.in_thread(partial(reply_after, 2, NEAR)) as server:
        stopwatch = Stopwatch()
        left = iter(range(steps))

        async def work() -> None:
            for _ in left:
                await read()

        async with nh.run(executor_at(server, "websocket")), anyio.create_task_group() as task_group:
            for _ in range(16):
                task_group.start_soon(work)
        if server.connections.total > 4:
            raise RuntimeError(f"{steps} steps took {server.connections.total} sockets")
        return stopwatch.figures(steps)


BENCHMARKS = (
    *(
        Benchmark(
            name=f"far-step-{transport}-{backend}",
            what=f"one of 20 turns with results of 4 KB over {transport}, 100 ms away each way, on {backend}",
            run=partial(anyio.run, partial(read_from_afar, transport=transport), backend=backend),
            operations=TURNS,
            quick_operations=2,
            smallest_suite="default",
            rounds=3,
        )
        for backend in ("trio", "asyncio")
        for transport in ("http", "websocket")
    ),
    Benchmark(
        name="steps-on-sockets-trio",
        what="one of 10,000 steps of two turns, sixteen at once, which share a few WebSockets",
        run=partial(anyio.run, many_steps, backend="trio"),
        operations=10_000,
        quick_operations=50,
        smallest_suite="full",
        rounds=1,
        timeout=900.0,
    ),
)
