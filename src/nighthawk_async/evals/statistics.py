"""Figures of evaluations: pure functions of plain numbers.

Cases are the samples. Several trials of one case say more about that case, and nothing about others, so
intervals and tests resample cases, never trials.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist, fmean, stdev
from typing import TypeVar

from .errors import EvaluationError, UndecidedError

Sample = TypeVar("Sample")

DEFAULT_CONFIDENCE = 0.95
DEFAULT_RESAMPLES = 2_000
POWER = 0.8
"""The probability with which the recommended number of cases shows a difference that exists."""

_LEAST_RESAMPLES = 500
_MOST_DRAWS = 4_000_000
_MANY_SIGNS = 200
"""So many random signs have a sum that is normal."""

_MAX_EXACT_BITS = 10_000_000
"""The size of the distribution of all sums up to which a test is exact."""

_DENOMINATOR = 10_000
_ROUNDING = 1e-9
"""Numbers that differ by less are equal: 0.8 - 0.6 is not 0.4 - 0.2 in floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval: `low, high = report.interval`.

    Args:
        low: Its lower end.
        high: Its upper end.
        confidence: The probability that it is made for, from 0 to 1.
    """

    low: float
    high: float
    confidence: float = DEFAULT_CONFIDENCE

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return f"{self.low:.3f} to {self.high:.3f}"


def pass_at(k: int, *, trials: int, passed: int) -> float:
    """Return the unbiased estimate of the probability that at least one of k trials passes.

    It is 1 - C(n-c, k) / C(n, k) for n trials of which c passed.

    Args:
        k: The number of trials drawn.
        trials: The number of decided trials.
        passed: The number of trials that passed.

    Raises:
        EvaluationError: k is no positive integer, or exceeds the number of trials.
    """
    _check_counts(k, trials, passed)
    return 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_all(k: int, *, trials: int, passed: int) -> float:
    """Return the unbiased estimate of the probability that all of k trials pass: C(c, k) / C(n, k).

    Args:
        k: The number of trials drawn.
        trials: The number of decided trials.
        passed: The number of trials that passed.

    Raises:
        EvaluationError: k is no positive integer, or exceeds the number of trials.
    """
    _check_counts(k, trials, passed)
    return math.comb(passed, k) / math.comb(trials, k)


def _check_counts(k: int, trials: int, passed: int) -> None:
    check_k(k, trials)
    if not 0 <= passed <= trials:
        raise EvaluationError(f"{passed} of {trials} trials cannot have passed.")


def check_k(k: object, trials: int) -> None:
    """Check the number of trials drawn.

    Raises:
        EvaluationError: k is no positive integer, or exceeds the number of trials.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise EvaluationError(f"k is a positive number of trials, not {k!r}.")
    if k > trials:
        raise EvaluationError(
            f"k = {k} needs at least {k} trials of each case, but there are {trials}: evaluate with "
            f"trials={k}."
        )


def bootstrap_interval(
    values: Sequence[float],
    *,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 0,
    resamples: int | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Interval:
    """Return the percentile bootstrap interval of a mean. The same seed gives the same interval.

    Resampling equal values can only give the same value again, however few there are. Their interval has a
    closed form instead: the other values that the samples have missed have a probability of at most
    1 - (a/2)^(1/n), where a is 1 - confidence, and lie within the bounds. For passes it is the
    interval of Clopper and Pearson.

    Args:
        values: One value per case.
        confidence: The probability, more than 0 and less than 1.
        seed: The seed of the resampling.
        resamples: The number of resamples; None for 2,000, and fewer of more than 2,000 values.
        bounds: The least and the greatest possible value.

    Raises:
        UndecidedError: There are no values.
        EvaluationError: An argument has a bad value.
    """
    _check_sample(values, confidence)
    tail = (1 - confidence) / 2
    if max(values) - min(values) < _ROUNDING:
        missed = 1 - tail ** (1 / len(values))
        value = float(values[0])
        low, high = (value + (bound - value) * missed for bound in bounds)
        return Interval(low=low, high=high, confidence=confidence)
    count = len(values)
    if resamples is None:
        resamples = min(DEFAULT_RESAMPLES, max(_LEAST_RESAMPLES, _MOST_DRAWS // count))
    means = (math.fsum(sample) / count for sample in _resampled(values, seed, resamples))
    return _percentiles(means, confidence)


def bootstrap_statistic(
    samples: Sequence[Sample],
    statistic: Callable[[Sequence[Sample]], float | None],
    *,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
) -> Interval | None:
    """Return the percentile bootstrap interval of any statistic of samples.

    Args:
        samples: The samples.
        statistic: Returns the statistic of as many samples; None where it is not defined.
        confidence: The probability, more than 0 and less than 1.
        seed: The seed of the resampling.
        resamples: The number of resamples.

    Returns:
        The interval; None if the statistic is not defined for any resample.
    """
    check_confidence(confidence)
    found = (statistic(sample) for sample in _resampled(samples, seed, resamples))
    defined = [each for each in found if each is not None]
    return _percentiles(defined, confidence) if defined else None


def _resampled(samples: Sequence[Sample], seed: int, resamples: int) -> Iterator[list[Sample]]:
    generator = random.Random(seed)
    return (generator.choices(samples, k=len(samples)) for _ in range(resamples))


def _percentiles(values: Iterable[float], confidence: float) -> Interval:
    ordered, tail = sorted(values), (1 - confidence) / 2
    return Interval(low=_quantile(ordered, tail), high=_quantile(ordered, 1 - tail), confidence=confidence)


def _check_sample(values: Sequence[float], confidence: float) -> None:
    if not values:
        raise UndecidedError("There is no interval without a decided case.")
    if not all(math.isfinite(value) for value in values):
        raise EvaluationError("There is no interval of values that are not finite.")
    check_confidence(confidence)


def check_confidence(confidence: object) -> None:
    """Check the confidence of an interval or a test.

    Raises:
        EvaluationError: It is not a number between 0 and 1.
    """
    if not isinstance(confidence, int | float) or not 0 < confidence <= 1 - 1e-12:
        raise EvaluationError(f"confidence is more than 0 and less than 1, not {confidence!r}.")


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """Return a quantile of ordered values, interpolated linearly as numpy does it."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def paired_p_value(differences: Sequence[float], *, seed: int = 0, resamples: int = 20_000) -> float:
    """Return the two-sided p-value of a paired permutation test: the sign of each difference may be either.

    It is exact as long as the possible sums are few, which those of the pass rates of some hundred cases are.
    Otherwise the signs are drawn at random, with the seed; of 200 differences or more, the sum is taken as
    normal.

    Args:
        differences: One difference per case.
        seed: The seed of the random signs.
        resamples: The number of random draws.

    Raises:
        UndecidedError: There are no differences.
    """
    if not differences:
        raise UndecidedError("There is nothing to compare: no case was decided in both reports.")
    sizes = [abs(each) for each in differences if each]
    if not sizes:
        return 1.0
    exact = _exact_p_value(differences)
    if exact is not None:
        return exact
    if len(sizes) >= _MANY_SIGNS:
        deviation = math.sqrt(math.fsum(size * size for size in sizes))
        return math.erfc(abs(math.fsum(differences)) / deviation / math.sqrt(2))
    observed = abs(math.fsum(differences)) * (1 - 1e-12)
    generator = random.Random(seed)
    extreme = 0
    for _ in range(resamples):
        signs = generator.getrandbits(len(sizes))
        total = math.fsum(size if signs >> place & 1 else -size for place, size in enumerate(sizes))
        extreme += abs(total) >= observed
    return (extreme + 1) / (resamples + 1)


def _exact_p_value(differences: Sequence[float]) -> float | None:
    """Return the p-value from the distribution of all signs; None when it has too many values."""
    parts = [Fraction(each).limit_denominator(_DENOMINATOR) for each in differences]
    if any(abs(float(part) - each) > 1e-12 for part, each in zip(parts, differences, strict=True)):
        return None
    scale = math.lcm(*(part.denominator for part in parts))
    numbers = [int(part * scale) for part in parts if part]
    observed, greatest = abs(sum(numbers)), sum(map(abs, numbers))
    if not observed:
        return 1.0
    bits = len(numbers) + 1
    if greatest * bits > _MAX_EXACT_BITS:
        return None
    ways = 1  # the number of ways to choose numbers with the sum s is in the digit s, to the base 2 ** bits
    for number in numbers:
        ways += ways << (abs(number) * bits)
    tail = ways >> ((greatest + observed) // 2 * bits)
    return float(Fraction(2 * (tail % ((1 << bits) - 1)), 2 ** len(numbers)))  # the sum of its digits


def effect_size(differences: Sequence[float]) -> float | None:
    """Return the mean difference in standard deviations (Cohen's d of pairs); None where it has none.

    Args:
        differences: One difference per case.
    """
    if len(differences) < 2:
        return None
    spread = stdev(differences)
    return fmean(differences) / spread if spread > _ROUNDING else None


def cases_needed(differences: Sequence[float], *, confidence: float = DEFAULT_CONFIDENCE) -> int | None:
    """Return the number of cases that would decide a difference like the observed one.

    It is the sample size of a paired test with a power of 80 %, and no less than the number with which, with
    that probability, enough cases change for a permutation test to be significant at all. None when the mean
    difference is 0, which no number of cases distinguishes from nothing.

    Args:
        differences: One difference per case.
        confidence: The confidence of the test.
    """
    mean = fmean(differences) if differences else 0.0
    if abs(mean) < _ROUNDING:
        return None
    changed = sum(1 for each in differences if abs(each) > _ROUNDING) / len(differences)
    least = _cases_with_changes(math.ceil(1 + math.log2(1 / (1 - confidence))), changed)
    if len(differences) < 2:
        return least
    normal = NormalDist()
    quantiles = normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(POWER)
    return max(least, math.ceil((quantiles * stdev(differences) / mean) ** 2))


def _cases_with_changes(changes: int, part: float) -> int:
    """Return the number of cases of which at least so many change with a probability of `POWER`."""
    spread = NormalDist().inv_cdf(POWER) * math.sqrt(1 - part)
    root = (spread + math.sqrt(spread * spread + 4 * changes)) / (2 * math.sqrt(part))
    return math.ceil(root * root - _ROUNDING)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for multiple comparisons by the method of Holm, in the same order.

    Args:
        p_values: The p-value of each comparison.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    greatest = 0.0
    for rank, index in enumerate(order):
        greatest = max(greatest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = greatest
    return adjusted


def cohens_kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Return the agreement of two raters beyond chance; None when chance alone makes them agree.

    Args:
        pairs: The two ratings of each item.
    """
    if not pairs:
        return None
    count = len(pairs)
    agreement = sum(first == second for first, second in pairs) / count
    first_yes = sum(first for first, _ in pairs) / count
    second_yes = sum(second for _, second in pairs) / count
    chance = first_yes * second_yes + (1 - first_yes) * (1 - second_yes)
    return None if chance == 1 else (agreement - chance) / (1 - chance)
