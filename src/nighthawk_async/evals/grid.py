"""`evaluate_grid`: several arms, which are subjects with executors, on the same cases, under one budget."""

import hashlib
import math
import os
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from ..configuration import StepExecutorConfiguration
from ..executors.choice import ExecutorChoice, chosen_executor
from ..kernel.context import ConfigurableStepExecutor, StepExecutor
from ..kernel.environment import Environment, get_environment, using_environment
from ..kernel.usage_meter import UsageMeter
from ..observation import NodeWriter, observed, using_node_writer
from ..parallel import map as parallel_map
from ..parallel.calling import checked_max_concurrent
from ..policies.budgets.budget import Budget
from ..types.json import is_text
from .cases import Case, Subject, case_order
from .errors import EvaluationError
from .evaluating import EvaluationRun, prepared_evaluation
from .grid_report import STOPPED, Grid, Passes, StoppingRule
from .results import TrialResult
from .scores import DEFAULT_PASS_MARK, Scorer
from .statistics import DEFAULT_CONFIDENCE
from .trials import model_name, trial_environment


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a grid: one subject on one model.

        Arm("short, nano", classify_short, model="openai-responses:gpt-5.4-nano")

    Args:
        name: Its name, unique in the grid.
        subject: The function.
        model: The model of its steps, as for `nighthawk_async.run`: a model id or an executor. None for
            that of the active run.
    """

    name: str
    subject: Subject
    _: KW_ONLY
    model: ExecutorChoice | None = None

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.strip():
            raise EvaluationError(f"The name of an arm is a text that is not empty, not {self.name!r}.")
        if any("\ud800" <= each <= "\udfff" for each in self.name):  # it is written to files
            raise EvaluationError(f"The name of an arm is text without surrogates, not {self.name!r}.")
        if not callable(self.subject):
            raise EvaluationError(f"Arm {self.name!r}: the subject is a function, not {self.subject!r}.")

    @classmethod
    def product(
        cls,
        subjects: Mapping[str, Subject],
        models: Mapping[str, ExecutorChoice] | Sequence[str] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "list[Arm]":
        """Return an arm for each subject with each model and each setting, as named.

            Arm.product(
                {"short": classify_short, "long": classify_long},
                ["openai-responses:gpt-5.4-nano", "local:smollm2-135m"],
                {"cold": {"model_settings": {"temperature": 0}}, "5 turns": {"max_turns": 5}},
            )

        The names of the arms are those of their parts, joined with commas; a part that is the only one of its
        kind is left out of them, except that of the subject.

        Args:
            subjects: The variants of the function, by names.
            models: The models, by names; or model ids, which are their own names. None for that of the
                active run.
            settings: Fields of `StepExecutorConfiguration`, by names. `model_settings` are added to those
                that the executor has.

        Raises:
            EvaluationError: One of them is empty, or an executor takes no settings.
            ConfigurationError: A setting is wrong, or a model cannot be had.
        """
        named = {"": None} if models is None else _named(models)
        kinds: dict[str, Mapping[str, Any]] = {"": {}} if settings is None else dict(settings)
        for kind, parts in (("subjects", subjects), ("models", named), ("settings", kinds)):
            if not parts:
                raise EvaluationError(f"A product of arms has no {kind}.")
        return [
            cls(
                ", ".join(
                    [
                        subject_name,
                        *([model_name] if len(named) > 1 else []),
                        *([kind] if len(kinds) > 1 else []),
                    ]
                ),
                subject,
                model=_configured(model, fields),
            )
            for subject_name, subject in subjects.items()
            for model_name, model in named.items()
            for kind, fields in kinds.items()
        ]


def _named(models: Mapping[str, ExecutorChoice] | Sequence[str]) -> dict[str, ExecutorChoice | None]:
    if isinstance(models, Mapping):
        return dict(models)
    if isinstance(models, str) or not all(map(is_text, models)):
        raise EvaluationError(
            f"The models of a product are a mapping of names, or a list of model ids, not {models!r}."
        )
    return {each: each for each in models}


def _configured(model: ExecutorChoice | None, fields: Mapping[str, Any]) -> ExecutorChoice | None:
    """Return an executor with other fields of its configuration."""
    if not fields:
        return model
    if model is None:
        raise EvaluationError("Settings need models=…, whose configuration they change.")
    chosen = chosen_executor(model)
    if not isinstance(chosen, ConfigurableStepExecutor):
        raise EvaluationError(f"{type(chosen).__name__} takes no settings: it has no configuration.")
    present = chosen.configuration
    values = {name: getattr(present, name) for name in type(present).model_fields} | dict(fields)
    if "model_settings" in fields:
        values["model_settings"] = {**present.model_settings, **fields["model_settings"]}
    return chosen.with_configuration(StepExecutorConfiguration(**values))


def checked_arms(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Check arms before anything is spent, and return them.

    Args:
        arms: The arms.

    Raises:
        EvaluationError: There are none, two have one name, or one is no arm.
    """
    given = tuple(arms)
    if not given:
        raise EvaluationError("A grid needs at least one arm.")
    names: set[str] = set()
    for arm in given:
        if not isinstance(cast("object", arm), Arm):
            raise EvaluationError(f"An arm is a nighthawk_async.evals.Arm, not {arm!r}.")
        if arm.name.casefold() in names:  # a report is a file of that name
            raise EvaluationError(f"Two arms have the name {arm.name!r}.")
        names.add(arm.name.casefold())
    return given


OnArmTrial: TypeAlias = Callable[[Arm, TrialResult], Awaitable[None] | None]
"""A callback for each trial of an arm that has ended."""

_LOOKS = 10
"""The number of times in each round of trials that arms may be stopped."""

_LEAST_BLOCK = 5
_LONGEST_NAME = 200


async def evaluate_grid(
    arms: Iterable[Arm],
    cases: Iterable[Case],
    *,
    scorers: Sequence[Scorer] | None = None,
    trials: int = 1,
    max_concurrent: int | None = 8,
    budget: Budget | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    stop_early: bool = True,
    pass_mark: float = DEFAULT_PASS_MARK,
    confidence: float = DEFAULT_CONFIDENCE,
    timeout: float | None = None,  # noqa: ASYNC109  (of each call)
    transport_retries: int = 2,
    on_trial: OnArmTrial | None = None,
) -> Grid:
    """Evaluate several arms on the same cases: variants of a function, models, settings.

        grid = await evaluate_grid(Arm.product({"short": short, "long": long}, models), cases, budget=budget)
        print(grid)

    The trials of the arms take turns, case by case in a random order, so that all arms have about the same
    cases when the budget ends. All cases have their first trial before any has its second.

    With `stop_early`, an arm is stopped as soon as the data show that another one passes more: its other
    trials are `not_run`. The test is one by betting on paired differences, which is valid although one looks
    again and again: with a probability of at least `confidence`, the arm with the greatest expected pass rate
    is not stopped. It takes the cases for a random sample, as all figures do. Arms are stopped for their pass
    rate alone, however cheap they are.

    Which trials are run depends on results alone, not on which of them ends first.

    Args:
        arms: The arms, with different names.
        cases: The cases.
        scorers: The scorers; see `evaluate`.
        trials: The number of trials of each case and arm.
        max_concurrent: The greatest number of trials in flight at once, of all arms together; None for all.
        budget: The budget of all arms and scorers together.
        seed: The seed of the trials, of the order of the cases, and of intervals.
        folder: A folder with one report for each arm, made if it is not there. Trials that are decided in it
            are not run again.
        stop_early: Whether arms are stopped that cannot win.
        pass_mark: The least number that passes, when a scorer returns one.
        confidence: The confidence of intervals, comparisons and early stops.
        timeout: The time of each call of a subject, in seconds; None for no limit.
        transport_retries: The number of times that a trial is begun again because of a transport error.
        on_trial: A function, `def` or `async def`, that is called with the arm and each `TrialResult`.

    Returns:
        The grid.

    Raises:
        CaseError: The cases cannot be used with all arms.
        EvaluationError: There are no arms, two have one name, or another argument has a bad value.
        ReportError: A file in the folder belongs to another evaluation, is damaged, or is being written by
            one.
        OSError: The folder cannot be made, or not be written to.
        NighthawkError: An executor or the budget cannot be used.
    """
    checked_max_concurrent(max_concurrent)
    given, samples = checked_arms(arms), tuple(cases)
    executors = _chosen_executors(given)
    runners = [
        _ArmRunner(
            arm,
            executors[arm.name],
            prepared_evaluation(
                arm.subject,
                samples,
                model=model_name(executors[arm.name]),
                scorers=scorers,
                trials=trials,
                seed=seed,
                path=None if folder is None else _report_path(folder, arm.name),
                name=arm.name,
                pass_mark=pass_mark,
                confidence=confidence,
                timeout=timeout,
                transport_retries=transport_retries,
                on_trial=None if on_trial is None else partial(on_trial, arm),
            ),
        )
        for arm in given
    ]
    run = _GridRun(runners, trials=trials, seed=seed, confidence=confidence, stop_early=stop_early)
    async with AsyncExitStack() as stack:
        for runner in runners:
            await stack.enter_async_context(runner.evaluation.writing())
        await stack.enter_async_context(trial_environment(None, budget))
        grid = observed("group", "evaluate a grid", inputs=lambda: {"arms": len(runners)})
        with grid as parent, ExitStack() as nodes:
            for runner in runners:
                nodes.enter_context(runner.ready(parent))
            nodes.enter_context(using_node_writer(None))  # the maps have no nodes of their own
            await run.run(max_concurrent)
    return Grid({runner.arm.name: runner.evaluation.report() for runner in runners})


class _ArmRunner:
    """One arm and its evaluation.

    Args:
        arm: The arm.
        executor: Its executor; None for that of the active run.
        evaluation: Its evaluation.
    """

    def __init__(self, arm: Arm, executor: StepExecutor | None, evaluation: EvaluationRun) -> None:
        self.arm = arm
        self.evaluation = evaluation
        self._executor = executor
        self._environment: Environment | None = None

    @contextmanager
    def ready(self, parent: NodeWriter | None) -> Generator[None, None, None]:
        """Take the executor of the arm into the active environment, and make its node in the tree."""
        environment = get_environment()
        self._environment = replace(
            environment,
            step_executor=self._executor or environment.step_executor,
            usage_meter=UsageMeter(environment.usage_meter),
        )
        with using_node_writer(parent), self.evaluation.nodes():
            yield

    async def run_trial(self, case: Case, number: int) -> None:
        """Run a trial of the arm."""
        assert self._environment is not None
        with using_environment(self._environment):
            await self.evaluation.run_trial((case, number))

    def passes(self, cases: Sequence[Case], trials: int) -> Passes:
        """Return whether the first trials of cases have passed."""
        results = [[self.evaluation.find(case, n) for n in range(1, trials + 1)] for case in cases]
        return [[_passed(each) for each in row if each is not None] for row in results]


def _passed(result: TrialResult) -> bool | None:
    return result.has_passed if result.is_decided else None


class _GridRun:
    """The trials of all arms in their order, and the looks at which arms are stopped.

    Args:
        runners: The arms.
        trials: The number of trials of each case.
        seed: The seed of the order of the cases.
        confidence: The probability that the best arm is not stopped.
        stop_early: Whether arms are stopped.
    """

    def __init__(
        self, runners: Sequence[_ArmRunner], *, trials: int, seed: int, confidence: float, stop_early: bool
    ) -> None:
        self._runners = runners
        self._trials = trials
        self._rule = StoppingRule(arms=len(runners), trials_per_case=trials, confidence=confidence)
        self._cases = case_order(seed, runners[0].evaluation.cases)
        self._stops_early = stop_early and len(runners) > 1

    async def run(self, max_concurrent: int | None) -> None:
        """Run the trials that are not decided yet."""
        count = len(self._cases)
        size = max(_LEAST_BLOCK, math.ceil(count / _LOOKS)) if self._stops_early else count
        for number in range(1, self._trials + 1):
            for start in range(0, count, size):
                block = self._cases[start : start + size]
                jobs = [(runner, case, number) for case in block for runner in self._runners]
                await parallel_map(self._run_job, jobs, max_concurrent=max_concurrent)
                if self._stops_early:
                    self._look(block, number, start)

    async def _run_job(self, job: tuple[_ArmRunner, Case, int]) -> None:
        runner, case, number = job
        await runner.run_trial(case, number)
        spent = runner.evaluation.stop_reason
        if spent is not None and not spent.startswith(STOPPED):
            for each in self._running():  # the other arms as well: their data stay comparable
                each.evaluation.stop_reason = spent

    def _running(self) -> list[_ArmRunner]:
        return [each for each in self._runners if each.evaluation.stop_reason is None]

    def _look(self, block: Sequence[Case], number: int, start: int) -> None:
        """Stop arms that are worse than another one, by the trials that have been run."""
        running = {each.arm.name: each for each in self._running()}
        results = {name: runner.passes(block, number) for name, runner in running.items()}
        stopped = self._rule.look(results, trials=number, start=start)
        for name, better in stopped.items():
            running[name].evaluation.stop_reason = f"{STOPPED}{better} passes more"


def _chosen_executors(arms: Sequence[Arm]) -> dict[str, StepExecutor | None]:
    """Return the executors of arms by their names; equal model ids have one executor."""
    made: dict[str, StepExecutor] = {}
    chosen: dict[str, StepExecutor | None] = {}
    for arm in arms:
        if isinstance(arm.model, str):
            chosen[arm.name] = made.setdefault(arm.model, chosen_executor(arm.model))
        else:
            chosen[arm.name] = None if arm.model is None else chosen_executor(arm.model)
    return chosen


def _report_path(folder: str | os.PathLike[str], arm: str) -> Path:
    """Return the path of the report of an arm, in a folder that is there; different for different arms."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w ,.()=+-]|^\.", lambda match: f"%{ord(match[0]):x}", arm)
    if len(name.encode()) > _LONGEST_NAME:
        name = f"{name[:40]} {hashlib.sha256(arm.encode()).hexdigest()[:16]}"
    return Path(folder, f"{name}.jsonl")
