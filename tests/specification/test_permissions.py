"""Permissions: allow, ask and deny over functions and their arguments, for the steps of an extent."""

import functools
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from tests.specification.permitted_steps import (
    ALLOW,
    ASK,
    DENY,
    SENT,
    Result,
    carried_out,
    send_mail,
    work,
    work_in_sync,
)
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)
from tests.unit.policies.human_handlers import approving, deciding

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


# ---- functions


CALLS: list[Callable[[str], nh.models.ToolCall]] = [
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
ACTIONS = {"Mailer.send": "Mailer.send of MAILER"}
"""What people are asked about, where that is more than the name."""

CASES = [
    (make_call(way), name)
    for way, name in NAMES.items()
    for make_call in CALLS
    if make_call is not CALLS[-1] or not way.startswith(("send_later", "send_slowly"))
]
"""Each way in each tool; statements do not await by themselves."""


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_is_denied_is_not_called_and_the_model_is_told(
    call: nh.models.ToolCall, name: str
) -> None:
    denying = nh.permissions(deny=name, default="allow")
    result = await carried_out(call, permissions=denying)
    assert result.error["kind"] == "oversight"
    assert f"{name} is not permitted (deny rule {name})" in result.error["message"]
    assert "go on without it" in result.error["guidance"]
    assert SENT == []


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_people_approve_is_called(call: nh.models.ToolCall, name: str) -> None:
    handler = approving(["ada"])
    asking = nh.permissions(ask=name, default="allow")
    result = await carried_out(call, permissions=asking, human=handler)
    assert result.envelopes[0]["error"] is None
    assert [request.action for request in handler.requests] == [ACTIONS.get(name, name)]
    arguments = handler.requests[0].arguments
    assert arguments["to"] == "ada"
    assert set(arguments) <= {"to", "body"}
    assert SENT == ["ada"]


@pytest.mark.parametrize(("call", "name"), CASES)
async def test_a_function_that_people_deny_is_not_called_and_the_model_is_told_why(
    call: nh.models.ToolCall, name: str
) -> None:
    handler = deciding(lambda request: request.deny("bob", "too late in the day"))
    asking = nh.permissions(ask=["send_*", "Mailer.*"], default="allow")
    result = await carried_out(call, permissions=asking, human=handler)
    assert result.error["kind"] == "oversight"
    assert f"{ACTIONS.get(name, name)}: denied by bob: too late in the day" in result.error["message"]
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


async def test_functions_that_the_code_of_the_step_defines_are_its_own_but_what_they_call_is_not() -> None:
    result = await carried_out(
        executing(
            "def shout(text):\n    return text.upper()\nx = [*map(shout, [to]), (lambda: shout(to))()]"
        ),
        evaluating("x"),
        executing("def forward(to):\n    return send_mail(to)\nforward(to)"),
        permissions=DENY,
    )
    assert result.envelopes[1]["value"] == ["ADA", "ADA"]
    assert result.envelopes[2]["error"]["kind"] == "oversight"
    assert SENT == []


async def test_rules_look_at_the_evaluated_arguments() -> None:
    only_colleagues = nh.permissions(
        allow=[
            nh.policies.rule(
                "send_mail", to="*@example.com", when=lambda call: len(call.arguments["body"]) < 10
            )
        ],
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


@pytest.mark.parametrize("outer", [ALLOW, ASK, DENY])
@pytest.mark.parametrize("inner", [ALLOW, ASK, DENY])
async def test_a_nested_scope_can_only_narrow_in_both_modes(
    outer: nh.policies.Permissions, inner: nh.policies.Permissions
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

    async def run_one(name: str, permissions: nh.policies.Permissions) -> None:
        results[name] = await carried_out(evaluating("send_later(to)"), permissions=permissions)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_one, "open", ALLOW)
        tasks.start_soon(run_one, "closed", DENY)
    assert results["open"].envelopes[0]["error"] is None
    assert results["closed"].error["kind"] == "oversight"


@pytest.mark.parametrize("open_scope", [nh.scope, functools.partial(nh.run, ScriptedSteps(PASS).executor)])
async def test_permissions_are_what_permissions_gives(open_scope: Callable[..., object]) -> None:
    async with nh.run(ScriptedSteps(PASS).executor):
        with pytest.raises(nh.NighthawkError, match="permissions must be what"):
            open_scope(permissions=["send_mail"])
