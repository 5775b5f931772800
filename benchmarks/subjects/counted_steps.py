"""`valgrind --tool=callgrind … python -m benchmarks.subjects.counted_steps SERVER LOOP STEPS`: counted steps.

Callgrind counts the instructions of steps of each kind, and writes those of each kind to a file of its own,
in the order of `KINDS`. Steps before them and whatever else the program does are not counted.
"""

import ctypes
import gc
import mmap
import sys
from collections.abc import Awaitable, Callable

import anyio

import nighthawk_async as nh

from ..cases.steps import EXPECTED, assign, canned_model, executor_of
from . import raw_socket, server_client
from .natural_steps import open_natural_steps, scripts_of

__all__ = ["KINDS"]

KINDS = ("scripted_one", "scripted_two", "scripted_budget", "http_one", "http_two", "raw_two")
"""A canned model with one and two responses, one under a budget of tokens; both over HTTP; the raw floor."""

WARM_STEPS = 10

_REQUEST = bytes.fromhex("4889f831d248c1c70348c1c70d48c1c73d48c1c7334887db4889d0c3")
"""A request to valgrind in machine code for x86-64; a processor without valgrind does nothing with it."""

_TOOL = ord("C") << 24 | ord("T") << 16
_DUMP, _ZERO, _START, _STOP = _TOOL, _TOOL + 1, _TOOL + 4, _TOOL + 5


class Callgrind:
    """Asks callgrind to count."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(_REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(address)

    def _ask(self, request: int) -> None:
        arguments = (ctypes.c_ulong * 6)(request)
        self._call(ctypes.addressof(arguments))

    def start(self) -> None:
        """Count from now on."""
        self._ask(_START)
        self._ask(_ZERO)

    def stop(self) -> None:
        """Write what was counted to the next file, and count no longer."""
        self._ask(_DUMP)
        self._ask(_STOP)


async def count(step: Callable[[], Awaitable[None]], steps: int, callgrind: Callgrind) -> None:
    """Count some steps, one after the other, without the garbage collector."""
    for _ in range(WARM_STEPS):
        await step()
    gc.collect()
    gc.disable()
    callgrind.start()
    for _ in range(steps):
        await step()
    callgrind.stop()
    gc.enable()


async def scripted_step() -> None:
    """One step of a canned model."""
    assert await assign("What is six times seven?") == EXPECTED


async def main(server: str, steps: int, callgrind: Callgrind) -> None:
    """Count the steps of each kind."""
    for trips in (1, 2):
        async with nh.run(executor_of(canned_model(trips))):
            await count(scripted_step, steps, callgrind)
    budget = nh.budget(tokens=10**9, turns=10**6, max_output_tokens=1_000)
    async with nh.run(executor_of(canned_model(1)), budget=budget):
        await count(scripted_step, steps, callgrind)
    for in_one_trip in (True, False):
        delays = {"first_byte_seconds": 0.0, "after_calls_seconds": 0.0}
        script = {**scripts_of(in_one_trip=in_one_trip)["assign"], **delays}
        base_url = server_client.put_script(server, f"counted-{in_one_trip}", script)
        async with open_natural_steps(base_url, "assign") as step:
            await count(step, steps, callgrind)
    script = {**raw_socket.SCRIPTS["assign"], "first_byte_seconds": 0.0}
    base_url = server_client.put_script(server, "counted-raw", script)
    async with raw_socket.open_steps(base_url, "assign") as step:
        await count(step, steps, callgrind)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[3]), Callgrind(), backend=sys.argv[2])
