"""Talking to the server about scripts and counts, on a plain socket. It needs the standard library alone.

A subject's start is measured, so this imports no HTTP client.
"""

import json
import socket
from collections.abc import Mapping
from typing import Any

__all__ = ["counts", "put_script", "reset"]


def put_script(server: str, name: str, script: Mapping[str, Any]) -> str:
    """Register a script.

    Args:
        server: The server's URL, `http://127.0.0.1:PORT`.
        name: The script's name.
        script: The script.

    Returns:
        The base URL below which it is answered; it ends in `/v1`.

    Raises:
        ValueError: The server refused; says why.
    """
    _ask(server, "PUT", f"/scripts/{name}", json.dumps(script).encode())
    return f"{server}/scripts/{name}/v1"


def reset(server: str) -> None:
    """Begin counting anew."""
    _ask(server, "POST", "/reset")


def counts(server: str) -> dict[str, Any]:
    """What the server has done since the last reset; see `benchmarks.server.counts`."""
    return _ask(server, "GET", "/counts")


def _ask(server: str, method: str, path: str, body: bytes = b"") -> Any:
    host, _, port = server.removeprefix("http://").partition(":")
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode() + body)
        stream = connection.makefile("rb")
        status = int(stream.readline().split()[1])
        length = 0
        while line := stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        answer = json.loads(stream.read(length))
    if status != 200:
        raise ValueError(f"the server refused {method} {path}: {answer['error']['message']}")
    return answer
