"""`python -m benchmarks.server`: serve on a free port of the loopback until standard input ends.

The first line of standard output is a JSON object with the port. Below `/scripts/NAME/v1` lie the paths of
the two protocols.

PUT /scripts/NAME   registers a script (see `benchmarks.server.script`)
GET /counts         tells what was done since the last reset
POST /reset         begins counting anew
"""

import asyncio
import gc
import json
import os
import sys

import msgspec

from .connection import Connection
from .counts import Counts
from .library import Due, Library, RefusedError
from .limits import raise_file_limit

__all__ = ["Server", "serve"]

BACKLOG = 16384
"""How many connections may wait to be accepted; the system may allow fewer."""


MODELS = {
    "object": "list",
    "data": [{"id": "benchmark", "object": "model", "created": 1700000000, "owned_by": "benchmarks"}],
}
"""What is answered to whoever asks which models there are, which counts as no request."""


class Server:
    """What all connections share."""

    def __init__(self) -> None:
        self._library = Library()
        self._counts = Counts()

    def connection(self) -> Connection:
        """A new connection of this server."""
        return Connection(self._handle, self._note)

    def _handle(self, method: str, path: str, body: bytes) -> bytes | Due:
        if method == "POST" and path != "/reset":
            self._counts.note_request()
            return self._library.find(path, body)
        if method == "GET" and path.endswith("/v1/models"):
            return _as_response(MODELS)
        if (method, path) == ("GET", "/counts"):
            return _as_response(self._counts.as_json())
        if (method, path) == ("POST", "/reset"):
            self._counts.forget()
            return _as_response({})
        if method == "PUT" and path.startswith("/scripts/"):
            return self._register(path.removeprefix("/scripts/"), body)
        raise RefusedError(404, f"there is no {method} {path}")

    def _register(self, name: str, body: bytes) -> bytes:
        try:
            self._library.put(name, body)
        except msgspec.MsgspecError as error:
            raise RefusedError(400, f"this is no script: {error}") from None
        return _as_response({})

    def _note(self, change: str) -> None:
        match change:
            case "opened":
                self._counts.note_connection()
            case "closed":
                self._counts.open_connections -= 1
            case "answered":
                self._counts.turns += 1
            case _:
                self._counts.errors += 1


async def serve() -> None:
    """Serve until standard input ends."""
    raise_file_limit()
    server = Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server.connection, "127.0.0.1", 0, backlog=BACKLOG)
    port = listening.sockets[0].getsockname()[1]
    print(json.dumps({"port": port, "loop": type(loop).__module__}), flush=True)
    # Answers are made of what was there before: looking for cycles would only be felt by whoever waits.
    gc.freeze()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    listening.close()


def _as_response(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def main() -> None:
    """Serve on uvloop where it is to be had, otherwise on asyncio's own event loop."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())
        # Connections that subjects have left open are closed with the process.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
