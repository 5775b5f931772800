"""Variants of cases: a model writes them, and people review them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict

from ..executors.choice import ExecutorChoice
from ..parallel import map as parallel_map
from ..policies.people.questions import ask_user
from ..steps import step
from ..types.json import is_whole_number
from .cases import Case
from .errors import EvaluationError

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
