"""What the stream of a model may tell telemetry of its response besides the events. Floor 3."""

import time
from typing import Protocol

__all__ = ["TellsArrival", "TellsReplay", "arrived_at", "is_replay"]


class TellsArrival(Protocol):
    """What the result of `ports.Model.stream` may offer as well: several events may come in one piece."""

    @property
    def arrived_at(self) -> float:
        """When the last piece of the response arrived, by `time.perf_counter`."""
        ...


class TellsReplay(Protocol):
    """What answers in a model's place may offer."""

    @property
    def is_replay(self) -> bool:
        """Whether no model is asked."""
        ...


def arrived_at(stream: object) -> float:
    """When the piece of a response arrived that its last event was in; now, when its stream does not tell.

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
