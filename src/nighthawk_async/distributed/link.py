"""The program's end of the connection with one worker, as the placements need it."""

from collections.abc import Sequence
from typing import Protocol


class KilledFromOutside(str):
    """The end of a worker that something else has ended: it did not fail by itself."""

    __slots__ = ()


class WorkerLink(Protocol):
    """The connection with one worker. Made by a placement; messages arrive whole and in order."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order.

        Raises:
            BrokenResourceError: The worker has ended.
        """
        ...

    async def receive(self) -> bytes:
        """Wait for the next message.

        Raises:
            EndOfStream: The worker has ended.
            msgspec.DecodeError: What it sends is no message.
        """
        ...

    def is_suspended(self) -> bool | None:
        """Whether a signal has stopped the worker's process; None where that can never be seen."""
        ...

    def kill(self) -> None:
        """End the worker at once; `receive` raises soon."""
        ...

    async def close(self) -> str:
        """Wait until the worker has ended, ending it if necessary, and return how: `exit code 1`.

        The text is a `KilledFromOutside` where it is known that something else has ended the worker.

        It is called shielded from cancellation, after the last `receive`, and takes a bounded time.
        """
        ...
