"""A service in a process of its own under a real server, with a model that answers when it is told to."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call
from tests.warm_python import WarmPopen

__all__ = ["GOOD", "SERVERS", "Model", "Service", "dechunked", "launched", "read_answer", "serving"]

SERVERS = ["uvicorn", "hypercorn-asyncio", "hypercorn-trio"]

SERVICE = Path(__file__).parent / "asgi_service.py"
PATIENCE_SECONDS = 240.0
GRACE_SECONDS = 40.0
"""Far longer than what is done within it takes."""

GOOD = ModelReply(
    tool_calls=(
        tool_call("nh_assign", target_path="count", expression="3"),
        tool_call("nh_outcome", kind="pass"),
    )
)


class Model:
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    async def answer(self, request: RecordedRequest) -> ModelReply:
        await anyio.to_thread.run_sync(self.may_answer.wait, abandon_on_cancel=True)
        return GOOD


class Service:
    """The child process, and clients of it."""

    def __init__(
        self, process: "subprocess.Popen[str]", port: int, model: Model, server: ModelServer
    ) -> None:
        self.process = process
        self.port = port
        self.model = model
        self.model_server = server

    def connect(
        self, path: str, *, body: bytes | None = None, headers: str = "", version: str = "1.1"
    ) -> socket.socket:
        """Send a request and do not read the answer."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        method = "GET" if body is None else "POST"
        length = "" if body is None else f"content-length: {len(body)}\r\n"
        head = f"{method} {path} HTTP/{version}\r\nhost: a\r\nconnection: close\r\n{length}{headers}\r\n"
        client.sendall(head.encode() + (body or b""))
        return client

    def ask(self, path: str, **details: Any) -> tuple[int, str, bytes]:
        """A whole exchange: the status, the head and the body."""
        with self.connect(path, **details) as client:
            return read_answer(client)

    def open_socket(self, text: str) -> socket.socket:
        """Open a WebSocket and send a text."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        headers = "host: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        client.sendall(f"GET /talk HTTP/1.1\r\n{headers}sec-websocket-key: {'A' * 22}==\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(4_096)
            assert part, head
            head += part
        client.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode())  # masked, with zeros
        return client

    def state(self) -> dict[str, Any]:
        return json.loads(dechunked(*self.ask("/state")[1:]))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Ask again and again while patience lasts: a process tells nobody of its sockets and tasks."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < give_up_at, "it did not come to be"
            assert self.process.poll() is None, "the service has ended"
            time.sleep(0.02)  # so that the process gets to work

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> str:
        """Wait until it has ended, with nothing left; gives its log."""
        output, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert (self.process.returncode, output.splitlines()[-1:]) == (0, ["left nothing"]), errors
        return errors


def read_answer(client: socket.socket) -> tuple[int, str, bytes]:
    received = b""
    while part := client.recv(65_536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1]) if head else 0
    return status, head.decode().lower(), body


def dechunked(head: str, body: bytes) -> bytes:
    """The body without its chunked encoding."""
    if "transfer-encoding: chunked" not in head:
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole


@contextmanager
def serving(
    server: str, grace_seconds: float = GRACE_SECONDS, *, lifespan: str = "has-lifespan"
) -> Iterator[Service]:
    model = Model()
    with (
        ModelServer.in_thread(model.answer) as model_server,
        launched(server, model, model_server, str(grace_seconds), lifespan) as service,
    ):
        yield service


@contextmanager
def launched(server: str, model: Model, model_server: ModelServer, *arguments: str) -> Iterator[Service]:
    """One process of the service; it is killed at the end."""
    command = [sys.executable, "-W", "error::RuntimeWarning", str(SERVICE)]
    command += [server, model_server.base_url, *arguments]
    with WarmPopen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            yield Service(process, int(line), model, model_server)
        finally:
            process.kill()
            model.may_answer.set()  # for the threads that wait
