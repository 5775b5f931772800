"""An MCP server under real servers: many calls at once, clients that cancel and leave, and its end."""

import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from nighthawk_async.testing import ModelServer
from tests.faults.asgi_processes import GRACE_SECONDS, SERVERS, Model
from tests.unit.mcp.serving_support import CLIENT_WARNINGS, ERAS, Era, text_of
from tests.warm_python import WarmPopen

pytestmark = [
    pytest.mark.anyio,
    CLIENT_WARNINGS,
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.parametrize("era", ERAS),
    pytest.mark.parametrize("server", SERVERS),
    pytest.mark.turns("server"),
]

SERVICE = Path(__file__).parent / "mcp_service.py"
PATIENCE_SECONDS = 240


class Service:
    """The child process, its model, and clients of it."""

    def __init__(self, process: Any, port: int, model: Model, model_server: ModelServer) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.model = model
        self.model_server = model_server

    @asynccontextmanager
    async def client(self, era: Era) -> AsyncIterator[Client]:
        limits = httpx2.Limits(max_connections=None)
        headers = {"authorization": "Bearer sesame"}
        async with (
            httpx2.AsyncClient(headers=headers, limits=limits, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era) as client,
        ):
            yield client

    async def until(self, condition: Any) -> None:
        """Ask again and again: a process tells nobody of its sockets and tasks."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                if await condition():
                    return
                await anyio.sleep(0.02)

    async def open_requests(self, number: int) -> None:
        """Wait until the model has so many connections."""

        async def has() -> bool:
            return self.model_server.connections.open == number

        await self.until(has)

    async def end(self) -> None:
        """End it, and check that it has left nothing."""
        self.process.send_signal(signal.SIGTERM)
        await self.wait()

    async def wait(self) -> None:
        """Wait until it has ended, with nothing left."""
        output, errors = await anyio.to_thread.run_sync(self.process.communicate)
        assert (self.process.returncode, output.splitlines()[-1:]) == (0, ["left nothing"]), errors


@contextmanager
def serving(server: str, grace_seconds: float = GRACE_SECONDS) -> Iterator[Service]:
    model = Model()
    with ModelServer.in_thread(model.answer) as model_server:
        command = [sys.executable, "-W", "error::RuntimeWarning", str(SERVICE), server]
        command += [model_server.base_url, str(grace_seconds)]
        with WarmPopen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                yield Service(process, int(line), model, model_server)
            finally:
                process.kill()
                model.may_answer.set()  # for the threads that wait


async def state_of(client: Client) -> Any:
    return (await client.call_tool("state", {})).structured_content


async def test_a_hundred_calls_at_once_are_answered(server: str, era: Era) -> None:
    texts: list[str] = []
    with serving(server) as service:
        service.model.may_answer.set()
        async with service.client(era) as client:

            async def call() -> None:
                texts.append(text_of(await client.call_tool("rate", {"review": "***"})))

            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(call)
            assert (await state_of(client))["steps"] == 100
        await service.end()
    assert texts == ["3"] * 100


async def test_calls_that_are_cancelled_at_random_leave_nothing(server: str, era: Era) -> None:
    with serving(server) as service:
        async with service.client(era) as client:
            results = await results_of_calls_that_are_kept(service, client, random.Random(era))
            assert await state_of(client) == {"in_progress": 1, "waiting": 0, "steps": 50}
        await service.end()
    assert [result.is_error for result in results] == [False] * 5


async def results_of_calls_that_are_kept(
    service: Service, client: Client, chance: random.Random
) -> list[CallToolResult]:
    """Make thirty calls, every third of three steps, and cancel all but five of them in any order."""
    results: list[CallToolResult] = []
    scopes = [anyio.CancelScope() for _ in range(30)]
    kept = {*chance.sample(range(30), 5)}

    async def call(number: int) -> None:
        name, arguments = ("rate", {"review": "***"}) if number % 3 else ("rate_many", {"number": 3})
        with scopes[number]:
            results.append(await client.call_tool(name, arguments))

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(call, number)
        await service.open_requests(20 + 10 * 3)
        for number in chance.sample(range(30), 30):
            if number not in kept:
                scopes[number].cancel()
                await anyio.sleep(chance.choice([0, 0, 0.001, 0.01]))
        await service.open_requests(sum(1 if number % 3 else 3 for number in kept))
        service.model.may_answer.set()
    return results


async def test_a_client_that_leaves_ends_the_requests_of_its_calls(server: str, era: Era) -> None:
    with serving(server) as service:
        async with anyio.create_task_group() as tasks:

            async def call_and_leave() -> None:
                async with service.client(era) as client, anyio.create_task_group() as calls:
                    for _ in range(10):
                        calls.start_soon(client.call_tool, "rate", {"review": "***"})

            tasks.start_soon(call_and_leave)
            await service.open_requests(10)
            tasks.cancel_scope.cancel()
        await service.open_requests(0)
        async with service.client(era) as client:

            async def is_quiet() -> bool:
                return (await state_of(client))["in_progress"] == 1

            await service.until(is_quiet)
        await service.end()


async def test_the_end_of_the_server_cancels_calls_in_progress(server: str, era: Era) -> None:
    if server == "hypercorn-asyncio" and sys.version_info >= (3, 12):
        pytest.skip("Hypercorn waits for open connections first, as asyncio's servers do from Python 3.12 on")

    async def call_until_the_end(service: Service) -> None:
        with suppress(Exception):  # the connection goes, or the server says that it ends
            async with service.client(era) as client, anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(client.call_tool, "rate", {"review": "***"})

    with serving(server, grace_seconds=2) as service:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_until_the_end, service)
            await service.open_requests(5)
            await service.end()
            await service.open_requests(0)
            tasks.cancel_scope.cancel()


async def test_wrong_tokens_and_bad_bodies_do_no_harm(server: str, era: Era) -> None:
    with serving(server) as service:
        service.model.may_answer.set()
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http:
            for token, body, status in [
                ("wrong", b"{}", 401),
                ("sesame", b"{", 400),
                ("sesame", b"[1]", 400),
                ("sesame", b"x" * 5_000_000, 413),
            ]:
                given = {"authorization": f"Bearer {token}"}
                try:
                    answer = await http.post(service.url, content=body, headers=given)
                except httpx2.TransportError:
                    assert len(body) > 1_000_000  # the server need not read the rest of what it refuses
                else:
                    assert answer.status_code == status
        async with service.client(era) as client:
            assert text_of(await client.call_tool("rate", {"review": "***"})) == "3"
        await service.end()
