"""`ask_user`: a question to a person, and its answer as a typed value."""

import textwrap
import uuid
from dataclasses import replace
from types import CoroutineType
from typing import Any, TypeVar, overload

import anyio
from pydantic import PydanticUndefinedAnnotation, PydanticUserError

from ...actors.errors import check_seconds
from ...errors import AnswerTimeoutError, NighthawkError, NoHumanError, ToolValidationError
from ...runtime.awaitable import await_value
from ...runtime.validation import type_adapter, type_name
from ...types.unset import UNSET
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
            return await _answer(question, seconds, seconds, observer), "answered"
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
        answer = await _answer(question, seconds, left, observer)
    except AnswerTimeoutError:
        await record.keep_end("timed_out")
        raise
    except Exception as error:
        if isinstance(error, NoHumanError) and question.has_default:
            await record.keep_end("default")
        else:
            record.keep_failure(error)
        raise
    await record.keep_answer(question, answer)
    return answer


async def _answer(
    question: Question, seconds: float | None, left: float | None, observer: HumanObserver | None
) -> object:
    """Ask, and wait for a valid answer.

    Args:
        question: The question.
        seconds: The longest wait, over all lives of a run; None for as long as it takes.
        left: The rest of it. If it was over before, nobody is asked.
        observer: The observer; None for none.
    """
    if seconds is None or left == seconds or (left is not None and left > 0):
        handler = find_human_handler()
        if handler is None:
            raise _nobody(
                question,
                "install a handler with nighthawk_async.run(…, human=…) or nighthawk_async.scope(human=…), "
                "or give a default.",
            )
        with anyio.move_on_after(left):
            return await _fitting_answer(handler, question, observer)
    assert seconds is not None
    raise _timed_out(question, seconds)


def _nobody(question: Question, remedy: str) -> NoHumanError:
    nobody = "Nobody is there to be asked"
    return NoHumanError(f"{nobody} {_quoted(question)}: {remedy}").without_content(f"{nobody}: {remedy}")


def _timed_out(question: Question, seconds: float) -> AnswerTimeoutError:
    error = AnswerTimeoutError(f"Nobody answered {_quoted(question)} in {seconds:g} seconds.")
    return error.without_content(f"Nobody answered in {seconds:g} seconds.")


async def _fitting_answer(
    handler: HumanHandler, question: Question, observer: HumanObserver | None
) -> object:
    """Ask until an answer is valid."""
    while True:
        answer = await await_value(handler.ask(question))
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
