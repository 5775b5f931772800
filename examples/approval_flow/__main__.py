"""Enqueue an order, and print its end when there is one.

python -m examples.approval_flow 17 "Dr. Lamp" 800 "I love your lamps, thank you!"
"""

import os
import sys

import anyio

import nighthawk_async as nh

from .orders import Order, handle

STORE = os.environ.get("STORE", "sqlite:///orders.db")


async def main(*arguments: str) -> None:
    id, customer, amount, note = arguments
    order = Order(id=id, customer=customer, amount=float(amount), note=note)
    with nh.journal.open(STORE) as store:
        run_id = await store.enqueue(handle, order, queue="orders", key=f"order-{id}")
        print(f"{run_id} is enqueued; Ctrl-C leaves it there")
        print(await store.result(run_id))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
