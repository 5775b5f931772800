"""Scores: trials as scorers see them, and the scores that they give."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, TypeAlias, cast

from ..types.messages import Citation
from ..types.usage import Usage
from ..values.error_text import callable_name
from .cases import Case
from .errors import EvaluationError, ScoreError

DEFAULT_PASS_MARK = 0.5
SHOWN_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one trial by one scorer.

    Args:
        value: A finite number, better the greater it is. Without `passed`, from 0 to 1.
        passed: Whether the trial passes; None for whether the value reaches the evaluation's `pass_mark`.
        reason: The reason, for people.
    """

    value: float
    _: KW_ONLY
    passed: bool | None = None
    reason: str = ""

    def __str__(self) -> str:
        """The value, whether it passes, and the reason: `0.8, passed: its words`."""
        verdict = "" if self.passed is None else ", passed" if self.passed else ", failed"
        return f"{self.value:g}{verdict}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial that has returned, as a scorer sees it.

    Args:
        case: The case.
        number: The number of the trial of the case, counted from 1.
        seed: The seed of the trial.
        inputs: The arguments that the subject was called with, in their state after the call.
        output: The result.
        seconds: The time that the call took, in seconds.
        usage: The usage of the subject's model requests.
        citations: The sources that the model cited in the last step of the subject.
    """

    case: Case
    number: int
    seed: int
    inputs: Mapping[str, Any]
    output: Any
    seconds: float
    usage: Usage
    citations: tuple[Citation, ...] = ()

    @property
    def expected(self) -> Any:
        """The expected result.

        Raises:
            EvaluationError: The case has none.
        """
        if not self.case.has_expected:
            raise EvaluationError(f"Case {self.case.name!r} has no expected result: give it expected=….")
        return self.case.expected


Scored: TypeAlias = bool | float | Score
"""The result of a scorer: whether the trial passes, a number from 0 to 1, or a score."""

Scorer: TypeAlias = Callable[[Trial], Scored | Awaitable[Scored]]
"""A function of a trial: `def`, which runs in a worker thread, `async def`, or a natural function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickScorer:
    """A scorer that needs no thread, because it cannot block. Made by the functions of this package.

    Args:
        name: Its name in reports.
        score: Returns the score of a trial.
    """

    name: str
    score: Callable[[Trial], Scored]

    def __call__(self, trial: Trial) -> Scored:
        """Return the score of a trial."""
        return self.score(trial)


def scorer_name(scorer: Callable[..., object]) -> str:
    """Return the name of a scorer in reports: its attribute `name`, or its name as a function."""
    for attribute in ("name", "__name__"):
        name = getattr(scorer, attribute, None)
        if isinstance(name, str) and name:
            return name
    return callable_name(scorer)


def checked_scorers(scorers: object) -> Mapping[str, Scorer]:
    """Return scorers by name.

    Raises:
        EvaluationError: There are none, one cannot be called, or two have one name.
    """
    if not isinstance(scorers, Iterable):
        raise EvaluationError(f"scorers is a list of scorers, not {scorers!r}.")
    given = tuple(cast("Iterable[object]", scorers))
    if not given:
        raise EvaluationError(
            "An evaluation needs at least one scorer, such as nighthawk_async.evals.equals()."
        )
    named: dict[str, Scorer] = {}
    for scorer in given:
        if not callable(scorer) or isinstance(scorer, type):
            raise EvaluationError(f"A scorer must be a function of a trial, not {scorer!r}.")
        name = scorer_name(scorer)
        if name in named:
            raise EvaluationError(
                f"Two scorers have the name {name!r}; scores are kept by name. Give one another: name=…."
            )
        named[name] = cast("Scorer", scorer)
    return named


def checked_score(scored: object, pass_mark: float) -> Score:
    """Return the result of a scorer as a score that says whether the trial passes.

    Args:
        scored: The result.
        pass_mark: The least value that passes.

    Raises:
        ScoreError: It is no score, not a finite number, or a plain number outside 0 to 1.
    """
    if isinstance(scored, bool):
        return _PASSED if scored else _FAILED
    score = scored if isinstance(scored, Score) else Score(cast("float", scored))
    value = cast("object", score.value)
    if not isinstance(value, Real):
        raise ScoreError(f"a scorer returns a bool, a number from 0 to 1, or a Score, not {scored!r}")
    if not isinstance(cast("object", score.passed), bool | None):
        raise ScoreError(f"the passed of a score is a bool or None, not {score.passed!r}")
    value = float(value)
    if not math.isfinite(value):
        raise ScoreError(f"a score is a finite number, not {value!r}")
    if score.passed is None and not 0 <= value <= 1:
        raise ScoreError(
            f"a score without passed= is a number from 0 to 1, not {value!r}; return "
            f"Score({value!r}, passed=…)"
        )
    passed = value >= pass_mark if score.passed is None else score.passed
    return Score(value, passed=passed, reason=short_text(str(score.reason)))


def short_text(text: str) -> str:
    """Return a text for reports: cut if it is long, and without half surrogates, which no file can hold."""
    shown = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    return shown if shown.isascii() else shown.encode(errors="backslashreplace").decode()


_PASSED = Score(1.0, passed=True)
_FAILED = Score(0.0, passed=False)
