"""Samples: equal requests that are meant to have answers of their own; and seeds of trials.

The calls of a vote and the attempts of a retry ask the same on purpose. Each is numbered, so that a response
cache keeps an answer for each of them.
"""

from collections.abc import Generator
from contextlib import contextmanager

from ...kernel.features import Before, Feature

_sample = Feature[tuple[int, ...]](())


def current_sample() -> tuple[int, ...]:
    """Return the numbers of the current sample, outermost first; empty for the first, and outside of any."""
    sample = _sample.get()
    while sample and not sample[-1]:
        sample = sample[:-1]
    return sample


_seed = Feature[int | None](None)


def current_seed() -> int | None:
    """Return the seed of the trial in progress, for random numbers of the subject; None outside trials."""
    return _seed.get()


@contextmanager
def using_seed(seed: int) -> Generator[None, None, None]:
    """Make a seed the current one during the `with` statement."""
    with _seed.active(seed):
        yield


def enter_seed(seed: int | None) -> None:
    """Make a seed that of the current task until it ends; None for none."""
    _seed.set(seed)


def enter_sample(numbers: tuple[int, ...]) -> None:
    """Make the current task part of a sample until it ends; see `current_sample`."""
    _sample.set(numbers)


class using_sample:  # noqa: N801  (a context manager that reads as a function at its call)
    """Number what happens during the `with` statement as one of several samples.

    Args:
        number: The number, from 0.
    """

    __slots__ = ("_before", "_number")

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        self._before: Before = _sample.set((*_sample.get(), self._number))

    def __exit__(self, *exc_details: object) -> None:
        _sample.reset(self._before)
