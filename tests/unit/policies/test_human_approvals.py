"""`request_approval`: enough different people said yes to exactly this, or a typed error says why not."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.errors import ApprovalDeniedError, ApprovalExpiredError, NoHumanError
from nighthawk_async.policies.people.approvals import Approval, request_approval
from nighthawk_async.policies.people.ballot import Ballot
from nighthawk_async.policies.people.digest import digest_action
from nighthawk_async.policies.people.errors import (
    ArgumentsChangedError,
    NobodyToApproveError,
    RequestClosedError,
    UndigestibleArgumentError,
    UnknownApproverError,
    WrongDigestError,
)
from nighthawk_async.policies.people.request import ApprovalRequest

from .human_handlers import Approve, Handler, approving, deciding, run_asking

pytestmark = pytest.mark.anyio

BOARD = ("ada", "bob", "cy")


@dataclass
class Pending:
    """A request that waits for the test to answer it."""

    handler: Handler = field(default_factory=Handler)
    approvals: list[Approval] = field(default_factory=list[Approval])
    errors: list[Exception] = field(default_factory=list[Exception])

    @property
    def request(self) -> ApprovalRequest:
        (request,) = self.handler.requests
        return request

    def approve(self, approver: str) -> None:
        self.request.approve(approver, digest=self.request.digest)

    async def run(
        self, arguments: dict[str, Any], answer: Callable[["Pending"], Awaitable[None]]
    ) -> "Pending":
        """Request an approval, answer it, and wait for what comes of it."""
        async with run_asking(self.handler), anyio.create_task_group() as tasks:
            tasks.start_soon(partial(self._request, arguments))
            while not self.handler.requests:
                await checkpoint()
            await answer(self)
        return self

    async def _request(self, arguments: dict[str, Any]) -> None:
        try:
            self.approvals.append(await request_approval("send mail", **arguments))
        except nh.NighthawkError as error:
            self.errors.append(error)


async def answered(answer: Callable[[Pending], object], **arguments: Any) -> Pending:
    """A request that was answered by a function, all at once."""

    async def give(pending: Pending) -> None:
        answer(pending)

    return await Pending().run(arguments, give)


async def test_an_approval_says_who_approved_what() -> None:
    handler = approving(["ada"])
    async with run_asking(handler):
        approval = await request_approval("send mail", arguments={"to": "bob"})
    (request,) = handler.requests
    assert approval.approvers == ("ada",)
    assert (approval.id, approval.action) == (request.id, "send mail")
    assert approval.digest == request.digest == digest_action("send mail", {"to": "bob"}).digest
    assert approval.approvals[0].given_at >= request.created_at
    assert request.arguments == {"to": "bob"}
    assert request.execution_ref is not None
    assert math.isinf(approval.expires_at)
    assert approval.is_valid


async def test_the_risks_of_a_command_are_shown_to_approvers() -> None:
    handler = approving(["ada"])
    async with run_asking(handler):
        await request_approval("Workspace.shell", arguments={"command": "curl a.example | sh"})
        await request_approval("send mail", arguments={"to": "bob"})
    assert handler.requests[0].risks == ("network", "pipe_to_shell", "unknown")
    assert handler.requests[1].risks == ()


async def test_a_denial_says_who_and_why() -> None:
    async with run_asking(deciding(lambda request: request.deny("ada", "not on Sundays"))):
        with pytest.raises(ApprovalDeniedError, match="send mail: denied by ada: not on Sundays") as caught:
            await request_approval("send mail")
    assert (caught.value.approver, caught.value.reason) == ("ada", "not on Sundays")


async def test_no_handler_means_denied() -> None:
    async with run_asking(None):
        with pytest.raises(
            NobodyToApproveError, match=r"nobody is there .* human=store\.people\(\)"
        ) as caught:
            await request_approval("send mail")
    assert isinstance(caught.value, ApprovalDeniedError)
    assert isinstance(caught.value, NoHumanError)
    assert caught.value.approver is None


async def test_outside_a_run_it_is_denied() -> None:
    with pytest.raises(ApprovalDeniedError):
        await request_approval("send mail")


async def test_a_handler_that_can_reach_nobody_means_denied() -> None:
    def decide(request: ApprovalRequest) -> None:
        raise NoHumanError("the office is closed")

    handler = deciding(decide)
    async with run_asking(handler):
        with pytest.raises(NobodyToApproveError, match="the office is closed"):
            await request_approval("send mail")
    assert handler.requests[0].status == "denied"
    assert handler.requests[0].denial is None


async def test_a_quorum_is_made_of_different_people() -> None:
    def answer(pending: Pending) -> None:
        pending.approve("ada")
        pending.approve("ada")
        assert pending.request.is_pending
        assert [vote.approver for vote in pending.request.answers] == ["ada"]
        pending.approve("cy")
        assert pending.request.status == "approved"

    pending = await answered(answer, quorum=2, approvers=BOARD)
    assert pending.approvals[0].approvers == ("ada", "cy")


async def test_a_denial_by_somebody_who_had_approved_takes_the_approval_back() -> None:
    def answer(pending: Pending) -> None:
        pending.approve("ada")
        pending.request.deny("ada", "I misread it")
        assert pending.request.is_pending
        assert pending.request.approvals == ()
        pending.approve("bob")
        assert pending.request.is_pending
        pending.approve("ada")

    pending = await answered(answer, quorum=2)
    assert pending.approvals[0].approvers == ("bob", "ada")
    assert [vote.answer for vote in pending.request.answers] == [
        "approved",
        "withdrawn",
        "approved",
        "approved",
    ]


async def test_a_second_denial_of_the_same_person_denies() -> None:
    def answer(pending: Pending) -> None:
        pending.approve("ada")
        pending.request.deny("ada")
        pending.request.deny("ada", "never")

    pending = await answered(answer, quorum=2)
    assert str(pending.errors[0]) == "send mail: denied by ada: never"


async def test_a_denial_outweighs_the_approvals_of_others() -> None:
    def answer(pending: Pending) -> None:
        pending.approve("ada")
        pending.approve("bob")
        pending.request.deny("cy")

    pending = await answered(answer, quorum=3, approvers=BOARD)
    assert isinstance(pending.errors[0], ApprovalDeniedError)


async def test_an_approval_of_something_else_does_not_count() -> None:
    other = digest_action("send mail", {"to": "eve"}).digest

    def answer(pending: Pending) -> None:
        with pytest.raises(WrongDigestError):
            pending.request.approve("ada", digest=other)
        assert pending.request.approvals == ()
        pending.approve("ada")

    pending = await answered(answer, arguments={"to": "bob"})
    assert len(pending.approvals) == 1


async def test_people_who_were_not_asked_count_neither_for_nor_against() -> None:
    def answer(pending: Pending) -> None:
        for stranger in ("eve", "", "Ada"):
            with pytest.raises(UnknownApproverError):
                pending.approve(stranger)
            with pytest.raises(UnknownApproverError):
                pending.request.deny(stranger)
        assert pending.request.answers == ()
        pending.approve("ada")

    pending = await answered(answer, approvers=BOARD)
    assert pending.approvals[0].approvers == ("ada",)


async def test_answers_after_the_end_are_refused_and_change_nothing() -> None:
    def answer(pending: Pending) -> None:
        pending.approve("ada")
        with pytest.raises(RequestClosedError, match="approved already"):
            pending.request.deny("ada")
        with pytest.raises(RequestClosedError):
            pending.approve("bob")

    pending = await answered(answer)
    assert pending.approvals[0].approvers == ("ada",)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"quorum": 0}, id="nobody has to approve"),
        pytest.param({"quorum": True}, id="true for a quorum"),
        pytest.param({"quorum": 4, "approvers": BOARD}, id="more than there are"),
        pytest.param({"quorum": 2, "approvers": ("ada", "ada")}, id="one person twice"),
        pytest.param({"approvers": ()}, id="nobody may approve"),
        pytest.param({"approvers": "ada"}, id="a text for several names"),
        pytest.param({"approvers": ("ada", "")}, id="a name that is empty"),
        pytest.param({"approvers": 1}, id="a number for several names"),
        pytest.param({"approvers": [["ada"]]}, id="a list for a name"),
        pytest.param({"timeout": -1}, id="a negative time"),
        pytest.param({"timeout": math.nan}, id="a time that is no number"),
        pytest.param({"arguments": ["bob"]}, id="arguments without names"),
        pytest.param({"arguments": {1: "bob"}}, id="a name that is no text"),
        pytest.param({"action": ""}, id="an empty action"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused_before_anybody_is_asked(
    arguments: dict[str, Any],
) -> None:
    handler = approving(["ada"])
    async with run_asking(handler):
        with pytest.raises(nh.NighthawkError):
            await request_approval(**{"action": "send mail", **arguments})
    assert handler.requests == []


async def test_an_argument_that_approvals_cannot_be_bound_to_is_refused_before_anybody_is_asked() -> None:
    handler = approving(["ada"])
    async with run_asking(handler):
        with pytest.raises(UndigestibleArgumentError, match="to"):
            await request_approval("send mail", arguments={"to": object()})
    assert handler.requests == []


async def test_arguments_that_change_while_people_think_are_not_approved() -> None:
    recipients = ["bob"]

    def answer(pending: Pending) -> None:
        recipients.append("eve")
        assert pending.request.arguments == {"to": ["bob"]}
        pending.approve("ada")

    pending = await answered(answer, arguments={"to": recipients})
    assert isinstance(pending.errors[0], ArgumentsChangedError)


async def test_an_approval_holds_for_what_was_approved_only() -> None:
    recipients = ["bob"]
    async with run_asking(approving(["ada"])):
        approval = await request_approval("send mail", arguments={"to": recipients})
        approval.check("send mail", {"to": ["bob"]})
        recipients.append("eve")
        for action, arguments in (
            ("send mail", {"to": recipients}),
            ("send mail", None),
            ("delete mail", {"to": ["bob"]}),
        ):
            with pytest.raises(ArgumentsChangedError):
                approval.check(action, arguments)


@pytest.mark.virtual_time
async def test_a_request_expires() -> None:
    async def wait(pending: Pending) -> None:
        pending.approve("ada")
        assert pending.request.remaining_seconds == 60
        assert await pending.request.wait_closed() == "expired"
        with pytest.raises(RequestClosedError, match="expired already"):
            pending.approve("bob")

    begun = anyio.current_time()
    pending = await Pending().run({"quorum": 2, "timeout": 60}, wait)
    assert isinstance(pending.errors[0], ApprovalExpiredError)
    assert isinstance(pending.errors[0], TimeoutError)
    assert str(pending.errors[0]) == "send mail: 1 of 2 approved in time"
    assert anyio.current_time() == begun + 60


@pytest.mark.virtual_time
async def test_an_answer_at_the_very_moment_of_the_end_comes_too_late() -> None:
    async def decide(request: ApprovalRequest) -> None:
        await anyio.sleep_until(request.expires_at)
        request.approve("ada", digest=request.digest)

    async with run_asking(Handler(decide=decide)):
        for _ in range(20):  # Trio plays dice about who is first
            with pytest.raises(ApprovalExpiredError, match="0 of 1"):
                await request_approval("send mail", timeout=60)


@pytest.mark.virtual_time
async def test_an_approval_expires_too() -> None:
    async with run_asking(approving(["ada"])):
        approval = await request_approval("send mail", timeout=60)
        await anyio.sleep(59)
        assert approval.is_valid
        approval.check("send mail")
        await anyio.sleep(1)
        assert not approval.is_valid
        with pytest.raises(ApprovalExpiredError):
            approval.check("send mail")


async def test_no_time_at_all_is_over_at_once() -> None:
    async with run_asking(approving(["ada"])):
        with pytest.raises(ApprovalExpiredError):
            await request_approval("send mail", timeout=0)


@pytest.mark.virtual_time
async def test_without_an_expiry_it_waits_as_long_as_it_takes() -> None:
    async def wait(pending: Pending) -> None:
        await anyio.sleep(24 * 60 * 60)
        assert math.isinf(pending.request.remaining_seconds)
        pending.approve("ada")

    pending = await Pending().run({}, wait)
    assert pending.approvals[0].is_valid


async def test_a_cancelled_wait_leaves_nothing_pending() -> None:
    ended: list[str] = []

    async def decide(request: ApprovalRequest) -> None:
        try:
            await request.wait_closed()
        finally:
            ended.append(request.status)

    handler = Handler(decide=decide)
    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(request_approval, "send mail")
        while not handler.requests:
            await checkpoint()
        tasks.cancel_scope.cancel()
    (request,) = handler.requests
    assert request.status == "cancelled"
    assert len(ended) == 1
    with pytest.raises(RequestClosedError, match="cancelled already"):
        request.approve("ada", digest=request.digest)


async def fail_when_cancelled(request: ApprovalRequest) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise ZeroDivisionError


async def fail_in_a_task_when_cancelled(request: ApprovalRequest) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail_when_cancelled, request)
        await anyio.sleep_forever()


@pytest.mark.parametrize("decide", [fail_when_cancelled, fail_in_a_task_when_cancelled])
@pytest.mark.parametrize("end", ["cancelled", "approved"])
async def test_what_a_cancelled_handler_raises_is_logged_and_does_not_take_the_place_of_the_end(
    decide: Approve, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler(decide=decide)
    approvals: list[Approval] = []

    async def ask() -> None:
        approvals.append(await request_approval("send mail"))

    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        (request,) = handler.requests
        if end == "cancelled":
            tasks.cancel_scope.cancel()
        else:
            request.approve("ada", digest=request.digest)
    assert (request.status, len(approvals)) == (end, 1 if end == "approved" else 0)
    (record,) = [record for record in caplog.records if record.name == "nighthawk"]
    assert f"is {end} already, and its handler failed" in record.getMessage()
    assert record.exc_info is not None
    assert "ZeroDivisionError" in repr(record.exc_info[1])
    assert "Cancelled" not in repr(record.exc_info[1])


async def test_what_a_handler_raises_reaches_who_asks_and_closes_the_request() -> None:
    def decide(request: ApprovalRequest) -> None:
        raise ZeroDivisionError

    handler = deciding(decide)
    async with run_asking(handler):
        with pytest.raises(ZeroDivisionError):
            await request_approval("send mail")
    assert handler.requests[0].status == "cancelled"


@pytest.mark.parametrize("error_type", [NoHumanError, ZeroDivisionError, SystemExit])
async def test_what_a_handler_raises_after_the_answer_is_logged_and_changes_nothing(
    error_type: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def approve(request: ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)
        raise error_type

    async def deny(request: ApprovalRequest) -> None:
        request.deny("bob", "not on Sundays")
        raise error_type

    async with run_asking(Handler(decide=approve)):
        assert (await request_approval("send mail")).approvers == ("ada",)
    async with run_asking(Handler(decide=deny)):
        with pytest.raises(ApprovalDeniedError, match="denied by bob: not on Sundays"):
            await request_approval("delete mail")
    first, second = [record.getMessage() for record in caplog.records if record.name == "nighthawk"]
    assert "'send mail' is approved already" in first
    assert "'delete mail' is denied already" in second
    assert error_type.__name__ in first
    assert error_type.__name__ in second


async def test_what_a_handler_raises_when_it_is_not_needed_any_more_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def decide(request: ApprovalRequest) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ZeroDivisionError

    async def answer(pending: Pending) -> None:
        pending.approve("ada")

    pending = await Pending(Handler(decide=decide)).run({}, answer)
    assert len(pending.approvals) == 1
    assert [record.levelname for record in caplog.records if record.name == "nighthawk"] == ["WARNING"]


async def test_what_a_handler_raises_before_enough_people_answered_reaches_who_asks() -> None:
    def decide(request: ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)
        raise ZeroDivisionError

    handler = deciding(decide)
    async with run_asking(handler):
        with pytest.raises(ZeroDivisionError):
            await request_approval("send mail", quorum=2)
    assert handler.requests[0].status == "cancelled"


async def test_a_handler_that_answers_too_late_harms_nobody() -> None:
    def decide(request: ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)
        request.approve("bob", digest=request.digest)

    async with run_asking(deciding(decide)):
        assert (await request_approval("send mail")).approvers == ("ada",)


async def test_a_handler_is_cancelled_when_the_request_is_answered_elsewhere() -> None:
    requests: list[ApprovalRequest] = []
    was_cancelled: list[bool] = []

    async def decide(request: ApprovalRequest) -> None:
        requests.append(request)
        try:
            await anyio.sleep_forever()
        finally:
            was_cancelled.append(True)

    async def answer(pending: Pending) -> None:
        pending.approve("ada")

    pending = await Pending(Handler(decide=decide)).run({}, answer)
    assert was_cancelled == [True]
    assert len(pending.approvals) == 1


async def test_a_thread_may_answer() -> None:
    async def answer(pending: Pending) -> None:
        await anyio.to_thread.run_sync(pending.approve, "ada")
        with pytest.raises(UnknownApproverError):
            await anyio.to_thread.run_sync(pending.approve, "eve")
        await anyio.to_thread.run_sync(pending.request.deny, "ada")
        assert pending.request.approvals == ()
        assert math.isinf(await anyio.to_thread.run_sync(lambda: pending.request.remaining_seconds))
        await anyio.to_thread.run_sync(pending.approve, "bob")
        await anyio.to_thread.run_sync(pending.approve, "ada")

    pending = await Pending().run({"quorum": 2, "approvers": BOARD}, answer)
    assert pending.approvals[0].approvers == ("bob", "ada")


async def test_another_event_loop_may_not_answer() -> None:
    def answer_elsewhere(pending: Pending) -> None:
        async def answer() -> None:
            pending.approve("ada")

        with pytest.raises(nh.NighthawkError, match="event loop"):
            anyio.run(answer)

    async def answer(pending: Pending) -> None:
        await anyio.to_thread.run_sync(answer_elsewhere, pending)
        assert pending.request.is_pending
        pending.approve("ada")

    await Pending().run({}, answer)


def test_an_approval_is_checked_in_any_thread_and_after_its_event_loop() -> None:
    async def approve(**arguments: Any) -> tuple[Approval, ApprovalRequest]:
        handler = approving(["ada"])
        async with run_asking(handler):
            approval = await request_approval("send mail", **arguments)
        return approval, handler.requests[0]

    approval, request = anyio.run(partial(approve, timeout=1000))
    approval.check("send mail")
    with pytest.raises(RequestClosedError):
        request.deny("ada")


def test_a_request_of_an_event_loop_that_broke_off_takes_no_answers() -> None:
    """Not even when it is still pending, because nobody was left to end it."""
    requests: list[ApprovalRequest] = []

    async def make() -> None:
        digested = digest_action("send mail", {})
        requests.append(
            ApprovalRequest(
                id="1",
                action=digested.action,
                arguments=digested.arguments,
                digest=digested.digest,
                quorum=1,
                created_at=datetime.now(UTC),
                execution_ref=None,
                ballot=Ballot(quorum=1, approvers=None, timeout=math.inf),
            )
        )

    anyio.run(make)
    with pytest.raises(RequestClosedError, match="event loop of the request has ended"):
        requests[0].approve("ada", digest=requests[0].digest)


async def test_two_requests_are_answered_apart() -> None:
    handler = Handler()
    approvals: list[Approval] = []

    async def ask(action: str) -> None:
        approvals.append(await request_approval(action))

    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "send mail")
        tasks.start_soon(ask, "delete mail")
        while len(handler.requests) < 2:
            await checkpoint()
        first, second = handler.requests
        assert first.id != second.id
        with pytest.raises(WrongDigestError):
            second.approve("ada", digest=first.digest)
        second.approve("ada", digest=second.digest)
        first.approve("bob", digest=first.digest)
    assert {approval.action: approval.approvers for approval in approvals} == {
        first.action: ("bob",),
        second.action: ("ada",),
    }


async def test_the_facts_of_a_request_cannot_be_changed() -> None:
    handler = approving(["ada"])
    async with run_asking(handler):
        approval = await request_approval("send mail")
    for thing, name in ((handler.requests[0], "digest"), (approval, "action")):
        with pytest.raises(AttributeError):
            setattr(thing, name, "other")
