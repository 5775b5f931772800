"""Replays: the program again from its records, without models, effects and writing."""

import pdb
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError, NighthawkError
from nighthawk_async.journal import JournalDivergenceError, JournalError, ReplayEndError
from nighthawk_async.testing import CallbackExecutor, ModelResponse, pass_response
from tests.unit.policies.human_handlers import Handler, answering

from .durable_runs import AnsweringModel, assigning, change, opened, query, shout
from .queue_jobs import note

pytestmark = pytest.mark.anyio

sent: list[str] = []


@nh.once
async def send(text: str) -> str:
    """An effect."""
    sent.append(text)
    return f"sent {text}"


@pytest.fixture(autouse=True)
def _forget() -> None:
    sent.clear()


def capitals(prompt: str, turn: int) -> ModelResponse:
    return assigning("loud", "word.upper()")


def no_model(prompt: str, turn: int) -> ModelResponse:
    raise AssertionError("no model is needed")


async def live(
    store: Any,
    program: Callable[[], Awaitable[Any]],
    answer: Any = no_model,
    run_id: str = "run-1",
    **options: Any,
) -> Any:
    """One life of a run."""
    executor = nh.AgentStepExecutor.from_model(AnsweringModel(answer))
    async with nh.run(executor, journal=store, run_id=run_id, **options):
        return await program()


async def handle() -> str:
    words = await nh.parallel.map(shout, ["a", "b"])
    receipt = await send("".join(words))
    await nh.journal.sleep(days=0.0000001)
    return f"{receipt} {nh.journal.random()}"


@pytest.mark.usefixtures("database")
async def test_a_replay_gives_what_the_run_gave_and_writes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        result = await live(store, handle, capitals)
        before = store.records("run-1"), store.runs()
        with nh.journal.replay(store, "run-1"):
            assert await live(store, handle) == result  # the line of the program, with its store
        async with nh.journal.replay(store, "run-1") as replay:
            assert await live(replay, handle) == result
        assert (store.records("run-1"), store.runs()) == before
    assert sent == ["AB"]


async def test_a_replay_by_address_needs_no_key_and_no_store_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with opened(tmp_path) as store:
        result = await live(store, handle, capitals)
    replay = nh.journal.replay(f"sqlite:///{tmp_path}/runs.db", "run-1")
    (tmp_path / "runs.db").unlink()
    with replay:
        async with nh.run("openai-responses:gpt-5.4-nano", journal=replay):
            assert await handle() == result


async def test_a_replay_of_a_run_in_progress_ends_with_the_records(tmp_path: Path) -> None:
    async def until_receipt() -> None:
        await send(await shout("a"))
        raise KeyError("the power is off")

    async def whole() -> None:
        await send(await shout("a"))
        await send("more")

    with opened(tmp_path) as store:
        with pytest.raises(KeyError):
            await live(store, until_receipt, capitals)
        text = r"the records end here: run/send\(\)\[1\] was not reached"
        with pytest.raises(ReplayEndError, match=text) as end, nh.journal.replay(store, "run-1"):
            await live(store, whole)
        assert end.value.place == "run/send()[1]"

        async def handling() -> None:
            with suppress(NighthawkError):
                await whole()

        with pytest.raises(ReplayEndError), nh.journal.replay(store, "run-1"):
            await live(store, handling)
    assert sent == ["A"]


async def test_the_end_of_the_records_is_explained(tmp_path: Path) -> None:
    def fail(prompt: str, turn: int) -> ModelResponse:
        raise ModelStatusError("overloaded", status=503, is_transient=False)

    async def ask() -> None:
        await nh.ask_user("Which?")

    async def receive() -> None:
        await nh.journal.receive("post")

    async def shout_once() -> None:
        await shout("a")

    asked = False

    async def reconcile() -> None:
        nonlocal asked
        asked = True

    @nh.once(reconcile=reconcile)
    async def ship() -> None:
        raise KeyboardInterrupt

    async def failing_life(store: Any, program: Any, run_id: str, answer: Any = no_model) -> None:
        with pytest.raises((ModelStatusError, KeyboardInterrupt)):
            await live(store, program, answer, run_id)

    async def waiting_life(store: Any, program: Any, run_id: str, **options: Any) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(live, store, program, run_id=run_id, **options))
                while {each.kind for each in store.records(run_id)} <= {"life"}:  # noqa: ASYNC110  (in a thread)
                    await anyio.sleep(0.01)
                scope.cancel()

    async def never(question: nh.human.Question) -> object:
        return await anyio.sleep_forever()

    with opened(tmp_path) as store:
        await failing_life(store, shout_once, "failed", fail)
        await waiting_life(store, receive, "waiting")
        await waiting_life(store, ask, "asked", human=Handler(answer=never))
        await failing_life(store, ship, "in doubt")
        for run_id, program, text in [
            ("failed", shout_once, r"has failed in life 1 \(ModelStatusError: overloaded\)"),
            ("waiting", receive, "has waited"),
            ("asked", ask, "was asked, and not answered"),
            ("in doubt", ship, "had begun, and its result was not recorded"),
        ]:
            with pytest.raises(ReplayEndError, match=text), nh.journal.replay(store, run_id):
                await live(store, program, run_id=run_id, human=answering("x"))
    assert not asked


async def test_a_changed_program_diverges(tmp_path: Path) -> None:
    async def other_word() -> None:
        await send(await shout("b"))

    async def program() -> None:
        await send(await shout("a"))

    async def less() -> None:
        await shout("a")

    async def more() -> None:
        await shout("a")
        await shout("a")
        await send("A")

    with opened(tmp_path) as store:
        await live(store, program, capitals)
        for changed, text in [
            (other_word, "<word>"),
            (less, "send"),
            (more, r"shout\(\)\[1\] is not in the"),
        ]:
            with pytest.raises(JournalDivergenceError, match=text), nh.journal.replay(store, "run-1"):
                await live(store, changed)


async def test_answers_of_executors_and_errors_that_the_program_handled(tmp_path: Path) -> None:
    def fail(prompt: str, turn: int) -> ModelResponse:
        if "'a'" in prompt or '"a"' in prompt:
            raise ModelStatusError("overloaded", status=503, is_transient=False)
        return capitals(prompt, turn)

    async def program() -> str:
        try:
            return await shout("a")
        except ModelStatusError:
            return await shout("b")

    calls: list[str] = []

    def answer(call: Any) -> Any:
        calls.append("step")
        return pass_response(loud="A")

    with opened(tmp_path) as store:
        assert await live(store, program, fail) == "B"
        with nh.journal.replay(store, "run-1"):
            assert await live(store, program) == "B"
        for _ in range(2):
            replay = nh.journal.replay(store, "run-2") if calls else store
            async with nh.run(CallbackExecutor(answer), journal=replay, run_id="run-2"):
                assert await shout("a") == "A"
        replay = nh.journal.replay(store, "run-2")
        async with nh.run(CallbackExecutor(answer), journal=replay, run_id="run-2"):
            assert await shout("a") == "A"
            with pytest.raises(ReplayEndError):
                await shout("a")
    assert calls == ["step"]


async def test_patched_code_is_left_out_where_it_was_not_recorded(tmp_path: Path) -> None:
    async def old() -> list[bool]:
        return [nh.journal.patched("one")]

    async def new() -> list[bool]:
        return [nh.journal.patched("one"), nh.journal.patched("two")]

    with opened(tmp_path) as store:
        assert await live(store, old) == [True]
        with nh.journal.replay(store, "run-1"):
            assert await live(store, new) == [True, False]


async def test_messages_are_not_sent_and_other_runs_not_begun(tmp_path: Path) -> None:
    with opened(tmp_path) as store:

        async def program() -> str:
            await store.send("run-1", "post", "hello")
            return await nh.journal.receive("post")

        assert await live(store, program) == "hello"
        with nh.journal.replay(store, "run-1"):
            assert await live(store, program) == "hello"
            with pytest.raises(JournalError, match="the program begins run 'run-2'"):
                await live(store, program, run_id="run-2")


@pytest.mark.usefixtures("database")
async def test_a_program_that_writes_to_the_store_has_no_effect_in_a_replay(tmp_path: Path) -> None:
    tables = (
        *("messages", "queue_entries", "schedules", "questions", "votes", "records"),
        *("topics", "topic_messages", "subscriptions", "topic_deliveries"),
    )

    async def program() -> tuple[str, str]:
        await store.send("run-2", "post", "hello")
        without_key = await store.enqueue(note, 1)
        with_key = await store.enqueue(note, 2, key="call-2")
        await store.schedule("nightly", note, 3, cron="0 3 * * *")
        await store.subscribe("numbers", note, after=0)
        receipt = await store.publish("numbers", 5)
        assert (receipt.number, receipt.duplicate) == (1, False)
        await shout("a")
        return without_key, with_key

    async def care() -> None:
        await store.requeue("failed")
        assert not await store.unschedule("nightly")
        assert not await store.unsubscribe("numbers", note)
        assert (await store.publish("numbers", 6)).number == 0
        await store.answer("abc", "an answer")  # there is no such question
        await store.vote("abc", approve=False, voter="ann")
        assert store.prune(timedelta(0)).runs == ("run-1",)

    with opened(tmp_path) as store:
        result = await live(store, program, capitals)
        await store.enqueue(note, 4, key="failed")
        change(store, "UPDATE queue_entries SET status = 'failed' WHERE run_id = 'failed'")
        before = [query(store, f"SELECT * FROM {table}") for table in tables]
        with nh.journal.replay(store, "run-1"):
            assert await live(store, program) == result
            await care()
        assert [query(store, f"SELECT * FROM {table}") for table in tables] == before
        assert await store.unschedule("nightly")


async def test_a_replay_stops_before_a_place(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, handle, capitals)
        stopping = nh.journal.replay(store, "run-1", until="run/send()[0]")
        text = r"stopped before run/send\(\)\[0\]: .*test_replays.py:\d+, in handle"
        with pytest.raises(ReplayEndError, match=text), stopping:
            await live(store, handle)
        turn = "run/map[0]/item[1]/shout()[0]/shout#1[0]/turn[0]"
        with pytest.raises(ReplayEndError, match="in shout"), nh.journal.replay(store, "run-1", until=turn):
            await live(store, handle)


async def test_the_debugger_opens_in_the_frame_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def interaction(self: pdb.Pdb, frame: Any, error: object) -> None:
        seen.append((frame.f_code.co_name, frame.f_locals["words"]))
        self.set_continue()

    monkeypatch.setattr(pdb.Pdb, "interaction", interaction)
    with opened(tmp_path) as store:
        result = await live(store, handle, capitals)
        with nh.journal.replay(store, "run-1", until="run/send()[0]", pdb=True) as replay:
            assert await live(store, handle) == result
        assert replay.has_stopped
    assert seen == [("handle", ["A", "B"])]


async def test_what_is_not_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(NighthawkError, match="no run 'run-1'"):
        nh.journal.replay(store, "run-1")


async def test_responses_are_recorded_in_a_cassette_and_back(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    with opened(tmp_path) as store:
        result = await live(store, handle, capitals)
        with nh.testing.cassette(file, mode="all"), nh.journal.replay(store, "run-1"):
            assert await live(store, handle) == result
        with nh.testing.cassette(file, mode="none") as tape:
            await live(store, handle, run_id="run-2")  # a journal from a cassette
            assert (tape.replayed, tape.unused) == (2, ())
        responses = [
            [record.body for record in store.records(run) if record.kind == "response"]
            for run in ("run-1", "run-2")
        ]
    assert sorted(responses[0]) == sorted(responses[1])


@nh.natural_function
def shout_sync(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


@nh.once
def send_sync(text: str) -> str:
    """An effect."""
    sent.append(text)
    return f"sent {text}"


def handle_sync(store: Any, answer: Any = no_model) -> str:
    """A program without an event loop."""
    executor = nh.AgentStepExecutor.from_model(AnsweringModel(answer))
    with nh.run(executor, journal=store, run_id="run-1"):
        return send_sync(shout_sync("a"))


def test_a_synchronous_program_is_replayed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert handle_sync(store, capitals) == "sent A"
        with nh.journal.replay(store, "run-1"):
            assert handle_sync(store) == "sent A"
        for until, function in [
            ("run/shout_sync()[0]", "shout_sync"),
            ("run/shout_sync()[0]/shout_sync#1[0]/turn[0]", "shout_sync"),
            ("run/send_sync()[0]", "handle_sync"),
        ]:
            with pytest.raises(ReplayEndError, match=rf"test_replays.py:\d+, in {function}"):  # noqa: SIM117
                with nh.journal.replay(store, "run-1", until=until):
                    handle_sync(store)
    assert sent == ["A"]


async def test_what_was_left_over_in_a_changed_program_is_left_over_in_its_replay(tmp_path: Path) -> None:
    async def old() -> str:
        await send("first")
        return await send("second")

    async def new() -> str:
        return await send("first")

    with opened(tmp_path) as store:
        await live(store, old)
    with opened(tmp_path, changes="insert") as store:
        assert await live(store, new) == "sent first"
        with nh.journal.replay(store, "run-1"):
            assert await live(store, new) == "sent first"


async def test_an_error_that_the_program_handled_is_recorded_in_a_cassette(tmp_path: Path) -> None:
    def fail(prompt: str, turn: int) -> ModelResponse:
        if "'a'" in prompt or '"a"' in prompt:
            raise ModelStatusError("overloaded", status=503, is_transient=False)
        return capitals(prompt, turn)

    async def program() -> str:
        try:
            return await shout("a")
        except ModelStatusError as error:
            return f"{error.status} {await shout('b')}"

    file = tmp_path / "run.yaml"
    with opened(tmp_path) as store:
        assert await live(store, program, fail) == "503 B"
        with nh.testing.cassette(file, mode="all"), nh.journal.replay(store, "run-1"):
            assert await live(store, program) == "503 B"
    with nh.testing.cassette(file, mode="none") as tape:
        async with nh.run(nh.AgentStepExecutor.from_model(AnsweringModel(no_model))):
            assert await program() == "503 B"
    assert (tape.replayed, tape.unused) == (2, ())
