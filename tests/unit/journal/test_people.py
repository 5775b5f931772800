"""Questions and approvals in runs with a journal: people are asked once in all lives."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import AnswerTimeoutError, ApprovalDeniedError, ApprovalExpiredError, NoHumanError
from nighthawk_async.journal import JournalDivergenceError
from nighthawk_async.testing import model_response, tool_call
from tests.unit.policies.human_handlers import Handler, answering, approving, deciding

from .durable_runs import AnsweringModel, opened, places, remind, sent

pytestmark = pytest.mark.anyio


class CrashError(Exception):
    """The end of a life."""


@dataclass(frozen=True)
class Address:
    """What a person answers."""

    street: str
    number: int


def no_model() -> AnsweringModel:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        raise AssertionError("no model is needed")

    return AnsweringModel(answer)


async def live(
    store: nh.journal.JournalStore,
    program: Callable[[], Awaitable[Any]],
    human: Any = None,
    model: AnsweringModel | None = None,
    **options: Any,
) -> Any:
    """One life of the run."""
    executor = nh.AgentStepExecutor.from_model(model or no_model())
    async with nh.run(executor, journal=store, run_id="run-1", human=human, **options):
        return await program()


def crashing(program: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """The program, whose life ends right after it."""

    async def crash() -> None:
        await program()
        raise CrashError

    return crash


async def killed_while_asking(
    store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]], handler: Handler, **options: Any
) -> None:
    """A life that ends while people are being asked."""
    async with anyio.create_task_group() as group:

        async def one_life() -> None:
            await live(store, program, handler, **options)

        group.start_soon(one_life)
        with anyio.fail_after(240):
            while not (handler.questions or handler.requests):
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def _never(question: nh.human.Question) -> object:
    return await anyio.sleep_forever()


def waiting() -> Handler:
    """A handler of people who think."""
    return Handler(answer=_never)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the clock of the wall be ahead."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds)


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        (str, "blue", "blue"),
        (int, "3", 3),
        (Address, {"street": "Hill", "number": 3}, Address("Hill", 3)),
    ],
)
async def test_an_answer_is_asked_for_once(
    tmp_path: Path, schema: Any, answer: object, expected: object
) -> None:
    async def program() -> object:
        return await nh.ask_user("Which?", schema=schema)

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, crashing(program), answering(answer))
        assert await live(store, program, waiting()) == expected


async def test_a_question_keeps_its_id_until_it_is_answered(tmp_path: Path) -> None:
    async def program() -> list[str]:
        return [await nh.ask_user("Which?"), await nh.ask_user("Which?")]

    first, second, third = waiting(), waiting(), answering("a", "b")
    with opened(tmp_path) as store:
        await killed_while_asking(store, program, first)
        await killed_while_asking(store, program, second)
        assert await live(store, program, third) == ["a", "b"]
        assert await live(store, program, waiting()) == ["a", "b"]
        assert places(store, "question") == ["run/question()[0]", "run/question()[1]"]
    assert first.questions[0].id == second.questions[0].id == third.questions[0].id
    assert third.questions[0].id != third.questions[1].id


async def test_a_question_is_durable_before_it_is_asked(tmp_path: Path) -> None:
    seen: list[str] = []

    async def program() -> str:
        return await nh.ask_user("Which?")

    with opened(tmp_path) as store:

        async def answer(question: nh.human.Question) -> str:
            seen.extend(places(store, "question"))
            return "blue"

        await live(store, program, Handler(answer=answer))
    assert seen == ["run/question()[0]"]


async def test_another_question_does_not_get_the_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, lambda: nh.ask_user("Delete a?", schema=bool), answering(True))
        with pytest.raises(JournalDivergenceError, match="prompt"):
            await live(store, lambda: nh.ask_user("Delete b?", schema=bool), answering(True))
        with pytest.raises(JournalDivergenceError, match="type"):
            await live(store, lambda: nh.ask_user("Delete a?"), answering("x"))


@pytest.mark.virtual_time
async def test_time_for_an_answer_passes_between_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> str:
        return await nh.ask_user("Which?", timeout=60)

    with opened(tmp_path) as store:
        await killed_while_waiting(store, program)
        later(monkeypatch, 40)
        begun = anyio.current_time()
        with pytest.raises(AnswerTimeoutError):
            await live(store, program, waiting())
        assert 10 < anyio.current_time() - begun <= 20
        with pytest.raises(AnswerTimeoutError):
            await live(store, program, answering("too late"))


async def killed_while_waiting(store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]]) -> None:
    """A life that ends at once, while people are being asked."""

    async def answer(question: nh.human.Question) -> object:
        raise CrashError

    async def approve(request: nh.human.ApprovalRequest) -> None:
        raise CrashError

    with pytest.raises(CrashError):
        await live(store, program, Handler(answer=answer, decide=approve))


async def test_a_question_whose_time_passed_while_no_process_worked_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> object:
        return await nh.ask_user("Which?", timeout=60, default="none")

    handler = answering("too late")
    with opened(tmp_path) as store:
        await killed_while_waiting(store, program)
        later(monkeypatch, 61)
        assert await live(store, program, handler) == "none"
    assert not handler.questions


async def test_a_default_that_was_used_is_used_again(tmp_path: Path) -> None:
    async def program() -> object:
        return await nh.ask_user("Which?", default="none")

    with opened(tmp_path) as store:
        assert await live(store, program) == "none"
        assert await live(store, program, answering("blue")) == "none"


async def test_an_error_counts_again_only_if_the_program_went_on(tmp_path: Path) -> None:
    async def handling() -> str:
        try:
            return await nh.ask_user("Which?")
        except NoHumanError:
            return await nh.ask_user("Which, then?", default="none")

    with opened(tmp_path) as store:
        with pytest.raises(NoHumanError):
            await live(store, lambda: nh.ask_user("Which?"))
        assert await live(store, lambda: nh.ask_user("Which?"), answering("blue")) == "blue"
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other") as store:
        assert await live(store, handling) == "none"
        assert await live(store, handling, answering("blue")) == "none"


async def test_an_approval_is_given_once(tmp_path: Path) -> None:
    async def program() -> tuple[Any, ...]:
        approval = await nh.request_approval("send", arguments={"to": "bob"}, timeout=60)
        approval.check("send", {"to": "bob"})
        return approval.id, approval.approvers, approval.approvals[0].given_at

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, crashing(program), approving(["ada"]))
        handler = waiting()
        first = await live(store, program, handler)
        assert await live(store, program, handler) == first
    assert first[1] == ("ada",)
    assert not handler.requests


async def test_a_denial_is_given_once(tmp_path: Path) -> None:
    handler = deciding(lambda request: request.deny("ada", "not on Sundays"))

    async def program() -> None:
        await nh.request_approval("send")

    with opened(tmp_path) as store:
        for human in (handler, approving(["bob"]), approving(["bob"])):
            with pytest.raises(ApprovalDeniedError, match="not on Sundays") as caught:
                await live(store, program, human)
            assert caught.value.approver == "ada"
    assert len(handler.requests) == 1


async def test_votes_of_earlier_lives_count(tmp_path: Path) -> None:
    def vote(*people: str) -> Handler:
        async def approve(request: nh.human.ApprovalRequest) -> None:
            for person in people:
                request.approve(person, digest=request.digest)
            if request.is_pending:
                raise CrashError

        return Handler(decide=approve)

    async def program() -> tuple[str, ...]:
        return (await nh.request_approval("send", quorum=3)).approvers

    first, second, third = vote("ada"), vote("bob", "ada"), vote("cy")
    with opened(tmp_path) as store:
        for human in (first, second):
            with pytest.raises(CrashError):
                await live(store, program, human)
        assert await live(store, program, third) == ("ada", "bob", "cy")
        assert await live(store, program, waiting()) == ("ada", "bob", "cy")
    assert [len(each.requests[0].answers) for each in (first, second, third)] == [1, 2, 3]
    assert first.requests[0].id == third.requests[0].id
    assert first.requests[0].created_at == third.requests[0].created_at


async def test_an_approval_that_was_taken_back_stays_so(tmp_path: Path) -> None:
    async def hesitate(request: nh.human.ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)
        request.deny("ada", "let me read it again")
        raise CrashError

    async def program() -> tuple[str, ...]:
        return (await nh.request_approval("send", quorum=2)).approvers

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, program, Handler(decide=hesitate))
        assert await live(store, program, approving(["bob", "ada"])) == ("bob", "ada")


@pytest.mark.parametrize("is_decided", [True, False])
async def test_other_arguments_are_never_approved(tmp_path: Path, is_decided: bool) -> None:
    async def program(to: str) -> None:
        await nh.request_approval("send", arguments={"to": to})

    with opened(tmp_path) as store:
        if is_decided:
            await live(store, lambda: program("bob"), approving(["ada"]))
        else:
            await killed_while_waiting(store, lambda: program("bob"))
        with pytest.raises(JournalDivergenceError, match="arguments, digest"):
            await live(store, lambda: program("eve"), approving(["ada"]))
        await live(store, lambda: program("bob"), approving(["ada"]))


async def test_a_request_that_expired_while_no_process_worked_is_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        await nh.request_approval("send", timeout=60)

    handler = approving(["ada"])
    with opened(tmp_path) as store:
        await killed_while_waiting(store, program)
        later(monkeypatch, 61)
        for _ in range(2):
            with pytest.raises(ApprovalExpiredError):
                await live(store, program, handler)
    assert not handler.requests


async def test_an_approval_that_expires_between_lives_is_valid_where_it_was_checked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = [True]

    async def program() -> None:
        approval = await nh.request_approval("send", timeout=60)
        approval.check("send")
        if crashes:
            raise CrashError
        approval.check("send")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, program, approving(["ada"]))
        later(monkeypatch, 61)
        with pytest.raises(CrashError):
            await live(store, program, waiting())
        crashes.clear()
        with pytest.raises(ApprovalExpiredError):
            await live(store, program, waiting())


def reminding() -> AnsweringModel:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        expression = "send(to=customer)" if turn == 0 else "'gave up'"
        assign = tool_call("nh_assign", target_path="result", expression=expression)
        return model_response(assign, tool_call("nh_outcome", kind="pass"))

    return AnsweringModel(answer)


async def test_a_call_that_permissions_ask_about_is_approved_once(tmp_path: Path) -> None:
    sent.clear()
    model, careful = reminding(), nh.permissions(ask="send", default="deny")

    async def program() -> str:
        return await remind("bob")

    handler = approving(["ada"])
    with opened(tmp_path) as store:
        await killed_while_asking(store, program, waiting(), permissions=careful, model=model)
        assert not sent
        for human in (handler, waiting()):
            assert await live(store, program, human, model, permissions=careful) == "sent to bob"
        assert places(store, "question") == [
            "run/remind()[0]/remind#1[0]/call[0]/approval()[0]",
        ]
    assert len(handler.requests) == len(model.prompts) == 1


@pytest.mark.parametrize("handler", [deciding(lambda request: request.deny("ada")), None])
async def test_a_call_that_was_refused_is_refused_again(tmp_path: Path, handler: Handler | None) -> None:
    sent.clear()
    model, careful = reminding(), nh.permissions(ask="send", default="deny")
    asked: list[int] = []

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        asked.append(turn)
        if asked == [0, 1, 1]:
            raise CrashError
        return reminding()._answer(prompt, turn)

    model = AnsweringModel(answer)

    async def program() -> list[str]:
        return [await remind("bob"), await remind("cy")]

    with opened(tmp_path) as store:
        for human in (handler, approving(["bob"])):
            result = await live(store, lambda: remind("bob"), human, model, permissions=careful)
            assert result == "gave up"
    assert not sent
    assert asked == [0, 1]


async def test_tasks_that_were_started_by_hand_ask_by_their_questions(tmp_path: Path) -> None:
    async def answer(question: nh.human.Question) -> str:
        return question.prompt.upper()

    async def program(prompts: str) -> dict[str, str]:
        results: dict[str, str] = {}

        async def one(prompt: str) -> None:
            results[prompt] = await nh.ask_user(prompt)

        async with anyio.create_task_group() as group:
            for prompt in prompts:
                group.start_soon(one, prompt)
        return results

    with opened(tmp_path) as store:
        expected = {"a": "A", "b": "B"}
        assert await live(store, lambda: program("ab"), Handler(answer=answer)) == expected
        assert await live(store, lambda: program("ba"), waiting()) == expected


async def test_calls_of_a_map_ask_in_places_of_their_own(tmp_path: Path) -> None:
    async def answer(question: nh.human.Question) -> str:
        if question.prompt == "b":
            raise CrashError
        return question.prompt.upper()

    async def program() -> list[str]:
        return await nh.parallel.map(nh.ask_user, ["a", "b"], max_concurrent=1)

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, program, Handler(answer=answer))
        assert await live(store, program, answering("C")) == ["A", "C"]
