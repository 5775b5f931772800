"""`remember="run"`: equal calls of the run are not asked about again, and no other ones."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.human import (
    ApprovalRequest,
    EscalationRefusedError,
    NotRememberedError,
    RequestClosedError,
    Role,
    UnknownApproverError,
    UnknownRoleError,
    with_roles,
)
from nighthawk_async.testing import CallbackExecutor, ScriptedModel, model_response, pass_response, tool_call

pytestmark = pytest.mark.anyio

Answer = Callable[[ApprovalRequest], object]


class People:
    """Answers requests as a function says, and keeps them."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> None:
        self.requests.append(request)
        self.answer(request)

    async def ask(self, question: nh.human.Question) -> object:
        raise AssertionError(question)


def always(*people: str) -> Answer:
    def approve(request: ApprovalRequest) -> None:
        for each in people:
            request.approve(each, digest=request.digest, remember="run")

    return approve


def once(request: ApprovalRequest) -> None:
    request.approve("ada", digest=request.digest)


def running(people: Any, **arguments: Any) -> Any:
    return nh.run(CallbackExecutor(lambda call: pass_response()), human=people, **arguments)


async def test_equal_calls_alone_are_not_asked_about_again() -> None:
    people = People(always("ada"))
    async with running(people):
        first = await nh.request_approval("send", arguments={"to": "bob", "n": 1})
        second = await nh.request_approval("send", arguments={"n": 1, "to": "bob"})
        with nh.scope():
            await nh.request_approval("send", arguments={"to": "bob", "n": 1})
        assert len(people.requests) == 1
        assert (second.approvers, second.digest) == (("ada",), first.digest)
        assert second.approvals[0].remembered_from == first.id
        for action, arguments in [
            ("send", {"to": "bob", "n": 2}),
            ("send", {"to": "bob"}),
            ("sends", {"to": "bob", "n": 1}),
            ("send", {"to": "bob", "n": "1"}),
        ]:
            await nh.request_approval(action, arguments=arguments)
        assert len(people.requests) == 5
    async with running(people):
        await nh.request_approval("send", arguments={"to": "bob", "n": 1})  # of another run
    assert len(people.requests) == 6


async def test_without_remember_people_are_asked_each_time() -> None:
    people = People(once)
    async with running(people):
        for _ in range(3):
            approval = await nh.request_approval("send")
        assert await nh.human.remembered_approvals() == ()
    assert len(people.requests) == 3
    assert approval.approvals[0].remember is None
    with pytest.raises(nh.NighthawkError, match='remember must be "run" or None'):
        people.requests[0].approve("ada", digest=people.requests[0].digest, remember="day")  # type: ignore[arg-type]


async def test_all_who_approve_have_to_say_so() -> None:
    def mixed(request: ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest, remember="run")
        request.approve("bob", digest=request.digest)

    people = People(mixed)
    async with running(people):
        for _ in range(2):
            await nh.request_approval("send", quorum=2)
        assert len(people.requests) == 2
        people.answer = always("ada", "bob")
        for _ in range(2):
            await nh.request_approval("send", quorum=2)
        assert len(people.requests) == 3


async def test_a_remembered_approval_of_too_few_or_other_people_does_not_count() -> None:
    people = People(always("ada", "bob"))
    async with running(people):
        await nh.request_approval("send")
        await nh.request_approval("send", approvers=["ada", "cy"])
        assert len(people.requests) == 1
        await nh.request_approval("send", quorum=2)
        assert len(people.requests) == 2
        await nh.request_approval("send", approvers=["bob"])
        assert len(people.requests) == 2  # by the approval of two
        people.answer = always("cy")
        await nh.request_approval("send", approvers=["cy", "dan"])
        assert len(people.requests) == 3


async def test_it_is_listed_and_revoked_and_then_people_are_asked_again() -> None:
    people = People(always("ada"))
    async with running(people):
        approval = await nh.request_approval("send", arguments={"to": "bob"}, timeout=60)
        (listed,) = await nh.human.remembered_approvals()
        assert (listed.id, listed.action, listed.arguments) == (approval.id, "send", {"to": "bob"})
        assert listed.approvals == approval.approvals
        assert listed.expires_at is not None
        assert people.requests[0].is_remembered
        await nh.human.revoke_approval(listed.id, by="bob", reason="not any more")
        assert await nh.human.remembered_approvals() == ()
        assert not people.requests[0].is_remembered
        with pytest.raises(NotRememberedError):
            await nh.human.revoke_approval(listed.id, by="bob")
        await nh.request_approval("send", arguments={"to": "bob"})
        assert len(people.requests) == 2
        people.requests[1].revoke("ada")
        with pytest.raises(NotRememberedError):
            people.requests[1].revoke("ada")
        await nh.request_approval("send", arguments={"to": "bob"})
        assert len(people.requests) == 3


@pytest.mark.virtual_time
async def test_it_ends_with_the_time_limit_of_its_request() -> None:
    people = People(always("ada"))
    async with running(people):
        await nh.request_approval("send", timeout=10)
        await anyio.sleep(6)
        second = await nh.request_approval("send", timeout=100)
        assert len(people.requests) == 1
        await anyio.sleep(5)
        assert not second.is_valid
        assert not people.requests[0].is_remembered
        await nh.request_approval("send", timeout=10)
    assert len(people.requests) == 2


async def test_it_counts_for_equal_requests_that_wait_already() -> None:
    people = People(lambda request: None)
    async with running(people), anyio.create_task_group() as group:
        for to in ("bob", "bob", "cy"):
            group.start_soon(partial(nh.request_approval, "send", arguments={"to": to}))
        await anyio.wait_all_tasks_blocked()
        first = next(each for each in people.requests if each.arguments == {"to": "bob"})
        always("ada")(first)
        await anyio.wait_all_tasks_blocked()
        assert sorted(each.status for each in people.requests) == ["approved", "approved", "pending"]
        group.cancel_scope.cancel()


def calling(expressions: list[str]) -> nh.AgentStepExecutor:
    turns = iter(expressions)

    def answer(request: nh.models.ModelRequest) -> Any:
        expression = next(turns, None)
        if expression is None:
            return model_response(tool_call("nh_outcome", kind="pass"))
        return model_response(tool_call("nh_assign", target_path="result", expression=expression))

    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))


async def test_a_call_of_a_model_is_bound_to_the_implementation() -> None:
    sent: list[str] = []

    def maker(account: str) -> Callable[[str], str]:
        def send(to: str) -> str:
            sent.append(f"{account} to {to}")
            return "sent"

        return send

    @nh.natural_function
    async def mail(send: object) -> str:
        result: str = nh.unset
        """natural
        Send mail with <send>, and set <:result> to what happened.
        """
        return result

    people = People(always("ada"))
    asking = nh.permissions(ask="*send", default="deny")
    codes = ["send('bob')", "send('bob')", "send('cy')"]
    async with running(people, permissions=asking):
        for account, asked in [("test", 2), ("real", 4), ("test", 4)]:
            with nh.scope(step_executor=calling(codes)):
                await mail(maker(account))
            assert len(people.requests) == asked, sent
    assert sent[:3] == ["test to bob", "test to bob", "test to cy"]
    assert sent[3:6] == ["real to bob", "real to bob", "real to cy"]


async def test_a_request_is_handed_on_to_a_role() -> None:
    def escalated(request: ApprovalRequest) -> None:
        with pytest.raises(UnknownRoleError, match="its roles are legal, manager"):
            request.escalate_to("boss", by="ada")
        with pytest.raises(UnknownApproverError):
            request.escalate_to("manager", by="eve")
        with pytest.raises(EscalationRefusedError, match="takes 2 people, and the role 'legal' has 1"):
            request.escalate_to("legal", by="ada")
        request.approve("ada", digest=request.digest)
        request.escalate_to("manager", by="bob", reason="too large for us")
        assert request.role == "manager"
        assert request.approvers == {"grace", "heidi"}
        assert request.approvals == ()
        with pytest.raises(EscalationRefusedError, match="already"):
            request.escalate_to("manager", by="grace")
        for name in ("ada", "bob"):
            with pytest.raises(UnknownApproverError):
                request.approve(name, digest=request.digest)
            with pytest.raises(UnknownApproverError):
                request.deny(name)

    events: list[Any] = []
    hooks = nh.Hooks()
    hooks.on(nh.hooks.ApprovalAnswered)(events.append)
    managers = People(always("grace", "heidi"))
    people = with_roles(People(escalated), {"manager": Role(["grace", "heidi"], managers), "legal": ["tom"]})
    async with running(people, hooks=hooks):
        for _ in range(2):  # the second time, the approval of the managers is remembered
            approval = await nh.request_approval("pay", approvers=["ada", "bob"], quorum=2)
            assert approval.approvers == ("grace", "heidi")
    assert len(managers.requests) == 1
    answers = [(each.vote.approver, each.vote.answer, each.vote.role) for each in events]
    assert answers[:4] == [
        ("ada", "approved", None),
        ("bob", "escalated", "manager"),
        ("grace", "approved", None),
        ("heidi", "approved", None),
    ]


@pytest.mark.virtual_time
async def test_the_time_limit_and_denials_are_as_before_after_handing_on() -> None:
    people = with_roles(
        People(lambda request: request.escalate_to("manager", by="ada")), {"manager": ["grace"]}
    )
    async with running(people):
        started = anyio.current_time()
        with pytest.raises(nh.errors.ApprovalExpiredError):
            await nh.request_approval("pay", timeout=5)
        assert anyio.current_time() - started == 5

    def denied(request: ApprovalRequest) -> None:
        request.escalate_to("manager", by="ada")
        request.deny("grace", "no money")
        with pytest.raises(RequestClosedError):
            request.escalate_to("manager", by="grace")

    async with running(with_roles(People(denied), {"manager": ["grace"]})):
        with pytest.raises(nh.errors.ApprovalDeniedError, match="denied by grace: no money"):
            await nh.request_approval("pay")


async def test_roles_are_checked() -> None:
    people = People(once)
    for roles in ({"manager": []}, {"manager": "grace"}, {"": ["grace"]}, {"manager": [1]}, {"manager": 5}):
        with pytest.raises(nh.NighthawkError, match="role"):
            with_roles(people, roles)  # type: ignore[arg-type]
    for handler in (None, object()):
        with pytest.raises(nh.NighthawkError, match="handler"):
            with_roles(handler, {"manager": ["grace"]})  # type: ignore[arg-type]
    people.answer = lambda request: request.escalate_to("manager", by="ada")
    async with running(people):
        with pytest.raises(UnknownRoleError, match="no roles were given"):
            await nh.request_approval("pay")


async def one_life(
    store: nh.journal.JournalStore, people: Any, calls: int, *, ends: bool = False
) -> list[Any]:
    """A life of a run that asks for the approval of equal calls, and is interrupted unless it ends."""
    approvals: list[Any] = []
    with suppress(InterruptedError):
        async with running(people, journal=store, run_id="pay"):
            approvals += [await nh.request_approval("pay", arguments={"n": 1}) for _ in range(calls)]
            if not ends:
                raise InterruptedError
            approvals.append(await nh.human.remembered_approvals())
    return approvals


async def test_it_holds_in_every_life_of_a_durable_run(tmp_path: Path) -> None:
    people = People(always("ada"))
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        first, second = await one_life(store, people, 2)
        (listed,) = store.remembered("pay")
        assert (listed.id, listed.run_id, listed.approvals) == (first.id, "pay", first.approvals)
        assert second.approvals[0].remembered_from == first.id
        third = (await one_life(store, None, 3))[-1]  # nobody is there to be asked
        assert third.approvals == second.approvals
        assert len(people.requests) == 1
        await store.revoke(first.id, by="bob", reason="enough")
        assert store.remembered() == []
        with pytest.raises(NotRememberedError):
            await store.revoke(first.id, by="bob")
        await one_life(store, None, 3)  # those of earlier lives were approved
        *_, fourth, remembered = await one_life(store, people, 4, ends=True)
        assert len(people.requests) == 2
        assert [each.id for each in remembered] == [fourth.id]
        assert store.remembered() == []  # its run has ended
        assert await one_life(store, None, 4, ends=True) == [first, second, third, fourth, remembered]


async def test_votes_and_roles_through_the_store(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        asked = anyio.Event()
        handler = with_roles(People(lambda request: asked.set()), {"manager": ["grace"]})

        async def answer() -> None:
            await asked.wait()
            (row,) = store.questions()
            assert row.approvers == {"ada"}
            with pytest.raises(UnknownRoleError):
                await store.escalate(row.id, "boss", voter="ada")
            with pytest.raises(UnknownApproverError):
                await store.escalate(row.id, "manager", voter="grace")
            await store.escalate(row.id, "manager", voter="ada", reason="not mine")
            (row,) = store.questions()
            assert (row.role, row.approvers) == ("manager", {"grace"})
            with pytest.raises(UnknownApproverError):
                await store.vote(row.id, approve=True, voter="ada", digest=row.content["digest"])
            await store.vote(
                row.id, approve=True, voter="grace", digest=row.content["digest"], remember="run"
            )

        async with running(handler, journal=store, run_id="pay"), anyio.create_task_group() as group:
            group.start_soon(answer)
            first = await nh.request_approval("pay", approvers=["ada"])
            second = await nh.request_approval("pay", approvers=["ada"])
        assert first.approvers == second.approvers == ("grace",)
        assert second.approvals[0].remembered_from == first.id


async def test_people_of_a_role_answer_through_the_store_after_a_handler_has_handed_on(
    tmp_path: Path,
) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        asked = anyio.Event()

        def hand_on(request: ApprovalRequest) -> None:
            request.escalate_to("manager", by="ada", reason="not mine")
            asked.set()

        async def answer() -> None:
            await asked.wait()
            (row,) = store.questions()
            assert (row.role, row.approvers) == ("manager", {"grace"})
            digest = row.content["digest"]
            with pytest.raises(UnknownApproverError):
                await store.vote(row.id, approve=True, voter="ada", digest=digest)
            await store.vote(row.id, approve=True, voter="grace", digest=digest)

        human = with_roles(People(hand_on), {"manager": ["grace"]})
        async with running(human, journal=store, run_id="pay"), anyio.create_task_group() as group:
            group.start_soon(answer)
            approval = await nh.request_approval("pay", approvers=["ada"])
        assert approval.approvers == ("grace",)
