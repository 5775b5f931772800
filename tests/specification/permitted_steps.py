"""Steps that send mail as far as they are permitted to, and what came of them."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.policies.people.request import HumanHandler
from tests.specification.scripted_steps import ScriptedSteps, returning

ALLOW, ASK, DENY = (nh.permissions(default=default) for default in ("allow", "ask", "deny"))

SENT: list[str] = []
"""What was sent, and what else happened, in order; tests clear it."""


def send_mail(to: str, body: str = "hello") -> str:
    SENT.append(to)
    return f"sent to {to}"


async def send_later(to: str) -> str:
    await checkpoint()
    return send_mail(to)


@nh.blocking
def send_slowly(to: str) -> str:
    return send_mail(to)


class Mailer:
    def send(self, to: str) -> str:
        return send_mail(to)


class Postman:
    def __call__(self, to: str) -> str:
        return send_mail(to)


class Answering:
    def answer(self, to: str) -> str:
        return send_mail(to)

    __call__ = answer


MAILER = Mailer()
ANSWERING = Answering()
send_hello = functools.partial(send_mail, body="hello")


@nh.natural_function
async def work(to: str = "ada") -> object:
    """natural
    Send mail to <to> with <send_mail>, <send_later>, <send_slowly>, <send_hello> or <MAILER.send>.
    """


@nh.natural_function
def work_in_sync(to: str = "ada") -> object:
    """natural
    Send mail to <to> with <send_mail>, <send_later> or <send_slowly>.
    """


@dataclass(kw_only=True)
class Result:
    """What came of a step.

    Args:
        envelopes: What the model saw of its tool calls.
        value: What the step returned.
    """

    envelopes: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    value: object = None

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of the first tool call."""
        return self.envelopes[0]["error"]


async def carried_out(
    *calls: nh.models.ToolCall,
    permissions: nh.policies.Permissions | None = None,
    human: HumanHandler | None = None,
    end: nh.models.ToolCall | None = None,
    **options: Any,
) -> Result:
    """A step that makes calls in one response, and then ends."""
    steps = ScriptedSteps(*([calls] if calls else []), end or returning("None"))
    async with nh.run(steps.executor, permissions=permissions, human=human, **options):
        value = await work()
    return Result(envelopes=steps.envelopes, value=value)


def pay(amount: float, currency: str = "EUR") -> str:
    SENT.append(f"{amount} {currency}")
    return "paid"


def note(run_context: nh.RunContext[nh.StepContext], text: str) -> str:
    SENT.append(text)
    return run_context.tool_name


async def with_tools(
    *calls: nh.models.ToolCall, permissions: nh.policies.Permissions, **options: Any
) -> Result:
    steps = ScriptedSteps(calls, returning("None"))
    async with nh.run(steps.executor, permissions=permissions, **options):
        nh.tool(pay, name="pay_now")
        nh.tool(note)
        value = await work()
    return Result(envelopes=steps.envelopes, value=value)
