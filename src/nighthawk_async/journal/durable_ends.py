"""Ends of calls that are waited for until they are durable.

Between the return of a call and the record of its result, a process that ends leaves the call in doubt. Where
nobody could say whether it took effect, the program goes on only when that time is over.
"""

from types import TracebackType

from .acknowledgement import Acknowledgement
from .departures import Departures
from .errors import JournalError, JournalStoreError, RunTakenOverError


class DurableEnd:
    """The end of a call, for `async with`, and for `with` in a thread: leaving waits until it is durable.

    On an event loop it also waits for its turn among the answers that were recorded before.

    A caller that is cancelled meanwhile leaves; the end is on its way to the store.

    Args:
        place: The place of the call.
        name: The name of the function.
        is_awaited: Whether leaving waits until the end is durable.
        departures: The order in which answers leave.
    """

    __slots__ = ("_departures", "_is_awaited", "_name", "_place", "written")

    def __init__(self, place: str, name: str, *, is_awaited: bool, departures: Departures) -> None:
        self._place = place
        self._name = name
        self._is_awaited = is_awaited
        self._departures = departures
        self.written: Acknowledgement[None] | None = None
        """The acknowledgement of the record; None while there is none."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        written = self._find_awaited(exc)
        if written is not None:
            try:
                written.wait_in_thread()
            except JournalError as error:
                raise self._lost(error, exc) from error

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.written is not None and (exc is None or isinstance(exc, Exception)):
            try:
                await self._departures.leave(self._place, self._find_awaited(exc))
            except JournalError as error:
                raise self._lost(error, exc) from error

    def _find_awaited(self, exc: BaseException | None) -> Acknowledgement[None] | None:
        is_over = exc is None or isinstance(exc, Exception)
        return self.written if self._is_awaited and is_over else None

    def _lost(self, error: JournalError, exc: BaseException | None) -> JournalError:
        """The error of a store that may not have the end of the call, which was made."""
        ended = "has returned" if exc is None else f"has raised {type(exc).__name__}"
        made = f"{self._place}: the call of {self._name} was made and {ended}"
        if isinstance(error, RunTakenOverError):
            return RunTakenOverError(
                f"{made}, and its end is not recorded: {error} The life that has the run now finds it "
                "in doubt."
            )
        if isinstance(error, JournalStoreError):
            return JournalStoreError(
                f"{made}, and it is not known whether its end is recorded: {error}. The next life finds out: "
                "if it is not, the call is in doubt."
            )
        error.add_note(f"{made}, and it is not known whether its end is recorded.")
        return error
