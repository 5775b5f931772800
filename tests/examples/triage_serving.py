"""The example service in a process of its own, a scripted model for it, and clients that misbehave."""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from tests.busy_machine import without_held_loops
from tests.warm_python import WarmPopen

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240.0
RESET = struct.pack("ii", 1, 0)


class TriageModel:
    """Finds tickets that say so broken, tells usage by the number of a ticket, and waits when it is held.

    It belongs to the event loop of its server.
    """

    def __init__(self) -> None:
        self.asked: list[RecordedRequest] = []
        self._new = anyio.Event()
        self._may_answer = anyio.Event()
        self._may_answer.set()
        self._answers_left = 0

    def hold(self, *, after: int = 0) -> None:
        """Let the requests from now on wait, but for so many."""
        self._may_answer = anyio.Event()
        self._answers_left = after

    def release(self) -> None:
        """Answer all that wait."""
        self._may_answer.set()

    async def wait_until_asked(self, requests: int) -> None:
        """Wait until so many requests have come."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(self.asked) < requests:
                await self._new.wait()

    async def answer(self, request: RecordedRequest) -> ModelReply:
        self.asked.append(request)
        self._new.set()
        self._new = anyio.Event()
        if self._answers_left:
            self._answers_left -= 1
        else:
            await self._may_answer.wait()
        content = request.content.decode()
        usage = nh.Usage(requests=1, input_tokens=tokens_of(content), output_tokens=5)
        if "find_incidents" not in content:
            label = "negative" if "broken" in content else "positive"
            assign = tool_call("nh_assign", target_path="label", expression=repr(label))
        elif request.body["messages"][-1]["role"] == "user" and "Known" not in content:
            lookup = "'Known: ' + find_incidents('login')[0]"
            return ModelReply(tool_calls=(tool_call("nh_eval", expression=lookup),), usage=usage)
        else:
            assign = tool_call("nh_assign", target_path="reply", expression=repr("We look into it. " * 10))
        return ModelReply(tool_calls=(assign, tool_call("nh_outcome", kind="pass")), usage=usage)


def tokens_of(text: str) -> int:
    """The tokens that the request for a ticket is said to have."""
    number = re.search(r"ticket number (\d+)", text)
    return 1_000 + int(number[1]) if number else 1_000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a client got.

    Args:
        status: The HTTP status.
        head: The head, in lower case.
        body: The body, without its chunked encoding.
    """

    status: int
    head: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[str, Any]]:
        """The server-sent events: names and data."""
        told = [dict(line.split(": ", 1) for line in block.splitlines()) for block in self._blocks()]
        return [(event["event"], json.loads(event["data"])) for event in told]

    def _blocks(self) -> list[str]:
        blocks = self.body.decode().split("\n\n")
        return [block for block in blocks if block and not block.startswith(":")]


class Triage:
    """The child process, and its clients.

    Args:
        process: The process.
        port: Where it listens.
    """

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.port = port
        self.log = ""
        """What it has logged; known at its end."""

    @asynccontextmanager
    async def connected(
        self, method: str, path: str, body: object = None, headers: str = ""
    ) -> AsyncGenerator[SocketStream, None]:
        """Send a request, and leave with the block: at once and without a word when nothing was read."""
        content = b"" if body is None else json.dumps(body).encode()
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{headers}"
            await stream.send(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            yield stream

    async def ask(self, method: str, path: str, body: object = None, headers: str = "") -> Answer:
        """A whole exchange."""
        async with self.connected(method, path, body, headers) as stream:
            return await read_answer(stream)

    async def state(self) -> dict[str, Any]:
        return (await self.ask("GET", "/state")).json()

    async def wait_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a state of the service, and give it."""
        state: dict[str, Any] = {}
        with anyio.move_on_after(PATIENCE_SECONDS):
            while not condition(state := await self.state()):  # noqa: ASYNC110  (of another process)
                await anyio.sleep(0.02)
            return state
        raise AssertionError(f"it did not come to be: {state}")


async def read_answer(stream: SocketStream) -> Answer:
    received = bytearray()
    with anyio.fail_after(PATIENCE_SECONDS):
        async for part in stream:
            received += part
            if is_whole(received):
                break
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    shown = head.decode().lower()
    whole = dechunked(body) if "transfer-encoding: chunked" in shown else body
    return Answer(status=int(shown.split(" ", 2)[1]) if shown else 0, head=shown, body=whole)


def is_whole(received: bytearray) -> bool:
    """Whether the end of a chunked body is there: after it Hypercorn closes a slow connection late."""
    return received.endswith(b"\r\n0\r\n\r\n") and b"transfer-encoding: chunked" in received[:1_000].lower()


def dechunked(body: bytes) -> bytes:
    whole = bytearray()
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole += body[:length]
        body = body[length + 2 :]
    return bytes(whole)


def reset(stream: SocketStream) -> None:
    """Let the end of a connection be a reset, as when a client crashes."""
    raw = stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@contextmanager
def service_process(
    arguments: list[str], variables: Mapping[str, str]
) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """A Python process from the project's folder, killed at the end, and what it writes to standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NIGHTHAWK_MODEL")}
    strictly = ["-W", "error::RuntimeWarning", "-W", "error::ResourceWarning"]
    command = [sys.executable, *strictly, "-m", *arguments]
    with (
        tempfile.TemporaryFile("w+") as errors,  # a pipe that nobody reads would hold the process up
        WarmPopen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=kept | dict(variables),
        ) as process,
    ):
        try:
            yield process, errors
        finally:
            process.kill()


def variables_for(model_server: ModelServer) -> dict[str, str]:
    """What sends the service to a scripted model."""
    return {
        "NIGHTHAWK_MODEL": "openai-chat:scripted",
        "OPENAI_BASE_URL": model_server.base_url,
        "OPENAI_API_KEY": "none",
    }


@asynccontextmanager
async def killed_triage(
    server: str, model_server: ModelServer, **variables: str
) -> AsyncGenerator[Triage, None]:
    """The service under a server; at the end it is killed."""
    arguments = ["tests.examples.watched_triage", server]
    with service_process(arguments, variables_for(model_server) | variables) as (process, errors):
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line, errors.read()
        yield Triage(process, int(line))


@asynccontextmanager
async def triage_under(
    server: str, model_server: ModelServer, *, logged: str | None = None, **variables: str
) -> AsyncGenerator[Triage, None]:
    """The service under a server; at the end it is told to end, and must leave nothing.

    It may log nothing but one line, whose end is given, and that a busy machine held it up.
    """
    arguments = ["tests.examples.watched_triage", server]
    with service_process(arguments, variables_for(model_server) | variables) as (process, errors):
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        triage = Triage(process, int(line or 0))
        if line:
            yield triage
            process.terminate()
        output, _ = await anyio.to_thread.run_sync(process.communicate)
        errors.seek(0)
        triage.log = said = errors.read()
        assert (process.returncode, output.splitlines()[-1:]) == (0, ["left nothing"]), said
        lines = without_held_loops(said)
        assert len(lines) == (logged is not None), said
        assert all(line.endswith(logged or "") for line in lines), said
