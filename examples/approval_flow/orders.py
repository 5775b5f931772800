"""What happens with an order. The worker calls `handle`, in runs that `make_run` makes."""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.errors import ApprovalDeniedError, ApprovalExpiredError

from .payments import Payments, Receipt

MODEL = os.environ.get("MODEL", "local:smollm2-135m")
PAYMENTS = Payments(Path(os.environ.get("PAYMENTS", "payments.jsonl")))
APPROVERS = ("ada", "bob", "eve")
APPROVED_BY = 2
DAYS = float(os.environ.get("DAYS", "2"))
LIMIT = 500
"""The amount up to which nobody is asked."""
PARK_AFTER = 1.0
"""The seconds that a run waits for people before it gives the worker back."""


class Order(BaseModel):
    """An order of a customer."""

    id: str
    customer: str
    amount: float
    note: str


async def find_receipt(order: Order, *, idempotency_key: str) -> Receipt | None:
    """Ask the payment service whether a charge was made: a crash may have hidden its answer."""
    return PAYMENTS.find(idempotency_key)


@nh.once(reconcile=find_receipt)
async def charge(order: Order, *, idempotency_key: str = "") -> Receipt:
    """Charge the customer, once in all lives of the run."""
    receipt = Receipt(order=order.id, amount=order.amount)
    PAYMENTS.charge(receipt, idempotency_key)
    return receipt


@nh.natural_function
async def tone_of(note: str) -> Literal["positive", "negative"]:
    """Classify the note of a customer."""
    tone: Literal["positive", "negative"] = nh.unset
    """natural
    Set <:tone> to the sentiment of <note>.
    """
    return tone


async def handle(order: Order) -> str:
    """Have an order approved and paid for.

    Args:
        order: The order.

    Returns:
        The end of the matter, in a sentence.
    """
    tone = await tone_of(order.note)
    approvers: tuple[str, ...] = ()
    if order.amount > LIMIT:
        shown = {"order": order.id, "customer": order.customer, "amount": order.amount, "tone": tone}
        try:
            approval = await nh.request_approval(
                "charge", arguments=shown, quorum=APPROVED_BY, approvers=APPROVERS, timeout=DAYS * 86_400
            )
        except ApprovalDeniedError as error:
            return f"order {order.id} was denied: {error}"
        except ApprovalExpiredError:
            return f"order {order.id} was dropped: too few people approved in time"
        approvers = approval.approvers
    receipt = await charge(order)
    by = f", approved by {' and '.join(approvers)}" if approvers else ""
    return f"order {receipt.order}: {receipt.amount:.2f} paid{by}"


def make_run(run_id: str, store: nh.journal.JournalStore) -> Any:
    """Make the run of one order; the worker enters it once in each life."""
    return nh.run(MODEL, journal=store, run_id=run_id, park_after=PARK_AFTER, human=store.people())
