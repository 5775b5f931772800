"""One life of a run of a queue: from its claimed entry to its end."""

import signal
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, cast

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from ..actors.task_group import is_cancelled
from ..causes import leaves_of
from ..errors import ConfigurationError, ModelError
from ..kernel.environment import find_journal
from ..parallel import is_async_callable
from . import queue_claims
from .blob_table import is_large
from .database import Database
from .errors import JournalError, JournalStoreError, RunInProgressError, RunParked, RunTakenOverError
from .queue_claims import ClaimedEntry
from .queued_call import decode_arguments, encode_error, encode_result
from .recorder import RunRecorder
from .values import ValueRules

EndKind: TypeAlias = Literal["ended", "failed", "parked", "returned", "lost"]
"""The end of a life of a run; the last two are no end of the run, and another life follows."""

RunFactory: TypeAlias = Callable[[str], Any]
"""Makes a run for the id of a run, as `nighthawk_async.run` does."""

_BUSY_SECONDS = 2.0
"""The time after which a run is tried again that somebody else works on."""
_MOST_DELAY_SECONDS = 60.0
_MOST_CHARACTERS = 2_000  # of an error in logs


class LifeEnd(Struct, frozen=True, kw_only=True):
    """The end of a life.

    Args:
        kind: Its kind; parked is found out by the store.
        body: The result or the error, encoded; empty for others.
        delay: The seconds after which an entry that is returned is due again.
        counts: Whether the life counts for an entry that is returned.
        text: The error in words, for logs; empty for none.
        has_begun: Whether the life has begun. If not, a run that is parked was parked by an earlier one.
    """

    kind: EndKind
    body: bytes = b""
    delay: float = 0.0
    counts: bool = True
    text: str = ""
    has_begun: bool = True


async def live(
    entry: ClaimedEntry,
    function: Callable[..., Any],
    make_run: RunFactory,
    limiter: anyio.CapacityLimiter,
    rules: ValueRules,
) -> LifeEnd:
    """Run the function of an entry in a run of its id.

    Args:
        entry: The entry.
        function: The function.
        make_run: Makes the run. Its errors are those of the worker and propagate.
        limiter: Limits the threads of functions that are not async.
        rules: The rules for the result.
    """
    run = make_run(entry.run_id)
    has_begun = False

    def call() -> Any:
        nonlocal has_begun
        has_begun = True
        _check_run(entry.run_id)
        # In the run, so that arguments which do not fit any more are an error of the run.
        args, keywords = decode_arguments(function, entry.function, entry.arguments)
        return function(*args, **keywords)

    def call_in_run() -> Any:
        with run:
            return call()

    try:
        if is_async_callable(function):
            async with run:
                result = await cast("Awaitable[Any]", call())
        else:
            result = await anyio.to_thread.run_sync(call_in_run, limiter=limiter)
        return LifeEnd(kind="ended", body=encode_result(function, entry.run_id, result, rules=rules))
    except _WrongRunError:
        raise
    except Exception as error:
        return msgspec.structs.replace(_end_of(entry, error, rules), has_begun=has_begun)
    except BaseException as error:
        if not _is_of_call(error):
            raise
        return msgspec.structs.replace(_end_of(entry, _exit_of(entry, error), rules), has_begun=has_begun)


def interrupted(entry: ClaimedEntry, error: BaseException, rules: ValueRules) -> LifeEnd:
    """The end of a life that has ended its worker, by a Ctrl-C or by what looks like one.

    It counts: a call that raises `KeyboardInterrupt` would else end one worker after the other. A life that
    was cancelled because its worker ends does not.
    """
    if is_cancelled():
        return LifeEnd(kind="returned", counts=False)
    if entry.lives < entry.max_lives:
        return LifeEnd(kind="returned", text=type(error).__name__)
    return _end_of(entry, _exit_of(entry, error), rules)


def _is_of_call(error: BaseException) -> bool:
    """Whether the call wants to end its worker, as `sys.exit()` does. It must not: others are in progress."""
    of_worker: list[type[BaseException]] = [GeneratorExit]
    if is_cancelled():  # else the call has cancelled itself, as it can on asyncio
        of_worker.append(anyio.get_cancelled_exc_class())
    if not _is_ctrl_c_handled():
        of_worker.append(KeyboardInterrupt)
    return not any(isinstance(leaf, tuple(of_worker)) for leaf in leaves_of(error))


def _is_ctrl_c_handled() -> bool:
    """Whether Ctrl-C surely raises nothing here, because `anyio.open_signal_receiver` takes it."""
    module = getattr(signal.getsignal(signal.SIGINT), "__module__", "")
    return module in ("trio._signals", "asyncio.unix_events")


def _exit_of(entry: ClaimedEntry, error: BaseException) -> JournalError:
    exits = [leaf for leaf in leaves_of(error) if not isinstance(leaf, Exception)]
    text = ", ".join(f"{type(leaf).__name__}: {leaf}" for leaf in exits)
    return JournalError(
        f"run {entry.run_id!r}: {entry.function} raised {text}. A call of a queue cannot end its worker, so "
        "the run has failed."
    )


class _WrongRunError(ConfigurationError):
    """The worker makes runs that are not durable."""


def _check_run(run_id: str) -> None:
    recorder = find_journal()
    if not isinstance(recorder, RunRecorder) or recorder.run_id != run_id:
        raise _WrongRunError(
            "The run that a worker is given has to be durable: make it with nighthawk_async.run(…, "
            "journal=store, run_id=run_id)."
        )


def _end_of(entry: ClaimedEntry, error: Exception, rules: ValueRules) -> LifeEnd:
    text = f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]
    leaves = list(leaves_of(error))
    if any(isinstance(leaf, RunTakenOverError) for leaf in leaves):
        return LifeEnd(kind="lost", text=text)
    if any(isinstance(leaf, RunInProgressError) for leaf in leaves):
        return LifeEnd(kind="returned", delay=_BUSY_SECONDS, counts=False, text=text)
    if any(isinstance(leaf, JournalStoreError) for leaf in leaves):
        return LifeEnd(kind="returned", counts=False, text=text)
    if any(isinstance(leaf, RunParked) for leaf in leaves):  # it was woken at the same time
        return LifeEnd(kind="returned", counts=False, text=text)
    if all(isinstance(leaf, ModelError) and leaf.is_transient for leaf in leaves) and (
        entry.lives < entry.max_lives
    ):
        return LifeEnd(kind="returned", delay=min(2.0**entry.lives, _MOST_DELAY_SECONDS), text=text)
    return LifeEnd(kind="failed", body=encode_error(entry.run_id, error, rules=rules), text=text)


def settle(database: Database, entry: ClaimedEntry, end: LifeEnd) -> EndKind:
    """Record the end of a life of an entry, within a transaction of the caller.

    Returns:
        Its kind: lost, if the worker has lost the entry meanwhile.

    Raises:
        JournalKeyError: A key of the encryption is missing, or is another one.
    """
    if end.kind == "lost":
        return "lost"
    if is_large(end.body):
        database.lock("blobs")  # before any row
    if end.has_begun and queue_claims.park_entry(database, entry):
        return "parked"
    if end.kind == "returned":
        is_kept = queue_claims.return_entry(database, entry, delay=end.delay, counts=end.counts)
    else:
        status = "ended" if end.kind == "ended" else "failed"
        is_kept = queue_claims.end_entry(database, entry, status, end.body)
    return end.kind if is_kept else "lost"
