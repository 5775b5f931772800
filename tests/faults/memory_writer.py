"""A process that stores records, and prints each key when the record is durable: see `test_memory_kills`."""

import sys

import anyio

import nighthawk_async as nh


async def write(target: str, name: str, first: int, count: int) -> None:
    """Store records with keys of their own, and some with a key that all processes share."""
    with nh.memory.open(target, namespace="shared") as memory:
        for number in range(first, first + count):
            await memory.store(f"{name}-{number}", f"record {number} of {name}", tags=[name])
            print(f"{name}-{number}", flush=True)
            await memory.store("latest", f"{name}-{number}")


if __name__ == "__main__":
    anyio.run(write, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
