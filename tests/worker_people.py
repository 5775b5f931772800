"""Functions that ask people, and hooks and the like, which workers import."""

from dataclasses import dataclass
from typing import Literal

import anyio

import nighthawk_async as nh
from nighthawk_async import human
from nighthawk_async.human import ask_user, request_approval
from tests.worker_steps import agent


@dataclass(frozen=True)
class Choice:
    """An answer of a type of its own."""

    color: Literal["red", "blue"]


async def ask_for_color(prompt: str) -> Choice:
    """Ask for a color."""
    return await ask_user(prompt, schema=Choice)


async def ask_with_default(prompt: str) -> int:
    """Ask, with a default."""
    return await ask_user(prompt, schema=int, default=7)


async def ask_for_ever(prompt: str) -> str:
    """Ask, and return the answer."""
    return await ask_user(prompt)


async def ask_in_time(prompt: str) -> str:
    """Ask, and give up soon."""
    with anyio.move_on_after(0.05):
        return await ask_user(prompt)
    return "given up"


async def pay(amount: int) -> tuple[str, ...]:
    """Pay if two people approve."""
    approval = await request_approval("pay", arguments={"amount": amount, "to": "ann"}, quorum=2)
    approval.check("pay", {"amount": amount, "to": "ann"})
    return approval.approvers


async def pay_alone(amount: int) -> tuple[str, ...]:
    """Pay if one of the approvers approves."""
    approval = await request_approval("pay", arguments={"amount": amount}, approvers=["bob"])
    return approval.approvers


async def fetch_page(url: str) -> str:
    """Fetch a page."""
    return (await nh.library.fetch(url)).text


async def pay_soon(amount: int) -> None:
    """Ask for an approval that expires at once."""
    await request_approval("pay", arguments={"amount": amount}, timeout=0.05)


async def ask_in_run(prompt: str) -> str:
    """Ask in a run of its own."""
    async with nh.run(agent()):
        return await human.ask_user(prompt)


class NoLookUps:
    """Oversight that rejects looking texts up."""

    def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Decision:
        """Reject expressions that look a text up."""
        if "look_up" in str(inspection.arguments):
            return nh.oversight.Reject(reason="not today")
        return nh.oversight.Accept()

    def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Decision:
        """Accept every commit."""
        return nh.oversight.Accept()


def three_stars_at_most(proposal: nh.oversight.Proposal) -> str | None:
    """A check that refuses four stars."""
    return "at most three stars" if proposal.bindings.get("stars") == 4 else None


looking_up = nh.policies.rule("look_up")
