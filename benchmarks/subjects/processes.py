"""What the operating system tells about this process. It needs the standard library alone."""

from pathlib import Path

__all__ = ["PeakMemory"]


class PeakMemory:
    """The most resident memory from its making on, above what there was then.

    On Linux the kernel's high-water mark is set back for it. Elsewhere the mark of the process's whole life
    is taken, which is right unless the process had more before.
    """

    def __init__(self) -> None:
        _forget_peak()
        self._before = _resident_bytes()

    def taken(self) -> int | None:
        """Bytes at the peak above those at the start; None where the system does not tell."""
        peak = _peak_bytes()
        if peak is None or self._before is None:
            return None
        return max(0, peak - self._before)


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident_bytes() -> int | None:
    told = _told_by_kernel("VmRSS")
    return _life_peak_bytes() if told is None else told


def _peak_bytes() -> int | None:
    told = _told_by_kernel("VmHWM")
    return _life_peak_bytes() if told is None else told


def _told_by_kernel(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _life_peak_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
