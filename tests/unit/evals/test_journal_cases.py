"""Cases from the runs of a journal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ApprovalDeniedError
from nighthawk_async.evals import Case, CaseError, RecordedRun, cases_from_journal
from nighthawk_async.journal import JournalStore, Worker
from nighthawk_async.oversight import Accept, Decision, Rewrite, StepCommit, ToolCallInspection
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.unset import UNSET

pytestmark = pytest.mark.anyio


async def rate(review: str, most: int = 5) -> int:
    """Return the stars of a review; people are asked about some."""
    found = len(review)
    if review.endswith("?"):
        found = await nh.ask_user(
            f"How many stars has {review}", schema=int, timeout=0 if "0" in review else None, default=0
        )
    if review.endswith("!"):
        try:
            await nh.request_approval("praise", arguments={"review": review})
        except ApprovalDeniedError:
            found = 0
    if review.startswith("x"):
        raise ValueError(review)
    return found


async def spread(*reviews: str) -> int:
    """Return the number of reviews."""
    return len(reviews)


async def _answer(store: JournalStore) -> None:
    """Give five stars, and approve what is about `b`."""
    answered: set[str] = set()
    while True:
        for row in store.questions():
            if row.id in answered:
                continue
            answered.add(row.id)
            if row.kind == "question":
                await store.answer(row.id, 5)
            else:
                is_liked = "b" in row.content["arguments"]["review"]
                await store.vote(row.id, approve=is_liked, voter="Ada", digest=row.content["digest"])
        await anyio.sleep(0.01)


@asynccontextmanager
async def production(path: Path) -> AsyncIterator[JournalStore]:
    """A store with a worker, and a person who answers."""
    with nh.journal.open(f"sqlite:///{path / 'runs.db'}") as store:
        model = ScriptedModel([])
        worker = Worker(
            store,
            [rate, spread],
            run=lambda run_id: nh.run(model, journal=store, run_id=run_id, human=store.people()),
        )
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            group.start_soon(_answer, store)
            yield store
            group.cancel_scope.cancel()


async def rated(store: JournalStore, *reviews: str) -> None:
    """Have the worker rate reviews, one after the other."""
    for review in reviews:
        run_id = await store.enqueue(rate, review, most=7, key=f"about {review}")
        with suppress(ValueError):
            await store.result(run_id)


async def test_a_case_is_what_was_asked_and_what_came_of_it(tmp_path: Path) -> None:
    async with production(tmp_path) as store:
        await rated(store, "ab", "xy", "a?", "b!", "c!")
        found = await cases_from_journal(store, rate)
    assert found == [
        Case("about ab", inputs={"review": "ab", "most": 7}, expected=2),
        Case("about a?", inputs={"review": "a?", "most": 7}, expected=5),
        Case("about b!", inputs={"review": "b!", "most": 7}, expected=2),
        Case("about c!", inputs={"review": "c!", "most": 7}, expected=0),
    ]


async def test_cases_may_be_only_what_people_corrected(tmp_path: Path) -> None:
    async with production(tmp_path) as store:
        await rated(store, "ab", "a?", "0?")
        found = await cases_from_journal(store, rate, corrected_only=True)
    assert [case.name for case in found] == ["about a?"]


@nh.natural_function
async def queue(ticket: str) -> str:
    """natural
    Return the queue for <ticket>.
    """
    return ""


class Corrector:
    """Oversight that has a person correct every result."""

    async def inspect_tool_call(self, inspection: ToolCallInspection) -> Decision:
        return Accept()

    async def inspect_step_commit(self, commit: StepCommit) -> Decision:
        return Rewrite(return_value=await nh.ask_user("Which queue is right?", schema=str))


async def test_what_people_correct_in_oversight_is_in_the_cases(tmp_path: Path) -> None:
    async def answer() -> None:
        while True:
            for row in store.questions():
                await store.answer(row.id, "support")
                return
            await anyio.sleep(0.01)

    model = ScriptedModel(
        [model_response(tool_call("nh_outcome", kind="return", return_expression="'sales'"))]
    )
    with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        worker = Worker(
            store,
            [queue],
            run=lambda run_id: nh.run(
                model, journal=store, run_id=run_id, human=store.people(), oversight=Corrector()
            ),
        )
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            group.start_soon(answer)
            await store.result(await store.enqueue(queue, "It is broken.", key="ticket 1"))
            group.cancel_scope.cancel()
        found = await cases_from_journal(store, queue, corrected_only=True)
        asked = await cases_from_journal(store)
    assert found == [Case("ticket 1", inputs={"ticket": "It is broken."}, expected="support")]
    assert [(case.inputs, case.expected) for case in asked] == [
        ({"prompt": "Which queue is right?"}, "support")
    ]


async def test_questions_to_people_are_cases(tmp_path: Path) -> None:
    async with production(tmp_path) as store:
        await rated(store, "ab", "a?", "0?", "b!", "c!")
        found = await cases_from_journal(store)
    approval = {"action": "praise", "arguments": {"review": "c!"}}
    assert (
        Case(
            "about a?: run/question()[0]",
            inputs={"prompt": "How many stars has a?"},
            expected=5,
            tags=("question",),
        )
        in found
    )
    assert Case("about c!: run/approval()[0]", inputs=approval, expected=False, tags=("approval",)) in found
    assert sorted(case.expected for case in found) == [False, True, 5]


async def test_the_program_may_make_the_cases(tmp_path: Path) -> None:
    seen: list[RecordedRun] = []

    def make_case(run: RecordedRun) -> Case | None:
        seen.append(run)
        return Case(run.run_id, expected=run.answers[-1].answer) if run.answers else None

    async with production(tmp_path) as store:
        await rated(store, "xy", "a?")
        found = await cases_from_journal(store, rate, make_case=make_case)
    assert found == [Case("about a?", expected=5)]
    assert (seen[0].run_id, seen[0].error, seen[0].result) == ("about xy", "ValueError: xy", UNSET)


async def test_arguments_without_names_are_refused(tmp_path: Path) -> None:
    async with production(tmp_path) as store:
        await store.result(await store.enqueue(spread, "a", "b", key="two"))
        with pytest.raises(
            CaseError, match="Run 'two': a case has named inputs only, and 'reviews' is passed by"
        ):
            await cases_from_journal(store, spread)


async def test_a_function_that_was_never_enqueued_has_no_cases(tmp_path: Path) -> None:
    async with production(tmp_path) as store:
        assert await cases_from_journal(store, rate) == []
        with pytest.raises(nh.NighthawkError, match="cannot be called by a worker"):
            await cases_from_journal(store, lambda: None)
