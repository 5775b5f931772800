"""`Evaluation`, and what makes one of a test function. pytest is not imported here."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypedDict, TypeVar, Unpack, cast

from ..executors.choice import ExecutorChoice
from ..parallel import ProgressTarget
from ..policies.budgets.budget import Budget
from ..signatures import read_signature
from .cases import Case, Subject, checked_cases
from .errors import EvaluationError
from .evaluating import OnTrial, evaluate, subject_name
from .marks import CASE_FIXTURE, EXECUTOR_FIXTURE, MARK, is_evaluation
from .report import Report
from .scores import DEFAULT_PASS_MARK, QuickScorer, Scorer
from .statistics import DEFAULT_CONFIDENCE

_Function = TypeVar("_Function", bound=Callable[..., Any])


class EvaluationOptions(TypedDict, total=False):
    """The options of `Evaluation.test`, which are those of `Evaluation`."""

    scorers: Iterable[Scorer] | None
    trials: int
    at_least: float | None
    name: str | None
    max_concurrent: int | None
    budget: Budget | None
    model: ExecutorChoice | None
    seed: int
    pass_mark: float
    confidence: float
    timeout: float | None
    transport_retries: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A subject with its cases, scorers and settings, for `nighthawk-async eval` and pytest.

        evaluation = Evaluation(stars, cases, scorers=[equals()], trials=5, at_least=0.8)

    Args:
        subject: The function; see `evaluate`.
        cases: The cases. Their names differ.
        scorers: The scorers; None for `equals()`.
        trials: The number of trials of each case.
        at_least: The least pass rate that is enough, from 0 to 1; None for any.
        name: The name of the subject in reports; None for `module:function`.
        max_concurrent: The greatest number of trials in flight at once; None for all.
        budget: The budget of all trials and scorers together.
        model: The model of the steps, as for `nighthawk_async.run`: a model id, a configuration, a `Model`
            or an executor; None for the one that the command or the test gives.
        seed: The seed of the trials and of intervals.
        pass_mark: The least number that passes, when a scorer returns one.
        confidence: The confidence of intervals and comparisons.
        timeout: The time of each call of the subject, in seconds; None for no limit.
        transport_retries: The number of times that a trial is begun again because of a transport error.

    Raises:
        EvaluationError: `at_least` is no number from 0 to 1.
    """

    subject: Subject
    cases: Iterable[Case]
    _: KW_ONLY
    scorers: Iterable[Scorer] | None = None
    trials: int = 1
    at_least: float | None = None
    name: str | None = None
    max_concurrent: int | None = 8
    budget: Budget | None = None
    model: ExecutorChoice | None = None
    seed: int = 0
    pass_mark: float = DEFAULT_PASS_MARK
    confidence: float = DEFAULT_CONFIDENCE
    timeout: float | None = None
    transport_retries: int = 2

    def __post_init__(self) -> None:
        check_at_least(self.at_least)
        object.__setattr__(self, "cases", tuple(self.cases))
        if self.scorers is not None:
            object.__setattr__(self, "scorers", tuple(self.scorers))

    @property
    def title(self) -> str:
        """The name of the subject in reports."""
        return self.name or subject_name(self.subject)

    async def run(
        self,
        *,
        path: str | os.PathLike[str] | None = None,
        on_trial: OnTrial | None = None,
        progress: ProgressTarget | None = None,
    ) -> Report:
        """Evaluate the subject. Arguments and errors are those of `evaluate`."""
        return await evaluate(
            self.subject,
            self.cases,
            scorers=None if self.scorers is None else tuple(self.scorers),
            trials=self.trials,
            max_concurrent=self.max_concurrent,
            budget=self.budget,
            model=self.model,
            seed=self.seed,
            path=path,
            name=self.title,
            pass_mark=self.pass_mark,
            confidence=self.confidence,
            timeout=self.timeout,
            transport_retries=self.transport_retries,
            on_trial=on_trial,
            progress=progress,
        )

    @staticmethod
    def test(
        *, cases: Iterable[Case] | None = None, **options: Unpack[EvaluationOptions]
    ) -> Callable[[_Function], _Function]:
        """Make a test function an evaluation, of which pytest has a test for each case.

        With cases, the function is the subject:

            @Evaluation.test(cases=CASES, trials=5, at_least=0.8)
            async def test_stars(review: str) -> int:
                return await stars(review)

        If no case has an expected result and there are no scorers, a trial passes when the function returns,
        so it may have assertions. Without cases, it has no parameters, and returns an `Evaluation`, whose
        settings the options replace:

            @Evaluation.test(trials=5, at_least=0.8)
            def test_stars() -> Evaluation:
                return Evaluation(stars, CASES, scorers=[equals()])

        pytest loads the plugin that this needs by itself. The first test of an evaluation runs all its
        selected cases, in parallel.
        `nighthawk-async eval` takes the function too.

        Args:
            cases: The cases; None if the function returns an `Evaluation`.
            options: The settings; see `Evaluation`. Under pytest, `at_least` is 1 unless it is given.

        Raises:
            EvaluationError: There is no such option, or `at_least` is no number from 0 to 1.
        """
        unknown = sorted(set(options) - set(EvaluationOptions.__annotations__))
        if unknown:
            known = ", ".join(("cases", *EvaluationOptions.__annotations__))
            raise EvaluationError(f"@Evaluation.test has no option {unknown[0]!r}; its options are {known}.")
        check_at_least(options.get("at_least"))
        given = None if cases is None else tuple(cases)

        def declare(function: _Function) -> _Function:
            if not inspect.isfunction(function):
                raise EvaluationError(f"@Evaluation.test(…) decorates a function, not {function!r}.")

            @functools.wraps(function)
            def case_test(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            parameters = [name for name in read_signature(function).parameters if name == "self"]
            vars(case_test)["__signature__"] = inspect.Signature(  # pytest asks for what the row needs
                [
                    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                    for name in (*parameters[:1], CASE_FIXTURE, EXECUTOR_FIXTURE, "request")
                ]
            )
            vars(case_test)[MARK] = _Declaration(given, cast("Mapping[str, Any]", options))
            return cast("_Function", case_test)

        return declare


_RETURNS = QuickScorer(name="returns", score=lambda trial: True)
"""The scorer of a test that has assertions, and no expected results."""


@dataclass(frozen=True, slots=True)
class _Declaration:
    cases: tuple[Case, ...] | None
    options: Mapping[str, Any]

    def evaluation(self, function: Callable[..., Any]) -> Evaluation:
        shown = f"{getattr(function, '__name__', function)}"
        if self.cases is not None:
            made = Evaluation(function, self.cases, **self.options)
            has_assertions = made.scorers is None and not any(case.has_expected for case in self.cases)
            return replace(made, scorers=[_RETURNS]) if has_assertions else made
        if inspect.iscoroutinefunction(inspect.unwrap(function)):
            raise EvaluationError(
                f"{shown} is async, so it is a subject: give its cases, @Evaluation.test(cases=…), or let a "
                "plain def return an Evaluation."
            )
        made = function()
        if not isinstance(made, Evaluation):
            raise EvaluationError(
                f"{shown} must return an Evaluation, not {made!r}; or give cases, @Evaluation.test(cases=…), "
                "so that it is the subject itself."
            )
        return replace(made, **self.options)


def declared_evaluation(function: Callable[..., Any]) -> Evaluation:
    """Return the evaluation of a function that is decorated with `Evaluation.test`.

    Args:
        function: The function, bound if it is a method.

    Raises:
        CaseError: The cases cannot be used.
        EvaluationError: The function returns no evaluation.
    """
    declaration = getattr(function, MARK, None)
    if not isinstance(declaration, _Declaration):
        raise EvaluationError(f"{function!r} is not decorated with @Evaluation.test.")
    instance = getattr(function, "__self__", None)
    plain = inspect.unwrap(function, stop=lambda each: not is_evaluation(each))
    made = declaration.evaluation(plain if instance is None else plain.__get__(instance))
    checked_cases(made.cases, made.subject)
    return made


def check_at_least(value: object) -> None:
    """Check a least pass rate.

    Raises:
        EvaluationError: It is no number from 0 to 1.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1):
        return
    raise EvaluationError(f"at_least is a number from 0 to 1, not {value!r}.")
