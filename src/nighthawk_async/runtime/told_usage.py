"""Facts that a model's stream reports about its request besides the events."""

from typing import Protocol, runtime_checkable

from ..types.usage import Usage

__all__ = ["TellsConsumption", "TellsUsage", "may_have_consumed", "usage_so_far"]


@runtime_checkable
class TellsUsage(Protocol):
    """A result of `ports.Model.stream` that reports usage.

    Events tell nothing of a request that is cancelled before its first one.
    """

    @property
    def usage(self) -> Usage | None:
        """The usage of the request so far, at any time and after its end; None when nothing was sent."""
        ...


@runtime_checkable
class TellsConsumption(Protocol):
    """A result of `ports.Model.stream` that knows whether its request may have consumed something."""

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request: it was sent, and not turned away."""
        ...


def usage_so_far(stream: object) -> Usage | None:
    """Return the usage of a request, as far as its stream knows; None when it does not report it.

    Args:
        stream: What `executors.model_stream.open_stream` returned.
    """
    # For every request: on Python 3.11 `isinstance` with the protocol takes much longer.
    usage = getattr(stream, "usage", None)
    return usage.credible() if isinstance(usage, Usage) else None


def may_have_consumed(stream: object) -> bool:
    """Whether a request may have consumed more than was told; True when its stream does not say.

    Args:
        stream: What `ports.Model.stream` returned.
    """
    return stream.may_have_consumed if isinstance(stream, TellsConsumption) else True
