"""Errors of journals. They leave natural functions bare: no model sees them, and nothing is asked again.

InterceptionError
└── JournalError
├── JournalStoreError           the store cannot be opened, read or written
├── JournalDivergenceError      the program does something else than what was recorded
├── JournalValueError           a value cannot be stored faithfully, or read back
├── CallInDoubtError            a call had begun, and nobody knows whether it took effect
├── RunInProgressError          another process works on the run
└── RunTakenOverError           another process has taken the run over
"""

from ..runtime.model_access import InterceptionError


class JournalError(InterceptionError):
    """A run cannot be recorded, or cannot continue from its records."""


class JournalStoreError(JournalError):
    """The store cannot be opened, read or written."""


class JournalDivergenceError(JournalError):
    """The program does something else than what was recorded.

    Args:
        message: The difference and a remedy.
        place: The first place that differs.
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


class CallInDoubtError(JournalError):
    """A call had begun when its process ended, and nobody knows whether it took effect. It is not repeated.

    Args:
        message: The call and a remedy.
        place: The place of the call.
        idempotency_key: The key that the call was given.
    """

    def __init__(self, message: str, *, place: str, idempotency_key: str) -> None:
        super().__init__(message)
        self.place = place
        self.idempotency_key = idempotency_key


class RunInProgressError(JournalError):
    """Another process, or another part of this one, works on the run."""


class RunTakenOverError(JournalError):
    """Another process has taken the run over; this one records nothing more and begins no effect."""
