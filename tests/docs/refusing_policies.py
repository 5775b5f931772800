"""Steps whose calls are refused by limits, people, permissions, oversight and other steps, for `refusals`."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

__all__ = [
    "Answering",
    "approve_other_items",
    "approve_other_purse",
    "asking",
    "deny",
    "leave_open",
    "overseen",
    "shop",
    "shop_after_another",
    "shop_beside_another",
]


class Purse:
    def __init__(self) -> None:
        self.owner = "Ada"

    def __repr__(self) -> str:
        return f"Purse({self.owner})"

    def pay(self, amount: int) -> int:
        return amount


def order(items: list[str]) -> int:
    return len(items)


async def confirm(items: list[str]) -> None:
    await nh.request_approval("order", arguments={"items": items})


async def confirm_soon(items: list[str]) -> None:
    await nh.request_approval("order", arguments={"items": items}, timeout=0.001)


@nh.natural_function
async def buy(basket: list[str]) -> None:
    """natural
    Buy <basket>.
    """


@nh.natural_function
async def work(basket: list[str], purse: Purse) -> None:
    """natural
    Do with <basket> and <purse> what <order>, <confirm>, <confirm_soon> and <buy> can do.
    """


_AT_WORK: list[tuple[list[str], Purse]] = []


async def shop() -> None:
    basket, purse = ["fig"], Purse()
    _AT_WORK[:] = [(basket, purse)]
    await work(basket, purse)


async def shop_beside_another() -> None:
    """Another step that has the same basket is in flight."""
    basket, is_held, is_done = ["fig"], anyio.Event(), anyio.Event()

    async def hold(_: StepCall) -> StepResponse:
        is_held.set()
        await is_done.wait()
        return pass_response()

    async def hold_basket() -> None:
        async with nh.scope(step_executor=CallbackExecutor(hold)):
            await buy(basket)

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(hold_basket)
        await is_held.wait()
        try:
            await work(basket, Purse())
        finally:
            is_done.set()


async def shop_after_another() -> None:
    """Another step that has the same basket changes it while the model answers."""
    basket, is_answering, is_changed = ["fig"], anyio.Event(), anyio.Event()

    async def add(_: StepCall) -> StepResponse:
        await is_answering.wait()
        actor = nh.get_current_step_actor()
        await actor.settle(actor.post_execute("basket.append('plum')"))
        return pass_response()

    async def add_to_basket() -> None:
        async with nh.scope(step_executor=CallbackExecutor(add)):
            await buy(basket)
        is_changed.set()

    async def let_it_be_changed(_: nh.hooks.BeforeModelRequest) -> None:
        is_answering.set()
        await is_changed.wait()

    hooks = nh.Hooks()
    hooks.on(nh.hooks.BeforeModelRequest, let_it_be_changed)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(add_to_basket)
        with nh.scope(hooks=hooks):
            await work(basket, Purse())


class Overseer:
    """Rejects each tool call, or the commit.

    Args:
        rejected: Which of them.
    """

    def __init__(self, rejected: Literal["call", "commit"]) -> None:
        self._rejected = rejected

    def inspect_tool_call(
        self, inspection: nh.oversight.ToolCallInspection
    ) -> nh.oversight.Accept | nh.oversight.Reject:
        return self._decide("call")

    def inspect_step_commit(
        self, commit: nh.oversight.StepCommit
    ) -> nh.oversight.Accept | nh.oversight.Reject:
        return self._decide("commit")

    def _decide(self, what: Literal["call", "commit"]) -> nh.oversight.Accept | nh.oversight.Reject:
        if what != self._rejected:
            return nh.oversight.Accept()
        return nh.oversight.Reject(reason="no discounts", guidance="Use the list price.")


def overseen(call: Callable[[], Any], rejected: Literal["call", "commit"]) -> Callable[[], Any]:
    """The call, with an overseer."""

    async def carry_out() -> None:
        async with nh.scope(oversight=Overseer(rejected)):
            await call()

    return carry_out


class Answering:
    """Asks a person who answers at once.

    Args:
        answer: Answers.
    """

    def __init__(self, answer: Callable[[nh.human.ApprovalRequest], None]) -> None:
        self._answer = answer

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        self._answer(request)

    async def ask(self, question: nh.human.Question) -> object:
        raise nh.errors.NoHumanError


def deny(request: nh.human.ApprovalRequest) -> None:
    request.deny("ada", "not today")


def approve_other_items(request: nh.human.ApprovalRequest) -> None:
    """Something else is in the basket when the approval comes."""
    _AT_WORK[0][0].append("pear")
    request.approve("ada", digest=request.digest)


def approve_other_purse(request: nh.human.ApprovalRequest) -> None:
    """The purse is another one's when the approval comes."""
    _AT_WORK[0][1].owner = "Eve"
    request.approve("ada", digest=request.digest)


def leave_open(request: nh.human.ApprovalRequest) -> None:
    """Nobody answers."""


def asking(rule: str, answer: Callable[[nh.human.ApprovalRequest], None] = leave_open) -> Mapping[str, Any]:
    """Arguments of a run in which people are asked about calls."""
    return {"permissions": nh.permissions(ask=rule, default="allow"), "human": Answering(answer)}
