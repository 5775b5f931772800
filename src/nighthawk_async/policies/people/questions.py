"""`ask_user`: a question to a person, and its answer as a typed value."""

import textwrap
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import CoroutineType
from typing import Any, TypeVar, overload

import anyio
from pydantic import PydanticUndefinedAnnotation, PydanticUserError

from ...actors import BareTaskGroup
from ...actors.errors import check_seconds
from ...errors import AnswerTimeoutError, NighthawkError, NoHumanError, ToolValidationError
from ...journal_ports import GivenAnswers
from ...kernel.commands import await_value
from ...types.unset import UNSET
from ...values.validation import type_adapter, type_name
from .errors import InvalidAnswerError
from .events import (
    HumanObserver,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
    QuestionStatus,
    report_human_end,
    report_human_event,
)
from .nodes import question_node
from .policy import find_execution, find_human_handler, find_human_observer
from .records import QuestionRecord
from .request import HumanHandler, Question

Answer = TypeVar("Answer")
Default = TypeVar("Default")

_MAX_ATTEMPTS = 3
_QUOTED_CHARACTERS = 80


@overload
def ask_user(prompt: str, *, timeout: float | None = None) -> "CoroutineType[Any, Any, str]": ...
@overload
def ask_user(
    prompt: str, *, timeout: float | None = None, default: Default
) -> "CoroutineType[Any, Any, str | Default]": ...
@overload
def ask_user(
    prompt: str, *, schema: type[Answer], timeout: float | None = None
) -> "CoroutineType[Any, Any, Answer]": ...
@overload
def ask_user(
    prompt: str, *, schema: type[Answer], timeout: float | None = None, default: Default
) -> "CoroutineType[Any, Any, Answer | Default]": ...
@overload
def ask_user(
    prompt: str, *, schema: object, timeout: float | None = None, default: object = UNSET
) -> "CoroutineType[Any, Any, Any]": ...


async def ask_user(
    prompt: str,
    *,
    schema: object = str,
    timeout: float | None = None,  # noqa: ASYNC109  (a default may replace the answer)
    default: object = UNSET,
) -> object:
    """Ask a person, through the handler of the run or scope, and wait for the answer.

    Works in natural functions, binding functions, tools and executors that are `async def`. In a worker
    thread, use `anyio.from_thread.run`. When the wait is cancelled, the question is withdrawn.

    Args:
        prompt: The question.
        schema: The type of the answer, which is validated and coerced as pydantic does. A handler whose
            answer does not match is asked again, three times in all.
        timeout: The longest wait, in seconds; None for as long as it takes.
        default: The answer when none comes in time, or when there is nobody to ask. It is not validated.

    Returns:
        The answer.

    Raises:
        NoHumanError: There is nobody to ask, and there is no default.
        AnswerTimeoutError: No answer came in time, and there is no default.
        InvalidAnswerError: Three answers were not of the type.
        NighthawkError: An argument is invalid.
    """
    _check_arguments(prompt, schema, timeout)
    record = await QuestionRecord.begin(prompt, schema)
    question = Question(
        id=uuid.uuid4().hex if record is None else record.id,
        prompt=prompt,
        schema=schema,
        default=default,
        execution_ref=find_execution(),
    )
    with question_node(question) as node:
        answer, status = await _ask(question, timeout, find_human_observer(), record)
        if node is not None:
            node.set_attributes({"nighthawk.question.status": status})
            node.end("completed", outputs={"answer": answer})
    return answer


async def _ask(
    question: Question, seconds: float | None, observer: HumanObserver | None, record: QuestionRecord | None
) -> tuple[object, QuestionStatus]:
    try:
        report_human_event(QuestionAsked(question=question), observer)
        answer, status = await _answer_or_default(question, seconds, observer, record)
    except BaseException as error:
        report_human_end(QuestionClosed(question=question, status=_status_of(error)), observer, error)
        raise
    report_human_end(QuestionClosed(question=question, status=status), observer, None)
    return answer, status


async def _answer_or_default(
    question: Question, seconds: float | None, observer: HumanObserver | None, record: QuestionRecord | None
) -> tuple[object, QuestionStatus]:
    try:
        if record is None:
            return await _answer(question, seconds, observer), "answered"
        return await _answer_of_all_lives(question, seconds, observer, record), "answered"
    except (NoHumanError, AnswerTimeoutError):
        if question.has_default:
            return question.default, "default"
        raise


async def _answer_of_all_lives(
    question: Question, seconds: float | None, observer: HumanObserver | None, record: QuestionRecord
) -> object:
    """Return the recorded answer; ask where there is none, and record it before it counts."""
    kept = record.find_answer(question)
    if kept is not None:
        report_human_event(QuestionAnswered(question=question, answer=kept[0]), observer)
        return kept[0]
    end = record.find_end()
    if end == "timed_out" and seconds is not None:
        raise _timed_out(question, seconds)
    if end is not None:
        raise _nobody(question, "an earlier life of the run went on without an answer.")
    left = None if seconds is None else record.remaining_of(seconds)
    try:
        return await _stored_answer(question, seconds, left, observer, record)
    except AnswerTimeoutError:
        await record.keep_end("timed_out")
        raise
    except Exception as error:
        if isinstance(error, NoHumanError) and question.has_default:
            await record.keep_end("default")
        else:
            record.keep_failure(error)
        raise


async def _stored_answer(
    question: Question,
    seconds: float | None,
    left: float | None,
    observer: HumanObserver | None,
    record: QuestionRecord,
) -> object:
    """Wait for a valid answer of the handler or through the store, and record it before it counts.

    Args:
        question: The question.
        seconds: The longest wait, over all lives of a run; None for as long as it takes.
        left: The rest of it. If it was over before, no handler is asked.
        observer: The observer; None for none.
        record: The record of the question.
    """
    handler = find_human_handler()
    race = _AnswerRace(question, observer, record)
    if seconds is None or left == seconds or (left is not None and left > 0):
        if handler is None:
            raise _without_handler(question)
        await record.wait_for_answer(question, seconds, lambda answers: race.run(handler, left, answers))
        if race.is_decided:
            return await race.result()
    if handler is not None:  # an answer that came in time counts, although nobody has noticed it in time
        await record.wait_for_answer(question, seconds, race.look)
        if race.is_decided:
            return await race.result()
    assert seconds is not None
    raise _timed_out(question, seconds)


class _AnswerRace:
    """The wait for an answer of the handler or through the store, whichever comes first.

    Args:
        question: The question.
        observer: The observer; None for none.
        record: The record of the question, which keeps the answer.
    """

    def __init__(self, question: Question, observer: HumanObserver | None, record: QuestionRecord) -> None:
        self._question = question
        self._observer = observer
        self._record = record
        self._kept: list[tuple[object, Callable[[], Awaitable[None]]]] = []
        self._refused = anyio.Event()

    @property
    def is_decided(self) -> bool:
        """Whether there is a valid answer, which is recorded."""
        return bool(self._kept)

    async def result(self) -> object:
        """Return the answer, when it is durable."""
        answer, wait_written = self._kept[0]
        await wait_written()
        return answer

    async def run(self, handler: HumanHandler, seconds: float | None, answers: GivenAnswers) -> None:
        """Wait for the first valid answer, for some seconds; None for as long as it takes."""
        with anyio.move_on_after(seconds):
            async with BareTaskGroup() as group:
                group.start_soon(self._take_stored, answers, group.cancel_scope)
                await await_value(self._ask(handler, answers))
                group.cancel_scope.cancel()

    async def look(self, answers: GivenAnswers) -> None:
        """Take the answer that was given through the store, if there is one."""
        found = await answers.find_answer()
        if found is not None:
            self._accept(found[0])

    async def _ask(self, handler: HumanHandler, answers: GivenAnswers) -> None:
        """Get the answer of the handler, and record it in the same task: no cancellation comes between."""
        answer = await _fitting_answer(handler.ask, self._question, self._observer)
        refused = self._refused
        while not await self._claim(answers, answer):  # one was given through the store before
            await refused.wait()
            refused = self._refused

    async def _claim(self, answers: GivenAnswers, answer: object) -> bool:
        """Record the answer of the handler, unless another one was given before it."""
        with anyio.CancelScope(shield=True):  # people do not answer twice
            if self._kept or not await answers.claim():
                return False
            self._keep(answer)
        return True

    async def _take_stored(self, answers: GivenAnswers, scope: anyio.CancelScope) -> None:
        while not self._accept(await answers.next_answer()):
            await answers.refuse()
            self._refused.set()
            self._refused = anyio.Event()
        scope.cancel()

    def _accept(self, answer: object) -> bool:
        """Record an answer that was given through the store; return False if it does not fit."""
        try:
            value = self._question.validate(answer)
        except ToolValidationError as error:
            event = QuestionAnswered(question=self._question, answer=answer, error=str(error))
            report_human_event(event, self._observer)
            return False
        report_human_event(QuestionAnswered(question=self._question, answer=value), self._observer)
        self._keep(value)
        return True

    def _keep(self, answer: object) -> None:
        self._kept.append((answer, self._record.keep_answer(self._question, answer)))


async def _answer(question: Question, seconds: float | None, observer: HumanObserver | None) -> object:
    """Ask, and wait for a valid answer, in a run without a journal."""
    handler = find_human_handler()
    if handler is None:
        raise _without_handler(question)
    with anyio.move_on_after(seconds):
        return await _fitting_answer(lambda asked: await_value(handler.ask(asked)), question, observer)
    assert seconds is not None
    raise _timed_out(question, seconds)


def _without_handler(question: Question) -> NoHumanError:
    return _nobody(
        question,
        "install a handler with nighthawk_async.run(…, human=…) or nighthawk_async.scope(human=…), "
        "or give a default.",
    )


def _nobody(question: Question, remedy: str) -> NoHumanError:
    nobody = "Nobody is there to be asked"
    return NoHumanError(f"{nobody} {_quoted(question)}: {remedy}").without_content(f"{nobody}: {remedy}")


def _timed_out(question: Question, seconds: float) -> AnswerTimeoutError:
    error = AnswerTimeoutError(f"Nobody answered {_quoted(question)} in {seconds:g} seconds.")
    return error.without_content(f"Nobody answered in {seconds:g} seconds.")


async def _fitting_answer(
    ask: Callable[[Question], Awaitable[object]], question: Question, observer: HumanObserver | None
) -> object:
    """Ask until an answer is valid."""
    while True:
        answer = await ask(question)
        try:
            value = question.validate(answer)
        except ToolValidationError as error:
            problem = str(error)
        else:
            report_human_event(QuestionAnswered(question=question, answer=value), observer)
            return value
        report_human_event(QuestionAnswered(question=question, answer=answer, error=problem), observer)
        if question.attempt == _MAX_ATTEMPTS:
            error = InvalidAnswerError(
                f"No answer to {_quoted(question)} fitted in {_MAX_ATTEMPTS} attempts: {problem}"
            )
            raise error.without_content(f"No answer fitted in {_MAX_ATTEMPTS} attempts.")
        question = replace(question, attempt=question.attempt + 1, error=problem)


def _status_of(error: BaseException) -> QuestionStatus:
    match error:
        case NoHumanError():
            return "no_human"
        case AnswerTimeoutError():
            return "timed_out"
        case Exception():
            return "failed"
        case _:
            return "cancelled"


def _check_arguments(prompt: object, schema: object, timeout: object) -> None:
    if not isinstance(prompt, str) or not prompt:
        raise NighthawkError(f"A question is a text that is not empty, not {prompt!r}.")
    try:
        check_seconds("timeout", timeout, or_none=True)
        type_adapter(schema)
    except ValueError as error:
        raise NighthawkError(str(error)) from None
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise NighthawkError(
            f"Answers cannot be validated against {type_name(schema)}: {error.message}"
        ) from error


def _quoted(question: Question) -> str:
    return repr(textwrap.shorten(question.prompt, _QUOTED_CHARACTERS))
