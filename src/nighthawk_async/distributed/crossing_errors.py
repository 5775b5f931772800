"""Errors of calls as bytes, and back: of their own type, with their causes and their traceback."""

import pickle
import traceback

import msgspec
from msgspec import Struct

from ..causes import with_causes
from ..journal.open_errors import mark_error, marks_of
from ..journal.recorded_errors import CallFailure, rebuilt_error, recorded_error
from ..pickling import PicklableError
from ..types.json import is_json_list
from .crossing import MAIN_NAMES
from .errors import RemoteCallError

_MOST_CAUSES = 8
_MOST_TEXT = 2_000  # characters
_FOREIGN_CANCELLATION = "asyncio.exceptions.CancelledError"
"""An error for a worker on Trio, but a cancellation for a program on asyncio."""


class RemoteTraceback(Exception):  # noqa: N818  (no error: it shows where one was raised)
    """The cause of an error that was raised on a worker; its text is the traceback there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _CrossedError(Struct, frozen=True, kw_only=True):
    """An error that has crossed.

    Args:
        failure: The error, as the journal records it; None for one that is pickled, or told in words.
        pickled: The error as a pickle; empty for none.
        type_name: The full name of its type.
        text: Its text.
        notes: Its notes.
        cause: Its cause; None for none.
    """

    failure: CallFailure | None = None
    pickled: bytes = b""
    type_name: str = ""
    text: str = ""
    notes: list[str] = []
    cause: "_CrossedError | None" = None


class _CrossedChain(Struct, frozen=True, kw_only=True):
    """An error with its causes.

    Args:
        error: The error.
        worker: The name of the worker.
        traceback: The traceback there.
        recorded_at: The places of the records of the error and its causes, in a run with a journal.
    """

    error: _CrossedError
    worker: str
    traceback: str
    recorded_at: list[str] = []


def encode_error(error: BaseException, worker: str) -> bytes:
    """Encode an error with its causes and its traceback.

    Args:
        error: The error. One that cannot cross is told in words.
        worker: The name of the worker.
    """
    try:
        return msgspec.msgpack.encode(_chain_of(error, worker))
    except Exception:  # code of the user's classes may raise anything
        words = _CrossedError(type_name=_type_name(error), text=_text_of(error))
        return msgspec.msgpack.encode(_CrossedChain(error=words, worker=worker, traceback=""))


def _chain_of(error: BaseException, worker: str) -> _CrossedChain:
    told = traceback.TracebackException.from_exception(error)
    _forget_columns(told)
    return _CrossedChain(
        error=_crossed(error, _MOST_CAUSES),
        worker=worker,
        traceback="".join(told.format()).encode(errors="replace").decode(),
        recorded_at=[place for each in with_causes(error) for place in marks_of(each)],
    )


def _forget_columns(told: traceback.TracebackException) -> None:
    """Show lines without marking what has failed in them: finding that takes most of the time of an error."""
    left: list[traceback.TracebackException | None] = [told]
    while left:
        if (each := left.pop()) is not None:
            for frame in each.stack:
                frame.colno = frame.end_colno = None
            left += [each.__cause__, each.__context__, *(each.exceptions or ())]


def decode_error(body: bytes) -> BaseException:
    """Decode an error; see `encode_error`. Its last cause is the traceback on the worker."""
    chain = msgspec.msgpack.decode(body, type=_CrossedChain)
    error = last = _rebuilt(chain.error)
    while last.__cause__ is not None:
        last = last.__cause__
    last.__cause__ = RemoteTraceback(f"On worker {chain.worker}:\n{chain.traceback}")
    for place in chain.recorded_at:
        mark_error(error, place)
    return error


def _crossed(error: BaseException, most: int) -> _CrossedError:
    cause = error.__cause__
    rest = None if cause is None or most <= 0 else _crossed(cause, most - 1)
    failure, pickled = _recorded(error), b""
    if failure is None:
        pickled = _pickled(error)
    return _CrossedError(
        failure=failure,
        pickled=pickled,
        type_name=_type_name(error),
        text=_text_of(error),
        notes=_notes_of(error),
        cause=rest,
    )


def _recorded(error: BaseException) -> CallFailure | None:
    if not isinstance(error, Exception) or isinstance(error, PicklableError):
        return None
    try:
        failure, raised = recorded_error(error, "the error of a call")
    except Exception:  # it cannot be recorded, or code of the user's classes has raised something
        return None
    return failure if raised is error else None


def _pickled(error: BaseException) -> bytes:
    if _type_name(error) == _FOREIGN_CANCELLATION:
        return b""
    try:
        body = pickle.dumps(error)
        rebuilt = pickle.loads(body)
        return body if type(rebuilt) is type(error) and str(rebuilt) == str(error) else b""
    except Exception:  # code of the user's classes may raise anything
        return b""


def _type_name(error: BaseException) -> str:
    module = type(error).__module__
    return f"{'__main__' if module in MAIN_NAMES else module}.{type(error).__qualname__}"


def _notes_of(error: BaseException) -> list[str]:
    notes: object = getattr(error, "__notes__", None)
    if not is_json_list(notes):
        return []
    return [str(note)[:_MOST_TEXT].encode(errors="replace").decode() for note in notes]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_TEXT].encode(errors="replace").decode()
    except Exception:  # code of the user's classes may raise anything
        return "an error that cannot be shown"


def _rebuilt(crossed: _CrossedError) -> BaseException:
    error: BaseException
    try:
        if crossed.failure is not None:
            error = rebuilt_error(crossed.failure, "the error of a call")
        elif crossed.pickled:
            error = pickle.loads(crossed.pickled)
        else:
            error = RemoteCallError(crossed.type_name, crossed.text)
    except Exception:  # a class that the program has not loaded, or the user's own code
        error = RemoteCallError(crossed.type_name, crossed.text)
    known: list[object] = getattr(error, "__notes__", [])
    for note in crossed.notes:
        if note not in known:
            error.add_note(note)
    if crossed.cause is not None:
        error.__cause__ = _rebuilt(crossed.cause)
    return error
