"""The machine that figures are taken on: what it is, and what else it does. It measures no benchmark."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BUSY_SHARE", "Load", "LoadWatch", "Machine", "load_average", "this_machine"]

BUSY_SHARE = 0.1
"""The share of all processors above which other processes make figures doubtful."""

PROCESSOR_TIMES = Path("/proc/stat")
VERSIONS_OF = (
    "nighthawk-async",
    "anyio",
    "trio",
    "httpx",
    "httpcore",
    "h11",
    "msgspec",
    "pydantic",
    "uvloop",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What figures depend on beside the code that is measured.

    Args:
        python: The version of Python.
        implementation: The implementation of Python.
        platform: The operating system.
        architecture: The processors' architecture.
        processors: How many processors there are; None when that is not known.
        commit: The revision of the source, with a "+" when files have changed since; None outside a
            repository.
        versions: The versions of the distributions that matter, those that are installed.
    """

    python: str
    implementation: str
    platform: str
    architecture: str
    processors: int | None
    commit: str | None
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a machine did beside measuring.

    Args:
        others_share: The share of all processors' time that other processes took, from 0 to 1; None where the
            system does not tell.
        load_average: The load average over the last minute at the end; None where the system does not tell.
    """

    others_share: float | None
    load_average: float | None

    @property
    def is_busy(self) -> bool:
        """Whether other processes took enough to make figures doubtful."""
        return self.others_share is not None and self.others_share > BUSY_SHARE


def this_machine() -> Machine:
    """What this machine and the source are."""
    return Machine(
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        platform=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        processors=os.cpu_count(),
        commit=_commit(),
        versions=_versions(),
    )


def load_average() -> float | None:
    """The load average over the last minute; None where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


class LoadWatch:
    """Watches what other processes take, from its making on.

    This process and those children that it has waited for are not others; so it is asked once a child has
    ended. A grandchild that nobody waited for counts as another process.
    """

    def __init__(self) -> None:
        self._busy, self._all = _processor_seconds() or (0.0, 0.0)
        self._own = _own_seconds()

    def load(self) -> Load:
        """What others took since the watch was made."""
        now = _processor_seconds()
        if now is None or now[1] <= self._all:
            return Load(others_share=None, load_average=load_average())
        others = (now[0] - self._busy) - (_own_seconds() - self._own)
        share = min(1.0, max(0.0, others / (now[1] - self._all)))
        return Load(others_share=round(share, 3), load_average=load_average())


def _processor_seconds() -> tuple[float, float] | None:
    """Seconds that all processors together were busy, and that passed on them, since the machine started."""
    try:
        line = PROCESSOR_TIMES.read_text().partition("\n")[0]
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    # user, nice, system, idle, waiting for disks, interrupts, soft interrupts, taken by other guests; what
    # follows is contained in the first two.
    counted = [int(each) / ticks for each in line.split()[1:9]]
    everything = sum(counted)
    return everything - counted[3] - counted[4], everything


def _own_seconds() -> float:
    """Processor seconds of this process and the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for name in VERSIONS_OF:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _commit() -> str | None:
    """The revision of the source, if git is there and knows it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
