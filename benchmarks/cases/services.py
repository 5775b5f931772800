"""What a request costs whose answer is a step, and whether anything is left when clients leave.

The middleware alone, in this process, with a model that answers at once; and a service in a process of its
own under a real server, with a model server in another, all clients at once. Those assert that the service is
as it was before when they are done, that usage adds up, and that it still answers.
"""

import random
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import ByteReceiveStream

from nighthawk_async.asgi import NighthawkMiddleware

from ..measure import Benchmark
from ..server.limits import raise_file_limit
from ..server.running import ROOT, running_server
from ..stopwatch import Stopwatch
from ..subjects.server_client import counts, put_script
from .steps import EXPECTED, assign, canned_model, executor_of

__all__ = ["MIDDLEWARE_BENCHMARKS", "SERVICE_BENCHMARKS"]

PATIENCE_SECONDS = 120.0
FIRST_BYTE_SECONDS = 0.2
LEAVES_AT_MOST_SECONDS = 1.5
"""Long enough that some leave before the model is asked, some while it answers and some when it has."""

STEP = {
    "turns": [
        {
            "calls": [
                {"name": "nh_assign", "arguments": {"target_path": "result", "expression": str(EXPECTED)}},
                {"name": "nh_outcome", "arguments": {"kind": "pass"}},
            ]
        }
    ]
}


async def call_middleware(requests: int) -> Mapping[str, float]:
    """Requests one after the other in one lifespan, without a server; each must carry out its step."""
    service = NighthawkMiddleware(_answer_step, model=executor_of(canned_model(1)))
    scope = {"type": "http", "method": "POST", "path": "/steps", "headers": []}
    sent: list[str] = []

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message["type"])

    async with anyio.create_task_group() as tasks:
        lifespan = Messages({"type": "lifespan.startup"})
        tasks.start_soon(service, {"type": "lifespan"}, lifespan.receive, send)
        while "lifespan.startup.complete" not in sent:
            await anyio.lowlevel.checkpoint()
        stopwatch = Stopwatch()
        for _ in range(requests):
            request = Messages({"type": "http.request", "body": b"", "more_body": False})
            await service(dict(scope), request.receive, send)
        figures = stopwatch.figures(requests)
        lifespan.add({"type": "lifespan.shutdown"})
    assert sent.count("http.response.body") == requests
    return {**figures, "rate": 1 / figures["wall"]}


async def _answer_step(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http", "it knows nothing of the lifespan"
    assert await assign("What is six times seven?") == EXPECTED
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class Messages:
    """What a server has to say to an application; then it waits.

    Args:
        first: The first message.
    """

    def __init__(self, first: dict[str, Any]) -> None:
        self._said = [first]
        self._new = anyio.Event()

    def add(self, message: dict[str, Any]) -> None:
        """Say something more."""
        self._said.append(message)
        self._new.set()

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        if not self._said:
            await self._new.wait()
        return self._said.pop(0)


def load_service(server: str, leaving: bool, requests: int) -> Mapping[str, float]:
    """Requests all at once to a service in a process of its own.

    Args:
        server: What it is served by.
        leaving: Whether each third client leaves at a random moment, the model taking its time.
        requests: How many.
    """
    raise_file_limit()
    with running_server() as model, running_service(server, model, leaving) as port:
        return anyio.run(Load(port, model, leaving=leaving, requests=requests).carry_out)


@contextmanager
def running_service(server: str, model: str, leaving: bool) -> Generator[int, None, None]:
    """The service; at the end it is told to end, and must leave nothing."""
    url = put_script(model, "steps", {**STEP, "first_byte_seconds": FIRST_BYTE_SECONDS if leaving else 0.0})
    command = [sys.executable, "-m", "benchmarks.subjects.service", server, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
            process.terminate()
            assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "left nothing\n"
        finally:
            process.kill()


class Load:
    """Clients of a service.

    Args:
        port: Where it listens.
        model: URL of the model server.
        leaving: Whether each third client leaves at a random moment.
        requests: How many clients.
    """

    def __init__(self, port: int, model: str, *, leaving: bool, requests: int) -> None:
        self._port = port
        self._model = model
        self._leaving = leaving
        self._requests = requests
        self._answered: set[str] = set()
        self._failed = 0
        self._random = random.Random(7)

    async def carry_out(self) -> Mapping[str, float]:
        """Let all clients ask at once, and look at what is left."""
        assert await self._ask("warm") == 200
        before = await self._state()
        began = time.perf_counter()
        async with anyio.create_task_group() as clients:
            for number in range(self._requests):
                leaves = self._leaving and number % 3 == 0
                seconds = self._random.uniform(0, LEAVES_AT_MOST_SECONDS) if leaves else PATIENCE_SECONDS
                clients.start_soon(self._be_client, str(number), seconds, leaves)
        elapsed = time.perf_counter() - began
        after = await self._wait_until_quiet(before)
        self._check(before, after)
        assert await self._ask("last") == 200, "the service no longer answers"
        return {
            "burst_wall": elapsed,
            "rate": len(self._answered) / elapsed,
            "errors": self._failed,
            "peak_memory": after["peak_memory"],
        }

    async def _be_client(self, name: str, seconds: float, leaves: bool) -> None:
        with anyio.move_on_after(seconds):
            if await self._ask(name) == 200:
                self._answered.add(name)
                return
        self._failed += not leaves

    async def _ask(self, name: str) -> int:
        status, _ = await self._exchange("POST /steps", name)
        return status

    async def _state(self) -> Any:
        return msgspec.json.decode((await self._exchange("GET /state", "state"))[1])

    async def _exchange(self, what: str, name: str) -> tuple[int, bytes]:
        try:
            async with await anyio.connect_tcp("127.0.0.1", self._port) as stream:
                head = f"{what} HTTP/1.1\r\nhost: service\r\nx-request-id: {name}\r\n"
                await stream.send(f"{head}content-length: 0\r\nconnection: close\r\n\r\n".encode())
                received = await _read(stream)
        except (OSError, anyio.BrokenResourceError):
            return 0, b""
        head, _, body = received.partition(b"\r\n\r\n")
        return (int(head.split(b" ", 2)[1]) if head else 0), body

    async def _wait_until_quiet(self, before: Mapping[str, Any]) -> Any:
        """Wait until no task, scope or socket is left but connections to the model that wait for work."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                state = await self._state()
                going_on = state["going_on"] or state["in_progress"] or state["tasks"] > before["tasks"]
                if not going_on and state["sockets"] <= before["sockets"] + self._requests:
                    return state
                await anyio.sleep(0.05)

    def _check(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Usage adds up: each answer that came is counted once, and nothing that did not come.

        The model server keeps its own count. It has sent every answer that the service has used, and
        nobody asked it for what the service does not count.
        """
        of_one = before["used"]
        used_by: dict[str, int] = after["used_by"]
        assert {used_by[name] for name in self._answered} <= {of_one}
        assert set(used_by.values()) <= {0, of_one}
        assert after["used"] == sum(used_by.values())
        of_server = counts(self._model)
        assert len(self._answered) <= after["used"] // of_one <= of_server["turns"]
        assert of_server["turns"] <= of_server["requests"] <= after["asked"]


async def _read(stream: ByteReceiveStream) -> bytes:
    received = b""
    async for part in stream:
        received += part
    return received


MIDDLEWARE_BENCHMARKS = tuple(
    Benchmark(
        name=f"asgi-step-{backend}",
        what=f"a request through the middleware that carries out a step with one response, on {backend}",
        run=partial(anyio.run, call_middleware, backend=backend),
        operations=500,
        quick_operations=20,
    )
    for backend in ("trio", "asyncio")
)

SERVICE_BENCHMARKS = tuple(
    Benchmark(
        name=f"service-{'leaving' if leaving else 'steps'}-1000-{server}",
        what=f"one of 1,000 requests at once under {server}, each a step"
        + (", a third of whose clients leave" if leaving else ""),
        run=partial(load_service, server, leaving),
        operations=1_000,
        quick_operations=50,
        rounds=3,
        smallest_suite="default",
        is_warmed_up=False,
    )
    for server in ("uvicorn", "hypercorn-trio")
    for leaving in (False, True)
)
