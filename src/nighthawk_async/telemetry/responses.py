"""Facts that a model's stream may offer telemetry besides its events."""

import time
from typing import Protocol

__all__ = ["TellsArrival", "TellsReplay", "arrived_at", "is_replay"]


class TellsArrival(Protocol):
    """A result of `ports.Model.stream` with arrival times: several events may come in one piece."""

    @property
    def arrived_at(self) -> float:
        """The time at which the last piece of the response arrived, by `time.perf_counter`."""
        ...


class TellsReplay(Protocol):
    """A response that replays another one."""

    @property
    def is_replay(self) -> bool:
        """Whether no model is asked."""
        ...


def arrived_at(stream: object) -> float:
    """Return the arrival of the piece with the last event; now, when the stream does not report it.

    Args:
        stream: What `ports.Model.stream` returned; see `TellsArrival`.
    """
    told = getattr(stream, "arrived_at", None)  # for every event: `isinstance` with a protocol takes longer
    return told if isinstance(told, float) else time.perf_counter()


def is_replay(stream: object) -> bool:
    """Whether no model is asked.

    Args:
        stream: What answers a request; see `TellsReplay`.
    """
    return getattr(stream, "is_replay", False) is True
