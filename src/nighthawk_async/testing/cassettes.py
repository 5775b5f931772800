"""Cassettes: exchanges with models that are recorded once and replayed offline."""

import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias, get_args

from ..causes import is_group
from ..kernel.environment import SourcePolicy, using_policy
from ..recording.exchange import RecordedExchange
from ..recording.file import (
    CassetteError,
    CassetteMissError,
    dump_exchanges,
    load_exchanges,
    write_atomically,
)
from ..recording.recorder import Recorder
from ..recording.redaction import Redaction, Redactor

CassetteMode: TypeAlias = Literal["none", "once", "new", "all"]
"""The exchanges that a cassette records.

`none` records nothing. `once` records everything when there is no file yet, otherwise nothing. `new` records
exchanges that are not in the file. `all` records everything again.
"""

_open_paths: set[Path] = set()
_open_paths_lock = threading.Lock()


class Cassette:
    """A file of exchanges with models, active during a `with` or `async with` statement. Made by `cassette`.

    Inside, requests that are in the file are not sent to a model. New exchanges are written when the
    statement is left without an error.
    """

    def __init__(
        self,
        path: Path,
        *,
        mode: CassetteMode,
        redactions: tuple[Redaction, ...] = (),
        keep_on_error: bool = False,
        activate: Callable[[SourcePolicy], AbstractContextManager[None]] = using_policy,
    ) -> None:
        if mode not in get_args(CassetteMode):
            raise CassetteError(f"mode must be one of {get_args(CassetteMode)}, not {mode!r}")
        self.path = path
        self._file = path.absolute()  # wherever the program goes meanwhile
        self.mode: CassetteMode = mode
        self._redactions = redactions
        self._keep_on_error = keep_on_error
        self._activate = activate
        self._stack = ExitStack()
        self._former_text: str | None = None
        self._former: tuple[RecordedExchange, ...] = ()
        self._redactor = Redactor()
        self._recorder = Recorder((), records=False, redactor=self._redactor, label=str(path))
        self._is_entered = False
        self._is_discarded = False

    def __repr__(self) -> str:
        return f"<cassette {str(self.path)!r}, mode {self.mode!r}>"

    @property
    def recorded(self) -> int:
        """The number of exchanges recorded so far."""
        return len(self._recorder.recorded)

    @property
    def replayed(self) -> int:
        """The number of requests replayed from the file so far."""
        return self._recorder.replayed

    @property
    def unused(self) -> tuple[RecordedExchange, ...]:
        """The exchanges in the file that no request has used so far."""
        return self._recorder.unused

    def discard(self) -> None:
        """Write nothing, and raise no error for requests without a recording."""
        self._is_discarded = True

    def __enter__(self) -> Self:
        if self._is_entered:
            raise CassetteError(f"{self.path}: a cassette can be entered once; call cassette() again.")
        self._is_entered = True
        with ExitStack() as stack:
            stack.enter_context(_only_user_of(self._file))
            self._former_text = _read(self._file)
            if self._former_text is not None and self.mode != "all":
                self._former = load_exchanges(self._former_text, path=self.path)
            self._redactor = Redactor(self._redactions)
            is_new = self._former_text is None
            self._recorder = Recorder(
                self._former,
                records=self.mode in ("new", "all") or (self.mode == "once" and is_new),
                redactor=self._redactor,
                label=f"{self.path} (mode {self.mode!r}{', no such file' if is_new else ''})",
            )
            stack.enter_context(self._activate(self._recorder))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._stack:
            self._recorder.close()
            is_kept = exc is None or (self._keep_on_error and isinstance(exc, Exception))
            if is_kept and not self._is_discarded:
                self._save(is_complete=exc is None)
        miss = self._recorder.first_miss
        if miss is None or self._is_discarded:
            return
        if exc is None:
            raise miss
        if not _speaks_of(exc, miss):
            exc.add_note(f"Before that, a request had no recording. {miss}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(exc_type, exc, traceback)

    def _save(self, *, is_complete: bool) -> None:
        if is_complete and self._recorder.in_progress:
            raise CassetteError(
                f"{self.path}: {self._recorder.in_progress} responses were still in progress when the "
                "cassette was left, so nothing was written; leave it after its last step."
            )
        recorded = self._recorder.without_late_secrets()
        if not recorded and (self.mode != "all" or self._former_text is None):
            return
        if self.mode != "all" and _read(self._file) != self._former_text:
            raise CassetteError(f"{self.path} was written by somebody else meanwhile; nothing was written.")
        write_atomically(self._file, dump_exchanges([*self._former, *recorded]))


def cassette(
    path: str | os.PathLike[str],
    *,
    mode: CassetteMode = "once",
    redact: Redaction | Iterable[Redaction] = (),
    keep_on_error: bool = False,
) -> Cassette:
    """Record exchanges with models in a file, and replay them without a network, a key or a model.

    Enter it outside or inside `nighthawk_async.run`. A request gets the recording with the same step, model
    and content; the order of requests does not matter. Of nested cassettes, only the innermost is used.

    Args:
        path: The file, usually with the ending `.yaml`; one per test.
        mode: The exchanges to record; see `CassetteMode`.
        redact: Texts to remove, and functions that return a text without secrets, or without parts that
            change from run to run. They are applied to prompts, answers and errors before these are compared
            and written; applying one twice must have the same effect as once.
        keep_on_error: Whether new exchanges are written even when the statement is left with an exception. A
            test that failed midway may not have sent all its requests.

    Returns:
        A context manager, for `with` and for `async with`, that returns itself.

    Raises:
        CassetteError: The mode is unknown. On entering: the file is no cassette, or another cassette uses it.
            On leaving: the mode forbids overwriting the file, or a response is in progress.
        CassetteMissError: On leaving: a request had no recording, and the program caught the error.
    """
    redactions = (redact,) if isinstance(redact, str) or callable(redact) else tuple(redact)
    return Cassette(Path(path), mode=mode, redactions=redactions, keep_on_error=keep_on_error)


@contextmanager
def _only_user_of(path: Path) -> Generator[None, None, None]:
    """Reserve a file for one cassette of this process.

    Raises:
        CassetteError: Another cassette uses it.
    """
    resolved = path.resolve()
    with _open_paths_lock:
        if resolved in _open_paths:
            raise CassetteError(f"{path} is in use by another cassette.")
        _open_paths.add(resolved)
    try:
        yield
    finally:
        with _open_paths_lock:
            _open_paths.discard(resolved)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CassetteError(f"{path} cannot be read: {error}") from error


def _speaks_of(error: BaseException, miss: CassetteMissError) -> bool:
    """Whether an exception is a miss, is caused by one, or is a group with one."""
    if error is miss:
        return True
    related: list[BaseException | None] = [error.__cause__, error.__context__]
    if is_group(error):
        related += error.exceptions
    return any(each is not None and _speaks_of(each, miss) for each in related)
