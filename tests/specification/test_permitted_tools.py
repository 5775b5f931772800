"""Permissions over tools: those of the program, and those of the runtime."""

from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.human import ApprovalRequest
from nighthawk_async.testing import tool_call
from tests.specification.permitted_steps import (
    SENT,
    carried_out,
    pay,
    with_tools,
)
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
)
from tests.unit.policies.human_handlers import Handler, approving

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


@pytest.mark.parametrize("target", ["pay_now", "pay*", pay, "pay", nh.policies.rule(pay, amount="1*")])
async def test_a_tool_that_is_denied_is_not_called(target: Any) -> None:
    denying = nh.permissions(deny=target, default="allow")
    result = await with_tools(tool_call("pay_now", amount="12"), permissions=denying)
    assert (result.error["kind"], SENT) == ("oversight", [])
    assert "pay_now is not permitted (deny rule pay" in result.error["message"]


async def test_rules_see_the_validated_arguments_of_a_tool_with_its_defaults() -> None:
    small = nh.policies.rule("pay_now", currency="EUR", when=lambda call: call.arguments["amount"] < 100)
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


async def test_a_tool_that_is_denied_is_not_called_as_a_function_either() -> None:
    @nh.natural_function
    async def work_with_pay() -> None:
        """natural
        Use <pay>.
        """

    steps = ScriptedSteps(evaluating("pay(5)"), PASS)
    async with nh.run(steps.executor, permissions=nh.permissions(deny="pay_now", default="allow")):
        nh.tool(pay, name="pay_now")
        await work_with_pay()
    assert steps.envelopes[0]["error"]["message"] == "pay is not permitted (deny rule pay_now)"


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
            deny=["nh_exec", nh.policies.rule("nh_eval", expression="*open*")], default="allow"
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
