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
    question = Question(
        id=uuid.uuid4().hex, prompt=prompt, schema=schema, default=default, execution_ref=find_execution()
    )
    with question_node(question) as node:
        answer, status = await _ask(question, timeout, find_human_observer())
        if node is not None:
            node.set_attributes({"nighthawk.question.status": status})
            node.end("completed", outputs={"answer": answer})
    return answer


async def _ask(
    question: Question, seconds: float | None, observer: HumanObserver | None
) -> tuple[object, QuestionStatus]:
    try:
        report_human_event(QuestionAsked(question=question), observer)
        answer, status = await _answer_or_default(find_human_handler(), question, seconds, observer)
    except BaseException as error:
        report_human_end(QuestionClosed(question=question, status=_status_of(error)), observer, error)
        raise
    report_human_end(QuestionClosed(question=question, status=status), observer, None)
    return answer, status


async def _answer_or_default(
    handler: HumanHandler | None, question: Question, seconds: float | None, observer: HumanObserver | None
) -> tuple[object, QuestionStatus]:
    try:
        if handler is None:
            nobody = "Nobody is there to be asked"
            remedy = (
                "install a handler with nighthawk_async.run(…, human=…) or nighthawk_async.scope(human=…), "
                "or give a default."
            )
            error = NoHumanError(f"{nobody} {_quoted(question)}: {remedy}")
            raise error.without_content(f"{nobody}: {remedy}")
        with anyio.move_on_after(seconds):
            return await _fitting_answer(handler, question, observer), "answered"
        error = AnswerTimeoutError(f"Nobody answered {_quoted(question)} in {seconds:g} seconds.")
        raise error.without_content(f"Nobody answered in {seconds:g} seconds.")
    except (NoHumanError, AnswerTimeoutError):
        if question.has_default:
            return question.default, "default"
        raise


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
