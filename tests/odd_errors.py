"""Errors that functions on workers raise, which are hard to send; and neighbors that must not notice."""

import asyncio
import sys
from collections.abc import Callable

import anyio


class UnreadableError(Exception):
    """An error some of whose attributes cannot be read."""

    def __getattribute__(self, name: str) -> object:
        if name == "__notes__":
            raise KeyError(name)
        return super().__getattribute__(name)


class NoTextError(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


class MainModuleError(Exception):
    """An error that cannot be pickled, of the main module as workers know it."""

    __module__ = "__mp_main__"


class StopEverything(BaseException):
    """No `Exception`."""


def _with_notes(notes: object) -> Exception:
    error = ValueError("noted")
    error.__notes__ = notes
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "unreadable": lambda: UnreadableError(object()),
    "no text": lambda: NoTextError(object()),
    "surrogates in notes": lambda: _with_notes(["\ud800", 4]),
    "no list of notes": lambda: _with_notes(5),
    "no exception": lambda: StopEverything("all"),
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "generator": lambda: GeneratorExit("no generator"),
    "group": lambda: BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError("v")]),
    "main module": lambda: MainModuleError("no pickle"),
    "cancellation of asyncio": lambda: asyncio.CancelledError("not here"),
}


async def fail_oddly(kind: str) -> str:
    """Raise an error, or, without one, wait for the errors of the neighbors."""
    await anyio.lowlevel.checkpoint()
    if not kind:
        for _ in range(20):
            await anyio.wait_all_tasks_blocked()
        return "unharmed"
    raise ERRORS[kind]()


def fail_oddly_in_thread(kind: str) -> str:
    """Raise an error in a thread."""
    if kind == "python ends":
        sys.exit(3)
    raise ERRORS[kind]()
