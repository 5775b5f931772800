"""Starting the server as a process of its own, and stopping it. It needs the standard library alone."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ROOT", "ServerNotStartedError", "running_server"]

ROOT = Path(__file__).parent.parent.parent
"""The folder that holds `benchmarks`."""


class ServerNotStartedError(Exception):
    """The server's process ended before it served."""


@contextmanager
def running_server() -> Iterator[str]:
    """A server of one's own; it ends with the context, and when this process dies.

    Returns:
        Its URL, `http://127.0.0.1:PORT`.

    Raises:
        ServerNotStartedError: It could not be started.
    """
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise ServerNotStartedError(f"the server's process ended with status {process.wait()}")
        yield f"http://127.0.0.1:{json.loads(line)['port']}"
