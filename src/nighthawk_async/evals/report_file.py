"""Files of reports: lines of JSON. The first describes the evaluation, every other one is a trial.

Trials are appended as they end. The last line about a trial counts. A last line without its end was being
written when the process died; it is dropped.
"""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from .cases import Severity
from .errors import ReportError
from .results import CaseResult, TrialResult

FORMAT = "nighthawk-async evaluation"
VERSION = 1


class CaseHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case, as the first line describes it; see `CaseResult`."""

    name: str
    inputs: str = ""
    expected: str = ""
    tags: tuple[str, ...] = ()
    digest: str | None = None
    severity: Severity = "blocking"

    @classmethod
    def of(cls, case: CaseResult) -> Self:
        """Return the description of a case."""
        return cls(
            name=case.name,
            inputs=case.inputs,
            expected=case.expected,
            tags=case.tags,
            digest=case.digest,
            severity=case.severity,
        )


class ReportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a report; see `Report`."""

    format: str = FORMAT
    version: int = VERSION
    subject: str
    subject_digest: str | None
    scorers: tuple[str, ...]
    trials_per_case: int
    seed: int
    pass_mark: float
    confidence: float
    model: str | None
    created_at: float
    cases: tuple[CaseHeader, ...]
    commit: str | None = None


class _Kind(msgspec.Struct):
    """The part of the first line that says whether the rest can be read."""

    format: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """The contents of a report file.

    Args:
        header: The evaluation.
        trials: The trials by case and number.
        whole_size: The number of bytes up to the end of the last whole line, if another one follows; None if
            all lines are whole.
    """

    header: ReportHeader
    trials: Mapping[tuple[str, int], TrialResult]
    whole_size: int | None


_ENCODER = msgspec.json.Encoder()
_HEADER = msgspec.json.Decoder(ReportHeader)
_KIND = msgspec.json.Decoder(_Kind)
_TRIAL = msgspec.json.Decoder(TrialResult)


def encode_line(line: ReportHeader | TrialResult) -> bytes:
    """Return a line of the file, with its end."""
    return _ENCODER.encode(line) + b"\n"


def read_report(path: str | os.PathLike[str]) -> StoredReport:
    """Read the file of a report.

    Raises:
        ReportError: It is not there, is no report, has another version, or a line is damaged.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ReportError(f"The report {name} cannot be read: {error.strerror or error}") from None
    size = data.rfind(b"\n") + 1
    first, *rest = data[:size].split(b"\n")[:-1] or [b""]
    header = _read_header(name, first)
    known = {case.name for case in header.cases}
    trials: dict[tuple[str, int], TrialResult] = {}
    for line, text in enumerate(rest, start=2):
        try:
            trial = _TRIAL.decode(text)
        except msgspec.MsgspecError as error:
            raise ReportError(f"{name}:{line}: this is no trial of a report: {error}") from None
        if trial.case not in known or not 1 <= trial.number <= header.trials_per_case:
            raise ReportError(
                f"{name}:{line}: the report has no trial {trial.number} of case {trial.case!r}."
            )
        trials[trial.case, trial.number] = trial
    return StoredReport(header=header, trials=trials, whole_size=size if size < len(data) else None)


def _read_header(name: str, line: bytes) -> ReportHeader:
    try:
        kind = _KIND.decode(line)
    except msgspec.MsgspecError:
        kind = _Kind()
    if kind.format != FORMAT:
        raise ReportError(f"{name}: this is no report of an evaluation.")
    if kind.version != VERSION:
        raise ReportError(
            f"{name}: the report has version {kind.version}, and this release of nighthawk-async reads "
            f"version {VERSION}: evaluate again with this release."
        )
    try:
        return _HEADER.decode(line)
    except msgspec.MsgspecError as error:
        raise ReportError(f"{name}:1: the first line of the report is damaged: {error}") from None


def write_report(path: str | os.PathLike[str], header: ReportHeader, trials: Iterable[TrialResult]) -> None:
    """Write a whole report; a file that is there is replaced at the end.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(path, map(encode_line, chain([header], trials)))


def write_whole(path: str | os.PathLike[str], parts: Iterable[bytes]) -> None:
    """Write a file; one that is there is replaced at the end.

    Args:
        path: The path of the file.
        parts: The parts of its contents.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            file.writelines(parts)
        partial.replace(target)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


@contextmanager
def report_lock(path: str | os.PathLike[str]) -> Generator[None, None, None]:
    """Keep other evaluations, of this process and others, from writing a report during the `with` statement.

    The lock is a file beside the report, which is free again when its process ends in any way, and removed
    unless that is a kill.

    Raises:
        ReportError: Another evaluation is writing it.
        OSError: The lock cannot be written.
    """
    from filelock import FileLock, Timeout  # here, because most evaluations have no file

    target = Path(path).resolve()
    target.parent.stat()  # FileLock would create it
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ReportError(
            f"Another evaluation is writing the report {os.fspath(path)}: wait for its end, or give another "
            "path=."
        ) from None
    try:
        yield
    finally:
        if os.name == "posix":  # on Windows an open file cannot be removed
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


class ReportWriter:
    """Appends trials to the file of a report, each as soon as it has ended; a context manager.

    Each line is given to the operating system at once, so it outlives the process.

    Args:
        path: The path of the file.
        header: The evaluation; written if the file is new.
        stored: The report that is in the file; None for a new file.
    """

    def __init__(
        self, path: str | os.PathLike[str], header: ReportHeader, stored: StoredReport | None
    ) -> None:
        if stored is not None and stored.whole_size is not None:
            os.truncate(path, stored.whole_size)
        self._file = open(path, "wb" if stored is None else "ab")  # noqa: SIM115  (closed by the with statement)
        if stored is None:
            self._write(header)

    def write(self, trial: TrialResult) -> None:
        """Append a trial.

        Raises:
            OSError: It cannot be written.
        """
        self._write(trial)

    def _write(self, line: ReportHeader | TrialResult) -> None:
        self._file.write(encode_line(line))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


_TORN = b'{"format":"' + FORMAT.encode()
"""The beginning of a first line."""

_DIFFERENCES: tuple[tuple[str, str], ...] = (
    ("subject", "another subject"),
    ("subject_digest", "another version of the subject's code"),
    ("model", "another model"),
    ("scorers", "other scorers"),
    ("trials_per_case", "another number of trials"),
    ("seed", "another seed"),
    ("pass_mark", "another pass mark"),
    ("confidence", "another confidence"),
)


def open_stored(path: str | os.PathLike[str], header: ReportHeader) -> StoredReport | None:
    """Return the report that an evaluation goes on with; None when there is no file, or an empty one.

    Args:
        path: The path of the file.
        header: The evaluation.

    Raises:
        ReportError: The file is no report, or that of another evaluation.
    """
    target = Path(path)
    if not target.exists():
        return None
    data = target.read_bytes()
    if b"\n" not in data and _TORN.startswith(data[: len(_TORN)]):
        return None  # the process died while it wrote the first line
    stored = read_report(path)
    different = [
        text for field, text in _DIFFERENCES if getattr(stored.header, field) != getattr(header, field)
    ]
    before, now = ([(case.name, case.digest) for case in each.cases] for each in (stored.header, header))
    if before != now:
        different.append("other cases")
    if different:
        raise ReportError(
            f"The report {os.fspath(path)} belongs to another evaluation, with {' and '.join(different)}. "
            "Give another path= or folder=, or delete the file to begin anew."
        )
    return stored
