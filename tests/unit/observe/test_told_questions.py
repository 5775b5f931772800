"""What questions to people and requests for approval tell whoever watches."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.human import ask_user, request_approval
from tests.unit.policies.human_handlers import answering, approving, run_asking

from .told_nodes import root

pytestmark = pytest.mark.anyio


async def test_a_question_waits_and_has_its_answer() -> None:
    watched = root()
    with watched.watching():
        async with run_asking(answering("7")):
            assert await ask_user("How many?", schema=int) == 7
    question = watched.find("question")
    assert (question.name, question.states) == ("ask_user", ["waiting", "completed"])
    assert question.inputs == {"prompt": "How many?", "type": "int"}
    assert question.outputs == {"answer": 7}
    assert question.attributes["nighthawk.question.status"] == "answered"


async def test_a_question_to_nobody_fails_or_has_its_default() -> None:
    watched = root()
    with watched.watching():
        async with run_asking(None):
            with pytest.raises(nh.errors.NoHumanError):
                await ask_user("How many?")
            assert await ask_user("How many?", default="none") == "none"
    failed, defaulted = [node for node in watched.walk() if node.kind == "question"]
    assert failed.state == "failed"
    assert (defaulted.state, defaulted.attributes["nighthawk.question.status"]) == ("completed", "default")


async def test_a_question_that_is_withdrawn_is_cancelled() -> None:
    async def wait(question: object) -> object:
        await anyio.sleep_forever()
        return None

    handler = answering()
    handler.ask = wait  # type: ignore[method-assign]
    watched = root()
    with watched.watching():
        async with run_asking(handler):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as task_group:
                    task_group.start_soon(ask_user, "How many?")
                    await anyio.wait_all_tasks_blocked()
                    assert watched.find("question").state == "waiting"
                    scope.cancel()
    assert watched.find("question").state == "cancelled"


async def test_an_approval_has_its_action_and_who_approved() -> None:
    watched = root()
    with watched.watching():
        async with run_asking(approving(["ada"])):
            await request_approval("delete", arguments={"path": "/tmp/x"})
    question = watched.find("question")
    assert (question.name, question.states) == ("request_approval", ["waiting", "completed"])
    assert question.inputs == {"action": "delete", "arguments": {"path": "/tmp/x"}}
    assert question.outputs == {"approvers": ["ada"]}
    assert question.attributes["nighthawk.approval.status"] == "approved"


async def test_a_denied_approval_has_failed() -> None:
    watched = root()
    with watched.watching():
        async with run_asking(None):
            with pytest.raises(nh.errors.ApprovalDeniedError):
                await request_approval("delete")
    question = watched.find("question")
    assert question.state == "failed"
    assert question.attributes["nighthawk.approval.status"] == "denied"
