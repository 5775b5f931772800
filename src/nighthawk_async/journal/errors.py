"""Errors of journals. They leave natural functions bare: no model sees them, and nothing is asked again.

InterceptionError
└── JournalError
    ├── JournalStoreError           the store cannot be opened, read or written
    ├── JournalKeyError             a key of the encryption is missing, or is another one
    ├── JournalAuditError           records were changed, removed or inserted
    ├── JournalDivergenceError      the program does something else than what was recorded
    ├── JournalIdentityError        nobody knows what an object is, in a store that is strict about it
    ├── JournalValueError           a value cannot be stored faithfully, or read back
    ├── ReplayEndError              a replay has come to the end of the records, or to the place to stop at
    ├── OutsideRunError             an effect is called outside of every run, beside a durable one
    ├── CallInDoubtError            a call had begun, and nobody knows whether it took effect
    ├── RunInProgressError          another process works on the run
    ├── RunPrunedError              the records of the run were deleted
    ├── RunStuckError               too many lives of a run of a queue crashed
    ├── RunTakenOverError           another process has taken the run over, or the calls of a worker
    └── RunParked                   no failure: everything in the run waits, and a later life goes on
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from ..kernel.commit import InterceptionError
from ..pickling import PicklableError, set_public_module


class JournalError(InterceptionError):
    """A run cannot be recorded, or cannot continue from its records."""


class JournalStoreError(JournalError):
    """The store cannot be opened, read or written."""


class JournalKeyError(JournalError):
    """A key of the encryption is missing, or is another one. Nothing is lost: the right one reads it.

    Args:
        message: The problem and a remedy.
        key_id: The id of the key.
    """

    def __init__(self, message: str, *, key_id: str) -> None:
        super().__init__(message)
        self.key_id = key_id


class JournalAuditError(JournalError):
    """Records of a run were changed, removed or inserted, or the run has the chain of another audit key.

    Args:
        message: The problem.
        run_id: The run.
        seq: The number of the first record that does not fit; None for the end of the run.
        place: Its place; None for the end of the run.
    """

    def __init__(
        self, message: str, *, run_id: str, seq: int | None = None, place: str | None = None
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.seq = seq
        self.place = place


class JournalDivergenceError(JournalError):
    """The program does something else than what was recorded.

    Args:
        message: The difference and a remedy.
        place: The first place that differs.
    """

    def __init__(self, message: str, *, place: str) -> None:
        super().__init__(message)
        self.place = place


_OWNERS = ("self", "cls")


def check_inputs(place: str, kind: str, recorded: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Compare the inputs of something with those that were recorded.

    Args:
        place: Its place.
        kind: The word for it.
        recorded: The digests of the recorded inputs, by name.
        present: Those of the present ones.

    Raises:
        JournalDivergenceError: They differ.
    """
    differing = [name for name, digest in present.items() if recorded.get(name) != digest]
    differing.sort(key=_OWNERS.__contains__)  # what the author has written first
    if differing:
        refuse_inputs(place, kind, [f"<{name}>" for name in differing])


def refuse_inputs(place: str, kind: str, differing: Sequence[str]) -> NoReturn:
    """Refuse something that has other inputs than those that were recorded.

    Args:
        place: Its place.
        kind: The word for it.
        differing: The inputs, in words.
    """
    raise JournalDivergenceError(
        f"{place}: the {kind} has other inputs than the recorded one: {', '.join(differing)}. Everything "
        "that a run reads from outside (files, clocks, random numbers) has to be the same in each of its "
        "lives: take it from nighthawk_async.journal, or from a function decorated with "
        "nighthawk_async.once or repeatable.",
        place=place,
    )


class JournalIdentityWarning(PicklableError, UserWarning):  # noqa: N818  (a warning)
    """Nobody knows what an object is that a recorded call depends on, so that a later life may confuse it."""


class JournalIdentityError(JournalError):
    """Nobody knows what an object is that a call depends on. Nothing was begun or asked.

    Raised where the journal was opened with `strict=True`; a `JournalIdentityWarning` otherwise.

    Args:
        message: The place, the argument, the class and a remedy.
        place: The place of the call.
    """

    def __init__(self, message: str, *, place: str) -> None:
        super().__init__(message)
        self.place = place


class JournalValueError(JournalError):
    """A value cannot be stored faithfully, or a stored one cannot be read back.

    Args:
        message: The value's type, its place and a remedy.
        place: The place of the value.
    """

    def __init__(self, message: str, *, place: str) -> None:
        super().__init__(message)
        self.place = place


class ReplayEndError(JournalError):
    """A replay cannot go on: the records end here, or the place to stop before is reached.

    Args:
        message: The place, and what the records say about it.
        place: The place.
    """

    def __init__(self, message: str, *, place: str) -> None:
        super().__init__(message)
        self.place = place


class OutsideRunError(JournalError):
    """An effect is called outside of every run, while a durable run is open in the process. It was not begun.

    Args:
        message: The call and a remedy.
        function: The name of the function.
    """

    def __init__(self, message: str, *, function: str) -> None:
        super().__init__(message)
        self.function = function


class CallInDoubtError(JournalError):
    """A call had begun when its process ended, and nobody knows whether it took effect. It is not repeated.

    Args:
        message: The call and a remedy.
        place: The place of the call.
        idempotency_key: The key that the call was given.
        arguments: Its arguments by name, as short texts without secrets; empty where they are not known.
    """

    def __init__(
        self,
        message: str,
        *,
        place: str,
        idempotency_key: str,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.place = place
        self.idempotency_key = idempotency_key
        self.arguments: Mapping[str, str] = dict(arguments or {})


class RunInProgressError(JournalError):
    """Another process, or another part of this one, works on the run."""


class RunPrunedError(JournalError):
    """The records of the run were deleted by `JournalStore.prune`, so it cannot continue."""


class RunStuckError(JournalError):
    """Too many lives of a run of a queue crashed, so no worker takes it up any more."""


class RunTakenOverError(JournalError):
    """Another process has taken the run over; this one records nothing more and begins no effect.

    On a worker that appends to the store itself, also: the run has ended, or the program has lost the worker
    and has given its calls to others.
    """


class RunParked(JournalError):  # noqa: N818  (nothing has failed)
    """The run is parked: everything in it waits, so its process may end. A later life goes on.

    Raised by `async with nighthawk_async.run(…, park_after=…)` at its end, and inside it by calls that would
    take effect while the run is being parked.

    Args:
        message: The run and its wake-up time.
        run_id: The run.
        wakes_at: The time at which it is due, in seconds since 1970; None when only an answer or a message
            makes it due.
    """

    def __init__(self, message: str, *, run_id: str, wakes_at: float | None) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.wakes_at = wakes_at


set_public_module("journal", globals())
