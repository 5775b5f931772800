"""Runs in which everything waits are parked, and later lives go on."""

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import AnswerTimeoutError, ApprovalExpiredError
from nighthawk_async.journal import Record, RunParked
from nighthawk_async.journal.store_thread import commit_listeners
from nighthawk_async.testing import model_response, tool_call
from tests.unit.policies.human_handlers import Handler

from .durable_runs import AnsweringModel, assigning, opened, places, remind, sent, shout

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

DAY = 86_400.0


def no_model() -> AnsweringModel:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        raise AssertionError("no model is needed")

    return AnsweringModel(answer)


async def live(
    store: nh.journal.JournalStore,
    program: Callable[[], Awaitable[Any]],
    *,
    park_after: float | None = 0.0,
    model: Any = None,
    human: Any = None,
    **options: Any,
) -> Any:
    """One life of the run, which is parked as soon as everything waits."""
    executor = nh.AgentStepExecutor.from_model(model or no_model())
    human = human or store.people()
    async with nh.run(executor, journal=store, run_id="run-1", park_after=park_after, human=human, **options):
        return await program()


async def park(
    store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]], **options: Any
) -> RunParked:
    """One life of the run, which is parked."""
    with pytest.raises(RunParked) as caught:
        await live(store, program, **options)
    (row,) = store.runs()
    assert (row.status, row.wakes_at, row.error) == ("parked", caught.value.wakes_at, "")
    assert caught.value.run_id == row.run_id
    return caught.value


def is_due(store: nh.journal.JournalStore) -> bool:
    (row,) = store.runs()
    return row.status == "parked" and row.wakes_at is not None and row.wakes_at <= time.time() + 1


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the clock of the wall be ahead."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds)


async def test_a_run_that_sleeps_is_parked_until_then(tmp_path: Path) -> None:
    async def program() -> None:
        await nh.journal.sleep(days=2)

    with opened(tmp_path) as store:
        begun = time.time()
        for _ in range(2):
            wakes_at = (await park(store, program)).wakes_at
            assert wakes_at is not None
            assert begun + 2 * DAY <= wakes_at <= time.time() + 2 * DAY


async def test_time_passes_while_a_run_is_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> str:
        await nh.journal.sleep(days=2)
        return "awake"

    with opened(tmp_path) as store:
        await park(store, program)
        later(monkeypatch, 2 * DAY)
        assert await live(store, program) == "awake"


async def test_a_question_parks_and_its_answer_goes_on(tmp_path: Path) -> None:
    async def program() -> int:
        return 1 + await nh.ask_user("How many?", schema=int)

    with opened(tmp_path) as store:
        assert (await park(store, program)).wakes_at is None
        (question,) = store.questions("run-1")
        with opened(tmp_path) as other:
            await other.answer(question.id, 2)
        assert is_due(store)
        assert store.questions() == []
        assert [await live(store, program) for _ in range(2)] == [3, 3]
        assert places(store, "question") == ["run/question()[0]"]


async def test_a_message_wakes_a_parked_run(tmp_path: Path) -> None:
    async def program() -> object:
        return await nh.journal.receive("reply")

    with opened(tmp_path) as store:
        assert (await park(store, program)).wakes_at is None
        with opened(tmp_path) as other:
            await other.send("run-1", "reply", "thanks")
        assert is_due(store)
        assert await live(store, program) == "thanks"


async def test_a_key_of_a_batch_that_fails_raises_in_the_run_and_leaves_the_store_alone(
    tmp_path: Path,
) -> None:
    loop_thread, looks_of_store = threading.current_thread(), list[object]()

    def key(mail: object) -> object:
        if threading.current_thread() is not loop_thread:
            looks_of_store.append(mail)
        if looks_of_store:  # from the look before the run would be parked
            raise KeyError("customer")
        return mail

    async def program() -> object:
        return await nh.journal.receive_batch("mail", count=2, window=DAY, key=key)

    with opened(tmp_path) as store:
        await store.send("run-1", "mail", "hello")
        with pytest.raises(KeyError, match="customer"):
            await live(store, program)
        (row,) = store.runs()
        assert (row.status, row.error) == ("failed", "KeyError: 'customer'")


async def test_a_quorum_comes_together_over_three_lives(tmp_path: Path) -> None:
    async def program() -> tuple[str, ...]:
        arguments = {"to": "bob"}
        approval = await nh.request_approval("send", arguments=arguments, quorum=2, approvers=["ada", "bob"])
        approval.check("send", arguments)
        return approval.approvers

    with opened(tmp_path) as store:
        for voter in ("bob", "ada"):
            assert (await park(store, program)).wakes_at is None
            (request,) = store.questions()
            assert request.content["arguments"] == {"to": "bob"}
            with opened(tmp_path) as other:
                await other.vote(request.id, approve=True, voter=voter, digest=request.content["digest"])
            assert is_due(store)
        assert [await live(store, program) for _ in range(2)] == [("bob", "ada")] * 2
        assert len(places(store, "question")) == 1


async def test_a_denial_of_somebody_who_had_approved_counts_once(tmp_path: Path) -> None:
    async def program() -> tuple[str, ...]:
        return (await nh.request_approval("send", quorum=2)).approvers

    with opened(tmp_path) as store:
        await park(store, program)
        (request,) = store.questions()
        vote, digest = store.vote, request.content["digest"]
        await vote(request.id, approve=True, voter="ada", digest=digest)
        await vote(request.id, approve=False, voter="ada", reason="let me read it again")
        for _ in range(2):  # a second denial would deny the request
            await park(store, program)
        await vote(request.id, approve=True, voter="bob", digest=digest)
        await park(store, program)
        await vote(request.id, approve=True, voter="ada", digest=digest)
        assert await live(store, program) == ("bob", "ada")


async def test_a_mixture_of_waits_is_parked_until_the_first_one_ends(tmp_path: Path) -> None:
    async def wait(kind: str) -> object:
        match kind:
            case "sleep":
                return await nh.journal.sleep(days=3)
            case "receive":
                return await nh.journal.receive("reply", timeout=2 * DAY)
            case "approve":
                return (await nh.request_approval("send", timeout=4 * DAY)).approvers
            case _:
                return await nh.ask_user("Which?", timeout=5 * DAY)

    async def program() -> list[object]:
        return await nh.parallel.map(wait, ["sleep", "receive", "approve", "ask"])

    with opened(tmp_path) as store:
        begun = time.time()
        wakes_at = (await park(store, program)).wakes_at
        assert wakes_at is not None
        assert begun + 2 * DAY <= wakes_at <= time.time() + 2 * DAY
        await store.send("run-1", "reply", "thanks")
        wakes_at = (await park(store, program)).wakes_at
        assert wakes_at is not None
        assert begun + 3 * DAY <= wakes_at <= time.time() + 3 * DAY
        assert len(store.questions()) == 2


async def sleep_plainly(seconds: float) -> str:
    """Wait in a way that no journal sees."""
    await anyio.sleep(seconds)
    return "slept"


class SlowModel(AnsweringModel):
    """Takes an hour for an answer."""

    def stream(self, request: nh.models.ModelRequest) -> Any:
        return _SlowResponse(super().stream(request))


class _SlowResponse:
    def __init__(self, response: Any) -> None:
        self._response = response

    async def __aenter__(self) -> Any:
        events = await self._response.__aenter__()
        await anyio.sleep(3_600)
        return events

    async def __aexit__(self, *details: Any) -> Any:
        return await self._response.__aexit__(*details)


begun: list[str] = []


@nh.once
async def pay(who: str) -> str:
    """Take an hour."""
    begun.append(who)
    return await sleep_plainly(3_600)


@nh.natural_function
async def wait_in_block() -> str:
    """Call a function of the program that takes an hour."""
    result: str
    """natural
    Set <:result> with <sleep_plainly>.
    """
    return result


async def _start_task(ended: list[str]) -> None:
    async with nh.open_tasks() as tasks:
        ended.append(await tasks.start(sleep_plainly, 3_600))


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", ["request", "effect", "function", "item", "task"])
async def test_nothing_in_progress_is_interrupted(tmp_path: Path, kind: str) -> None:
    begun.clear()
    ended: list[str] = []
    model: AnsweringModel = AnsweringModel(
        lambda prompt, turn: assigning("result", "await sleep_plainly(3600)")
    )
    if kind == "request":
        model = SlowModel(lambda prompt, turn: assigning("loud", "word.upper()"))

    async def work() -> None:
        match kind:
            case "request":
                ended.append(await shout("a"))
            case "effect":
                ended.append(await pay("ada"))
            case "function":
                ended.append(await wait_in_block())
            case "task":
                await _start_task(ended)
            case _:
                ended.extend(await nh.parallel.map(sleep_plainly, [3_600]))

    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(nh.ask_user, "Which?")
            await work()

    with opened(tmp_path) as store:
        await park(store, program, park_after=60, model=model)
        assert len(ended) == 1
        assert len(model.prompts) == (kind in ("request", "function"))
        assert begun == (["ada"] if kind == "effect" else [])


async def test_a_task_that_waits_for_another_one_waits_with_it(tmp_path: Path) -> None:
    async def program() -> str:
        async with nh.open_tasks() as tasks:
            asking = tasks.start(nh.ask_user, "Which?")

            async def use() -> str:
                return f"{await asking}!"

            return await tasks.start(use)

    with opened(tmp_path) as store:
        await park(store, program)
        (question,) = store.questions()
        await store.answer(question.id, "blue")
        assert await live(store, program) == "blue!"


async def test_a_function_that_waits_after_its_block_is_parked_until_something_comes(tmp_path: Path) -> None:
    @nh.natural_function
    async def shout_and_ask(word: str) -> str:
        loud = ""
        """natural
        Set <:loud> to <word> in capitals.
        """
        return loud + await nh.ask_user("Which?")

    model = AnsweringModel(lambda prompt, turn: assigning("loud", "word.upper()"))
    with opened(tmp_path) as store:
        for _ in range(2):  # the cancellation of the function, with which it is parked, is nothing new
            assert (await park(store, lambda: shout_and_ask("a"), model=model)).wakes_at is None
    assert len(model.prompts) == 1


async def test_steps_that_wait_for_a_slot_wait_with_the_one_that_has_it(tmp_path: Path) -> None:
    async def ask(what: str) -> str:
        return await nh.ask_user(what)

    @nh.natural_function
    async def decide(what: str) -> str:
        result: str
        """natural
        Ask <ask> about <what>, and set <:result>.
        """
        return result

    model = AnsweringModel(lambda prompt, turn: assigning("result", "await ask(what)"))

    async def program() -> list[str]:
        return await nh.parallel.map(decide, ["a", "b"])

    options: dict[str, Any] = {"model": model, "max_concurrent_steps": 1}
    with opened(tmp_path) as store:
        for _ in range(2):
            await park(store, program, **options)
            (question,) = store.questions()
            await store.answer(question.id, question.content["prompt"].upper())
        assert await live(store, program, **options) == ["A", "B"]
    assert len(model.prompts) == 2


@pytest.mark.virtual_time
async def test_a_plain_wait_beside_a_long_one_begins_again_in_the_next_life(tmp_path: Path) -> None:
    beats: list[str] = []

    async def beat() -> None:
        beats.append("a beat")
        await anyio.sleep_forever()

    async def program() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            answer: str = await nh.ask_user("Which?")
            group.cancel_scope.cancel()
        return answer

    with opened(tmp_path) as store:
        await park(store, program, park_after=60)
        (question,) = store.questions()
        await store.answer(question.id, "blue")
        assert await live(store, program, park_after=60) == "blue"
    assert len(beats) == 2


@pytest.mark.virtual_time
async def test_waits_that_end_soon_do_not_park(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, virtual = time.time(), anyio.current_time()
    monkeypatch.setattr(time, "time", lambda: start + anyio.current_time() - virtual)

    async def program() -> str:
        await nh.journal.sleep(seconds=59)
        with pytest.raises(TimeoutError):
            await nh.journal.receive("reply", timeout=59)
        return "awake"

    with opened(tmp_path) as store:
        assert await live(store, program, park_after=60) == "awake"


async def test_a_run_without_a_limit_waits_itself(tmp_path: Path) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?")

    with opened(tmp_path) as store, opened(tmp_path) as other, anyio.fail_after(240):
        async with anyio.create_task_group() as group:

            async def answer() -> None:
                while not (questions := other.questions()):
                    await anyio.lowlevel.checkpoint()
                await other.answer(questions[0].id, "blue")

            group.start_soon(answer)
            assert await live(store, program, park_after=None) == "blue"


async def test_cleanup_runs_and_begins_no_effect(tmp_path: Path) -> None:
    begun.clear()
    cleaned: list[str] = []

    async def program() -> None:
        try:
            await nh.ask_user("Which?")
        finally:
            cleaned.append("cleaned")
            with anyio.CancelScope(shield=True):
                await pay("eve")

    with opened(tmp_path) as store:
        await park(store, program)
        assert places(store, "intent") == []
    assert (cleaned, begun) == (["cleaned"], [])


async def test_a_program_that_ends_instead_of_being_parked_has_ended(tmp_path: Path) -> None:
    async def program() -> str:
        try:
            return await nh.ask_user("Which?")
        except anyio.get_cancelled_exc_class():
            return "no answer"

    with opened(tmp_path) as store:
        assert await live(store, program) == "no answer"
        assert [row.status for row in store.runs()] == ["ended"]
        assert store.questions() == []


async def test_an_error_of_cleanup_is_the_end_of_the_life(tmp_path: Path) -> None:
    async def program() -> None:
        try:
            await nh.ask_user("Which?")
        finally:
            raise ValueError("cannot clean up")

    with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="clean up"):
            await live(store, program)
        assert [row.status for row in store.runs()] == ["failed"]


async def test_an_answer_that_is_given_while_the_run_is_parked_is_not_lost(tmp_path: Path) -> None:
    async def answer(question: nh.human.Question) -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "blue"

    async def program() -> str:
        return await nh.ask_user("Which?")

    with opened(tmp_path) as store:
        await park(store, program, human=Handler(answer=answer))
        assert is_due(store)
        assert await live(store, program) == "blue"


@pytest.mark.parametrize("kind", ["answer", "vote", "message"])
async def test_what_comes_right_before_a_run_is_parked_makes_it_due(tmp_path: Path, kind: str) -> None:
    async def program() -> object:
        match kind:
            case "answer":
                return await nh.ask_user("Which?")
            case "vote":
                return (await nh.request_approval("send")).approvers
            case _:
                return await nh.journal.receive("reply")

    with opened(tmp_path) as store, opened(tmp_path) as other:

        def give(moment: str, records: Sequence[Record]) -> None:
            if moment == "before" and any(record.body == b"parked" for record in records):
                commit_listeners.clear()
                anyio.run(give_async)

        async def give_async() -> None:
            if kind == "message":
                await other.send("run-1", "reply", "blue")
                return
            (question,) = other.questions()
            if kind == "answer":
                await other.answer(question.id, "blue")
            else:
                await other.vote(question.id, approve=True, voter="blue", digest=question.content["digest"])

        commit_listeners.append(give)
        try:
            await park(store, program)
        finally:
            commit_listeners.clear()
        assert is_due(store)
        assert await live(store, program) in ("blue", ("blue",))


async def test_time_for_people_passes_while_a_run_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        with pytest.raises(ApprovalExpiredError):
            await nh.request_approval("send", timeout=60)
        await nh.ask_user("Which?", timeout=60)

    with opened(tmp_path) as store:
        begun = time.time()
        wakes_at = (await park(store, program)).wakes_at
        assert wakes_at is not None
        assert begun + 60 <= wakes_at <= time.time() + 60
        later(monkeypatch, 61)
        wakes_at = (await park(store, program)).wakes_at
        assert wakes_at is not None
        assert begun + 121 <= wakes_at <= time.time() + 60
        later(monkeypatch, 61)
        with pytest.raises(AnswerTimeoutError):
            await live(store, program)


async def test_an_answer_in_time_counts_however_late_the_next_life_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?", timeout=60)

    with opened(tmp_path) as store:
        await park(store, program)
        (question,) = store.questions()
        await store.answer(question.id, "blue")
        later(monkeypatch, 61)
        assert [await live(store, program) for _ in range(2)] == ["blue", "blue"]


async def test_a_call_of_a_model_that_needs_an_approval_waits_for_days(tmp_path: Path) -> None:
    sent.clear()
    model = AnsweringModel(lambda prompt, turn: assigning("result", "send(to=customer)"))
    options: dict[str, Any] = {"model": model, "permissions": nh.permissions(ask="send", default="deny")}

    async def program() -> str:
        return await remind("bob")

    with opened(tmp_path) as store:
        for _ in range(2):
            await park(store, program, **options)
        (request,) = store.questions()
        await store.vote(request.id, approve=True, voter="ada", digest=request.content["digest"])
        assert not sent
        assert await live(store, program, **options) == "sent to bob"
    assert len(model.prompts) == len(sent) == 1


def asking_tool(decorate: Callable[[Any], Any]) -> tuple[Any, AnsweringModel]:
    """A natural function whose model calls a tool that asks a person, and the model."""

    @nh.natural_function
    async def decide() -> str:
        @nh.tool
        @decorate
        async def ask_boss(what: str) -> str:
            return await nh.ask_user(what)

        result: str
        """natural
        Set <:result> to what the boss says.
        """
        return result

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if turn == 0:
            return model_response(tool_call("ask_boss", what="Which?"))
        return assigning("result", "'as the boss says'")

    return decide, AnsweringModel(answer)


@pytest.mark.parametrize("decorate", [nh.repeatable, nh.journal.every_life])
async def test_a_tool_that_may_be_called_again_waits_for_days(
    tmp_path: Path, decorate: Callable[[Any], Any]
) -> None:
    program, model = asking_tool(decorate)
    with opened(tmp_path) as store:
        await park(store, program, model=model)
        (question,) = store.questions()
        await store.answer(question.id, "blue")
        assert await live(store, program, model=model) == "as the boss says"
    assert len(model.prompts) == 2


async def test_a_tool_that_would_be_in_doubt_keeps_its_process(tmp_path: Path) -> None:
    program, model = asking_tool(lambda function: function)
    with opened(tmp_path) as store, anyio.fail_after(240):
        async with anyio.create_task_group() as group:

            async def answer() -> None:
                while not (questions := store.questions()):
                    await anyio.lowlevel.checkpoint()
                for _ in range(20):  # each looks into the store, as the run does before it is parked
                    assert store.questions() == questions
                    await anyio.lowlevel.checkpoint()
                await store.answer(questions[0].id, "blue")

            group.start_soon(answer)
            assert await live(store, program, model=model) == "as the boss says"


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1", True])
async def test_the_limit_is_a_number_of_seconds(tmp_path: Path, seconds: Any) -> None:
    with opened(tmp_path) as store, pytest.raises(nh.NighthawkError, match="park_after"):
        nh.run(nh.AgentStepExecutor.from_model(no_model()), journal=store, park_after=seconds)


async def test_a_run_without_a_journal_is_never_parked() -> None:
    with pytest.raises(nh.NighthawkError, match="journal"):
        nh.run(nh.AgentStepExecutor.from_model(no_model()), park_after=1)
