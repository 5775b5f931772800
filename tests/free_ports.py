"""Ports for servers that other programs start.

They are below those that systems choose from: such a port may go to another test before the server has it,
and who waits for the server may even be connected with itself.
"""

import random
import socket
from contextlib import suppress

__all__ = ["free_port"]


def free_port() -> int:
    """A port of the loopback that nobody has."""
    chance = random.SystemRandom()  # tests that run at the same time shall not find the same one
    while True:
        port = chance.randrange(10_000, 32_768)
        with socket.socket() as taken, suppress(OSError):  # somebody has it
            taken.bind(("127.0.0.1", port))
            return port
