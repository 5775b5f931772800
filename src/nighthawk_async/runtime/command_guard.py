"""The guard that carries out the commands of a step actor."""

from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from .awaitable import await_value
from .commands import Command, StepState

__all__ = ["CommandGuard"]


class CommandGuard:
    """Carries the commands of one step out. A policy may give a guard that looks at what they do.

    Attributes:
        verdicts: The errors that the guard itself raises; they are no failures of what was carried out.
    """

    __slots__ = ()

    verdicts: ClassVar[tuple[type[Exception], ...]] = ()

    def in_flight(self) -> AbstractContextManager[None]:
        """The extent of the step."""
        return nullcontext()

    def carry_out(self, command: Command, state: StepState) -> object:
        """Carry a command out; see `Command.carry_out`."""
        return command.carry_out(state)

    async def await_value(self, awaitable: Awaitable[object]) -> object:
        """Await what a command gave, for this step alone; see `awaitable.await_value`."""
        return await await_value(awaitable)
