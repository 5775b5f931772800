"""The commit of a step: what policies see of it, and its way through them (specification 8.3).

Each policy's `around_commit` is around those inside of it; innermost, the return expression is evaluated and
the checks are called. What is decided without the return value is decided before the expression has any
effect: a policy that wants the value first lets all inside of it decide.

Nothing is committed before the outermost policy has returned. A policy may proceed again with a changed
commit; those inside of it are then asked about the change, and the expression is not evaluated again.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar, cast

from msgspec.structs import replace as replace_fields

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
from ..types.outcomes import StepOutcome
from ..types.unset import UNSET, Unset
from ..values.error_text import describe_error
from .conclude import OutcomeRefusedError, Rewriter, StepResult, rewritten
from .context import StepContext
from .features import Feature

Answer = TypeVar("Answer")
Subject = TypeVar("Subject")

_FIELD = "return_value"


class _Question:
    """One question about a commit; records whether the missing value was read.

    Args:
        subject: The object that was shown.
        outer: The question during which this one is asked; None for none.
    """

    __slots__ = ("outer", "subject", "wants_value")

    def __init__(self, subject: object, outer: "_Question | None") -> None:
        self.subject = subject
        self.outer = outer
        self.wants_value = False


_question = Feature[_Question | None](None)


def shown(subject: Subject, return_value: object) -> Subject:
    """Set the return value of an object that shows a commit; leave it missing if it is UNSET.

    Args:
        subject: A fresh object with the slot `return_value`, whose `__getattr__` is `raise_unknown`.
        return_value: The value; UNSET if the expression is not evaluated yet.
    """
    object.__delattr__(subject, _FIELD)
    if return_value is not UNSET:
        reveal((subject,), return_value)
    return subject


def reveal(subjects: Iterable[object], return_value: object) -> None:
    """Set the return value of objects that were shown without one.

    Args:
        subjects: The objects that were shown; those with a value keep it.
        return_value: The value.
    """
    for subject in subjects:
        if not _has_value(subject):
            object.__setattr__(subject, _FIELD, return_value)


def with_changes(subject: Subject, **changes: object) -> Subject:
    """Return a copy with other fields; without a return value if neither the object nor the changes have one.

    Args:
        subject: An object of a frozen data class.
        changes: The changed fields.
    """
    late = getattr(type(subject), "__getattr__", None) is raise_unknown and not _has_value(subject)
    if not late or _FIELD in changes:
        return cast("Subject", replace(cast("Any", subject), **changes))
    return shown(cast("Subject", replace(cast("Any", subject), **{_FIELD: None, **changes})), UNSET)


def raise_unknown(subject: object, name: str) -> NoReturn:
    """Raise the error of an object without a return value; serves as `__getattr__`."""
    if name != _FIELD:
        raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
    question = _question.get()
    while question is not None and question.subject is not subject:
        question = question.outer
    if question is not None:
        question.wants_value = True
    raise NighthawkError(
        "The return expression of this commit is not evaluated; see commit.outcome.return_expression."
    )


def value_of(subject: object) -> object:
    """Return the return value of an object that shows a commit; UNSET while it has none."""
    return object.__getattribute__(subject, _FIELD) if _has_value(subject) else UNSET


def described(subject: object) -> str:
    """Return the `repr` of an object with a late return value; it does not count as reading the value."""
    names = [each.name for each in fields(cast("Any", subject)) if each.repr]
    texts = [f"{name}={getattr(subject, name)!r}" for name in names if name != _FIELD]
    value = repr(getattr(subject, _FIELD)) if _has_value(subject) else "<not evaluated>"
    texts.append(f"{_FIELD}={value}")
    return f"{type(subject).__qualname__}({', '.join(texts)})"


def wants_value() -> bool:
    """Whether the code being asked has read a return value that does not exist yet."""
    question = _question.get()
    return question is not None and question.wants_value


async def ask_early(subject: object, ask: Callable[[], Awaitable[Answer]]) -> Answer | Unset:
    """Ask about a commit that may have no return value yet.

    Args:
        subject: The object that is shown.
        ask: Asks for the answer.

    Returns:
        The answer; UNSET if the value was read, so that it has to be asked again.

    Raises:
        Exception: Any error of `ask`, unless the value was read.
    """
    question = _Question(subject, _question.get())
    before = _question.set(question)
    try:
        answer = await ask()
    except Exception:
        if question.wants_value:
            return UNSET
        raise
    finally:
        _question.reset(before)
    return UNSET if question.wants_value else answer


async def decided(
    commit: "StepCommit", proceed: "CommitProceed", ask: "Callable[[StepCommit], Awaitable[Answer]]"
) -> Answer:
    """Ask about a commit; once more, with the return value, if the code that decides has read it.

    Args:
        commit: The commit.
        proceed: Gives the value.
        ask: Asks for the decision.
    """
    answer = await ask_early(commit, lambda: ask(commit))
    if not isinstance(answer, Unset):
        return answer
    await proceed.value()
    return await ask(proceed.commit)


def _has_value(subject: object) -> bool:
    try:
        object.__getattribute__(subject, _FIELD)
    except AttributeError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCommit:
    """A commit that a step proposes.

    Policies see it before the expression of a `return` outcome is evaluated: one that wants the value asks
    for it with `await proceed.value()`. Oversight that reads `return_value` is asked again with the value.

    Args:
        step_id: The step.
        outcome: The outcome of the step.
        bindings: The validated values of the write bindings, in a read-only mapping.
        return_value: The validated value of a `return` outcome; None for other outcomes, and afterwards for
            a commit that was rejected before its expression was evaluated.
    """

    step_id: str
    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None

    if not TYPE_CHECKING:
        __getattr__ = raise_unknown
        __repr__ = described

    def changed(self, **changes: object) -> "StepCommit":
        """Return a copy with other `bindings` or another `return_value`, to be committed instead."""
        return with_changes(self, **changes)


_CHANGED: Mapping[Rewriter, str] = {
    "BeforeCommit": "the commit as hooks modified it",
    "inspect_step_commit": "the commit as oversight rewrote it",
}


class InterceptionError(NighthawkError, RunEndingError):
    """A recording, or the journal of a run, cannot go on.

    It concerns the host only: it passes through every step unchanged, and no model sees it or is asked
    for a correction.
    """


def find_interception_error(error: BaseException) -> InterceptionError | None:
    """Return the failed interception among the causes of an error, or in a group; None for none.

    Args:
        error: An error of a step, or of code that was called from a step.
    """
    return next((each for each in with_causes(error) if isinstance(each, InterceptionError)), None)


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


def check_answer(answer: object, kind: type, method: str) -> None:
    """Check that a method of a policy returned an object of the right type.

    Args:
        answer: The returned object.
        kind: The required type.
        method: The method, with its class.

    Raises:
        HookError: The object has another type.
    """
    if not isinstance(answer, kind):
        without_content = f"{method} gave {type(answer).__name__} instead of {kind.__name__}"
        error = HookError(f"{method} gave {answer!r} instead of a {kind.__name__}", hook=method)
        raise error.without_content(without_content)


class _CommitRefusedError(OutcomeRefusedError, StepRejectedError):
    """A commit was rejected, and the step may go on. If the agent does not catch it, the step fails."""


Conclude: TypeAlias = Callable[[StepResult], Awaitable[StepResult]]
"""What is inside of all policies: it evaluates the return expression, and calls the checks."""


class AroundCommit(Protocol):
    """A policy around commits."""

    async def around_commit(self, commit: StepCommit, proceed: "CommitProceed") -> StepResult:
        """See `policy.Policy.around_commit`."""
        ...


class Committing(Protocol):
    """A step that commits.

    Attributes:
        context: Its state.
        rejections_left: See `step.Step`.
    """

    context: StepContext
    rejections_left: int


class Proceed:
    """Goes on inside of a policy, and keeps an error from there apart from those of the policy itself.

    Attributes:
        failure: The error that it raised last; None for none.
    """

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: BaseException | None = None

    @contextmanager
    def noting_failure(self) -> Generator[None, None, None]:
        """Note an error of the block. Internal."""
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise


class CommitProceed(Proceed):
    """Goes on with a commit: to the policies inside of one, and to the return expression.

    Attributes:
        given: The result that it gave last; None for none.
    """

    __slots__ = ("_fold", "_index", "_policy", "_result", "_shown", "given")

    def __init__(self, fold: "CommitFold", index: int, result: StepResult) -> None:
        super().__init__()
        self._fold = fold
        self._index = index
        self._policy = fold.policies[index]
        self._result = result
        self._shown = fold.show(result)
        self.given: StepResult | None = None

    async def __call__(self, commit: StepCommit | None = None, *, rewriter: str | None = None) -> StepResult:
        """Let the policies inside decide, and the return expression be evaluated; commit nothing yet.

        Args:
            commit: The commit, maybe changed with `StepCommit.changed`; None for the one that was given last.
            rewriter: Who changed it, for errors; None for the policy.

        Returns:
            What is to be committed; `around_commit` returns it.

        Raises:
            HookError: The changed commit is not acceptable.
            StepRejectedError: A policy inside rejects it.
            VerificationError: A check refuses it.
            ExecutionError: The return expression has no value, or one that does not match.
        """
        with self.noting_failure():
            result = self._changed(commit, rewriter) if commit is not None else self._result
            if self.given is None or result is not self._result:
                if commit is not None and commit is not self._shown:
                    self._shown = commit
                    self.shown.append(commit)
                self._result = result
                self.given = await self._fold.ask(self._index + 1, result)
            return self.given

    async def value(self) -> Any:
        """Return the return value: the expression is evaluated if nothing inside is against the commit.

        Call it before `proceed`, to decide about the value; what has been evaluated is not evaluated again.

        Raises:
            StepRejectedError: A policy inside rejects the commit.
            VerificationError: A check refuses it.
            ExecutionError: The return expression has no value, or one that does not match.
        """
        value = (await self()).return_value
        self._fold.reveal(value)
        return value

    @property
    def shown(self) -> list[object]:
        """All objects that get the return value as soon as it is known."""
        return self._fold.shown

    @property
    def commit(self) -> StepCommit:
        """The commit as it was given last, with the return value if that is known."""
        return self._shown

    def _changed(self, commit: StepCommit, rewriter: str | None) -> StepResult:
        """The result with the changes of a policy, validated; the same object if there are none."""
        name = type(self._policy).__qualname__
        method = f"{name}.around_commit"
        check_answer(commit, StepCommit, method)
        check_answer(commit.bindings, Mapping, method)
        shown_one, result = self._shown, self._result
        bindings = None if commit.bindings is shown_one.bindings else commit.bindings
        value = value_of(commit)
        if value is value_of(shown_one):
            value = UNSET
        known = UNSET if self.given is None else self.given.return_value
        if bindings is None and value is UNSET and commit.outcome is shown_one.outcome:
            return result
        if result.return_value is UNSET and known is not UNSET:
            result = replace_fields(result, return_value=known)
        with failing_as_rewriter(rewriter or name):
            if commit.outcome is not shown_one.outcome:
                raise ValueError("only the bindings and the return value can be changed")
            if value is not UNSET and commit.outcome.kind != "return":
                raise ValueError(f"the outcome '{commit.outcome.kind}' has no return value")
            return rewritten(
                self._fold.step.context,
                commit.outcome,
                result,
                rewriter=rewriter or name,
                bindings=bindings,
                return_value=value,
            )


class CommitFold:
    """The way of one outcome through the policies of its step.

    Args:
        policies: Those that override `around_commit`, outermost first.
        step: The step.
        outcome: The outcome.
        conclude: What is inside of all.
        is_last: Whether the step cannot propose another outcome.
    """

    __slots__ = ("_conclude", "_is_last", "_outcome", "policies", "shown", "step")

    def __init__(
        self,
        policies: Sequence[AroundCommit],
        step: Committing,
        outcome: StepOutcome,
        conclude: Conclude,
        *,
        is_last: bool,
    ) -> None:
        self.policies = policies
        self.step = step
        self._outcome = outcome
        self._conclude = conclude
        self._is_last = is_last
        self.shown: list[object] = []

    async def run(self, result: StepResult) -> StepResult:
        """Return what is to be committed.

        Raises:
            OutcomeRefusedError: A policy rejects it, and the step may propose another outcome.
            StepRejectedError: A policy rejects it.
            Exception: Any other error of a policy, of a check or of the return expression.
        """
        step = self.step
        try:
            result = await self.ask(0, result)
        except StepRejectedError as error:
            self.reveal(None)
            if self._is_last or step.rejections_left == 0 or isinstance(error, OutcomeRefusedError):
                raise
            step.rejections_left -= 1
            raise _CommitRefusedError(str(error), feedback=_feedback(error)) from error.__cause__
        except BaseException:
            self.reveal(None)
            raise
        self.reveal(result.return_value)
        return result

    async def ask(self, index: int, result: StepResult) -> StepResult:
        """Ask the policy at an index, around those behind it."""
        if index == len(self.policies):
            return await self._innermost(result)
        policy, proceed = self.policies[index], CommitProceed(self, index, result)
        method = f"{type(policy).__qualname__}.around_commit"
        try:
            given = await policy.around_commit(proceed.commit, proceed)
        except BaseException as error:
            if error is proceed.failure:
                raise
            with failing_as_policy(method):
                raise
        if given is not proceed.given or proceed.given is None:
            what = f"{method} must return what `proceed` gave"
            raise HookError(f"{what}, not {given!r}", hook=method).without_content(what)
        return given

    async def _innermost(self, result: StepResult) -> StepResult:
        if result.rewriter is None:
            return await self._conclude(result)
        with failing_as_rewriter(result.rewriter):
            return await self._conclude(result)

    def show(self, result: StepResult) -> StepCommit:
        """The commit as the next policy sees it."""
        commit = shown(
            StepCommit(step_id=self.step.context.step_id, outcome=self._outcome, bindings=result.bindings),
            result.return_value,
        )
        self.shown.append(commit)
        return commit

    def reveal(self, return_value: object) -> None:
        """Set the return value of all that was shown without one."""
        reveal(self.shown, return_value)


def _feedback(error: StepRejectedError) -> str:
    match error.__cause__:
        case ToolBoundaryError(message=reason, guidance=str(guidance)):
            return f"{reason} ({guidance})"
        case ToolBoundaryError(message=reason):
            return reason
        case _:
            return str(error)
