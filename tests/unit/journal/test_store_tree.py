"""The dashboard of a store: the runs of all processes, followed, with questions that can be answered."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.errors import ApprovalDeniedError, NighthawkError
from nighthawk_async.human import ask_user, request_approval
from nighthawk_async.journal import JournalStore, store_tree
from nighthawk_async.journal.store_tree import StoreTree
from nighthawk_async.observe import TaskTree, view_as_json
from nighthawk_async.testing import ModelResponse, model_response, tool_call
from tests.unit.asgi.dashboard.dashboard_client import TOKEN, act, data_of, fetch, reading

from .durable_runs import AnsweringModel, assigning, change, change_tables, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

TOKENS = {"ada": "the-token-of-ada-lovelace", "bob": "the-token-of-bob-the-builder"}


@pytest.fixture(autouse=True)
def _every_look_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_tree, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(store_tree, "_REST", 0)


@nh.once
async def send(text: str) -> str:
    """An effect."""
    return f"sent {text}"


async def live(store: JournalStore, program: Callable[[], Awaitable[Any]], run_id: str = "run-1") -> Any:
    """One life of a run, in which people are asked through the store."""
    executor = nh.AgentStepExecutor.from_model(AnsweringModel(lambda prompt, turn: assigning("x", "1")))
    async with nh.run(executor, journal=store, run_id=run_id, human=store.people(), park_after=0):
        return await program()


async def park(store: JournalStore, program: Callable[[], Awaitable[Any]], run_id: str = "run-1") -> None:
    """A life of a run that ends with a question that nobody has answered."""
    with pytest.raises(nh.journal.RunParked):
        await live(store, program, run_id)


def walk(node: Any) -> list[Any]:
    """A node and all below it."""
    return [node, *(each for child in node.get("children", []) for each in walk(child))]


async def nodes_of(dashboard: Dashboard) -> list[Any]:
    """All nodes that a dashboard shows, the root first."""
    return walk(data_of(await fetch(dashboard, "/api/tree"))["tree"])


async def asked_node(dashboard: Dashboard) -> str:
    """The path of the only node that can be answered."""
    (node,) = [node for node in await nodes_of(dashboard) if "answer" in node.get("controls", [])]
    return f"/api/nodes/{node['id']}"


async def question_of(dashboard: Dashboard) -> Any:
    """The only question that can be answered, as the page has it."""
    return data_of(await fetch(dashboard, await asked_node(dashboard)))["question"]


async def answer(dashboard: Dashboard, body: dict[str, object], token: str = TOKEN) -> tuple[int | None, str]:
    """The status of an answer to the only question, and the reason of a refusal."""
    connection = await act(dashboard, f"{await asked_node(dashboard)}/answer", body, token=token)
    return connection.status, data_of(connection).get("detail", "")


async def test_runs_are_shown_and_their_nodes_keep_their_ids(tmp_path: Path) -> None:
    async def program() -> str:
        await send("a letter")
        return await ask_user("What colour?")

    async def failing() -> None:
        await send("a parcel")
        raise ValueError("no stamp")

    with opened(tmp_path) as store, opened(tmp_path) as other:
        await park(store, program)
        with pytest.raises(ValueError, match="no stamp"):
            await live(store, failing, "run-2")
        dashboard = Dashboard(journal=other, token=TOKEN)
        parked = await nodes_of(dashboard)
        assert [(node["name"], node["state"]) for node in parked[1:]] == [
            ("run-1", "suspended"),
            ("send", "completed"),
            ("ask_user", "waiting"),
            ("run-2", "failed"),
            ("send", "completed"),
        ]
        assert len({node["id"] for node in parked}) == len(parked)
        (question,) = store.questions()
        await store.answer(question.id, "blue")
        assert await live(store, program) == "blue"
        ended = await nodes_of(dashboard)
        assert [(node["id"], node["name"]) for node in ended] == [
            (node["id"], node["name"]) for node in parked
        ]
        assert [node["state"] for node in ended[1:4]] == ["completed"] * 3
        assert [node["id"] for node in await nodes_of(Dashboard(journal=store))] == [
            node["id"] for node in ended
        ]


async def test_a_run_that_failed_and_continues_is_shown_as_going_on(tmp_path: Path) -> None:
    is_broken = True

    async def program() -> str:
        await send("a letter")
        if is_broken:
            raise ValueError("no stamp")
        return await ask_user("What colour?")

    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="no stamp"):
            await live(store, program)
        dashboard = Dashboard(journal=store)
        failed = await nodes_of(dashboard)
        assert (failed[1]["state"], failed[1]["error"]["type"]) == ("failed", "ValueError")
        is_broken = False
        await park(store, program)
        going_on = await nodes_of(dashboard)
        assert going_on[1]["id"] == failed[1]["id"]
        assert going_on[1]["state"] == "suspended"
        assert "error" not in going_on[1]
        assert "ended_at" not in going_on[1]


async def test_an_open_page_gets_the_changes_and_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        await live(store, lambda: send("a letter"))
        dashboard = Dashboard(journal=other)
        with anyio.fail_after(240):
            async with reading(dashboard, "/api/changes") as reader:
                assert (await reader.next_event())[0] == "reset"
                _, first, _ = await reader.next_event()
                known = {node["id"] for node in first["nodes"]}
                await live(store, lambda: send("a parcel"), "run-2")
                found: dict[str, Any] = {}
                while found.get("run-2", {}).get("state") != "completed" or "send" not in found:
                    name, data, _ = await reader.next_event()
                    assert (name, data.get("gone")) == ("nodes", [])
                    found.update((node["name"], node) for node in data["nodes"])
                    assert known.isdisjoint(node["id"] for node in data["nodes"][1:])
                assert found["send"]["parent_id"] == found["run-2"]["id"]


@pytest.mark.parametrize(
    ("schema", "wrong", "right", "result"),
    [
        (int, {"text": "many"}, {"text": " 12345678901234567890 "}, 12345678901234567890),
        (str, {"answer": 3}, {"text": "12"}, "12"),
        (bool, {"text": "perhaps"}, {"choice": 1}, False),
        (Literal["a", "b"], {"choice": 2}, {"choice": 1}, "b"),
        (list[float], {"text": "1, 2"}, {"text": "[1, 2.5]"}, [1.0, 2.5]),
        (str | None, {"answer": []}, {"text": "12"}, "12"),
    ],
)
async def test_a_question_is_answered_at_its_node(
    tmp_path: Path, schema: Any, wrong: dict[str, object], right: dict[str, object], result: object
) -> None:
    async def program() -> Any:
        return await ask_user("Which?", schema=schema)

    with opened(tmp_path) as store:
        await park(store, program)
        dashboard = Dashboard(journal=store, token=TOKEN)
        shown = await question_of(dashboard)
        assert (shown["type"], shown["prompt"]) == ("question", "Which?")
        assert (await answer(dashboard, wrong))[0] == 422
        assert (await answer(dashboard, {"text": "1", "choice": 0}))[0] == 400
        assert (await answer(dashboard, {"default": True}))[0] == 422
        path = await asked_node(dashboard)
        assert (await answer(dashboard, right))[0] == 202
        assert store.questions() == []
        assert (await act(dashboard, f"{path}/answer", right)).status == 409
        assert "question" not in data_of(await fetch(dashboard, path))
        given = await live(store, program)
        assert given == result
        assert type(given) is type(result)


async def test_an_answer_that_comes_too_late_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        await park(store, lambda: ask_user("Which?"))
        dashboard = Dashboard(journal=store, token=TOKEN)
        path = await asked_node(dashboard)
        stream = data_of(await fetch(dashboard, "/api/tree"))["stream"]
        (question,) = store.questions()
        monkeypatch.setattr(store_tree, "POLL_SECONDS", 1_000.0)
        await fetch(dashboard, "/api/tree")
        await store.answer(question.id, "blue")
        late = await act(dashboard, f"{path}/answer", {"stream": stream, "answer": "red"})
        assert late.status == 409
        assert "answered already" in data_of(late)["detail"]
        assert "question" not in data_of(await fetch(dashboard, path))  # it has looked again


async def test_an_answer_to_a_store_that_is_away_is_refused_and_can_be_given_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        await park(store, lambda: ask_user("Which?"))
        dashboard = Dashboard(journal=store, token=TOKEN)
        path = await asked_node(dashboard)
        stream = data_of(await fetch(dashboard, "/api/tree"))["stream"]
        monkeypatch.setattr(store_tree, "POLL_SECONDS", 1_000.0)
        await fetch(dashboard, "/api/tree")
        change_tables(tmp_path, "ALTER TABLE questions RENAME TO moved_questions")
        body = json.dumps({"stream": stream, "answer": "red"}).encode()
        refused = await act(dashboard, f"{path}/answer", raw=body)
        assert refused.status == 503
        change_tables(tmp_path, "ALTER TABLE moved_questions RENAME TO questions")
        assert (await act(dashboard, f"{path}/answer", raw=body)).status == 202
        assert await live(store, lambda: ask_user("Which?")) == "red"


async def test_a_run_that_is_stuck_is_shown_as_failed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, lambda: send("a letter"))
        change(store, "UPDATE runs SET status = 'stuck'")
        _, run, _ = await nodes_of(Dashboard(journal=store))
        assert (run["state"], run["error"]["type"]) == ("failed", "stuck")


async def test_people_vote_with_their_tokens(tmp_path: Path) -> None:
    async def program() -> Any:
        return await request_approval(
            "pay", arguments={"amount": 3}, quorum=2, approvers=["ada", "bob"], timeout=1_000
        )

    with opened(tmp_path) as store:
        await park(store, program)
        dashboard = Dashboard(journal=store, token={**TOKENS, "eve": "the-token-of-eve-the-listener"})
        shown = await question_of(dashboard)
        assert (shown["type"], shown["action"], shown["quorum"]) == ("approval", "pay", 2)
        assert shown["approvers"] == ["ada", "bob"]
        assert shown["expires_at"] is not None
        approval: dict[str, object] = {"answer": "approve", "digest": shown["digest"]}
        assert (await answer(dashboard, approval, "the-token-of-eve-the-listener"))[0] == 403
        assert (await answer(dashboard, {"answer": "approve", "digest": "x"}, TOKENS["ada"]))[0] == 409
        assert (await answer(dashboard, {"answer": "perhaps"}, TOKENS["ada"]))[0] == 400
        assert (await answer(dashboard, approval, TOKENS["ada"]))[0] == 202
        assert (await question_of(dashboard))["approvals"] == ["ada"]
        assert (await answer(dashboard, approval, TOKENS["ada"]))[0] == 409
        assert (await answer(dashboard, approval, TOKENS["bob"]))[0] == 202
        approved = await live(store, program)
        assert [vote.approver for vote in approved.approvals] == ["ada", "bob"]


async def test_a_denial_has_its_reason(tmp_path: Path) -> None:
    async def program() -> Any:
        return await request_approval("pay", arguments={"amount": 3})

    with opened(tmp_path) as store:
        await park(store, program)
        dashboard = Dashboard(journal=store, token=TOKEN)
        assert (await answer(dashboard, {"answer": "deny", "reason": "too much"}))[0] == 202
        with pytest.raises(ApprovalDeniedError, match="too much"):
            await live(store, program)


async def test_a_dashboard_without_a_token_answers_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await park(store, lambda: ask_user("Which?"))
        assert (await answer(Dashboard(journal=store), {"answer": "red"}))[0] == 403


async def test_of_many_runs_the_open_ones_and_the_latest_are_shown(tmp_path: Path) -> None:
    def names_of(nodes: list[Any]) -> list[str]:
        return [node["name"] for node in nodes if node["kind"] == "run"]

    with opened(tmp_path) as store:
        await park(store, lambda: ask_user("Which?"), "open")
        dashboard = Dashboard(journal=store, max_runs=2)
        for number in range(3):
            await live(store, lambda: send("a letter"), f"run-{number}")
            root, *nodes = await nodes_of(dashboard)
            assert names_of(nodes) == ["open", f"run-{number}"]
            assert root.get("dropped_children", 0) == number


async def test_what_was_followed_is_what_is_read_at_once(tmp_path: Path) -> None:
    async def weigh(count: int) -> int:
        return await ask_user(f"How heavy are {count}?", schema=int)

    @nh.natural_function
    async def shout(word: str) -> str:
        loud: str = nh.unset
        """natural
        Set <:loud> to <word> in capitals. Use <weigh>.
        """
        return loud

    def respond(prompt: str, turn: int) -> ModelResponse:
        if turn < 2:
            return model_response(tool_call("nh_eval", expression=f"await weigh({turn})"))
        return assigning("loud", "word.upper()")

    async def one_life(store: JournalStore) -> None:
        executor = nh.AgentStepExecutor.from_model(AnsweringModel(respond))
        with suppress(nh.journal.RunParked):
            async with nh.run(executor, journal=store, run_id="run-1", human=store.people(), park_after=0):
                assert await shout("a") == "A"

    def facts_of(tree: TaskTree) -> list[dict[str, Any]]:
        left_out = ("version", "began_at", "children")
        nodes = [view_as_json(node, depth=0) for node in tree.snapshot().walk()]
        return [{name: node[name] for name in node if name not in left_out} for node in nodes]

    with opened(tmp_path) as store:
        followed = StoreTree(store)
        lengths: list[int] = []
        for _ in range(3):
            await one_life(store)
            await followed.refresh()
            at_once = StoreTree(store)
            await at_once.refresh()
            assert facts_of(followed.tree) == facts_of(at_once.tree)
            lengths.append(sum(len(node.transcript) for node in followed.tree.snapshot().walk()))
            for question in store.questions():
                await store.answer(question.id, 3)
        assert lengths == sorted(set(lengths))


async def test_a_run_that_was_left_out_comes_back_with_its_usage(tmp_path: Path) -> None:
    @nh.natural_function
    async def count() -> int:
        x: int = nh.unset
        """natural
        Set <:x> to one.
        """
        return x

    async def first() -> str:
        await count()
        return await ask_user("Which?")

    with opened(tmp_path) as store:
        followed = StoreTree(store, max_runs=1)
        shown: list[tuple[str, int]] = []

        async def look() -> None:
            await followed.refresh()
            root = followed.tree.snapshot()
            (run,) = root.children
            assert run.subtree_usage.requests == root.subtree_usage.requests
            shown.append((run.name, root.subtree_usage.requests))

        await park(store, first, "first")
        await look()
        await park(store, lambda: ask_user("Which?"), "second")
        await look()
        (question,) = store.questions("second")
        await store.answer(question.id, "red")
        await live(store, lambda: ask_user("Which?"), "second")
        await look()
        assert shown == [("first", 1), ("second", 0), ("first", 1)]


async def test_the_page_says_that_the_store_is_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        await live(other, lambda: send("a letter"))
        dashboard = Dashboard(journal=store, token=TOKEN)
        before = await nodes_of(dashboard)
        with anyio.fail_after(240):
            async with reading(dashboard, "/api/changes") as reader:
                await reader.next_event()
                _, _, last_id = await reader.next_event()
                change_tables(tmp_path, "ALTER TABLE runs RENAME TO moved_runs")
                await reader.ended()
        refused = await fetch(dashboard, "/api/changes")
        assert refused.status == 503
        assert data_of(refused)["type"].endswith(":store-away")
        change_tables(tmp_path, "ALTER TABLE moved_runs RENAME TO runs")
        assert await nodes_of(dashboard) == before
        with anyio.fail_after(240):
            async with reading(dashboard, "/api/changes", last_event_id=last_id) as reader:
                await live(other, lambda: send("a parcel"), "run-2")
                name, data, _ = await reader.next_event()
                assert name == "nodes"
                assert {node["id"] for node in before[1:]}.isdisjoint(node["id"] for node in data["nodes"])


async def test_a_run_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    with opened(tmp_path, keys={"a": b"k" * 32}, active_key="a") as store:
        await live(store, lambda: send("a secret"))
    with opened(tmp_path) as store:
        root, run = await nodes_of(dashboard := Dashboard(journal=store))
        details = data_of(await fetch(dashboard, f"/api/nodes/{run['id']}"))
        assert "key" in details["attributes"]["nighthawk.journal.error"]
        assert root["child_count"] == 1


async def test_a_dashboard_shows_a_tree_or_a_journal(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(NighthawkError, match="or the runs of a journal"):
            Dashboard(nh.observe.TaskTree(), journal=store)
        with pytest.raises(NighthawkError, match="mount it beside"):
            Dashboard(journal=store).beside(Dashboard())


async def test_an_answer_during_a_look_makes_another_look_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_tree, "POLL_SECONDS", 3_600.0)
    with opened(tmp_path) as store:
        followed = StoreTree(store)
        looks = 0
        read_questions = store.questions

        def questions() -> Any:
            nonlocal looks
            looks += 1
            if looks == 1:
                followed.make_due()
            return read_questions()

        monkeypatch.setattr(store, "questions", questions)
        for _ in range(3):
            await followed.refresh()
        assert looks == 2
