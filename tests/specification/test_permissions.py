"""Permissions: allow, ask and deny over tools, functions and their arguments, for the steps of an extent."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.human import ApprovalRequest
from nighthawk_async.runtime import tracing
from nighthawk_async.runtime.human_handler import HumanHandler
from nighthawk_async.testing import tool_call
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)
from tests.unit.runtime.human_handlers import Handler, approving, deciding

pytestmark = pytest.mark.anyio

SENT: list[str] = []


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


MAILER = Mailer()
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


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


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
    *calls: nh.ToolCall,
    permissions: nh.Permissions | None = None,
    human: HumanHandler | None = None,
    end: nh.ToolCall | None = None,
    **options: Any,
) -> Result:
    """A step that makes calls in one response, and then ends."""
    steps = ScriptedSteps(*([calls] if calls else []), end or returning("None"))
    async with nh.run(steps.executor, permissions=permissions, human=human, **options):
        value = await work()
    return Result(envelopes=steps.envelopes, value=value)


# ---- functions


CALLS: list[Callable[[str], nh.ToolCall]] = [
    evaluating,
    lambda expression: assigning("x", expression),
    lambda expression: executing(f"x = {expression}"),
]
NAMES = {
    "send_mail(to)": "send_mail",
    "send_later(to)": "send_later",
    "await send_later(to)": "send_later",
    "send_slowly(to)": "send_slowly",
    "MAILER.send(to)": "Mailer.send",
    "send_hello(to)": "send_mail",
    "[send_mail(to)][0]": "send_mail",
}


CASES = [
    (make_call(way), name)
    for way, name in NAMES.items()
    for make_call in CALLS
    if make_call is not CALLS[-1] or not way.startswith(("send_later", "send_slowly"))
]
"""Each way in each tool; statements do not await by themselves."""


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_is_denied_is_not_called_and_the_model_is_told(
    call: nh.ToolCall, name: str
) -> None:
    denying = nh.permissions(deny=name, default="allow")
    result = await carried_out(call, permissions=denying)
    assert result.error["kind"] == "oversight"
    assert f"{name} is not permitted (deny rule {name})" in result.error["message"]
    assert "go on without it" in result.error["guidance"]
    assert SENT == []


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_people_approve_is_called(call: nh.ToolCall, name: str) -> None:
    handler = approving(["ada"])
    asking = nh.permissions(ask=name, default="allow")
    result = await carried_out(call, permissions=asking, human=handler)
    assert result.envelopes[0]["error"] is None
    assert [request.action for request in handler.requests] == [name]
    arguments = handler.requests[0].arguments
    assert arguments["to"] == "ada"
    assert set(arguments) <= {"to", "body"}
    assert SENT == ["ada"]


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_people_deny_is_not_called_and_the_model_is_told_why(
    call: nh.ToolCall, name: str
) -> None:
    handler = deciding(lambda request: request.deny("bob", "too late in the day"))
    asking = nh.permissions(ask=["send_*", "Mailer.*"], default="allow")
    result = await carried_out(call, permissions=asking, human=handler)
    assert result.error["kind"] == "oversight"
    assert f"{name}: denied by bob: too late in the day" in result.error["message"]
    assert SENT == []


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
async def test_other_calls_follow_the_declared_default(default: Any) -> None:
    result = await carried_out(
        evaluating("send_mail(to)"),
        permissions=nh.permissions(allow="other", default=default),
    )
    assert (result.envelopes[0]["error"] is None) == (default == "allow") == (SENT == ["ada"])


async def test_without_permissions_every_call_is_made() -> None:
    assert (await carried_out(evaluating("send_mail(to)"))).envelopes[0]["value"] == "sent to ada"


async def test_rules_look_at_the_evaluated_arguments() -> None:
    only_colleagues = nh.permissions(
        allow=[nh.rule("send_mail", to="*@example.com", when=lambda call: len(call.arguments["body"]) < 10)],
        default="deny",
    )
    result = await carried_out(
        evaluating("send_mail(to + '@example.com')"),
        evaluating("send_mail(body='hi', to='eve@elsewhere.com')"),
        evaluating("send_mail('bob@example.com', 10 * 'x')"),
        permissions=only_colleagues,
    )
    assert [(each["error"] or {}).get("kind") for each in result.envelopes] == [
        None,
        "oversight",
        "oversight",
    ]
    assert SENT == ["ada@example.com"]


async def test_a_return_expression_is_asked_about_like_any_other() -> None:
    denying = nh.permissions(deny=send_mail, default="allow")
    steps = ScriptedSteps(returning("send_mail(to)"), returning("'gave up'"))
    async with nh.run(steps.executor, permissions=denying):
        assert await work() == "gave up"
    assert "send_mail is not permitted" in str(steps.results[0].content)

    asking = nh.permissions(ask=send_mail, default="allow")
    result = await carried_out(end=returning("send_mail(to)"), permissions=asking, human=approving(["ada"]))
    assert (result.value, SENT) == ("sent to ada", ["ada"])


@pytest.mark.parametrize(
    ("expression", "value"), [("send_mail(to)", "sent to ada"), ("send_slowly(to)", "sent to ada")]
)
def test_a_synchronous_natural_function_waits_for_people(expression: str, value: str) -> None:
    steps = ScriptedSteps(evaluating(expression), returning(expression))
    asking = nh.permissions(ask="send_*", default="allow")
    with nh.run(steps.executor, permissions=asking, human=approving(["ada"])):
        assert work_in_sync() == value
    assert SENT == ["ada", "ada"]


def test_a_synchronous_natural_function_still_cannot_return_an_awaitable_that_was_approved() -> None:
    steps = ScriptedSteps(returning("send_later(to)"), max_corrective_turns=0)
    asking = nh.permissions(ask="send_*", default="allow")
    with (
        nh.run(steps.executor, permissions=asking, human=approving(["ada"])),
        pytest.raises(nh.ExecutionError, match="cannot return an awaitable"),
    ):
        work_in_sync()
    assert SENT == []


# ---- extents


ALLOW, ASK, DENY = (nh.permissions(default=default) for default in ("allow", "ask", "deny"))


@pytest.mark.parametrize("outer", [ALLOW, ASK, DENY])
@pytest.mark.parametrize("inner", [ALLOW, ASK, DENY])
async def test_a_nested_scope_can_only_narrow_in_both_modes(
    outer: nh.Permissions, inner: nh.Permissions
) -> None:
    steps = ScriptedSteps(evaluating("send_mail(to)"), PASS)
    async with (
        nh.run(steps.executor),
        nh.scope(permissions=outer),
        nh.scope(mode="replace"),
        nh.scope(mode="replace", permissions=inner),
    ):
        await work()
    strictest = max(outer.default, inner.default, key=["allow", "ask", "deny"].index)
    message = str((steps.envelopes[0]["error"] or {}).get("message", "allow"))
    assert {"allow": "allow", "ask": "nobody is there", "deny": "default: deny"}[strictest] in message


async def test_runs_inside_and_steps_inside_inherit_permissions() -> None:
    inner = ScriptedSteps(evaluating("send_mail(to)"), PASS, evaluating("send_mail(to)"), PASS)

    async def delegate() -> None:
        async with nh.run(inner.executor):
            await work()
        async with nh.run(inner.executor, permissions=ALLOW):
            await work()

    @nh.natural_function
    async def lead() -> None:
        """natural
        Call <delegate>.
        """

    steps = ScriptedSteps(evaluating("delegate()"), PASS)
    async with nh.run(steps.executor, permissions=nh.permissions(deny="send_mail", default="allow")):
        await lead()
    assert steps.envelopes[0]["error"] is None
    assert SENT == []
    assert inner.envelopes[0]["error"]["kind"] == "oversight"


async def test_runs_at_the_same_time_have_their_own_permissions() -> None:
    results: dict[str, Result] = {}

    async def run_one(name: str, permissions: nh.Permissions) -> None:
        results[name] = await carried_out(evaluating("send_later(to)"), permissions=permissions)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_one, "open", ALLOW)
        tasks.start_soon(run_one, "closed", DENY)
    assert results["open"].envelopes[0]["error"] is None
    assert results["closed"].error["kind"] == "oversight"


@pytest.mark.parametrize("open_extent", [nh.scope, functools.partial(nh.run, ScriptedSteps(PASS).executor)])
async def test_permissions_are_what_permissions_gives(open_extent: Callable[..., object]) -> None:
    async with nh.run(ScriptedSteps(PASS).executor):
        with pytest.raises(nh.NighthawkError, match="permissions must be what"):
            open_extent(permissions=["send_mail"])


# ---- tools


def pay(amount: float, currency: str = "EUR") -> str:
    SENT.append(f"{amount} {currency}")
    return "paid"


def note(run_context: nh.RunContext[nh.StepContext], text: str) -> str:
    SENT.append(text)
    return run_context.tool_name


async def with_tools(*calls: nh.ToolCall, permissions: nh.Permissions, **options: Any) -> Result:
    steps = ScriptedSteps(calls, returning("None"))
    async with nh.run(steps.executor, permissions=permissions, **options):
        nh.tool(pay, name="pay_now")
        nh.tool(note)
        value = await work()
    return Result(envelopes=steps.envelopes, value=value)


@pytest.mark.parametrize("target", ["pay_now", "pay*", pay, "pay", nh.rule(pay, amount="1*")])
async def test_a_tool_that_is_denied_is_not_called(target: Any) -> None:
    denying = nh.permissions(deny=target, default="allow")
    result = await with_tools(tool_call("pay_now", amount="12"), permissions=denying)
    assert (result.error["kind"], SENT) == ("oversight", [])
    assert "pay_now is not permitted (deny rule pay" in result.error["message"]


async def test_rules_see_the_validated_arguments_of_a_tool_with_its_defaults() -> None:
    small = nh.rule("pay_now", currency="EUR", when=lambda call: call.arguments["amount"] < 100)
    result = await with_tools(
        tool_call("pay_now", amount="50"),
        tool_call("pay_now", amount="500"),
        tool_call("pay_now", amount=5, currency="USD"),
        tool_call("pay_now", amount="much"),
        permissions=nh.permissions(allow=small, default="deny"),
    )
    kinds = [(each["error"] or {}).get("kind") for each in result.envelopes]
    assert kinds == [None, "oversight", "oversight", "invalid_input"]
    assert SENT == ["50.0 EUR"]


async def test_people_are_asked_about_a_tool_with_the_arguments_that_the_model_gave() -> None:
    handler = approving(["ada"])
    asking = nh.permissions(ask=["pay_now", "note"], default="deny")
    result = await with_tools(
        tool_call("pay_now", amount="5"), tool_call("note", text="x"), permissions=asking, human=handler
    )
    assert [each["value"] for each in result.envelopes] == ["paid", "note"]
    assert [(request.action, request.arguments) for request in handler.requests] == [
        ("pay_now", {"amount": 5.0}),
        ("note", {"text": "x"}),
    ]


async def test_a_call_that_waits_for_people_holds_back_the_later_ones() -> None:
    async def decide(request: ApprovalRequest) -> None:
        await wait_all_tasks_blocked()
        SENT.append("approved")
        request.approve("ada", digest=request.digest)

    asking = nh.permissions(ask="pay_now", default="allow")
    await with_tools(
        tool_call("pay_now", amount=5),
        evaluating("send_mail(to)"),
        permissions=asking,
        human=Handler(decide=decide),
    )
    assert SENT == ["approved", "5.0 EUR", "ada"]


@pytest.mark.parametrize("default", ["ask", "deny"])
async def test_the_tools_of_the_runtime_are_allowed_by_default(default: Any) -> None:
    result = await carried_out(
        evaluating("to.upper()"),
        assigning("x", "len(to)"),
        executing("y = [str(each) for each in range(x)]"),
        permissions=nh.permissions(default=default),
    )
    assert [each["error"] for each in result.envelopes] == [None, None, None]


async def test_the_tools_of_the_runtime_follow_rules_that_name_them() -> None:
    result = await carried_out(
        executing("x = 1"),
        evaluating("1"),
        permissions=nh.permissions(
            deny=["nh_exec", nh.rule("nh_eval", expression="*open*")], default="allow"
        ),
    )
    assert result.error["message"] == "nh_exec is not permitted (deny rule nh_exec)"
    assert result.envelopes[1]["value"] == 1


async def test_what_hooks_and_oversight_made_of_a_call_is_what_is_decided_about() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.BeforeToolCall)
    def raise_amount(event: nhh.BeforeToolCall) -> nhh.Modify:
        return nhh.Modify({"amount": 500})

    handler = approving(["ada"])
    asking = nh.permissions(ask="pay_now", default="allow")
    await with_tools(tool_call("pay_now", amount=5), permissions=asking, human=handler, hooks=hooks)
    assert [request.arguments for request in handler.requests] == [{"amount": 500.0}]
    assert SENT == ["500.0 EUR"]


# ---- asking


async def test_nobody_means_no() -> None:
    result = await carried_out(evaluating("send_mail(to)"), permissions=ASK)
    assert result.error["kind"] == "oversight"
    assert "nobody is there to be asked" in result.error["message"]
    assert SENT == []


async def test_each_call_needs_an_approval_of_its_own() -> None:
    handler = deciding(
        lambda request: (
            request.approve("ada", digest=request.digest)
            if request.arguments["to"] != "c"
            else request.deny("ada", "not to c")
        )
    )
    result = await carried_out(
        evaluating("[send_mail(each) for each in 'abcd']"), permissions=ASK, human=handler
    )
    assert [request.arguments["to"] for request in handler.requests] == ["a", "b", "c"]
    assert result.error["kind"] == "oversight"
    assert SENT == ["a", "b"]


async def test_an_argument_that_changes_while_people_think_is_not_approved() -> None:
    recipients = ["ada"]

    async def decide(request: ApprovalRequest) -> None:
        recipients.append("eve")
        request.approve("ada", digest=request.digest)

    @nh.natural_function
    async def send_all() -> None:
        """natural
        Send mail to <recipients> with <send_mail>.
        """

    steps = ScriptedSteps(evaluating("send_mail(recipients)"), PASS)
    async with nh.run(steps.executor, permissions=ASK, human=Handler(decide=decide)):
        await send_all()
    assert steps.envelopes[0]["error"]["kind"] == "oversight"
    assert "not what was approved" in steps.envelopes[0]["error"]["message"]
    assert SENT == []


async def test_what_nobody_could_see_is_not_approved() -> None:
    result = await carried_out(evaluating("send_mail(MAILER)"), permissions=ASK, human=approving(["ada"]))
    assert result.error["kind"] == "oversight"
    assert "to has no stable JSON form" in result.error["message"]
    assert SENT == []


async def test_code_that_waits_for_people_goes_on_where_it_stood() -> None:
    statements = (
        "log = [1]\ntry:\n    log.append(send_mail(to))\nfinally:\n    log.append(2)\nlast = len(log)"
    )
    result = await carried_out(
        executing(statements), evaluating("[log, last]"), permissions=ASK, human=approving(["ada"])
    )
    assert result.envelopes[0]["value"] == {"changed": ["last", "log"]}
    assert result.envelopes[1]["value"] == [[1, "sent to ada", 2], 3]


async def test_code_of_the_model_may_go_on_after_a_denial() -> None:
    statements = "try:\n    send_mail(to)\n    x = 'sent'\nexcept Exception:\n    x = 'kept'"
    for permissions in (DENY, ASK):
        result = await carried_out(executing(statements), evaluating("x"), permissions=permissions)
        assert result.envelopes[1]["value"] == "kept"


async def test_calls_that_need_what_waits_for_people_wait_and_others_do_not() -> None:
    async def decide(request: ApprovalRequest) -> None:
        await wait_all_tasks_blocked()
        SENT.append("approved")
        request.approve("ada", digest=request.digest)

    def log(text: str) -> None:
        SENT.append(text)

    @nh.natural_function
    async def both(items: list[str]) -> None:
        """natural
        Use <items>, <send_mail> and <log>.
        """

    steps = ScriptedSteps(
        (
            evaluating("items.append(send_mail('ada'))"),
            evaluating("log('items: ' + str(len(items)))"),
            evaluating("log('other')"),
        ),
        PASS,
    )
    asking = nh.permissions(ask="send_mail", default="allow")
    async with nh.run(steps.executor, permissions=asking, human=Handler(decide=decide)):
        await both([])
    assert SENT.index("approved") < SENT.index("ada") < SENT.index("items: 1")
    assert "other" in SENT


async def test_a_step_that_is_cancelled_while_people_think_sends_nothing_and_leaves_no_request() -> None:
    handler = Handler()
    with anyio.CancelScope() as scope:

        async def decide(request: ApprovalRequest) -> None:
            scope.cancel()

        handler.decide = decide
        await carried_out(executing("x = 1\nsend_mail(to)"), permissions=ASK, human=handler)
    assert [request.status for request in handler.requests] == ["cancelled"]
    assert SENT == []


# ---- failures of the host, and what is told


def is_small(call: nh.PermissionCall) -> bool:
    return call.arguments["amount"] < 5


@pytest.mark.parametrize("rules", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    "call",
    [
        evaluating("send_mail(to)"),
        evaluating("await send_later(send_mail(to))"),
        executing("try:\n    send_mail(to)\nexcept BaseException:\n    pass"),
        executing("async def f():\n    try: send_mail(to)\n    except: pass\nawait f()"),
    ],
)
async def test_a_predicate_that_raises_fails_the_step_and_allows_nothing(
    call: nh.ToolCall, rules: Any
) -> None:
    broken = nh.permissions(**{rules: nh.rule("send_mail", when=is_small)}, default="allow")
    with pytest.raises(nh.HookError, match=r"is_small.* failed for send_mail: KeyError") as caught:
        await carried_out(call, permissions=broken, human=approving(["ada"]))
    assert caught.value.hook == "send_mail(when=is_small)"
    assert SENT == []


async def test_a_predicate_that_raises_for_a_tool_or_a_return_expression_fails_the_step_too() -> None:
    broken = nh.permissions(deny=nh.rule("*", when=is_small), default="allow")
    with pytest.raises(nh.HookError, match="failed for note"):
        await with_tools(tool_call("note", text="x"), permissions=broken)
    with pytest.raises(nh.HookError, match="failed for send_mail"):
        await carried_out(
            end=returning("send_mail(to)"),
            permissions=nh.permissions(deny=nh.rule("send_mail", when=is_small), default="allow"),
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
    monkeypatch.setattr(tracing, "_TRACER", provider.get_tracer("test"))
    rules = nh.permissions(ask="send_later", deny=nh.rule("send_mail", to="a*"), default="allow")
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
    with pytest.raises(nh.HookError, match="broken"):
        await carried_out(executing(code), permissions=DENY, hooks=hooks)
