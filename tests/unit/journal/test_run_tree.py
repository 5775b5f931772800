"""Runs as trees, made of their records."""

from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError, NighthawkError
from nighthawk_async.observe import NodeView, view_as_text
from nighthawk_async.testing import ModelResponse, ScriptedExecutor, model_response, pass_response, tool_call

from .durable_runs import AnsweringModel, assigning, live, opened

pytestmark = pytest.mark.anyio


async def weigh(count: int) -> int:
    """Weigh."""
    return 2 * count


@nh.natural_function
async def shout(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals. Use weigh.
    """
    return loud


@nh.once
async def send(text: str) -> str:
    """An effect."""
    return f"sent {text}"


@nh.once
async def refuse() -> None:
    """An effect that fails."""
    raise ValueError("no money")


def answer(prompt: str, turn: int) -> ModelResponse:
    if turn == 0:
        return model_response(tool_call("weigh", count=3))
    return assigning("loud", "word.upper()")


def shape(view: NodeView) -> list[tuple[int, str, str, str]]:
    """The nodes of a run with their depth, kind, name and state; provided tools are left out."""
    found: list[tuple[int, str, str, str]] = []

    def walk(node: NodeView, depth: int) -> None:
        if not node.name.startswith("nh_"):
            found.append((depth, node.kind, node.name, node.state))
        for child in node.children:
            walk(child, depth + 1)

    for child in view.children:
        walk(child, 0)
    return found


def named(store: nh.journal.JournalStore, name: str, at: str | None = None) -> NodeView:
    """The only node of a name in the tree of the run."""
    (found,) = [node for node in store.tree("run-1", at=at).snapshot().walk() if node.name == name]
    return found


async def test_the_tree_of_an_ended_run(tmp_path: Path) -> None:
    async def program() -> None:
        nh.tool(weigh)  # of this run alone
        await send(await shout("a"))

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        root = store.tree("run-1").snapshot()
        text = view_as_text(root, outputs=True)
        assert shape(root) == [
            (0, "run", "run-1", "completed"),
            (1, "function", "shout", "completed"),
            (2, "step", "shout#1", "completed"),
            (3, "model_request", "answering:model", "completed"),
            (3, "tool_call", "weigh", "completed"),
            (3, "model_request", "answering:model", "completed"),
            (1, "function", "send", "completed"),
        ]
        assert root.subtree_usage.requests == 2
        assert root.subtree_usage.input_tokens > 0
        step = named(store, "shout#1")
        assert step.inputs == {"": "word"}
        assert [part.kind for part in step.transcript] == ["tool_call"] * 3
        assert named(store, "weigh").outputs == {"result": "6"}
    assert 'tool weigh({"count": 3}) -> result=6' in text
    assert "send -> result='sent A'" in text


async def test_the_tree_at_any_moment(tmp_path: Path) -> None:
    async def program() -> None:
        nh.tool(weigh)  # of this run alone
        await send(await shout("a"))

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        in_call = shape(store.tree("run-1", at="4").snapshot())
        assert in_call == shape(store.tree("run-1", at="run/shout()[0]/shout#1[0]/call[0]").snapshot())
        in_effect = shape(store.tree("run-1", at="run/send()[0]").snapshot())
        whole = store.tree("run-1", at="2999-01-01").snapshot()
        assert shape(whole) == shape(store.tree("run-1").snapshot())
        assert store.tree("run-1", at="1999-01-01T00:00+00:00").snapshot().children[0].children[:] == ()
        with pytest.raises(NighthawkError, match="nothing was recorded in run/other"):
            store.tree("run-1", at="run/other")
        with pytest.raises(NighthawkError, match="no moment"):
            store.tree("run-1", at="yesterday")
        with pytest.raises(NighthawkError, match="has no run 'run-2'"):
            store.tree("run-2")
    assert in_call == [
        (0, "run", "run-1", "running"),
        (1, "function", "shout", "running"),
        (2, "step", "shout#1", "running"),
        (3, "model_request", "answering:model", "completed"),
        (3, "tool_call", "weigh", "running"),
    ]
    assert in_effect[-1] == (1, "function", "send", "running")
    assert in_effect[1] == (1, "function", "shout", "completed")


async def test_a_run_that_failed_shows_its_error_and_cancels_what_was_open(tmp_path: Path) -> None:
    def fail(prompt: str, turn: int) -> ModelResponse:
        raise ModelStatusError("overloaded", status=503, is_transient=False)

    async def program() -> None:
        with pytest.raises(ValueError, match="no money"):
            await refuse()
        await shout("a")

    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):
            await live(store, AnsweringModel(fail), program)
        run = store.tree("run-1").snapshot().children[0]
        assert run.error is not None
        assert run.error.type == "ModelStatusError"
        refused = named(store, "refuse")
        assert (refused.state, refused.error and refused.error.message) == ("failed", "no money")
        request = named(store, "request")
        assert (request.state, request.error and request.error.message) == ("failed", "overloaded")
        assert named(store, "shout#1").state == "cancelled"


async def test_the_end_of_a_parked_life_is_no_life(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(nh.journal.RunParked):
                async with nh.run(AnsweringModel(answer), journal=store, run_id="run-1", park_after=0.01):
                    await nh.journal.receive("reply")
        run = store.tree("run-1").snapshot().children[0]
    assert run.attributes["nighthawk.journal.lives"] == 2


async def test_lives_retries_and_answers_of_executors(tmp_path: Path) -> None:
    failing = True

    def sometimes(prompt: str, turn: int) -> ModelResponse:
        if failing:
            raise ModelStatusError("overloaded", status=503, is_transient=False)
        return answer(prompt, turn)

    async def program() -> None:
        nh.tool(weigh)  # of this run alone
        await shout("a")

    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):
            await live(store, AnsweringModel(sometimes), program)
        failing = False
        await live(store, AnsweringModel(sometimes), program)
        run = store.tree("run-1").snapshot().children[0]
        assert run.attributes["nighthawk.journal.lives"] == 2
        assert run.subtree_retries == 1
        executor = ScriptedExecutor(default_response=pass_response(loud="A"))
        async with nh.run(executor, journal=store, run_id="run-2"):
            await shout("a")
        step = store.tree("run-2").snapshot().children[0].children[0].children[0]
        assert (step.kind, step.state, step.outputs) == ("step", "completed", {"loud": "'A'"})


async def test_waits_questions_and_decisions(tmp_path: Path) -> None:
    async def first(number: int) -> str:
        if number:
            await send("late")
            await anyio.sleep_forever()
        return await send("early")

    async def program() -> None:
        await nh.parallel.race(first, [0, 1])
        await nh.journal.sleep(seconds=0)
        with pytest.raises(TimeoutError):
            await nh.journal.receive("post", timeout=0)
        await nh.ask_user("Which?", default="none")

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        states = {node.name: node.state for node in store.tree("run-1").snapshot().walk()}
        assert states["item[0]"] == "completed"
        assert states.get("item[1]", "cancelled") == "cancelled"
        assert (states["sleep"], states["receive"]) == ("completed", "failed")
        question = named(store, "ask_user")
        assert question.inputs["prompt"] == "'Which?'"
        assert question.outputs == {"end": "'default'"}
        asked = next(record.seq for record in store.records("run-1") if record.kind == "question")
        assert named(store, "ask_user", at=str(asked)).state == "waiting"


async def test_tasks_beside_each_other_end_one_by_one(tmp_path: Path) -> None:
    begun, may_end = anyio.Event(), anyio.Event()

    @nh.once
    async def wait() -> None:
        begun.set()
        await may_end.wait()

    async def program() -> None:
        nh.tool(weigh)  # of this run alone
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await begun.wait()
            await shout("a")
            may_end.set()

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        records = store.records("run-1")
        before_end = str(len(records) - 2)  # the end of the run, and the result of the effect
        names = {node.name: node.state for node in store.tree("run-1", at=before_end).snapshot().walk()}
        assert (names["wait"], names["shout#1"]) == ("running", "completed")
        assert named(store, "wait").state == "completed"


async def test_a_life_that_was_parked_counts_once(tmp_path: Path) -> None:
    async def program() -> None:
        await nh.journal.sleep(seconds=3_600)

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(nh.journal.RunParked):
                async with nh.run(ScriptedExecutor(), journal=store, run_id="run-1", park_after=0.0):
                    await program()
        run = store.tree("run-1").snapshot().children[0]
        assert (run.state, run.attributes["nighthawk.journal.lives"]) == ("suspended", 2)


async def test_the_time_of_a_limit_has_no_node(tmp_path: Path) -> None:
    async def program() -> None:
        nh.tool(weigh)  # of this run alone
        async with nh.deadline(3_600):
            await shout("a")

    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), program)
        assert any("/deadline[0]/counted[" in record.place for record in store.records("run-1"))
        (run,) = store.tree("run-1").snapshot().children
        assert [child.name for child in run.children] == ["shout"]


async def test_items_that_an_error_has_cancelled_are_cancelled(tmp_path: Path) -> None:
    stays = anyio.Event()

    @nh.once
    async def stay() -> None:
        stays.set()
        await anyio.sleep_forever()

    async def refuse_while_another_stays(number: int) -> None:
        if number == 1:
            await stay()
        await stays.wait()
        await refuse()

    async def program() -> None:
        with pytest.raises(ValueError, match="no money"):
            await nh.parallel.map(refuse_while_another_stays, range(2))
        await send("a")

    with opened(tmp_path) as store:
        async with nh.run(ScriptedExecutor(), journal=store, run_id="run-1"):
            await program()
        assert shape(store.tree("run-1").snapshot())[1:] == [
            (1, "group", "map", "completed"),
            (2, "task", "item[1]", "cancelled"),
            (3, "function", "stay", "cancelled"),
            (2, "task", "item[0]", "completed"),
            (3, "function", "refuse", "failed"),
            (1, "function", "send", "completed"),
        ]
