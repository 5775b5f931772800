"""Permissions that ask: what people are asked, what waits for them, and what is not made without them."""

import anyio
import pytest
from anyio import wait_all_tasks_blocked

import nighthawk_async as nh
from nighthawk_async.human import ApprovalRequest
from tests.specification.permitted_steps import ASK, DENY, SENT, carried_out, send_mail  # noqa: F401  (blocks read it)
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
)
from tests.unit.policies.human_handlers import Handler, approving, deciding

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


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


async def test_what_comes_of_an_approved_call_is_what_is_assigned() -> None:
    result = await carried_out(
        assigning("x", "send_later(to)"), evaluating("x"), permissions=ASK, human=approving(["ada"])
    )
    assert result.envelopes[1]["value"] == "sent to ada"


async def test_calls_that_cannot_wait_do_not_keep_others_in_the_same_code_from_waiting() -> None:
    expression = "[send_mail(to), (lambda: len(to))(), [*(len(each) for each in [to])]]"
    result = await carried_out(evaluating(expression), permissions=ASK, human=approving(["ada"]))
    assert result.envelopes[0]["value"] == ["sent to ada", 3, [3]]
