"""Servers for tests, and what they were asked."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil

import nighthawk_async as nh

PLAIN_SERVER = Path(__file__).with_name("plain_server.py")


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait for something that happens outside of the event loop."""
    with anyio.fail_after(240):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def processes() -> list[psutil.Process]:
    """The processes that servers are, and theirs: those that are in no group of the tests."""
    found: list[psutil.Process] = []
    for each in psutil.Process().children(recursive=True):
        with suppress(ProcessLookupError):  # it has ended since
            if os.getpgid(each.pid) != os.getpgrp():
                found.append(each)
    return found


class PlainServer:
    """The server of `plain_server.py`, with a folder of its own.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def describe(self, *options: str, **arguments: Any) -> nh.mcp.Server:
        arguments = {"name": "plain", **arguments}
        return nh.mcp.stdio(sys.executable, "-I", PLAIN_SERVER, self.folder, *options, **arguments)

    @property
    def record(self) -> list[tuple[str, Any]]:
        """What it was asked, in order."""
        lines = (self.folder / "record.jsonl").read_text(encoding="utf-8").splitlines()
        return [(what, detail) for what, detail in map(json.loads, lines)]

    def count(self, what: str) -> int:
        """How often it was asked for something."""
        return sum(each == what for each, _ in self.record)
