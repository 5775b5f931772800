"""Review of a step's commit by policies; errors of hooks and policies; the source of a response.

An active interceptor answers instead of the model, or asks the model itself and observes. It flows into
steps, threads and nested runs. Policies come before it.

A rejection goes back to the model as long as its executor allows another answer; then it fails the step.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from ..causes import RunEndingError, with_causes
from ..errors import (
    AnnotationError,
    BudgetExceededError,
    ExecutionError,
    HookError,
    NighthawkError,
    StepRejectedError,
    ToolBoundaryError,
    ToolValidationError,
    VerificationError,
)
from ..parallel import TaskCancelledError, cancel_requested
from ..ports import Model
from ..types.model import ModelEvent, ModelRequest
from ..types.outcomes import StepOutcome
from ..types.unset import UNSET
from ..values.error_text import describe_error
from .conclude import OutcomeRefusedError, Rewriter, StepResult, rewritten
from .environment import Environment
from .features import Feature
from .policy import (
    CommitReview,
    Policies,
    Policy,
    StepCommit,
    ask_early,
    check_answer,
    reveal,
    shown,
    value_of,
    wants_value,
)
from .step import Evaluate, Inspect, Step


class InterceptionError(NighthawkError, RunEndingError):
    """An interceptor cannot go on.

    It concerns the host only: it passes through every step unchanged, and no model sees it or is asked
    for a correction.
    """


class ModelInterceptor(Protocol):
    """Intercepts the requests of executors to models."""

    @property
    def is_offline(self) -> bool:
        """Whether it never asks a model, so that no endpoint, key or embedded model is needed."""
        ...

    def stream(
        self, model: Model, request: ModelRequest, step_path: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Answer a request as `ports.Model.stream` does.

        Args:
            model: The model.
            request: The request.
            step_path: The addresses of the blocks in progress, outermost first; empty outside a step.

        Raises:
            InterceptionError: There is no answer.
            ConfigurationError: The request asks for what the model lacks.
            ModelError: The request failed.
        """
        ...


_interceptor = Feature[ModelInterceptor | None](None)
_everywhere: list[ModelInterceptor] = []


def ask_source(
    environment: Environment | None, model: Model, request: ModelRequest, place: str | None
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request to the model, or to the active interceptor; see `ports.Model.stream`.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model to ask.
        request: The request.
        place: Its place in a run with a journal; None without one.

    Raises:
        InterceptionError: The interceptor has no answer.
        ConfigurationError: The request asks for what the model lacks.
        ModelError: The request failed.
    """
    step_path = () if environment is None else environment.step_path

    def ask(source: Model = model) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return ask_model(source, request, step_path)

    if environment is None or environment.journal is None or place is None:
        return ask()
    return environment.journal.respond(place, model.name, ask)


def ask_model(
    model: Model, request: ModelRequest, step_path: tuple[str, ...]
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request to the model, or to the active interceptor, without the journal.

    Args:
        model: The model to ask.
        request: The request.
        step_path: The addresses of the blocks in progress, outermost first.
    """
    interceptor = find_interceptor()
    return model.stream(request) if interceptor is None else interceptor.stream(model, request, step_path)


def needs_endpoint() -> bool:
    """Whether requests reach their model, so that it needs its key or its weights."""
    interceptor = find_interceptor()
    return interceptor is None or not interceptor.is_offline


def find_interception_error(error: BaseException) -> InterceptionError | None:
    """Return the failed interception among the causes of an error, or in a group; None for none.

    Args:
        error: An error of a step, or of code that was called from a step.
    """
    return next((each for each in with_causes(error) if isinstance(each, InterceptionError)), None)


class using_interceptor:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate an interceptor during the `with` statement; the innermost one counts."""

    __slots__ = ("_before", "_interceptor")

    def __init__(self, interceptor: ModelInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        self._before = _interceptor.set(self._interceptor)

    def __exit__(self, *exc_details: object) -> None:
        _interceptor.reset(self._before)


class using_interceptor_everywhere:  # noqa: N801
    """Activate an interceptor for the whole program, wherever the context has none of its own.

    For test fixtures: a test may run in a context that was made before its fixtures ran.
    """

    __slots__ = ("_interceptor",)

    def __init__(self, interceptor: ModelInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        _everywhere.append(self._interceptor)

    def __exit__(self, *exc_details: object) -> None:
        _everywhere.remove(self._interceptor)


def find_interceptor() -> ModelInterceptor | None:
    """Return the active interceptor; None for none."""
    interceptor = _interceptor.get()
    if interceptor is None and _everywhere:
        return _everywhere[-1]
    return interceptor


_CHANGED: Mapping[Rewriter, str] = {
    "BeforeCommit": "the commit as hooks modified it",
    "inspect_step_commit": "the commit as oversight rewrote it",
}


@contextmanager
def failing_as_hook(subject: str, *, hook: str) -> Generator[None, None, None]:
    """Turn errors of deciding code into `HookError`, so that no model sees them.

    Args:
        subject: The name of the deciding code, for the message.
        hook: The name of the function that is called.

    Raises:
        HookError: The block raised.
        BudgetExceededError: The block raised it: the budget ends the step, whoever exceeded it.
        TaskCancelledError: The block raised it, and the task was asked to end.
        InterceptionError: The interception of a model request in it failed.
    """
    try:
        yield
    except BudgetExceededError:
        raise
    except Exception as error:
        if wants_value():
            raise  # the deciding code is asked again
        if isinstance(error, TaskCancelledError) and cancel_requested():
            raise
        if (interception := find_interception_error(error)) is not None:
            raise interception from interception.__cause__
        failed = HookError(f"{subject} failed: {describe_error(error)}", hook=hook)
        raise failed.without_content(f"{subject} failed: {type(error).__name__}") from error


def failing_as_rewriter(rewriter: Rewriter) -> AbstractContextManager[None]:
    """Turn errors about a changed commit into `HookError` of its rewriter; see `failing_as_hook`.

    Args:
        rewriter: The rewriter that changed the commit.
    """
    return failing_as_hook(_CHANGED.get(rewriter, f"the commit as {rewriter} changed it"), hook=rewriter)


@contextmanager
def failing_as_policy(method: str) -> Generator[None, None, None]:
    """Let errors of a policy through unchanged, except those that executors would show to a model.

    Args:
        method: The method that is called.

    Raises:
        HookError: The block raised an error that executors would take for a bad answer.
    """
    try:
        yield
    except (AnnotationError, StepRejectedError, VerificationError):
        raise  # no model sees these
    except (ExecutionError, ToolValidationError):
        with failing_as_hook(method, hook=method):
            raise


class _CommitRefusedError(OutcomeRefusedError, StepRejectedError):
    """A commit was rejected, and the step may go on. If the agent does not catch it, the step fails."""


def make_inspector(policies: Policies, step: Step) -> Inspect | None:
    """Return the inspector for the commits of a step; None if no policy reviews them.

    Args:
        policies: The policies of the step.
        step: The step.
    """
    inspecting = [each for each in policies.active if each.overridden & {"review", "before_commit"}]
    if not inspecting:
        return None

    def inspect(outcome: StepOutcome, *, is_last: bool) -> _Inspection:
        return _Inspection(inspecting, step, outcome, is_last=is_last)

    return inspect


class _Inspection:
    """The inspection of one outcome; see `step.Inspection`."""

    __slots__ = ("_is_last", "_reviews", "_shown", "_step")

    def __init__(
        self, policies: Iterable[Policy], step: Step, outcome: StepOutcome, *, is_last: bool
    ) -> None:
        self._step = step
        self._is_last = is_last
        self._shown: list[object] = []
        self._reviews = [_begin_review(policy, step, outcome, self._shown) for policy in policies]

    async def ask(self, result: StepResult) -> StepResult:
        with self._revealing_none_on_failure():
            if result.return_value is not UNSET:
                reveal(self._shown, result.return_value)
            try:
                before = result
                for review in self._reviews:
                    result = await review.ask(result, is_modified=result is not before)
            except StepRejectedError as error:
                step = self._step
                if self._is_last or step.rejections_left == 0:
                    raise
                step.rejections_left -= 1
                raise _CommitRefusedError(str(error), feedback=_feedback(error)) from error.__cause__
            return result

    async def evaluate(self, result: StepResult, evaluate: Evaluate) -> StepResult:
        with self._revealing_none_on_failure():
            if result.rewriter is None:
                return await evaluate(result)
            with failing_as_rewriter(result.rewriter):
                return await evaluate(result)

    @contextmanager
    def _revealing_none_on_failure(self) -> Generator[None, None, None]:
        """Set the missing return value of shown objects to None if the commit fails."""
        try:
            yield
        except BaseException:
            reveal(self._shown, None)
            raise


class DecidedOnce(ABC):
    """The review of one commit by one policy, which decides once, and again after a change.

    Args:
        step: The step.
        outcome: The outcome of the step.
        shown: The list of objects that were shown without a return value.
    """

    def __init__(self, step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        self.step = step
        self.outcome = outcome
        self._shown = shown
        self._has_decided = False

    async def ask(self, result: StepResult, *, is_modified: bool) -> StepResult:
        """Ask for its decision; see `policy.CommitReview`."""
        if self._has_decided and not is_modified:
            return result
        commit = shown(
            StepCommit(step_id=self.step.context.step_id, outcome=self.outcome, bindings=result.bindings),
            result.return_value,
        )
        self._shown.append(commit)
        decided = await self.decide(commit, result)
        self._has_decided = decided is not None
        return result if decided is None else decided

    @abstractmethod
    async def decide(self, commit: StepCommit, result: StepResult) -> StepResult | None:
        """Decide about the commit.

        Args:
            commit: The commit as it is shown.
            result: The result of the step.

        Returns:
            The result to commit; None if it wants the return value, which is not evaluated yet.
        """


class _OwnReview(DecidedOnce):
    """The review of one commit by a program's own policy; see `Policy.before_commit`."""

    def __init__(self, policy: Policy, step: Step, outcome: StepOutcome, shown: list[object]) -> None:
        super().__init__(step, outcome, shown)
        self._policy = policy

    async def decide(self, commit: StepCommit, result: StepResult) -> StepResult | None:
        """Ask the policy."""
        method = f"{type(self._policy).__qualname__}.before_commit"
        with failing_as_policy(method):
            answer = await ask_early(commit, partial(self._policy.before_commit, commit))
        if answer is UNSET:
            return None
        if answer is None:
            return result
        check_answer(answer, StepCommit, method)
        check_answer(answer.bindings, Mapping, method)
        return self._changed(commit, answer, result)

    def _changed(self, commit: StepCommit, answer: StepCommit, result: StepResult) -> StepResult:
        """Return the result with the changes of a policy, validated."""
        bindings = None if answer.bindings is commit.bindings else answer.bindings
        value = value_of(answer)
        if value is value_of(commit):
            value = UNSET
        rewriter = type(self._policy).__qualname__
        with failing_as_rewriter(rewriter):
            if answer.outcome is not commit.outcome:
                raise ValueError("only the bindings and the return value can be changed")
            if value is not UNSET and self.outcome.kind != "return":
                raise ValueError(f"the outcome '{self.outcome.kind}' has no return value")
            return rewritten(
                self.step.context,
                self.outcome,
                result,
                rewriter=rewriter,
                bindings=bindings,
                return_value=value,
            )


def _begin_review(policy: Policy, step: Step, outcome: StepOutcome, shown: list[object]) -> CommitReview:
    return policy.review(step, outcome, shown) or _OwnReview(policy, step, outcome, shown)


def _feedback(error: StepRejectedError) -> str:
    match error.__cause__:
        case ToolBoundaryError(message=reason, guidance=str(guidance)):
            return f"{reason} ({guidance})"
        case ToolBoundaryError(message=reason):
            return reason
        case _:
            return str(error)
