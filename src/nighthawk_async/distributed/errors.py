"""Errors of calls on other processes and machines.

NighthawkError, PlacementError
└── DistributedError
    ├── ArgumentChangedError    a call has changed an argument in place, which does not come back
    ├── CrossingError           a function, an argument, a result or a setting cannot cross to a worker
    ├── LocalOnlyError          something that exists in the program's own process alone
    ├── RemoteCallError         a call raised an error that cannot cross; it tells the error in words
    ├── WorkerLostError         a call has lost too many workers while it was alone there
    └── WorkerStartError        a worker did not start
"""

from ..errors import NighthawkError
from ..parallel.errors import PlacementError
from ..pickling import set_public_module


class DistributedError(NighthawkError, PlacementError):
    """Base class of errors of calls on other processes and machines; also a `parallel.PlacementError`."""


class ArgumentChangedError(DistributedError):
    """A call has changed an argument in place, on a worker. The change does not come back.

    Args:
        function: The name of the function.
        argument: The name of the argument, or its position.
    """

    def __init__(self, function: str, argument: str) -> None:
        super().__init__(
            f"{function} has changed its argument {argument} in place, on a worker, where the program does "
            "not see it. Return the value instead, or call the function without on=."
        )
        self.function = function
        self.argument = argument


class CrossingError(DistributedError):
    """A function, an argument, a result or a setting cannot cross between the program and a worker.

    Args:
        message: The reason, and what to do.
        subject: What cannot cross: `the argument 'path' of reports:summarize`.
    """

    def __init__(self, message: str, *, subject: str) -> None:
        super().__init__(message)
        self.subject = subject


class LocalOnlyError(DistributedError):
    """A call on a worker has asked for something that exists in the program's own process alone.

    The message names it, and says what to do instead.
    """


class RemoteCallError(DistributedError):
    """A call on a worker raised an error that cannot cross, such as one that cannot be pickled.

    Args:
        type_name: The full name of its type.
        text: The text of the error.
    """

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(f"{type_name}: {text}" if text else type_name)
        self.type_name = type_name
        self.text = text


class WorkerLostError(DistributedError):
    """The workers of a call were lost, one after the other, while it was alone there.

    Args:
        worker: The name of the last worker.
        reason: How that worker ended.
        placements: The number of times that the call was placed.
        lost_alone: The number of workers that were lost while the call was alone there.
        call: The call, as its function and its place: `reviews:stars at map()[0]/[13]`.
    """

    lost_alone: int = 0  # also in records of earlier versions, which have none
    call: str = ""  # the same

    def __init__(
        self, worker: str, reason: str, *, placements: int, lost_alone: int = 0, call: str = ""
    ) -> None:
        super().__init__(
            f"{call and f'{call}: '}worker {worker} was lost ({reason}); the call was placed "
            f"{_times(placements)}, and its worker was lost {_times(lost_alone)} while it ran there alone"
            f"{_remedy(reason)}"
        )
        self.worker = worker
        self.reason = reason
        self.placements = placements
        self.lost_alone = lost_alone
        self.call = call


class WorkerStartError(DistributedError):
    """A worker did not start, or not in time. The message has the reason.

    Attributes:
        was_killed: Whether it did not fail by itself: something else ended or stopped it while it started,
            such as the kernel for want of memory.
    """

    was_killed: bool = False


_CRASHES = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT")
"""The signals of C code that has failed."""


def _remedy(reason: str) -> str:
    """The usual cause of such an end and what to do about it, as the rest of a message; empty for others."""
    if reason.endswith("SIGKILL"):
        return (
            ". The kernel ends processes so for want of memory, and its log says so then: have the call take "
            "less, or give its worker fewer calls at once (max_concurrent_per_worker)."
        )
    if reason.endswith(_CRASHES):
        return (
            ". C code has crashed there: with PYTHONFAULTHANDLER=1 in the environment, the worker shows the "
            "line that has called it."
        )
    if reason.startswith("exit code"):
        return ". Something in the worker has ended it, such as os._exit."
    return ""


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")


set_public_module("distributed", globals())
