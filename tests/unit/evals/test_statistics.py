"""The figures of evaluations, against closed forms, all possibilities, and scipy."""

import itertools
import math
import random
from collections.abc import Sequence
from statistics import fmean

import numpy
import pytest
import scipy  # its parts are loaded on first use
from hypothesis import given, strategies as st

from nighthawk_async.evals import EvaluationError, UndecidedError
from nighthawk_async.evals.statistics import (
    bootstrap_interval,
    bootstrap_statistic,
    cases_needed,
    cohens_kappa,
    effect_size,
    holm,
    paired_p_value,
    pass_all,
    pass_at,
)

SPREAD = [each / 997 % 1 for each in range(0, 40 * 311, 311)]
"""Values without ties: percentiles of few of them do not jump."""

RATES = [0.0, 0.2, 1.0, 0.6, 0.4, 1.0, 0.8, 0.2, 1.0, 0.6, 0.0, 0.8]


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[list[bool], int]:
    """Trials of a case, and how many of them are drawn."""
    trials = draw(st.lists(st.booleans(), min_size=1, max_size=8))
    return trials, draw(st.integers(1, len(trials)))


@given(outcomes())
def test_pass_at_k_is_the_mean_over_all_ways_to_draw_k_trials(drawn: tuple[list[bool], int]) -> None:
    trials, k = drawn
    ways = list(itertools.combinations(trials, k))
    expected = sum(map(any, ways)) / len(ways)
    assert pass_at(k, trials=len(trials), passed=sum(trials)) == pytest.approx(expected)


@given(outcomes())
def test_pass_all_k_is_the_mean_over_all_ways_to_draw_k_trials(drawn: tuple[list[bool], int]) -> None:
    trials, k = drawn
    ways = list(itertools.combinations(trials, k))
    expected = sum(map(all, ways)) / len(ways)
    assert pass_all(k, trials=len(trials), passed=sum(trials)) == pytest.approx(expected)


def test_pass_at_k_is_exact_for_many_trials() -> None:
    found = pass_at(10, trials=10_000, passed=5)
    assert found == pytest.approx(1 - scipy.stats.hypergeom.pmf(0, 10_000, 5, 10), rel=1e-9)


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "1"])
def test_a_k_that_is_no_positive_integer_is_refused(k: object) -> None:
    with pytest.raises(EvaluationError, match="k is a positive number of trials"):
        pass_at(k, trials=3, passed=1)  # type: ignore[arg-type]


def test_a_k_larger_than_the_number_of_trials_is_refused() -> None:
    with pytest.raises(EvaluationError, match="k = 4 needs at least 4 trials of each case, but there are 3"):
        pass_at(4, trials=3, passed=1)


def test_the_bootstrap_agrees_with_scipy() -> None:
    ours = bootstrap_interval(SPREAD, seed=3, resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (SPREAD,), numpy.mean, method="percentile", n_resamples=20_000, rng=numpy.random.default_rng(5)
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.01)


def test_the_bootstrap_agrees_with_scipy_at_another_confidence() -> None:
    ours = bootstrap_interval(SPREAD, seed=3, resamples=20_000, confidence=0.8)
    theirs = scipy.stats.bootstrap(
        (SPREAD,),
        numpy.mean,
        method="percentile",
        n_resamples=20_000,
        confidence_level=0.8,
        rng=numpy.random.default_rng(5),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_the_percentiles_are_those_of_numpy() -> None:
    generator = random.Random(7)
    means = [fmean(generator.choices(RATES, k=len(RATES))) for _ in range(500)]
    interval = bootstrap_interval(RATES, seed=7, resamples=500)
    assert list(interval) == pytest.approx(numpy.percentile(means, [2.5, 97.5]).tolist())


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bootstrap_interval(RATES, seed=1) == bootstrap_interval(RATES, seed=1)
    assert bootstrap_interval(RATES, seed=1) != bootstrap_interval(RATES, seed=2)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_cases_that_all_pass_or_all_fail_have_the_interval_of_clopper_and_pearson(
    count: int, value: float
) -> None:
    exact = scipy.stats.binomtest(round(count * value), count).proportion_ci(method="exact")
    assert list(bootstrap_interval([value] * count)) == pytest.approx([exact.low, exact.high])


def test_equal_values_in_between_have_an_interval_around_them_that_shrinks_with_their_number() -> None:
    few, many = bootstrap_interval([0.6] * 3), bootstrap_interval([0.6] * 300)
    assert 0 <= few.low < many.low < 0.6 < many.high < few.high <= 1
    assert many.high - many.low < 0.02


def test_one_case_says_almost_nothing() -> None:
    assert list(bootstrap_interval([0.5])) == pytest.approx([0.0125, 0.9875])


def test_there_is_no_interval_without_cases() -> None:
    with pytest.raises(UndecidedError, match="no interval without a decided case"):
        bootstrap_interval([])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_there_is_no_interval_of_values_that_are_not_finite(value: float) -> None:
    with pytest.raises(EvaluationError, match="not finite"):
        bootstrap_interval([0.5, value])


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, "0.95"])
def test_a_confidence_that_is_no_probability_is_refused(confidence: object) -> None:
    with pytest.raises(EvaluationError, match="confidence is more than 0 and less than 1"):
        bootstrap_interval([0.5, 1.0], confidence=confidence)  # type: ignore[arg-type]


def test_an_interval_is_a_pair_and_contains_numbers() -> None:
    interval = bootstrap_interval(RATES)
    low, high = interval
    assert (low + high) / 2 in interval
    assert high + 0.1 not in interval
    assert str(interval) == f"{low:.3f} to {high:.3f}"


def _scipy_p_value(differences: Sequence[float]) -> float:
    result = scipy.stats.permutation_test(
        (numpy.array(differences),), numpy.mean, permutation_type="samples", n_resamples=numpy.inf
    )
    return float(result.pvalue)


@pytest.mark.parametrize(
    "differences",
    [
        pytest.param([0.2, 0.4, -0.2, 0.6, 0.2, 0.0, 0.4], id="of five trials"),
        pytest.param([1.0, 1.0, 1.0, -1.0, 1.0, 1.0], id="of one trial"),
        pytest.param([1 / 3, -2 / 3, 1 / 3, 1.0, 2 / 3], id="of three trials"),
        pytest.param([1 / 7, 2 / 7, 3 / 7, -1 / 5, 0.5], id="of different numbers of trials"),
    ],
)
def test_the_permutation_test_agrees_with_scipy(differences: list[float]) -> None:
    assert paired_p_value(differences) == pytest.approx(_scipy_p_value(differences))


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=9))
def test_the_permutation_test_agrees_with_all_signs(differences: list[float]) -> None:
    observed = abs(sum(differences))
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [abs(sum(sign * each for sign, each in zip(row, differences, strict=True))) for row in signs]
    expected = sum(total >= observed - 1e-12 for total in sums) / len(signs)
    assert paired_p_value(differences) == pytest.approx(expected)


def test_the_permutation_test_of_any_numbers_draws_signs_at_random() -> None:
    generator = random.Random(2)
    differences = [generator.gauss(0.1, 0.4) for _ in range(14)]
    found = paired_p_value(differences, seed=4)
    assert found == paired_p_value(differences, seed=4)
    assert found == pytest.approx(_scipy_p_value(differences), abs=0.02)


def test_the_permutation_test_of_many_cases_is_exact_and_quick() -> None:
    differences = [0.2] * 300 + [-0.2] * 240
    found = paired_p_value(differences)
    expected = scipy.stats.binomtest(300, 540).pvalue
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_permutation_test_of_very_many_cases_takes_the_sum_as_normal() -> None:
    generator = random.Random(5)
    differences = [generator.gauss(0.02, 0.4) for _ in range(3_000)]
    test = scipy.stats.wilcoxon(differences)
    found = paired_p_value(differences)
    deviation = math.sqrt(sum(each**2 for each in differences))
    assert found == pytest.approx(2 * scipy.stats.norm.sf(abs(sum(differences)) / deviation))
    assert (found < 0.05) == (test.pvalue < 0.05)


def test_reports_that_do_not_differ_have_a_p_value_of_one() -> None:
    assert paired_p_value([0.0, 0.0, 0.0]) == 1.0


def test_there_is_no_p_value_without_cases() -> None:
    with pytest.raises(UndecidedError, match="nothing to compare"):
        paired_p_value([])


def test_the_effect_size_is_that_of_pairs() -> None:
    differences = [0.2, 0.4, -0.2, 0.6]
    test = scipy.stats.ttest_1samp(differences, 0)
    assert effect_size(differences) == pytest.approx(test.statistic / math.sqrt(len(differences)))


@pytest.mark.parametrize("differences", [[], [0.3], [0.2, 0.2, 0.2]])
def test_differences_that_do_not_spread_have_no_effect_size(differences: list[float]) -> None:
    assert effect_size(differences) is None


def test_the_number_of_cases_that_decide_has_the_power_that_it_is_made_for() -> None:
    differences = [0.6, -0.2, 0.2, 0.0, 0.4, -0.2]
    count = cases_needed(differences)
    assert count is not None
    generator = random.Random(1)
    decided = [paired_p_value(generator.choices(differences, k=count)) <= 0.05 for _ in range(300)]
    assert 0.7 < fmean(decided) < 0.92


def test_as_many_cases_are_needed_as_a_permutation_test_needs_at_least() -> None:
    assert paired_p_value([1.0] * 5) > 0.05
    assert cases_needed([1.0] * 2) == 6
    assert paired_p_value([1.0] * 6) < 0.05


def test_no_number_of_cases_decides_where_nothing_differs() -> None:
    assert cases_needed([0.5, -0.5]) is None
    assert cases_needed([]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_agrees_with_its_definition(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected: set[int] = set()
        for rank, index in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
            if p_values[index] * (len(p_values) - rank) > level:
                break
            rejected.add(index)
        assert {index for index, each in enumerate(adjusted) if each <= level} == rejected


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]) == []


def test_kappa_is_agreement_beyond_chance() -> None:
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)


def test_kappa_is_not_defined_where_chance_explains_all() -> None:
    assert cohens_kappa([(True, True)] * 3) is None
    assert cohens_kappa([]) is None
    assert cohens_kappa([(True, True), (False, False)]) == 1.0


def test_the_bootstrap_of_a_statistic_leaves_out_resamples_without_one() -> None:
    pairs = [(True, True)] * 5 + [(False, False)] * 3 + [(True, False)]
    interval = bootstrap_statistic(pairs, cohens_kappa, seed=1)
    assert interval is not None
    assert interval.low < 0.75 < interval.high <= 1
    assert bootstrap_statistic([(True, True)], cohens_kappa) is None


def test_differences_that_are_equal_but_for_rounding_are_equal() -> None:
    differences = [0.8 - 0.6, 0.4 - 0.2, 1.0 - 0.8]
    assert len(set(differences)) > 1
    interval = bootstrap_interval(differences, bounds=(-1.0, 1.0))
    assert interval.low == pytest.approx(bootstrap_interval([0.2] * 3, bounds=(-1.0, 1.0)).low)
    assert effect_size(differences) is None
    assert cases_needed([0.1, 0.2, 0.1 - 0.4]) is None


@pytest.mark.parametrize("differences", [[-1.0] * 2 + [0.0] * 3, [1.0] + [0.0] * 8, [0.5] * 3 + [0.0]])
def test_enough_cases_change_for_the_power(differences: list[float]) -> None:
    count = cases_needed(differences)
    assert count is not None
    generator = random.Random(1)
    decided = [paired_p_value(generator.choices(differences, k=count)) <= 0.05 for _ in range(300)]
    assert fmean(decided) > 0.75
    assert count < 120


def test_the_exact_test_agrees_with_the_distribution_of_all_sums() -> None:
    generator = random.Random(2)
    numbers = [generator.randint(0, 97) - generator.randint(0, 97) for _ in range(150)]
    greatest, total = sum(map(abs, numbers)), abs(sum(numbers))
    ways = numpy.zeros(greatest + 1)
    ways[0] = 1.0
    for number in map(abs, numbers):
        moved = ways / 2
        moved[number:] += ways[: len(ways) - number] / 2
        ways = moved
    expected = 2 * ways[(greatest + total) // 2 :].sum()
    assert paired_p_value([number / 97 for number in numbers]) == pytest.approx(expected)
