"""Cases from a journal: what production was asked, and what people answered and corrected."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from anyio import to_thread

from ..errors import ApprovalDeniedError
from ..journal.effect_call import EndedCall
from ..journal.located import StoreLocation
from ..journal.questions import QuestionRecord
from ..journal.queue_table import find_call, read_call
from ..journal.queued_call import decode_arguments, decode_end, function_name
from ..journal.records import Record
from ..journal.store import JournalStore, open as open_store
from ..journal.values import decode_value
from ..signatures import read_signature
from ..types.unset import UNSET, Unset
from ..values.error_text import describe_error
from .cases import Case
from .errors import CaseError

_ANSWER = "/answer[0]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """The answer of a person in a run.

    Args:
        kind: `question` for `ask_user`, `approval` for `request_approval`.
        place: The place of the question in the run.
        content: The content: `prompt` and `type` of a question, `action` and `arguments` of an approval.
        answer: The answer; for an approval, whether it was given.
    """

    kind: Literal["question", "approval"]
    place: str
    content: Mapping[str, Any]
    answer: Any


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run of a journal, as far as cases can be made of it.

    Args:
        run_id: The run.
        inputs: The arguments of its function, by name; empty for a run that was not enqueued.
        result: The result of its function; UNSET if it has none.
        error: The error that it failed with; empty for none.
        answers: The answers that people gave in it, in order.
    """

    run_id: str
    _: KW_ONLY
    inputs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType[str, Any]({}))
    result: Any = UNSET
    error: str = ""
    answers: tuple[RecordedAnswer, ...] = ()


async def cases_from_journal(
    store: JournalStore | StoreLocation,
    function: Callable[..., Any] | None = None,
    *,
    corrected_only: bool = False,
    make_case: Callable[[RecordedRun], Case | None] | None = None,
) -> list[Case]:
    """Make cases of the runs that a journal has recorded.

        cases = await cases_from_journal(store, triage, corrected_only=True)

    With a function, a case is one of its calls that were enqueued and have returned: its arguments, and the
    result, which includes what people corrected before it was returned. Without one, a case is a question to
    people, with its answer: the inputs are `prompt`, or `action` and `arguments` of an approval, and the
    expectation is the answer, or whether it was approved.

    Args:
        store: The store, its path or its address.
        function: The function that was enqueued; None for the questions of all runs.
        corrected_only: Whether only runs count in which people answered something.
        make_case: Makes the case of a run instead, or returns None to leave it out. It may choose the answer
            of a person as the expectation, for example.

    Raises:
        CaseError: A call cannot be made a case.
        JournalValueError: A value cannot be read, because its type is not imported or registered.
        JournalStoreError: The store cannot be read.
        NighthawkError: The function is none that can be enqueued.
    """
    if isinstance(store, str | os.PathLike):
        with open_store(store) as opened:
            return await cases_from_journal(
                opened, function, corrected_only=corrected_only, make_case=make_case
            )
    name = None if function is None else function_name(function)
    runs = await to_thread.run_sync(lambda: list(_recorded_runs(store, function, name)))
    chosen = [run for run in runs if run.answers or not corrected_only]
    if make_case is not None:
        made = [make_case(run) for run in chosen]
        return [case for case in made if case is not None]
    if function is None:
        return [_case_of_answer(run, answer) for run in chosen for answer in run.answers]
    return [
        Case(run.run_id, inputs=run.inputs, expected=run.result)
        for run in chosen
        if not isinstance(run.result, Unset)
    ]


def _case_of_answer(run: RecordedRun, answer: RecordedAnswer) -> Case:
    parts = ("prompt",) if answer.kind == "question" else ("action", "arguments")
    return Case(
        f"{run.run_id}: {answer.place}",
        inputs={part: answer.content[part] for part in parts},
        expected=answer.answer,
        tags=(answer.kind,),
    )


def _recorded_runs(
    store: JournalStore, function: Callable[..., Any] | None, name: str | None
) -> Iterator[RecordedRun]:
    """Read the runs of a function, or all runs. Blocks while it reads."""
    if function is None or name is None:
        for row in store.runs():
            yield RecordedRun(row.run_id, answers=_answers_of(store.records(row.run_id)))
        return
    for entry in store.queue_entries():
        if entry.function == name and entry.status in ("ended", "failed"):
            yield _recorded_call(store, function, name, entry.run_id)


def _recorded_call(store: JournalStore, function: Callable[..., Any], name: str, run_id: str) -> RecordedRun:
    def read() -> tuple[bytes, bytes | None]:
        database = store.thread.opened()
        call = find_call(database, run_id)
        return read_call(database, run_id)[1], None if call is None else call.result

    body, end = store.thread.perform(read).wait_in_thread()
    args, keywords = decode_arguments(function, name, body)
    result, error = UNSET, ""
    if end is not None:
        try:
            result = decode_end(name, run_id, end)
        except Exception as failure:  # the error of the run, which may be any
            error = describe_error(failure)
    return RecordedRun(
        run_id,
        inputs=_by_name(function, run_id, args, keywords),
        result=result,
        error=error,
        answers=_answers_of(store.records(run_id)),
    )


def _by_name(
    function: Callable[..., Any], run_id: str, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by the names of the parameters."""
    signature = read_signature(function)
    inputs: dict[str, Any] = {}
    try:
        bound = signature.bind(*args, **keywords).arguments
    except TypeError as error:
        raise CaseError(f"Run {run_id!r}: its arguments do not fit the function any more: {error}") from None
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise CaseError(
                f"Run {run_id!r}: a case has named inputs only, and {name!r} is passed by position."
            )
        if kind is inspect.Parameter.VAR_KEYWORD:
            inputs.update(value)
        else:
            inputs[name] = value
    return inputs


def _answers_of(records: list[Record]) -> tuple[RecordedAnswer, ...]:
    """Return the answers of people, in the order in which they were asked."""
    asked: dict[str, Mapping[str, Any]] = {}
    given: dict[str, Any] = {}
    for record in records:
        place, parent = record.place, record.place.rpartition("/")[0]
        if record.kind == "question":
            content = msgspec.msgpack.decode(record.body, type=QuestionRecord).content
            asked[place] = {name: decode_value(body, place=place) for name, body in content.items()}
        elif record.kind == "value" and place.endswith(_ANSWER):
            given[place.removesuffix(_ANSWER)] = decode_value(record.body, place=place)
        elif record.kind == "value" and _is_approval(asked.get(place)):
            decision = decode_value(record.body, place=place)
            if decision in ("approved", "denied"):
                given[place] = decision == "approved"
        elif record.kind == "result" and _is_approval(asked.get(parent)) and _is_denial(record):
            given[parent] = False
    return tuple(
        RecordedAnswer(
            kind="approval" if _is_approval(content) else "question",
            place=place,
            content=content,
            answer=given[place],
        )
        for place, content in asked.items()
        if place in given
    )


def _is_approval(content: Mapping[str, Any] | None) -> bool:
    return content is not None and "action" in content


def _is_denial(record: Record) -> bool:
    failure = msgspec.msgpack.decode(record.body, type=EndedCall).failure
    return failure is not None and failure.name == ApprovalDeniedError.__name__
