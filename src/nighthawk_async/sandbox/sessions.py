"""The interface between a step and the worker that runs its code: cells, their ends, calls of the program.

Two kinds of workers implement it; `tests/unit/sandbox` runs every test of code on both.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from ..types.unset import UNSET
from .crossing import Reference

Crossed: TypeAlias = object
"""A value on its way: leaves, lists, tuples, dicts, sets and frozensets of them, and references."""


class Cell(Struct, frozen=True, kw_only=True):
    """Code to run.

    Args:
        text: Statements, or an expression.
        is_expression: Whether it is an expression, whose value is wanted.
        inputs: Names to bind first, with their values.
        modules: Names to bind first to modules, by the names of the modules.
        reads: The names whose values are wanted when it has ended.
        binds: Those that the code may bind.
        may_await: Whether it may call async functions. Calls in its value and in the names that it binds are
            awaited, if it has not done so.
    """

    text: str
    is_expression: bool
    inputs: Mapping[str, Crossed] = {}
    modules: Mapping[str, str] = {}
    reads: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    may_await: bool = False


class CodeFailure(Struct, frozen=True, kw_only=True):
    """An error of the code, as the model reads it.

    Args:
        type_name: The name of its class.
        message: The message.
        line: The number of the line; 0 if it is unknown.
        loses_names: Whether the session has ended with it, so that the names which the code made are lost.
    """

    type_name: str
    message: str
    line: int = 0
    loses_names: bool = False


class CellEnd(Struct, frozen=True, kw_only=True):
    """The end of a cell.

    Args:
        value: The value of the expression, or of the last line; UNSET for none.
        printed: The printed text.
        values: The wanted names that have values.
        failure: The error that has ended it; None for none.
    """

    value: Crossed = UNSET
    printed: str = ""
    values: Mapping[str, Crossed] = {}
    failure: CodeFailure | None = None


class Inside(Struct, frozen=True, kw_only=True):
    """Stands in a crossed value for one that exists in the sandbox only.

    Args:
        kind: Its type.
        text: Its `repr`.
    """

    kind: str
    text: str


class HostError(Exception):
    """An error of a call that code in a sandbox makes of the program, for the code to catch.

    Args:
        error: The error.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Host(Protocol):
    """The program, as code in a sandbox reaches it."""

    def is_async(self, target: Reference, method: str | None) -> bool:
        """Whether the calls of a function, class or method have to be awaited by the code."""
        ...

    async def begin(
        self, target: Reference, method: str | None, args: list[Crossed], kwargs: dict[str, Crossed]
    ) -> Callable[[], Awaitable[Crossed]]:
        """Make a call, and return what waits for its result, which raises `HostError` if it fails.

        Raises:
            HostError: It is refused.
        """
        ...

    async def attribute(self, target: Reference, name: str) -> Crossed:
        """Read a public attribute of an object.

        Raises:
            HostError: There is none, or it cannot cross.
        """
        ...


class Session(Protocol):
    """The worker of one step."""

    async def run(self, cell: Cell, host: Host) -> CellEnd:
        """Run code. A cancellation ends the worker at once.

        Args:
            cell: The code.
            host: The program.

        Raises:
            SandboxUnavailableError: The worker cannot be started.
        """
        ...

    async def aclose(self) -> None:
        """End the worker, or give it back."""
        ...
