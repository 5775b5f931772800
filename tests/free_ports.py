"""Ports for servers that other programs start.

They are below those that systems choose from: such a port may go to another test before the server has it,
and who waits for the server may even be connected with itself. Each process of a run of the tests has a range
of its own.
"""

import os
import random
import socket
from contextlib import suppress

__all__ = ["free_port"]

_LOWEST, _SIZE, _RANGES = 10_000, 2_750, 8


def free_port() -> int:
    """A port of the loopback that nobody has."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _RANGES
    chance = random.SystemRandom()  # other runs of the tests shall not find the same one
    while True:
        port = chance.randrange(_LOWEST + process * _SIZE, _LOWEST + (process + 1) * _SIZE)
        with socket.socket() as taken, suppress(OSError):  # somebody has it
            taken.bind(("127.0.0.1", port))
            return port
