"""`evaluate`: trials of a function in parallel, scored, under one budget."""

import hashlib
import inspect
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias, cast

from ..executors.choice import ExecutorChoice, chosen_executor
from ..former_names import takes_former
from ..observation import EVALUATION, NodeWriter, observed, using_node_writer
from ..parallel import ProgressTarget, map as parallel_map
from ..parallel.calling import call_any, checked_max_concurrent, checked_seconds
from ..policies.budgets.budget import Budget
from ..threads import call_in_thread
from ..types.json import is_whole_number
from .cases import Case, Subject, case_digest, checked_cases, is_encodable, trial_seed
from .errors import EvaluationError
from .report import Report, report_of
from .report_file import CaseHeader, ReportHeader, ReportWriter, open_stored, report_lock
from .results import TrialResult
from .scores import DEFAULT_PASS_MARK, Scorer, checked_scorers, equals
from .statistics import DEFAULT_CONFIDENCE, check_confidence
from .trials import BudgetSpentError, TrialSettings, model_name, run_trial, shown_value, trial_environment

_DIGITS = frozenset("0123456789abcdef")
_MOST_LINKS = 8


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder or above it; None where there is none.

    Args:
        folder: The folder. Changes that are not committed are not seen.
    """
    try:
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # of a worktree, or of a submodule
                git = place / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            if (git / "HEAD").is_file():
                return _resolved(git)
    except (OSError, UnicodeDecodeError):
        return None
    return None


def _resolved(git: Path) -> str | None:
    common = git / "commondir"  # in a worktree, references are those of the repository
    folders = [git, git / common.read_text(encoding="utf-8").strip()] if common.is_file() else [git]
    text = (git / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(_MOST_LINKS):
        if not text.startswith("ref:"):
            return text if len(text) >= 40 and _DIGITS.issuperset(text) else None
        text = _reference(folders, text.removeprefix("ref:").strip())
    return None


def _reference(folders: list[Path], name: str) -> str:
    if ".." in name or name.startswith("/"):
        return ""
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").strip()
        packed = folder / "packed-refs"
        lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
        found = next((line for line in lines if line.endswith(f" {name}")), "")
        if found:
            return found.partition(" ")[0]
    return ""


_LARGE_BYTES = 200_000
"""The size of a report from which reading it would hold up other tasks."""

OnTrial: TypeAlias = Callable[[TrialResult], Awaitable[None] | None]
"""A callback for each trial that has ended."""


@takes_former(executor="model", deadline="timeout")
async def evaluate(
    subject: Subject,
    cases: Iterable[Case],
    *,
    scorers: Sequence[Scorer] | None = None,
    trials: int = 1,
    max_concurrent: int | None = 8,
    budget: Budget | None = None,
    model: ExecutorChoice | None = None,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
    name: str | None = None,
    pass_mark: float = DEFAULT_PASS_MARK,
    confidence: float = DEFAULT_CONFIDENCE,
    timeout: float | None = None,  # noqa: ASYNC109  (of each call)
    transport_retries: int = 2,
    on_trial: OnTrial | None = None,
    progress: ProgressTarget | None = None,
) -> Report:
    """Evaluate a function: call it several times for each case, and score every result.

        report = await evaluate(stars, cases, scorers=[equals()], trials=5, model=model, seed=1)

    All cases have their first trial before any has its second. Every trial gets deep copies of the inputs, a
    seed of its own (`current_seed`) and an account of its usage; it shares the run and its connections with
    the others. The order of the results does not depend on which trial ends first.

    When the budget ends, trials that have ended are reported, and all others are `not_run`, including those
    that the budget interrupted.

    Args:
        subject: The function: natural or not, async, or synchronous, which runs in worker threads.
        cases: The cases. Their names differ.
        scorers: The scorers, with different names; a trial passes when all agree. None for `equals()`.
        trials: The number of trials of each case.
        max_concurrent: The greatest number of trials in flight at once; None for all.
        budget: The budget of all trials and scorers together; see `nighthawk_async.budget`.
        model: The model of the steps, as for `nighthawk_async.run`: a model id, a configuration, a `Model` or
            an executor. None for that of the active run.
        seed: The seed of the trials and of intervals.
        path: A file to which each trial is appended as it ends. If it is there, trials that are decided in it
            are not run again: an interrupted evaluation goes on, one that has ended returns its report.
        name: The name of the subject in reports; None for `module:function`.
        pass_mark: The least number that passes, when a scorer returns one.
        confidence: The confidence of intervals and comparisons.
        timeout: The time of each call of the subject, in seconds; None for no limit. A longer call is an
            error.
        transport_retries: The number of times that a trial is begun again because of a transport error.
        on_trial: A function, `def` or `async def`, that is called with each `TrialResult`. An exception from
            it ends the evaluation.
        progress: The receiver of progress; see `nighthawk_async.parallel.map`.

    Returns:
        The report.

    Raises:
        NoExecutorError: The subject runs a natural block, and there is neither a model nor a run.
        CaseError: There are no cases, two have one name, or one does not fit the subject.
        EvaluationError: Another argument has a bad value.
        ReportError: The file belongs to another evaluation, is damaged, or is being written by an evaluation.
        NighthawkError: The model or the budget cannot be used.
    """
    checked_max_concurrent(max_concurrent)
    chosen = None if model is None else chosen_executor(model)
    evaluation = prepared_evaluation(
        subject,
        cases,
        model=model_name(chosen),
        scorers=scorers,
        trials=trials,
        seed=seed,
        path=path,
        name=name,
        pass_mark=pass_mark,
        confidence=confidence,
        timeout=timeout,
        transport_retries=transport_retries,
        on_trial=on_trial,
    )
    async with evaluation.writing(), trial_environment(chosen, budget):
        await evaluation.run(max_concurrent, progress)
    return evaluation.report()


def prepared_evaluation(
    subject: Subject,
    cases: Iterable[Case],
    *,
    model: str | None,
    scorers: Sequence[Scorer] | None,
    trials: int,
    seed: int,
    path: str | os.PathLike[str] | None,
    name: str | None,
    pass_mark: float,
    confidence: float,
    timeout: float | None,
    transport_retries: int,
    on_trial: OnTrial | None,
) -> "EvaluationRun":
    """Check an evaluation before anything is spent.

    Args:
        subject: The function.
        cases: The cases.
        model: The id of the model; None for none.
        scorers: The scorers; see `evaluate` for these and all others.
        trials: The number of trials of each case.
        seed: The seed.
        path: The file of the report.
        name: The name of the subject in reports.
        pass_mark: The least number that passes.
        confidence: The confidence of intervals.
        timeout: The time of each call, in seconds.
        transport_retries: The number of retries because of transport errors.
        on_trial: The callback for trials that have ended.

    Raises:
        CaseError: The cases cannot be used.
        EvaluationError: Another argument has a bad value.
    """
    settings = TrialSettings(
        subject=_checked_subject(subject),
        scorers=checked_scorers((equals(),) if scorers is None else scorers),
        seed=_checked_integer("seed", seed, least=None),
        pass_mark=_checked_pass_mark(pass_mark),
        timeout=None if timeout is None else checked_seconds(timeout, what="timeout"),
        transport_retries=_checked_integer("transport_retries", transport_retries, least=0),
    )
    check_confidence(confidence)
    given = checked_cases(cases, subject)
    header = ReportHeader(
        subject=_checked_name(name) or subject_name(subject),
        subject_digest=_source_digest(subject),
        scorers=tuple(settings.scorers),
        trials_per_case=_checked_integer("trials", trials, least=1),
        seed=seed,
        pass_mark=pass_mark,
        confidence=confidence,
        model=model,
        created_at=time.time(),
        cases=tuple(map(_case_header, given)),
        commit=commit_of(Path.cwd()),
    )
    return EvaluationRun(settings, given, header, path=path, on_trial=on_trial)


class EvaluationRun:
    """The state of an evaluation: the trials that have ended.

    Args:
        settings: The settings of trials.
        cases: The cases.
        header: The description of the evaluation.
        path: The file of the report; None for none.
        on_trial: The callback for trials that have ended.
    """

    def __init__(
        self,
        settings: TrialSettings,
        cases: tuple[Case, ...],
        header: ReportHeader,
        *,
        path: str | os.PathLike[str] | None,
        on_trial: OnTrial | None,
    ) -> None:
        self._settings = settings
        self.cases = cases
        self._header = header
        self._path = path
        self._on_trial = on_trial
        self._results: dict[tuple[str, int], TrialResult] = {}
        self.stop_reason: str | None = None
        self._has_failed = False
        self._nodes = _CaseNodes(header)
        self._writer: ReportWriter | None = None

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None, None]:
        """Go on with the file of the report, if there is one, and append trials to it meanwhile.

        Raises:
            ReportError: The file belongs to another evaluation, is damaged, or is being written by one.
            OSError: It cannot be read or written.
        """
        path = self._path
        if path is None:
            yield
            return
        with report_lock(path):
            is_large = os.path.isfile(path) and os.path.getsize(path) > _LARGE_BYTES  # noqa: ASYNC240  (quick)
            header = self._header
            stored = (
                await call_in_thread(open_stored, path, header) if is_large else open_stored(path, header)
            )
            if stored is not None:
                self._header = stored.header
                self._results = {key: each for key, each in stored.trials.items() if each.is_decided}
            with ReportWriter(path, self._header, stored) as self._writer:
                yield

    def find(self, case: Case, number: int) -> TrialResult | None:
        """Return the result of a trial; None when it has none yet."""
        return self._results.get((case.name, number))

    async def run(self, max_concurrent: int | None, progress: ProgressTarget | None) -> None:
        """Run the trials that are not decided yet."""
        jobs = [
            (case, number) for number in range(1, self._header.trials_per_case + 1) for case in self.cases
        ]
        with self.nodes(), using_node_writer(None):  # the map has no nodes of its own
            await parallel_map(self.run_trial, jobs, max_concurrent=max_concurrent, progress=progress)

    @contextmanager
    def nodes(self) -> Generator[None, None, None]:
        """Report the evaluation, its cases and its trials to the tree during the `with` statement."""
        subject, trials = self._header.subject, self._header.trials_per_case
        attributes = {f"{EVALUATION}subject": subject, f"{EVALUATION}trials": trials}
        inputs = {"items": len(self.cases) * trials}
        with (
            observed(
                "group", f"evaluate {subject}", inputs=lambda: inputs, attributes=lambda: attributes
            ) as node,
            self._nodes.below(node),
        ):
            yield

    async def run_trial(self, job: tuple[Case, int]) -> None:
        """Run a trial, unless it is decided, or the evaluation has stopped."""
        case, number = job
        if (case.name, number) in self._results:
            self._nodes.count(case)
            return
        if self.stop_reason is None:
            try:
                with self._nodes.of(case):
                    result = await run_trial(self._settings, case, number)
            except BudgetSpentError as error:
                self.stop_reason, result = str(error), error.result
        else:
            result = self._not_run(case, number, self.stop_reason)
        await self._keep(result)

    async def _keep(self, result: TrialResult) -> None:
        """Keep a result. The first failure ends the evaluation, and is its only error."""
        if self._has_failed:
            return
        try:
            self._results[result.case, result.number] = result
            if self._writer is not None:
                self._writer.write(result)
            if self._on_trial is not None:
                await call_any(self._on_trial, result)
        except Exception:
            if self._has_failed:
                return
            self._has_failed = True
            raise

    def _not_run(self, case: Case, number: int, reason: str) -> TrialResult:
        return TrialResult(
            case=case.name,
            number=number,
            status="not_run",
            seed=trial_seed(self._header.seed, case.name, number),
            error=reason,
        )

    def report(self) -> Report:
        """Return the report."""
        return report_of(self._header, self._results)


class _CaseNodes:
    """The nodes of cases in the tree: each begins with the first trial and ends with the last.

    Args:
        header: The description of the evaluation.
    """

    def __init__(self, header: ReportHeader) -> None:
        self._trials = header.trials_per_case
        self._digests = {case.name: case.digest for case in header.cases}
        self._parent: NodeWriter | None = None
        self._nodes: dict[str, NodeWriter] = {}
        self._ended: dict[str, int] = {}

    @contextmanager
    def below(self, parent: NodeWriter | None) -> Generator[None, None, None]:
        """Take a node as the parent during the `with` statement."""
        self._parent = parent
        try:
            yield
        finally:
            for node in self._nodes.values():
                node.end("cancelled")

    @contextmanager
    def of(self, case: Case) -> Generator[None, None, None]:
        """Make the node of a case the current one during one of its trials."""
        if self._parent is None:
            yield
            return
        node = self._nodes.get(case.name)
        if node is None:
            digest = self._digests.get(case.name)
            attributes = {f"{EVALUATION}digest": digest} if digest else None
            node = self._parent.begin_child("group", case.name, attributes=attributes)
            self._nodes[case.name] = node
        with using_node_writer(node):
            yield
        self.count(case)

    def count(self, case: Case) -> None:
        """Count a trial that has ended."""
        ended = self._ended[case.name] = self._ended.get(case.name, 0) + 1
        if ended == self._trials and case.name in self._nodes:
            self._nodes[case.name].end("completed")


def _case_header(case: Case) -> CaseHeader:
    expected = "" if not case.has_expected else shown_value(case.expected)
    if case.raises is not None:
        expected = f"raises {case.raises if isinstance(case.raises, str) else case.raises.__name__}"
    inputs = case.build_inputs()
    return CaseHeader(
        name=case.name,
        inputs=", ".join(f"{name}={shown_value(value)}" for name, value in inputs.items()),
        expected=expected,
        tags=case.tags,
        digest=case_digest(case),
        severity=case.severity,
    )


def subject_name(subject: Subject) -> str:
    """Return the name of a subject in reports: `module:function`."""
    function = inspect.unwrap(subject)
    module = getattr(function, "__module__", None) or "?"
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(file).stem if file else module
    return f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def _source_digest(subject: Subject) -> str | None:
    try:
        source = inspect.getsource(inspect.unwrap(subject))
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _checked_subject(subject: object) -> Subject:
    if not callable(subject):
        raise EvaluationError(f"The subject of an evaluation is a function, not {subject!r}.")
    return cast("Subject", subject)


def _checked_name(name: object) -> str | None:
    if name is not None and not (isinstance(name, str) and is_encodable(name)):
        raise EvaluationError(f"The name of a subject is a text, not {name!r}.")
    return name


def _checked_integer(argument: str, value: object, *, least: int | None) -> int:
    if not is_whole_number(value) or (least is not None and value < least):
        range_text = "" if least is None else f", at least {least}"
        raise EvaluationError(f"{argument} is an integer{range_text}, not {value!r}.")
    return value


def _checked_pass_mark(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise EvaluationError(f"pass_mark is a number from 0 to 1, not {value!r}.")
    return float(value)
