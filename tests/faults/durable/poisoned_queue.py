"""A queue with a call that ends its process, which is killed where that call is, and two healthy ones."""

import tempfile

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor
from nighthawk_async.testing.killing import mark

from . import switches

HEALTHY = ("ann", "bob")
POISON = "poison"
MAX_LIVES = 2

_healthy: set[str] = set()
_with_poison = False


async def poison() -> str:
    """End the process, in lives that are killed at this mark, beside every call that may run beside it."""
    while _with_poison and len(_healthy) < len(HEALTHY):
        await anyio.lowlevel.checkpoint()
    mark("poisoned")
    return POISON


async def healthy(name: str) -> str:
    """End, but not in a life in which the process ends with the poison beside it."""
    _healthy.add(name)
    while _with_poison:
        await anyio.lowlevel.checkpoint()
    return name


async def _serve(store: nh.journal.JournalStore) -> dict[str, str]:
    await store.enqueue(poison, key=POISON, max_lives=MAX_LIVES, priority=1)
    for name in HEALTHY:
        await store.enqueue(healthy, name, key=name, max_lives=MAX_LIVES)
    worker = nh.journal.Worker(
        store,
        [poison, healthy],
        run=lambda run_id: nh.run(ScriptedExecutor([]), journal=store, run_id=run_id),
    )
    async with anyio.create_task_group() as group:
        await group.start(worker.serve)
        ends = {}
        for name in (POISON, *HEALTHY):
            try:
                ends[name] = await store.result(name)
            except nh.journal.RunStuckError:
                ends[name] = "stuck"
        worker.drain()
    return ends


def main(
    *, address: str, backend: str, without: str = "", with_poison: bool = False, life: int = 1
) -> dict[str, str]:
    """Serve the queue once.

    Args:
        address: The address of the store.
        backend: The event loop.
        without: The rule that is switched off; see `switches`.
        with_poison: Whether the poison waits for the others, which wait for the end of the process.
        life: The number of the life.

    Returns:
        The result of each call, or `stuck`.
    """
    global _with_poison
    _with_poison = with_poison
    switches.switch_off(without)
    with nh.journal.open(address) as store:
        return anyio.run(_serve, store, backend=backend)


def _warm_up() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("asyncio", "trio"):
            main(address=f"sqlite:///{folder}/{backend}.db", backend=backend)
    _healthy.clear()


_warm_up()
