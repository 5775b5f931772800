"""The case `programs`: twenty-five programs whose blocks share the state of Python, and the same by hand.

    nighthawk-async eval benchmarks.programs --model provider:name            both versions, side by side
    nighthawk-async eval benchmarks.programs:natural --model provider:name    one version
    nighthawk-async eval benchmarks.programs.scripted                         both on scripted answers

`README.md` says what is measured and what is not.
"""

from nighthawk_async.evals import Case, Evaluation, Score, Trial

from .lines import lines_of
from .program import Ended, Input, Program
from .running import run_version
from .suite import PROGRAMS

__all__ = ["PROGRAMS", "by_hand", "cases", "evaluation", "find", "natural", "scorers"]


async def run_natural(program: str, given: str) -> Ended:
    """Run the version of a program with natural blocks.

    Args:
        program: The name of the program.
        given: The name of its input.
    """
    return await run_version(*find(program, given), "natural")


async def run_by_hand(program: str, given: str) -> Ended:
    """Run the version of a program with chat calls.

    Args:
        program: The name of the program.
        given: The name of its input.
    """
    return await run_version(*find(program, given), "by-hand")


def find(program: str, given: str) -> tuple[Program, Input]:
    """Return a program and its input.

    Args:
        program: The name of the program.
        given: The name of the input.
    """
    found = next(each for each in PROGRAMS if each.name == program)
    return found, next(each for each in found.inputs if each.name == given)


async def checks(trial: Trial) -> Score:
    """Score the end of a run by the part of checks that hold; it passes when all of them do."""
    verdicts = find(**trial.inputs)[0].verdicts(find(**trial.inputs)[1], trial.output)
    failed = [name for name, verdict in verdicts.items() if not verdict]
    return Score(1 - len(failed) / len(verdicts), passed=not failed, reason="; ".join(failed))


async def blocks(trial: Trial) -> Score:
    """Count the blocks, or chat calls, of a run. It always passes."""
    return Score(trial.output.blocks, passed=True)


async def responses_per_block(trial: Trial) -> Score:
    """Count the responses to a block, or to a chat call, on average. It always passes."""
    return Score(trial.usage.requests / max(trial.output.blocks, 1), passed=True)


async def lines_of_code(trial: Trial) -> Score:
    """Count the lines of the version. It always passes."""
    program, _ = find(**trial.inputs)
    return Score(lines_of(program.version(trial.output.version)), passed=True)


scorers = (checks, blocks, responses_per_block, lines_of_code)
cases = [
    Case(
        f"{program.name}/{given.name}",
        inputs={"program": program.name, "given": given.name},
        expected=repr(given.expected if given.raises is None else given.raises.__name__),
        tags=(*program.features, program.name),
    )
    for program in PROGRAMS
    for given in program.inputs
]
natural, by_hand = evaluation = [
    Evaluation(
        subject,
        cases,
        scorers=scorers,
        name=f"{__name__}:{name}",
        model="local:smollm2-135m",
        timeout=120,
    )
    for name, subject in (("natural", run_natural), ("by_hand", run_by_hand))
]
