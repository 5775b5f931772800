"""Approvals that are remembered, and requests that are handed on, at the dashboard."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.human import request_approval, with_roles
from nighthawk_async.observe import TaskTree
from nighthawk_async.testing import ScriptedExecutor
from tests.unit.asgi.dashboard.dashboard_client import act, data_of, fetch

pytestmark = pytest.mark.anyio

TOKENS = {"ada": "the-token-of-ada-lovelace", "grace": "the-token-of-grace-hopper"}


async def wait_for_node(tree: TaskTree, count: int = 1) -> str:
    """The node that asks, when there are so many questions, as soon as it can be answered."""
    async with tree.watch(min_interval=0) as views:
        async for view in views:
            asked = [node for node in view.walk() if node.kind == "question"]
            open_ = [each for each in asked if each.attributes.get("nighthawk.dashboard.answerable") is True]
            if len(asked) == count and open_:
                return open_[0].id
    raise AssertionError("nothing is asked")


async def test_requests_are_remembered_revoked_and_handed_on() -> None:
    tree = TaskTree()
    dashboard = Dashboard(tree, token=TOKENS)
    approvals: list[Any] = []
    more = anyio.Event()

    async def ask() -> None:
        human = with_roles(dashboard.human, {"manager": ["grace"], "legal": ["tom"]})
        async with nh.run(ScriptedExecutor(), human=human):
            for _ in range(2):
                approvals.append(await request_approval("clean", arguments={"command": "rm -rf build"}))
            await more.wait()
            approvals.append(await request_approval("clean", arguments={"command": "rm -rf build"}))

    async def answer(node: str, who: str, **body: Any) -> int | None:
        return (await act(dashboard, f"/api/nodes/{node}/answer", body, token=TOKENS[who])).status

    async def shown(node: str) -> Any:
        return data_of(await fetch(dashboard, f"/api/nodes/{node}"))["question"]

    with tree.recording():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            node = await wait_for_node(tree)
            question = await shown(node)
            assert question["risks"] == ["destructive"]
            assert question["roles"] == {"legal": ["tom"], "manager": ["grace"]}
            assert question["role"] is None
            assert await answer(node, "ada", answer="escalate", role="boss") == 422
            assert await answer(node, "ada", answer="escalate", role="manager", reason="not mine") == 202
            await anyio.wait_all_tasks_blocked()
            question = await shown(node)
            assert (question["role"], question["approvers"]) == ("manager", ["grace"])
            digest = question["digest"]
            assert await answer(node, "ada", answer="approve", digest=digest) == 403
            assert await answer(node, "grace", answer="escalate", role="manager") == 409
            assert await answer(node, "grace", answer="approve", digest=digest, remember="day") == 400
            assert await answer(node, "grace", answer="approve", digest=digest, remember="run") == 202
            await anyio.wait_all_tasks_blocked()
            assert [each.approvers for each in approvals] == [("grace",), ("grace",)]
            question = await shown(node)
            assert (question["type"], question["approvals"], question["risks"]) == (
                "remembered",
                ["grace"],
                ["destructive"],
            )
            listed = data_of(await fetch(dashboard, "/api/remembered"))["approvals"]
            assert listed == [question]
            assert await answer(node, "ada", answer="approve", digest=digest) == 400
            assert await answer(node, "ada", answer="revoke", reason="no more") == 202
            assert await answer(node, "ada", answer="revoke") == 409
            assert data_of(await fetch(dashboard, "/api/remembered"))["approvals"] == []
            more.set()
            node = await wait_for_node(tree, count=3)
            assert await answer(node, "ada", answer="approve", digest=digest) == 202
    assert approvals[-1].approvers == ("ada",)


async def test_those_of_a_store_are_listed_and_revoked_at_its_dashboard(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        dashboard = Dashboard(journal=store, token=TOKENS)
        asked = anyio.Event()

        class People:
            async def ask(self, question: nh.human.Question) -> object:
                raise AssertionError(question)

            async def approve(self, request: nh.human.ApprovalRequest) -> None:
                request.approve("ada", digest=request.digest, remember="run")
                if asked.is_set():
                    request.deny("ada")

        async with nh.run(ScriptedExecutor(), journal=store, run_id="pay", human=People()):
            first = await request_approval("pay", arguments={"n": 1})
            (listed,) = data_of(await fetch(dashboard, "/api/remembered"))["approvals"]
            assert (listed["type"], listed["action"], listed["approvals"]) == ("remembered", "pay", ["ada"])
            path = f"/api/nodes/{listed['node']}"
            assert data_of(await fetch(dashboard, path))["question"] == listed
            revoked = await act(dashboard, f"{path}/answer", {"answer": "revoke"}, token=TOKENS["grace"])
            assert revoked.status == 202
            assert store.remembered() == []
            second = await request_approval("pay", arguments={"n": 1})
            assert second.approvals[0].remembered_from is None
            assert second.digest == first.digest
