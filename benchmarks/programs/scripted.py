"""The programs on scripted answers, without a model: is each solvable?

nighthawk-async eval benchmarks.programs.scripted
"""

from nighthawk_async.evals import Evaluation

from . import cases, find, scorers
from .program import VERSIONS, Ended, Version
from .scripts import run_scripted, scripted_model

__all__ = ["evaluation", "solving"]


def solving(version: Version) -> Evaluation:
    """The evaluation of a version on models that make no mistake.

    Args:
        version: The version.
    """

    async def solve(program: str, given: str) -> Ended:
        found, chosen = find(program, given)
        return await run_scripted(found, chosen, version, scripted_model(chosen, version))

    name = f"{__name__}:{version.replace('-', '_')}"
    return Evaluation(solve, cases, scorers=scorers, name=name, at_least=1)


evaluation = [solving(version) for version in VERSIONS]
