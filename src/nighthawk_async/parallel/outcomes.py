"""Outcomes of calls: values without behaviour."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Failed", "Outcome", "Settled", "Succeeded"]

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Succeeded(Generic[Result_co]):
    """A call that returned.

    Args:
        value: What it returned.
    """

    value: Result_co


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that raised.

    Args:
        error: What it raised.
    """

    error: Exception


Outcome: TypeAlias = Succeeded[Result] | Failed
"""How a call ended. Tell them apart with `match` or `isinstance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[Result_co]):
    """Outcomes of all calls of a `settle`.

    Args:
        outcomes: One per item, in the order of the items.
    """

    outcomes: tuple[Succeeded[Result_co] | Failed, ...]

    @property
    def succeeded(self) -> int:
        """The number of calls that returned."""
        return sum(isinstance(outcome, Succeeded) for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """The number of calls that raised."""
        return len(self.outcomes) - self.succeeded

    def values(self) -> list[Result_co]:
        """The results of the calls that returned, in the order of the items."""
        return [outcome.value for outcome in self.outcomes if isinstance(outcome, Succeeded)]

    def errors(self) -> list[Exception]:
        """The errors of the calls that raised, in the order of the items."""
        return [outcome.error for outcome in self.outcomes if isinstance(outcome, Failed)]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[Succeeded[Result_co] | Failed]:
        return iter(self.outcomes)
