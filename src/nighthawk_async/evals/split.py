"""The parts of a set of cases: some to train on, the others held out."""

import math
from collections.abc import Callable, Sequence

from .case_variants import origin_of
from .cases import Case
from .errors import CaseError, EvaluationError
from .seeds import case_order

_LEAST_TRAINING = 4


def split_cases(
    cases: Sequence[Case], *, held_out: float, seed: int, confidence: float
) -> tuple[list[Case], list[Case]]:
    """Split cases into those to train on and those that are held out.

    Both parts have about the same share of every expectation, or of every combination of tags where nearly
    all expectations differ. Variants are in the part of their case, and so are cases with equal inputs:
    otherwise what is learned from the one would be tested on the other.

    Args:
        cases: The cases.
        held_out: The part that is held out.
        seed: The seed of the split.
        confidence: The confidence of the comparison on the part that is held out.

    Raises:
        CaseError: There are too few cases for a comparison that could decide anything.
        EvaluationError: The part is no number between 0 and 1.
    """
    if isinstance(held_out, bool) or not 0 < held_out < 1:
        raise EvaluationError(f"held_out is a part of the cases between 0 and 1, not {held_out!r}.")
    families = _families(sorted(case_order(seed, cases), key=_stratum(cases)))
    training: list[Case] = []
    kept: list[Case] = []
    for index, family in enumerate(families):
        is_out = math.floor((index + 1) * held_out) > math.floor(index * held_out)
        (kept if is_out else training).extend(family)
    least = math.ceil(1 + math.log2(1 / (1 - confidence)))
    if len(kept) < least or len(training) < _LEAST_TRAINING:
        needed = max(math.ceil(least / held_out), math.ceil(_LEAST_TRAINING / (1 - held_out)))
        raise CaseError(
            f"There are too few cases to improve a block: {len(cases)}, of which {len(training)} to train on "
            f"and {len(kept)} held out. Fewer than {least} held-out cases can decide nothing at a confidence "
            f"of {confidence:g}, and {_LEAST_TRAINING} are needed to train on: give {needed} cases or more."
        )
    return case_order(seed, training), case_order(seed, kept)


def example_cases(training: Sequence[Case], count: int) -> list[Case]:
    """Return cases that can be shown as examples, with expectations as different as possible.

    Args:
        training: The cases to train on; `_LEAST_TRAINING` of them are left.
        count: The greatest number of examples.
    """
    usable = [case for case in training if case.has_expected and case.raises is None]
    count = min(count, max(0, len(training) - _LEAST_TRAINING))
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int, Case]] = []
    for place, case in enumerate(usable):
        expected = repr(case.expected)
        seen[expected] = seen.get(expected, 0) + 1
        ranked.append((seen[expected], place, case))
    return [case for *_, case in sorted(ranked, key=lambda each: each[:2])[:count]]


def _families(cases: Sequence[Case]) -> list[list[Case]]:
    """Return cases in groups that are not split, in the order of their first cases."""
    family_of_name: dict[str, str] = {}
    family_of_inputs: dict[str, str] = {}
    for case in sorted(cases, key=lambda each: origin_of(each) != each.name):  # variants after their cases
        origin = origin_of(case)
        family = family_of_inputs.setdefault(repr(case.build_inputs()), family_of_name.get(origin, origin))
        family_of_name[case.name] = family
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(family_of_name[case.name], []).append(case)
    return list(families.values())


def _stratum(cases: Sequence[Case]) -> Callable[[Case], str]:
    """Return the function that says which cases are of one kind."""

    def expectation(case: Case) -> str:
        return str(case.raises) if case.raises is not None else repr(case.expected)

    def tags(case: Case) -> str:
        return "\0".join(sorted(case.tags))

    kinds = {expectation(case) for case in cases}
    return expectation if len(kinds) <= len(cases) / 2 else tags
