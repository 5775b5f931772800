"""The virtual environments of the peers: each is made when it is first asked for, from pins, and then kept.

Making one needs the package registry; using one does not. It knows no workload.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from .measure import CannotMeasureHereError

__all__ = ["OLDEST_PYTHON", "PINS", "find_python", "interpreter_of", "prepared_interpreter_of"]

PINS = Path(__file__).parent / "peer_pins"
"""For each peer a file of requirements with all that it was measured with, itself among them."""

ENVIRONMENTS = Path(__file__).parents[1] / ".nox"
"""Where the project's other environments are too; git does not see it, and `make clean` removes it."""

OLDEST_PYTHON = (3, 13)
"""What Nighthawk needs. All peers run on the same Python, so that they differ in nothing else."""

LIMIT_SECONDS = 600.0
"""After this time an installer is given up as hanging."""

LAST_LINES = 5
"""How many lines of what a failed installer wrote are told."""


def interpreter_of(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made first unless it is there as it should be.

    Args:
        peer: The name of the peer's file in `PINS`, without its ending.

    Raises:
        CannotMeasureHereError: There is no Python for it, or it could not be installed; says why.
    """
    pins, folder, python = _pins_of(peer), _folder_of(peer), find_python()
    digest, stamp = _digest_of(peer, python), _stamp_of(peer)
    interpreter = _interpreter_in(folder)
    ENVIRONMENTS.mkdir(exist_ok=True)
    # Benchmarks that run side by side may ask for the same environment.
    with FileLock(ENVIRONMENTS / f"peer-{peer}.lock"):
        if not stamp.exists() or stamp.read_text() != digest:
            shutil.rmtree(folder, ignore_errors=True)
            _make(peer, folder, interpreter, python, pins)
            stamp.write_text(digest)
    return interpreter


def prepared_interpreter_of(peer: str) -> Path:
    """The interpreter of a peer's environment that is there already.

    Args:
        peer: The name of the peer's file in `PINS`, without its ending.

    Raises:
        CannotMeasureHereError: It is not there; says how to make it.
    """
    stamp = _stamp_of(peer)
    if not stamp.exists() or stamp.read_text() != _digest_of(peer, find_python()):
        raise CannotMeasureHereError(f"{peer} is not installed; a run with --peers installs it")
    return _interpreter_in(_folder_of(peer))


def _pins_of(peer: str) -> Path:
    return PINS / f"{peer}.txt"


def _folder_of(peer: str) -> Path:
    return ENVIRONMENTS / f"peer-{peer}"


def _interpreter_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _stamp_of(peer: str) -> Path:
    """The file that says with what an environment was made."""
    return _folder_of(peer) / "prepared.sha256"


def _digest_of(peer: str, python: str) -> str:
    """The text of the stamp of an environment that is as it should be."""
    parts = (_pins_of(peer).read_bytes(), python.encode(), bytes(_folder_of(peer)))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def find_python() -> str:
    """An interpreter that is new enough for all peers: the one that runs this, if it is.

    Raises:
        CannotMeasureHereError: None is found.
    """
    for candidate in _candidates():
        if _version_of(candidate) >= OLDEST_PYTHON:
            return candidate
    wanted = ".".join(map(str, OLDEST_PYTHON))
    raise CannotMeasureHereError(f"the peers need Python {wanted} or newer, and none is found")


def _candidates() -> Iterator[str]:
    """Interpreters that may be new enough: this one, those on the path, and those that pyenv keeps."""
    yield sys.executable
    for minor in (13, 14):
        if found := shutil.which(f"python3.{minor}"):
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob("versions/3.1[34].*/bin/python3")))


def _version_of(python: str) -> tuple[int, ...]:
    """Major and minor version of an interpreter; nothing if it does not run, as a shim may not."""
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(map(int, told.stdout.split())) if told.returncode == 0 else ()


def _make(peer: str, folder: Path, interpreter: Path, python: str, pins: Path) -> None:
    """Make an environment and install what the pins say."""
    if uv := shutil.which("uv"):
        commands = [
            [uv, "venv", "--quiet", "--python", python, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(interpreter), "--requirement", str(pins)],
        ]
    else:
        pip = [str(interpreter), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        commands = [
            [python, "-m", "venv", str(folder)],
            [*pip, "install", "--requirement", str(pins)],
        ]
    for command in commands:
        _run_installer(peer, command)


def _run_installer(peer: str, command: list[str]) -> None:
    try:
        told = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CannotMeasureHereError(f"installing {peer} took more than {LIMIT_SECONDS:g} s") from None
    if told.returncode:
        lines = "\n".join(told.stdout.strip().splitlines()[-LAST_LINES:])
        raise CannotMeasureHereError(f"{peer} cannot be installed: {lines}")
