"""Sets of cases: variants that a model writes and people review, and parts that are held out."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict

from ..executors.choice import ExecutorChoice
from ..parallel import map as parallel_map
from ..policies.people.questions import ask_user
from ..steps import step
from ..suggestions import did_you_mean
from ..types.json import is_whole_number
from .cases import Case, case_order
from .errors import CaseError, EvaluationError

_PROGRAM = """
Write <count> different variants of <inputs>, the arguments of a function, to test it with. Follow
<instruction>.
Set <:variants> to a list of them. Each has the keys of <inputs>, with values of the same types.
"""
_EXPECTED = "The right result for each of them is <expected>.\n"
_TAG = "variant"
_NUMBERS = re.compile(r"( ~\d+)+$")
_INSTRUCTION = "Change the wording, the order and the length, so that the right result stays the same."


async def variants(
    case: Case, count: int = 5, *, instruction: str | None = None, model: ExecutorChoice | None = None
) -> list[Case]:
    """Have a model write variants of a case, within a run. People should review them: `reviewed`.

        new = await reviewed(await variants(case, 5))

    A variant has the expectation of the case, the tag `variant`, and the name of the case with a number.
    Inputs that the case or another variant has are left out, so there may be fewer than were asked for.

    Args:
        case: The case. Its inputs are plain data.
        count: The number of variants.
        instruction: How they differ from the case; None for wording, order and length.
        model: The model; see `nighthawk_async.natural_function`. None for that of the run.

    Raises:
        EvaluationError: The count is no positive integer.
        CaseError: The inputs of the case cannot be built.
        NighthawkError: No run is active.
        ExecutionError: The model gave no variants of the right types.
    """
    if not is_whole_number(count) or count < 1:
        raise EvaluationError(f"count is a positive integer, not {count!r}.")
    inputs = case.build_inputs()
    values: dict[str, Any] = {"count": count, "inputs": inputs, "instruction": instruction or _INSTRUCTION}
    program = _PROGRAM
    if case.has_expected:
        program, values["expected"] = program + _EXPECTED, case.expected
    written = await step(program, values, outputs={"variants": list[_type_of(inputs)]}, model=model)
    found: list[Mapping[str, Any]] = [inputs]
    variants: list[dict[str, Any]] = written.variants
    for each in variants:
        if each not in found and len(found) <= count:
            found.append(each)
    return [
        replace(case, name=f"{case.name} ~{number}", inputs=each, tags=(*case.tags, _TAG))
        for number, each in enumerate(found[1:], start=1)
    ]


def origin_of(case: Case) -> str:
    """Return the name of the case of which a case is a variant; its own name when it is none."""
    return _NUMBERS.sub("", case.name) if _TAG in case.tags else case.name


def _type_of(inputs: Mapping[str, Any]) -> Any:
    """Return the type of mappings with the keys and the types of values of the inputs."""
    make: Any = TypedDict  # its fields are known only here
    kind = make("Inputs", {name: type(value) for name, value in inputs.items()})
    kind.__pydantic_config__ = ConfigDict(extra="forbid")
    return kind


async def reviewed(cases: Iterable[Case]) -> list[Case]:
    """Ask people about each case, through the handler of the run, and return those that they keep.

    Args:
        cases: The cases.

    Raises:
        NoHumanError: There is nobody to ask.
        NighthawkError: No run is active.
    """

    async def is_kept(case: Case) -> bool:
        inputs = ", ".join(f"{name}={value!r}" for name, value in case.build_inputs().items())
        expected = f", expected {case.expected!r}" if case.has_expected else ""
        return await ask_user(f"Keep the case {case.name!r}? {inputs}{expected}", schema=bool)

    given = list(cases)
    kept = await parallel_map(is_kept, given)
    return [case for case, is_wanted in zip(given, kept, strict=True) if is_wanted]


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


def named_splits(
    cases: Iterable[Case], splits: Mapping[str, Iterable[str]]
) -> Mapping[str, tuple[Case, ...]]:
    """Divide cases into named parts, such as those to tune on and those that are held out.

        parts = named_splits(cases, {"tune": ["short", "long"], "held out": ["empty"]})
        report = await evaluate(stars, parts["held out"])

    What is learned from one part must not be tested on itself, so every case is in exactly one part, and
    cases that say the same are in one: those with equal inputs, and the variants of a case.

    Args:
        cases: The cases.
        splits: The names of the cases of each part, by the name of the part. A variant without a mention of
            its own is in the part of its case.

    Returns:
        The cases of each part, in the order in which they were given.

    Raises:
        CaseError: A name is unknown, mentioned twice, or in two parts; cases that say the same are in
            different parts; or a case is in none.
    """
    given = tuple(cases)
    names = {case.name for case in given}
    part_of: dict[str, str] = {}
    for part, mentioned in splits.items():
        for name in mentioned:
            if name not in names:
                raise CaseError(f"Split {part!r}: there is no case {name!r}.{did_you_mean(name, names)}")
            if name in part_of:
                again = (
                    f"in {part_of[name]!r} and in {part!r}" if part_of[name] != part else f"twice in {part!r}"
                )
                raise CaseError(f"Case {name!r} is {again}; every case is in one part.")
            part_of[name] = part
    for family in _families(given):
        parts = {part_of[case.name]: case.name for case in family if case.name in part_of}
        if len(parts) > 1:
            (one, first), (other, second), *_ = parts.items()
            raise CaseError(
                f"Case {first!r} in {one!r} and case {second!r} in {other!r} say the same: they are "
                "variants, or have equal inputs. Put them into one part."
            )
        if not parts:
            raise CaseError(f"Case {family[0].name!r} is in no part.")
        part_of.update((case.name, next(iter(parts))) for case in family)
    return {part: tuple(case for case in given if part_of[case.name] == part) for part in splits}


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
