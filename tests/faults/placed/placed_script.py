"""A script with calls on worker processes, which a test interrupts or kills."""

import sys
from functools import partial

import anyio

import nighthawk_async as nh
from tests.stubborn_functions import (
    block_loop,
    block_thread,
    read_and_print,
    start_and_wait,
    wait_with_cleanup,
)

FUNCTIONS = {each.__name__: each for each in (block_loop, block_thread, start_and_wait, wait_with_cleanup)}


async def hang(name: str, folder: str) -> None:
    async with nh.distributed.Processes(2, max_concurrent_per_worker=1, grace_seconds=0.2) as workers:
        await nh.parallel.map(FUNCTIONS[name], [f"{folder}/0", f"{folder}/1"], on=workers)


async def read(text: str) -> None:
    async with nh.distributed.Processes(1) as workers:
        assert await nh.parallel.map(read_and_print, [text], on=workers) == [""]
    print("the program reads", sys.stdin.read(), flush=True)


if __name__ == "__main__":
    _, backend, what, *rest = sys.argv
    work = partial(hang, what, *rest) if what in FUNCTIONS else partial(read, *rest)
    anyio.run(work, backend=backend)
