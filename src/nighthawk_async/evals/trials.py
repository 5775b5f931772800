"""One trial: a call of the subject with inputs of its own, in the run of the evaluation, and its scores."""

import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import anyio
from msgspec.structs import replace as replace_fields

from ..backoff import backoff_seconds
from ..causes import ends_run, leaves_of, with_causes
from ..errors import BudgetExceededError, ConfigurationError, ModelError, NighthawkError
from ..kernel.context import StepContext, StepExecutor
from ..kernel.environment import find_environment, get_environment, using_environment
from ..kernel.reports import KernelActivity, ResultEvaluated
from ..kernel.usage_meter import UsageMeter
from ..observation import EVALUATION, observed
from ..parallel import deadline, is_async_callable
from ..parallel.calling import call_any
from ..pickling import PicklableError
from ..policies.attempts.resilience import model_of
from ..policies.attempts.samples import using_sample, using_seed
from ..policies.budgets.budget import Budget
from ..policies.budgets.notices import noting_refusals
from ..policies.budgets.policy import find_refusal
from ..ports import Model
from ..prompt.plain_text import single_line
from ..runs import run
from ..scopes import scope
from ..tracing import find_tracing, note_event, traced
from ..transcripts.citations import citations_of_last_step
from ..types.messages import Citation
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from ..values.error_text import describe_error
from .cases import Case, Subject, trial_seed
from .errors import CaseError, NoExecutorError
from .results import TrialResult, TrialStatus
from .scores import SHOWN_CHARACTERS, QuickScorer, Score, Scorer, Trial, checked_score, short_text


class _NoExecutor:
    """The executor of an evaluation without one, of a function that runs no steps."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Refuse the step."""
        raise NoExecutorError("The subject runs a natural block: evaluate(…, model=…), or inside a run.")


@asynccontextmanager
async def trial_environment(
    executor: StepExecutor | None, budget: Budget | None
) -> AsyncGenerator[None, None]:
    """Enter the run of the trials, or a scope of the active one.

    Args:
        executor: The executor of the run; None for the active run, and where there is none, for no steps.
        budget: The budget; None for none.

    Raises:
        NoExecutorError: There is neither, and a trial has run a step.
    """
    try:
        if executor is None and find_environment() is not None:
            async with scope(budget=budget):
                yield
        else:
            async with run(executor or _NoExecutor(), budget=budget):
                yield
    except BaseExceptionGroup as group:  # calls in flight together fail together
        leaves = list(leaves_of(group))
        if all(isinstance(each, NoExecutorError) for each in leaves):
            raise leaves[0] from None
        raise


def model_name(executor: StepExecutor | None) -> str | None:
    """Return the id of the model of an executor, None for that of the active run; None when it has none."""
    environment = find_environment()
    if executor is None:
        executor = None if environment is None else environment.step_executor
    if executor is None:
        return None
    model = getattr(executor, "model", None)
    return model.name if isinstance(model, Model) else model_of(executor)


_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """The settings that all trials of an evaluation share.

    Args:
        subject: The function.
        scorers: The scorers by name.
        seed: The seed of the evaluation.
        pass_mark: The least score that passes.
        timeout: The time of each call of the subject, in seconds; None for no limit.
        transport_retries: The number of times that a trial is begun again because of a transport error.
    """

    subject: Subject
    scorers: Mapping[str, Scorer]
    seed: int
    pass_mark: float
    timeout: float | None
    transport_retries: int


class BudgetSpentError(PicklableError):
    """The budget of the evaluation, or one that encloses it, has no room for a trial.

    Args:
        refusal: The refusal of the budget.

    Attributes:
        result: The result of the trial, which was not run to its end.
    """

    result: TrialResult

    def __init__(self, refusal: BudgetExceededError) -> None:
        super().__init__(f"the budget is spent: {refusal}")


@dataclass(slots=True)
class _Draft:
    """A trial in progress: the parts of its result so far."""

    case: Case
    number: int
    seed: int
    _: KW_ONLY
    scores: dict[str, Score] = field(default_factory=dict[str, Score])
    output: str = ""
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    scoring_usage: Usage = field(default_factory=Usage)
    retries: int = 0
    citations: tuple[Citation, ...] = ()

    def result(self, status: TrialStatus, error: str = "") -> TrialResult:
        return TrialResult(
            case=self.case.name,
            number=self.number,
            status=status,
            seed=self.seed,
            scores=self.scores,
            output=self.output,
            error=single_line(error, SHOWN_CHARACTERS),
            seconds=self.seconds,
            usage=self.usage,
            scoring_usage=self.scoring_usage,
            retries=self.retries,
            citations=self.citations,
        )


async def run_trial(settings: TrialSettings, case: Case, number: int) -> TrialResult:
    """Run a trial, and return its result. A failure of the subject or a scorer is a result.

    Args:
        settings: The settings of the evaluation.
        case: The case.
        number: The number of the trial, counted from 1.

    Raises:
        BudgetSpentError: The budget ended before the trial did.
        RunEndingError: An error ended the run.
    """
    draft = _Draft(case, number, trial_seed(settings.seed, case.name, number))
    with observed("task", f"trial {number}", inputs=lambda: {"case": case.name}) as node:
        activity = KernelActivity(name="scope", execution_ref=get_environment().execution_ref)
        with (
            using_seed(draft.seed),
            using_sample(number - 1),  # a response cache keeps trials apart
            noting_refusals() as refusals,
            traced(activity),
        ):
            try:
                result = await _attempted(settings, draft)
                for refusal in refusals:
                    _raise_if_refused(refusal)  # also if the subject has handled it
            except BudgetSpentError as error:
                error.result = draft.result("not_run", str(error))
                if node is not None:
                    node.set_attributes({f"{EVALUATION}status": "not_run"})
                raise
        if node is not None:
            node.set_attributes({f"{EVALUATION}status": result.status})
            node.end(result.node_state, outputs=result.shown())
    return result


async def _attempted(settings: TrialSettings, draft: _Draft) -> TrialResult:
    """Begin the trial until its subject has returned or raised without a transport error."""
    while True:
        try:
            inputs = draft.case.build_inputs()
        except CaseError as error:
            return draft.result("not_run", str(error))
        try:
            output = await _call_subject(settings, draft, inputs)
        except Exception as error:
            _raise_unless_result(error)
            if isinstance(error, ConfigurationError) and not draft.case.expects_error(error):
                return draft.result("not_run", describe_error(error))
            if is_transport_error(error):
                if await _waited(settings, draft, error):
                    continue
                return draft.result("transport", describe_error(error))
            if draft.case.expects_error(error):
                draft.scores["raises"] = Score(1.0, passed=True)
                return draft.result("passed", describe_error(error))
            return draft.result("error", describe_error(error))
        draft.output = shown_value(output)
        if draft.case.raises is not None:
            draft.scores["raises"] = Score(0.0, passed=False, reason="it returned")
            return draft.result("failed")
        trial = Trial(
            case=draft.case,
            number=draft.number,
            seed=draft.seed,
            inputs=inputs,
            output=output,
            seconds=draft.seconds,
            usage=draft.usage,
            citations=draft.citations,
        )
        return await _scored(settings, draft, trial)


async def _call_subject(settings: TrialSettings, draft: _Draft, inputs: Mapping[str, Any]) -> Any:
    meter, earlier = UsageMeter(get_environment().usage_meter), draft.usage
    began = time.perf_counter()
    try:
        with metered(meter):
            call = partial(settings.subject, **inputs)
            if settings.timeout is None:
                return await _called(call)
            with deadline(settings.timeout):
                return await _called(call)
    finally:
        draft.seconds = time.perf_counter() - began
        draft.usage = earlier + meter.usage
        draft.citations = citations_of_last_step()


async def _called(call: Callable[[], Any]) -> Any:
    return await (call() if is_async_callable(call) else call_any(call))


async def _scored(settings: TrialSettings, draft: _Draft, trial: Trial) -> TrialResult:
    meter = UsageMeter(get_environment().usage_meter)
    passed = True
    for name, scorer in settings.scorers.items():
        try:
            scored = await _score(settings, draft, scorer, trial, meter)
            score = draft.scores[name] = checked_score(scored, settings.pass_mark)
        except Exception as error:
            _raise_unless_result(error)
            _report_score(draft, name, error)
            status: TrialStatus = "transport" if is_transport_error(error) else "unscored"
            return draft.result(status, f"scorer {name!r}: {describe_error(error)}")
        finally:
            draft.scoring_usage = meter.usage
        _report_score(draft, name, score)
        passed = passed and bool(score.passed)
    return draft.result("passed" if passed else "failed")


def _report_score(draft: _Draft, scorer: str, score: Score | Exception) -> None:
    """Report a score, or the error of a scorer, to telemetry."""
    if find_tracing() is None:
        return
    event = ResultEvaluated(scorer=scorer, case=draft.case.name, trial=draft.number)
    if isinstance(score, Score):
        label: Literal["pass", "fail"] = "pass" if score.passed else "fail"
        event = replace_fields(event, value=score.value, label=label, explanation=score.reason)
    else:
        event = replace_fields(event, error_type=f"{type(score).__module__}.{type(score).__qualname__}")
    note_event(event)


async def _score(
    settings: TrialSettings, draft: _Draft, scorer: Scorer, trial: Trial, meter: UsageMeter
) -> object:
    if isinstance(scorer, QuickScorer):
        return scorer(trial)
    while True:
        try:
            with metered(meter):
                return await call_any(scorer, trial)
        except Exception as error:
            if not is_transport_error(error) or not await _waited(settings, draft, error):
                raise


@contextmanager
def metered(meter: UsageMeter) -> Generator[None, None, None]:
    """Count the usage of what runs inside apart: a scope of its own, without the cost of one."""
    with using_environment(replace(get_environment(), usage_meter=meter)):
        yield


async def _waited(settings: TrialSettings, draft: _Draft, error: BaseException) -> bool:
    """Wait before a retry; return False when there is none left."""
    if draft.retries >= settings.transport_retries:
        return False
    seconds = backoff_seconds(draft.retries, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
    asked = max(
        (getattr(each, "retry_after_seconds", None) or 0.0 for each in with_causes(error)), default=0.0
    )
    draft.retries += 1
    await anyio.sleep(max(seconds, asked))
    return True


def _raise_unless_result(error: Exception) -> None:
    """Raise for an error that is no result of the trial.

    Raises:
        BudgetSpentError: A budget that is active around the trial refused it.
        RunEndingError: The error ends the run.
    """
    if ends_run(error):
        raise error
    _raise_if_refused(error)


def _raise_if_refused(error: Exception) -> None:
    refusal = find_refusal(error)
    if refusal is not None:
        raise BudgetSpentError(refusal) from error


def is_transport_error(error: BaseException) -> bool:
    """Whether a call failed on its way, so that the same call may succeed later.

    It is a transient error of a model, a broken connection, or an error of httpx on the way; also as the
    cause of another one.
    """
    return any(map(_is_on_its_way, with_causes(error)))


def _is_on_its_way(error: BaseException) -> bool:
    if isinstance(error, NighthawkError):
        return isinstance(error, ModelError) and error.is_transient
    if isinstance(error, ConnectionError):
        return True
    module = type(error).__module__.partition(".")[0]
    return module in ("httpx", "httpcore") and any(
        each.__name__ == "TransportError" for each in type(error).__mro__
    )


def shown_value(value: object) -> str:
    """Return a value as a short text for reports."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # an object's own code may raise anything
        text = f"<{type(value).__name__} that cannot be shown>"
    return short_text(text)
