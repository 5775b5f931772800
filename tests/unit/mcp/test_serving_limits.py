"""Limits of a server: calls that wait, are refused, take too long, or are cancelled by an observer."""

from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

import nighthawk_async as nh

from .serving_support import CLIENT_WARNINGS, ERAS, Era, Steps, connected, count_run, serving, stars, text_of

pytestmark = [
    pytest.mark.anyio,
    *(CLIENT_WARNINGS, pytest.mark.parametrize("era", ERAS)),
]


async def test_calls_wait_for_a_slot_and_are_refused_beyond_the_queue(era: Era) -> None:
    steps = Steps()
    app = nh.mcp.serve(
        [steps.wait], run=count_run, max_concurrent_requests=2, max_queued_requests=1, retry_after_seconds=7
    )
    results: list[CallToolResult] = []
    async with connected(app, era) as client:

        async def call() -> None:
            results.append(await client.call_tool("wait", {}))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(call)
            await steps.until(lambda: steps.begun == 2)
            tasks.start_soon(call)
            while True:  # nothing reports that a call has begun to wait
                if app.calls_waiting:
                    break
                await anyio.sleep(0.01)
            refused = await client.call_tool("wait", {})
            assert (app.calls_in_progress, app.calls_waiting) == (2, 1)
            steps.release.set()
    assert refused.is_error
    assert text_of(refused) == (
        "The service is busy. Too many requests are in progress and waiting. Try again in 7 seconds."
    )
    assert [text_of(result) for result in results] == ["waited"] * 3


async def test_a_client_has_no_more_calls_than_allowed(era: Era) -> None:
    steps = Steps()

    def client_of(asgi_scope: Any) -> str | None:
        return dict(asgi_scope["headers"]).get(b"x-client", b"").decode() or None

    app = nh.mcp.serve([steps.wait, stars], run=count_run, client_of=client_of, max_requests_per_client=1)
    async with (
        serving(app) as url,
        Client(url, mode=era) as unknown,
        httpx2.AsyncClient(headers={"x-client": "ada"}, timeout=240) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as known,
        anyio.create_task_group() as tasks,
    ):
        for client in (unknown, unknown, known):
            tasks.start_soon(client.call_tool, "wait", {})
        await steps.until(lambda: steps.begun == 3)
        refused = await known.call_tool("stars", {"review": "*"})
        steps.release.set()
    assert refused.is_error
    assert text_of(refused).startswith("Too many requests. Too many requests of this client are in progress")
    assert (steps.finished, app.calls_in_progress) == (3, 0)


async def test_a_call_that_takes_too_long_is_cancelled(era: Era) -> None:
    steps = Steps()
    app = nh.mcp.serve([steps.wait], run=count_run, request_timeout=0.05)
    async with connected(app, era) as client:
        result = await client.call_tool("wait", {})
    assert (result.is_error, steps.cancelled) == (True, 1)
    assert text_of(result) == (
        "The request took too long. The request was not answered within its time, and was cancelled."
    )


async def test_large_arguments_are_refused(era: Era) -> None:
    app = nh.mcp.serve([stars], run=count_run, max_body_bytes=20_000)
    async with connected(app, era) as client:
        assert text_of(await client.call_tool("stars", {"review": "*" * 10_000})) == "10000"


async def test_a_tree_records_calls_and_can_cancel_them(era: Era) -> None:
    steps = Steps()
    tree = nh.observe.TaskTree()
    app = nh.mcp.serve([steps.wait, stars], run=count_run, tree=tree)
    results: list[CallToolResult] = []
    async with connected(app, era) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            results.append(await client.call_tool("wait", {}))

        await client.call_tool("stars", {"review": "**"})
        tasks.start_soon(call)
        await steps.until(lambda: steps.begun == 1)
        counted, waiting = [node for node in tree.snapshot().children if node.kind == "request"]
        assert (counted.name, counted.state, counted.inputs["review"]) == (
            "tools/call stars",
            "completed",
            '"**"',
        )
        assert counted.attributes["gen_ai.tool.name"] == "stars"
        assert counted.children[0].name == "stars"
        tree.cancel(waiting.id, "the kettle is off")
    (result,) = results
    assert result.is_error
    assert text_of(result).endswith("Reason: the kettle is off")
    assert (steps.cancelled, tree.snapshot(waiting.id).state) == (1, "cancelled")
