"""People who answer through the store: from any process, while the run is in progress or not."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.lowlevel
import pytest
from pydantic import AfterValidator

import nighthawk_async as nh
from nighthawk_async.errors import ApprovalDeniedError, NoHumanError
from nighthawk_async.human import (
    AnswerRefusedError,
    RequestClosedError,
    UnknownApproverError,
    WrongDigestError,
)
from nighthawk_async.journal import QuestionRow
from tests.unit.policies.human_handlers import Handler

from .durable_runs import AnsweringModel, assigning, change_tables, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@dataclass(frozen=True)
class Address:
    """What a person answers."""

    street: str
    number: int


async def live(
    store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]], human: Any = None, **options: Any
) -> Any:
    """One life of the run."""
    executor = nh.AgentStepExecutor.from_model(AnsweringModel(lambda prompt, turn: assigning("x", "1")))
    human = human or store.people()
    async with nh.run(executor, journal=store, run_id="run-1", human=human, **options):
        return await program()


async def find_question(store: nh.journal.JournalStore) -> QuestionRow:
    """The question that a run asks."""
    with anyio.fail_after(240):
        while not (questions := store.questions("run-1")):
            await anyio.lowlevel.checkpoint()
    return questions[0]


async def while_asking(
    store: nh.journal.JournalStore,
    program: Callable[[], Awaitable[Any]],
    answer: Callable[[QuestionRow], Awaitable[None]],
    human: Any = None,
) -> Any:
    """One life of the run, and what people do with its question meanwhile."""
    results: list[Any] = []

    async def one_life() -> None:
        results.append(await live(store, program, human))

    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            group.start_soon(one_life)
            await answer(await find_question(store))
    return results[0]


async def parked(store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]]) -> QuestionRow:
    """The question of a run that is parked."""
    with pytest.raises(nh.journal.RunParked):
        await live(store, program, park_after=0)
    (question,) = store.questions("run-1")
    return question


async def _never(question: nh.human.Question) -> object:
    return await anyio.sleep_forever()


@pytest.mark.parametrize("human", [None, Handler(answer=_never)])
async def test_a_run_in_progress_takes_an_answer_of_any_process(
    tmp_path: Path, human: Handler | None
) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:

        async def answer(question: QuestionRow) -> None:
            await other.answer(question.id, {"street": "Hill", "number": 3})

        async def program() -> Address:
            return await nh.ask_user("Where?", schema=Address)

        assert await while_asking(store, program, answer, human) == Address("Hill", 3)
        assert await live(store, program) == Address("Hill", 3)


async def test_a_run_in_progress_counts_votes_of_any_process(tmp_path: Path) -> None:
    async def approve(request: nh.human.ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)

    with opened(tmp_path) as store, opened(tmp_path) as other:

        async def vote(question: QuestionRow) -> None:
            await other.vote(question.id, approve=True, voter="bob", digest=question.content["digest"])

        async def program() -> tuple[str, ...]:
            return (await nh.request_approval("send", quorum=2)).approvers

        assert set(await while_asking(store, program, vote, Handler(decide=approve))) == {"ada", "bob"}
        assert set(await live(store, program)) == {"ada", "bob"}


async def test_an_answer_of_the_handler_counts_if_it_is_first(tmp_path: Path) -> None:
    asked: list[QuestionRow] = []

    with opened(tmp_path) as store:

        async def answer(question: nh.human.Question) -> str:
            asked.append(await find_question(store))
            return "blue"

        async def program() -> str:
            return await nh.ask_user("Which?")

        assert await live(store, program, Handler(answer=answer)) == "blue"
        with pytest.raises(RequestClosedError):
            await store.answer(asked[0].id, "green")
        assert store.questions() == []


async def test_the_first_answer_counts(tmp_path: Path) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?")

    with opened(tmp_path) as store, opened(tmp_path) as other:
        question = await parked(store, program)
        await other.answer(question.id, "blue")
        with pytest.raises(RequestClosedError, match="already"):
            await store.answer(question.id, "green")
        assert await live(store, program) == "blue"
        with pytest.raises(RequestClosedError):
            await other.answer(question.id, "green")


@pytest.mark.parametrize(
    ("schema", "fitting", "others"),
    [
        (str, "blue", [1, None, ["blue"]]),
        (int, 3, ["three", 1.5, None, []]),
        (Address, {"street": "Hill", "number": 3}, ["Hill", {"street": "Hill"}, {"street": 1, "number": 3}]),
        (list[int], [1, 2], [1, [1, "b"], {"a": 1}]),
        (Literal["red", "blue"], "blue", ["green"]),
        (int | None, None, ["three"]),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_at_once(
    tmp_path: Path, schema: Any, fitting: object, others: list[object]
) -> None:
    async def program() -> object:
        return await nh.ask_user("Which?", schema=schema)

    with opened(tmp_path) as store:
        question = await parked(store, program)
        for other in others:
            with pytest.raises(AnswerRefusedError, match="open"):
                await store.answer(question.id, other)
        (row,) = store.runs()
        assert row.wakes_at is None
        await store.answer(question.id, fitting)
        assert await live(store, program) == (Address("Hill", 3) if schema is Address else fitting)


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


async def test_an_answer_that_the_run_refuses_leaves_the_question_open(tmp_path: Path) -> None:
    async def program() -> int:
        return await nh.ask_user("How many?", schema=Annotated[int, AfterValidator(_even)])

    with opened(tmp_path) as store:
        question = await parked(store, program)
        for _ in range(4):  # more often than a handler is asked
            await store.answer(question.id, 3)
            assert await parked(store, program) == question
        await store.answer(question.id, 4)
        assert await live(store, program) == 4


async def test_only_what_was_seen_is_approved(tmp_path: Path) -> None:
    async def program() -> tuple[str, ...]:
        return (await nh.request_approval("send", arguments={"to": "bob"}, approvers=["ada"])).approvers

    with opened(tmp_path) as store:
        request = await parked(store, program)
        digest = request.content["digest"]
        for approve, wrong in ((True, None), (True, "0" * 64), (False, "0" * 64)):
            with pytest.raises(WrongDigestError):
                await store.vote(request.id, approve=approve, voter="ada", digest=wrong)
        for voter in ("eve", ""):
            with pytest.raises(UnknownApproverError):
                await store.vote(request.id, approve=True, voter=voter, digest=digest)
        assert await parked(store, program) == request
        await store.vote(request.id, approve=True, voter="ada", digest=digest)
        with pytest.raises(RequestClosedError):
            await store.vote(request.id, approve=False, voter="ada")
        assert await live(store, program) == ("ada",)


async def test_one_person_counts_once(tmp_path: Path) -> None:
    async def program() -> tuple[str, ...]:
        return (await nh.request_approval("send", quorum=2)).approvers

    with opened(tmp_path) as store:
        request = await parked(store, program)
        digest = request.content["digest"]
        await store.vote(request.id, approve=True, voter="ada", digest=digest)
        with pytest.raises(AnswerRefusedError, match="already"):
            await store.vote(request.id, approve=True, voter="ada", digest=digest)
        assert [vote.voter for vote in store.questions()[0].votes] == ["ada"]


async def test_a_denial_has_its_person_and_reason(tmp_path: Path) -> None:
    async def program() -> None:
        await nh.request_approval("send")

    with opened(tmp_path) as store:
        request = await parked(store, program)
        await store.vote(request.id, approve=False, voter="ada", reason="not on Sundays")
        for _ in range(2):
            with pytest.raises(ApprovalDeniedError, match="not on Sundays") as caught:
                await live(store, program)
            assert caught.value.approver == "ada"


async def test_a_vote_has_the_time_at_which_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> float:
        return (await nh.request_approval("send")).approvals[0].given_at.timestamp()

    with opened(tmp_path) as store:
        request = await parked(store, program)
        await store.vote(request.id, approve=True, voter="ada", digest=request.content["digest"])
        given_at, now = time.time(), time.time
        monkeypatch.setattr(time, "time", lambda: now() + 3_600)
        assert await live(store, program) <= given_at


async def test_what_is_no_answer_is_refused(tmp_path: Path) -> None:
    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(nh.ask_user, "Which?")
            await nh.request_approval("send")

    with opened(tmp_path) as store:
        with pytest.raises(nh.journal.RunParked):
            await live(store, program, park_after=0)
        rows = {row.kind: row for row in store.questions()}
        with pytest.raises(AnswerRefusedError, match="vote"):
            await store.answer(rows["approval"].id, True)
        with pytest.raises(AnswerRefusedError, match="question"):
            await store.vote(rows["question"].id, approve=True, voter="ada", digest="")
        for unknown in ("0" * 32, "", "a\0b"):
            with pytest.raises(nh.NighthawkError, match="no question"):
                await store.answer(unknown, "blue")
        with pytest.raises(nh.journal.JournalValueError):
            await store.answer(rows["question"].id, object())


async def test_questions_are_listed_by_run_and_while_they_wait(tmp_path: Path) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?", schema=str, timeout=60)

    with opened(tmp_path) as store:
        question = await parked(store, program)
        assert question.content == {"prompt": "Which?", "type": "str"}
        assert question.schema == {"type": "string"}
        assert question.expires_at is not None
        assert 50 < question.expires_at - question.asked_at <= 61
        assert store.questions("run-2") == []
        assert store.questions() == [question]


async def test_the_question_of_a_life_that_was_shut_down_can_be_answered(tmp_path: Path) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?")

    with opened(tmp_path) as store:
        async with anyio.create_task_group() as group:

            async def one_life() -> None:
                await live(store, program)

            group.start_soon(one_life)
            question = await find_question(store)
            group.cancel_scope.cancel()
        await store.answer(question.id, "blue")
        assert await live(store, program) == "blue"


@pytest.mark.parametrize("ask", [nh.ask_user, nh.request_approval])
async def test_people_answer_through_the_store_of_the_run_alone(tmp_path: Path, ask: Any) -> None:
    (tmp_path / "other").mkdir()
    with (
        opened(tmp_path) as store,
        opened(tmp_path / "other") as other,
        pytest.raises(NoHumanError, match="recorded"),
    ):
        await live(store, lambda: ask("send"), other.people())


async def test_without_a_handler_nobody_is_there(tmp_path: Path) -> None:
    executor = nh.AgentStepExecutor.from_model(AnsweringModel(lambda prompt, turn: assigning("x", "1")))
    with opened(tmp_path) as store:
        async with nh.run(executor, journal=store, run_id="run-1", park_after=0):
            with pytest.raises(NoHumanError):
                await nh.ask_user("Which?")
            assert await nh.ask_user("Which?", default="none") == "none"


async def test_a_request_that_was_decided_is_not_shown_by_the_next_life(tmp_path: Path) -> None:
    shown: list[int] = []

    async def approve(request: nh.human.ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)

    async def program() -> None:
        try:
            await nh.request_approval("send")
        finally:
            shown.append(len(store.questions()))

    with opened(tmp_path) as store:
        await live(store, program, Handler(decide=approve))
        change_tables(tmp_path, "DELETE FROM records WHERE kind = 'value' AND place = 'run/approval()[0]'")
        change_tables(tmp_path, "UPDATE questions SET status = 'open'")  # as if it had ended in between
        await live(store, program)
    assert shown == [0, 0]
