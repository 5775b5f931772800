"""One life of the worker of `examples/approval_flow`, in a process that can be killed."""

import time
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from examples.approval_flow import orders
from examples.approval_flow.payments import Payments, Receipt
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from nighthawk_async.testing.killing import mark

RUN = "order-17"
PAUSE_SECONDS = 0.02


class MarkedPayments(Payments):
    """The payment service, with a moment to kill at right after each charge."""

    def charge(self, receipt: Receipt, key: str) -> None:
        super().charge(receipt, key)
        mark("charged")


def main(folder: str, backend: str, vote: str = "", days: float = 2.0, amount: float = 800.0) -> Any:
    """Enqueue the order, let somebody vote, and let a worker work until nothing is left to do.

    Args:
        folder: The folder of all files.
        backend: The event loop.
        vote: `ada` approves, `-ada` denies; empty for nobody.
        days: The days for which the order waits.
        amount: The amount of the order.

    Returns:
        The end of the order, None while it waits; the orders that were charged; the number of requests.
    """
    path = Path(folder)
    asked = path / "asked.txt"

    def classify(call: StepCall) -> StepResponse:
        with asked.open("a") as file:
            file.write("asked\n")
        return pass_response(tone="positive")

    orders.PAYMENTS = MarkedPayments(path / "payments.jsonl")
    orders.MODEL = CallbackExecutor(classify)
    orders.DAYS = days
    orders.PARK_AFTER = 0.05
    order = orders.Order(id="17", customer="Dr. Lamp", amount=amount, note="I love your lamps!")
    end = anyio.run(_live, f"sqlite:///{path}/orders.db", order, vote, backend=backend)
    charged = [receipt.order for _, receipt in orders.PAYMENTS.all()]
    return end, charged, len(asked.read_text().splitlines())


async def _live(address: str, order: orders.Order, vote: str) -> str | None:
    with nh.journal.open(address) as store:
        await store.enqueue(orders.handle, order, queue="orders", key=RUN)
        if vote:
            await _vote(store, vote)
        worker = nh.journal.Worker(
            store, [orders.handle], queue="orders", run=lambda run_id: orders.make_run(run_id, store)
        )
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            while not _has_settled(store):  # noqa: ASYNC110  (other processes change it)
                await anyio.sleep(PAUSE_SECONDS)
            worker.drain()
        (entry,) = store.queue_entries()
        return None if entry.status == "parked" else await store.result(RUN)


async def _vote(store: nh.journal.JournalStore, vote: str) -> None:
    for question in store.questions(RUN):
        voter, digest = vote.removeprefix("-"), question.content["digest"]
        await store.vote(question.id, approve=voter == vote, voter=voter, digest=digest)


def _has_settled(store: nh.journal.JournalStore) -> bool:
    """Whether the order has ended, or waits and is not due."""
    (entry,) = store.queue_entries()
    if entry.status != "parked":
        return entry.status in ("ended", "failed", "stuck")
    (run,) = store.runs()
    return run.status == "parked" and (run.wakes_at is None or run.wakes_at > time.time() + 1)
