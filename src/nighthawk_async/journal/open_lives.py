"""The lives of runs that are open in this process, and calls that are made outside of every run meanwhile.

An effect outside of every run is not recorded, so each life would make it again. A program with a durable run
rarely means that: it has lost the context of the run in a thread or in a pool.
"""

from types import TracebackType
from weakref import ReferenceType, ref

from ..kernel.environment import find_environment
from ..kernel.features import Feature
from .active_replay import is_replaying
from .errors import JournalError, OutsideRunError

# The ids of runs, by what holds them open: weakly, because a run that is abandoned is never left.
_open_lives: dict[ReferenceType[object], str] = {}
_is_meant = Feature(False)


def note_open(life: object, run_id: str) -> None:
    """Note that a life of a run, or a part of it, is open in this process. Any thread may say so."""
    _open_lives[ref(life, _forget)] = run_id


def note_closed(life: object) -> None:
    """Note that a life is no longer open."""
    _forget(ref(life))


def _forget(life: ReferenceType[object]) -> None:
    _open_lives.pop(life, None)


def check_outside(name: str) -> None:
    """Check that a call without a journal is not meant to be in the run that is open in this process.

    Args:
        name: The function that is called.

    Raises:
        OutsideRunError: It is made outside of every run, and a durable run is open.
    """
    if not _open_lives or find_environment() is not None or _is_meant.get() or is_replaying():
        return
    run_id = next(iter(tuple(_open_lives.values())), "")
    raise OutsideRunError(
        f"{name} is called outside of every run, while the durable run {run_id!r} is open in this process. "
        "The call would not be recorded, and each life would make it again, so it was not begun. Threads, "
        "pools and executors do not have the context of the run: use anyio.to_thread.run_sync or "
        "asyncio.to_thread, or give them contextvars.copy_context().run(function, …). For a call that "
        "belongs to no durable run, use `with nighthawk_async.journal.unrecorded():`, or a run without a "
        "journal.",
        function=name,
    )


class unrecorded:  # noqa: N801  (a context manager that reads as a function at its call)
    """Let the `with` statement call effects outside of every run, while durable runs are open in the process.

        with nh.journal.unrecorded():
            send("ann@example.com")  # belongs to no durable run: made as it is, as often as it is called

    For what lives beside durable runs: a request of a service, a thread in the background. A durable run that
    begins inside records its calls as ever.

    Raises:
        JournalError: It is used in a run with a journal, where every effect is recorded.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        environment = find_environment()
        if environment is not None and environment.journal is not None:
            raise JournalError(
                "unrecorded() is for calls outside of durable runs: in a run with a journal, every effect is "
                "recorded."
            )
        self._before = _is_meant.set(True)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _is_meant.reset(self._before)
