"""Permissions when rules and hooks fail, and what hooks and traces are told of decisions."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.testing import tool_call
from tests.specification.permitted_steps import (
    DENY,
    SENT,
    carried_out,
    send_mail,  # noqa: F401  (blocks read it)
    with_tools,
)
from tests.specification.scripted_steps import (
    ScriptedSteps,
    evaluating,
    executing,
    returning,
)
from tests.tracing import trace_with
from tests.unit.policies.human_handlers import approving

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


def is_small(call: nh.policies.PermissionCall) -> bool:
    return call.arguments["amount"] < 5


@pytest.mark.parametrize("rules", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    "call",
    [
        evaluating("send_mail(to)"),
        evaluating("await send_later(send_mail(to))"),
        executing("try:\n    send_mail(to)\nexcept BaseException:\n    pass"),
        executing("try:\n    send_mail(to)\nexcept BaseException:\n    raise ValueError('other') from None"),
        executing("async def f():\n    try: send_mail(to)\n    except: pass\nawait f()"),
    ],
)
async def test_a_predicate_that_raises_fails_the_step_and_allows_nothing(
    call: nh.models.ToolCall, rules: Any
) -> None:
    broken = nh.permissions(**{rules: nh.policies.rule("send_mail", when=is_small)}, default="allow")
    with pytest.raises(nh.errors.HookError, match=r"is_small.* failed for send_mail: KeyError") as caught:
        await carried_out(call, permissions=broken, human=approving(["ada"]))
    assert caught.value.hook == "send_mail(when=is_small)"
    assert SENT == []


async def test_a_predicate_that_raises_for_a_tool_or_a_return_expression_fails_the_step_too() -> None:
    broken = nh.permissions(deny=nh.policies.rule("*", when=is_small), default="allow")
    with pytest.raises(nh.errors.HookError, match="failed for note"):
        await with_tools(tool_call("note", text="x"), permissions=broken)
    with pytest.raises(nh.errors.HookError, match="failed for send_mail"):
        await carried_out(
            end=returning("send_mail(to)"),
            permissions=nh.permissions(deny=nh.policies.rule("send_mail", when=is_small), default="allow"),
        )
    assert SENT == []


async def test_hooks_are_told_of_every_decision_that_is_not_plainly_to_allow() -> None:
    told: list[nhh.PermissionDecided] = []
    hooks = nh.Hooks()
    hooks.on(nhh.PermissionDecided, told.append)
    rules = nh.permissions(allow="send_later", ask="pay_now", deny="send_mail", default="deny")
    await with_tools(
        tool_call("pay_now", amount=1),
        evaluating("send_mail(to)"),
        evaluating("MAILER.send(to)"),
        evaluating("send_later(to)"),
        permissions=rules,
        human=approving(["ada"]),
        hooks=hooks,
    )
    assert [(each.name, each.kind, each.decision, each.rule) for each in told] == [
        ("pay_now", "tool", "ask", "pay_now"),
        ("send_mail", "function", "deny", "send_mail"),
        ("Mailer.send", "function", "deny", None),
    ]
    assert all(each.execution_ref.step_id for each in told)


async def test_traces_are_told_of_decisions_but_not_of_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    rules = nh.permissions(ask="send_later", deny=nh.policies.rule("send_mail", to="a*"), default="allow")
    await carried_out(evaluating("send_mail(to)"), evaluating("send_later(to)"), permissions=rules)
    events = [
        dict(event.attributes or {})
        for span in exporter.get_finished_spans()
        for event in span.events
        if event.name == "nighthawk.permission.decided"
    ]
    prefix = "nighthawk.permission."
    assert events == [
        {
            f"{prefix}name": "send_mail",
            f"{prefix}kind": "function",
            f"{prefix}decision": "deny",
            f"{prefix}rule": "send_mail(to='a*')",
        },
        {
            f"{prefix}name": "send_later",
            f"{prefix}kind": "function",
            f"{prefix}decision": "ask",
            f"{prefix}rule": "send_later",
        },
    ]


async def test_a_hook_that_fails_when_it_is_told_fails_the_step_whatever_its_code_does() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.PermissionDecided)
    def broken(event: nhh.PermissionDecided) -> None:
        raise ValueError("broken")

    code = "try:\n    send_mail(to)\nexcept Exception:\n    pass"
    with pytest.raises(nh.errors.HookError, match="broken"):
        await carried_out(executing(code), permissions=DENY, hooks=hooks)


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError("neither")

    __hash__ = object.__hash__


INCOMPARABLE = Incomparable()


@nh.natural_function
async def work_with_incomparable() -> object:
    """natural
    Send mail to <INCOMPARABLE> with <send_mail>.
    """


def leave(call: object) -> bool:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ({"to": 5}, "ValueError: neither"),
        ({"to": leave}, "SystemExit: 3"),
        ({"when": leave}, "SystemExit: 3"),
    ],
)
async def test_a_rule_that_cannot_compare_or_exits_fails_the_step(
    patterns: dict[str, Any], message: str
) -> None:
    steps = ScriptedSteps(
        executing("try:\n    send_mail(INCOMPARABLE)\nexcept BaseException:\n    pass"), returning("None")
    )
    denying = nh.permissions(deny=nh.policies.rule("send_mail", **patterns), default="allow")
    async with nh.run(steps.executor, permissions=denying):
        with pytest.raises(nh.errors.HookError, match=rf"failed for send_mail: {message}"):
            await work_with_incomparable()
    assert SENT == []
