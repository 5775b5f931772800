"""A program whose run is parked whenever it waits for people; see `test_parking_kills`."""

from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from tests.unit.journal.durable_runs import shout, shouting

PARKED = "parked"
PAID = "paid.txt"


@nh.once
async def pay(folder: str, who: str) -> str:
    """Take effect: a line in a file."""
    with (Path(folder) / PAID).open("a") as file:
        file.write(f"{who}\n")
    return who


async def happened(folder: str, who: str) -> str | None:
    """Look for the line in the file."""
    path = Path(folder) / PAID
    return who if path.exists() and who in path.read_text().split() else None


pay_surely = nh.once(reconcile=happened)(pay.__wrapped__)  # type: ignore[attr-defined]


async def handle(folder: str) -> list[Any]:
    """Pay, ask people for several things at once, and pay again."""
    await pay_surely(folder, "first")

    async def wait(kind: str) -> object:
        match kind:
            case "ask":
                return await shout(await nh.ask_user("Which?"))
            case "approve":
                return list((await nh.request_approval("send", quorum=2)).approvers)
            case _:
                return await nh.journal.receive("reply")

    results = await nh.parallel.map(wait, ["ask", "approve", "receive"])
    await pay_surely(folder, "last")
    return results


def main(folder: str, backend: str) -> Any:
    """One life of the run; `PARKED` when it is parked."""

    async def one_life() -> Any:
        with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
            executor = nh.AgentStepExecutor.from_model(shouting())
            options: dict[str, Any] = {"journal": store, "run_id": "run-1", "park_after": 0}
            async with nh.run(executor, human=store.people(), **options):
                return await handle(folder)

    try:
        return anyio.run(one_life, backend=backend)
    except nh.journal.RunParked:
        return PARKED
