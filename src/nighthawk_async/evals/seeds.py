"""Seeds of trials: the same for a trial in every evaluation with one seed, whatever runs beside it."""

import hashlib
from collections.abc import Iterable
from typing import Protocol, TypeVar

from ..policies.attempts.samples import current_seed as current_seed, using_seed as using_seed

_SEED_BYTES = 4


def trial_seed(seed: int, case: str, number: int) -> int:
    """Return the seed of a trial, from 0 to 2**31 - 1, which every provider accepts.

    Args:
        seed: The seed of the evaluation.
        case: The name of the case.
        number: The number of the trial.
    """
    text = f"{seed}\0{case}\0{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:_SEED_BYTES], "big") >> 1


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


def case_order(seed: int, cases: Iterable[Item]) -> list[Item]:
    """Return cases in a random order, which depends on the seed and their names alone.

    Args:
        seed: The seed of the evaluation.
        cases: The cases, or their results.
    """
    return sorted(cases, key=lambda case: (trial_seed(seed, case.name, 0), case.name))
