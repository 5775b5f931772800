"""The program whose files stand in the folders here. It may not change: its files belong to it."""

from typing import Literal

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

MAIL = "Where is my lamp?"
SENT: list[str] = []


@nh.once
async def send(address: str, text: str) -> str:
    """An effect, at most once in all lives of a run."""
    SENT.append(text)
    return f"sent to {address}"


@nh.natural_function
async def label(mail: str) -> Literal["order", "complaint"]:
    kind: Literal["order", "complaint"] = nh.unset
    """natural
    Set <:kind> to the kind of <mail>.
    """
    return kind


async def handle(mail: str, *, is_cut: bool) -> str:
    """A durable run that fails after its effect, if it is cut."""
    kind = await label(mail)
    receipt = await send("ann@example.com", kind)
    if is_cut:
        raise SystemError("the power is off")
    return receipt


def model_that_labels(*, times: int) -> ScriptedModel:
    """A model that answers so often."""
    answer = tool_call("nh_outcome", kind="pass", bindings={"kind": "order"})
    return ScriptedModel([model_response(answer) for _ in range(times)])
