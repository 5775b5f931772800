"""An order that waits until somebody approves it by a command; the program may end meanwhile."""

# python order_approval.py 17 800
# nighthawk-async journal questions orders.db; … journal approve orders.db ID --as ada
import sys

import anyio

import nighthawk_async as nh

MODEL, STORE, WAIT = "openai-responses:gpt-5.4-nano", "sqlite:///orders.db", 10.0


@nh.once
async def charge(order: str, amount: float) -> str:
    return f"order {order}: {amount:.2f} paid"  # in yours: what a payment service says


@nh.natural_function
async def note_for(order: str, amount: float) -> str:
    note: str = nh.unset
    """natural
    Set <:note> to one sentence for whoever approves <order> over <amount> euros.
    """
    return note


async def main(order: str, amount: float) -> None:
    with nh.journal.open(STORE) as store:
        try:
            async with nh.run(MODEL, journal=store, run_id=order, human=store.people(), park_after=WAIT):
                note = await note_for(order, amount)
                await nh.request_approval("charge", arguments={"amount": amount, "note": note})
                print(await charge(order, amount))
        except nh.journal.RunParked:
            print("nobody has approved it yet; start this again when somebody has")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], float(sys.argv[2]))
