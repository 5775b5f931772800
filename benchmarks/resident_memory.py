"""How much memory this process occupies."""

import gc
import os
from pathlib import Path

from .measure import CannotMeasureHereError

__all__ = ["now"]

_STATISTICS = Path("/proc/self/statm")


def now() -> int:
    """Resident bytes after a collection of garbage.

    Raises:
        CannotMeasureHereError: The system does not tell it.
    """
    gc.collect()
    try:
        return int(_STATISTICS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        raise CannotMeasureHereError("this system has no /proc that tells resident memory") from None
