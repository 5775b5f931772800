"""Validation of the end of a step (specification 8.4, 8.5 and 9)."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import (
    AnswerCause,
    ExecutionError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolValidationError,
    VerificationError,
)
from ..pickling import reduced_with_mappings
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)
from ..types.unset import UNSET
from ..values.error_text import NOT_AWAITED, describe_error
from ..values.validation import NEW, Declared, Origin, type_name, validate_value
from .actor import StepActor
from .cells import is_of_call
from .context import StepContext, calls_something
from .declared_types import declared_type, origin_of, return_type, validated_return

Rewriter: TypeAlias = str
"""The origin of a changed commit, for errors: `BeforeCommit`, `inspect_step_commit`, or a policy."""

INITIALIZE_IT = "; initialize it in Python if the block may leave it alone"
"""The part of an error that is for the programmer, not for the model."""

_OUTCOME_TYPES = (
    PassStepOutcome,
    ReturnStepOutcome,
    BreakStepOutcome,
    ContinueStepOutcome,
    RaiseStepOutcome,
)


_MISSING = object()


class OutcomeRefusedError(VerificationError):
    """A check refused an outcome, and the step may go on. Never leaves the step."""


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of a step for the generated code of its function.

    Args:
        kind: The outcome kind.
        bindings: The validated values to commit to Python locals.
        return_value: The validated value to return; UNSET until its expression is evaluated.
        exception: The exception to raise.
        rewriter: The origin of the bindings, hooks or oversight; None for the model.
    """

    kind: OutcomeKind
    bindings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    return_value: object = None
    exception: Exception | None = None
    rewriter: Rewriter | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_with_mappings(self, self.__struct_fields__)


def propose(context: StepContext, outcome: StepOutcome, bindings: Mapping[str, object]) -> StepResult:
    """Validate an outcome and the bindings; evaluate and commit nothing.

    Returns:
        The result of the step. Its `return_value` is UNSET if the `return` outcome has an expression; for a
        `raise` outcome it has no exception yet.

    Raises:
        ExecutionError: One of them is not acceptable; names it.
    """
    _check_kind(context, outcome)
    if isinstance(outcome, RaiseStepOutcome):
        _check_exception(context, outcome)
    result = StepResult(
        kind=outcome.kind,
        bindings=_validate_bindings(context, outcome, bindings),
        return_value=_given_value(context, outcome) if isinstance(outcome, ReturnStepOutcome) else None,
    )
    _check_changed_objects(context, bindings)
    return result


def rewritten(
    context: StepContext,
    outcome: StepOutcome,
    result: StepResult,
    *,
    rewriter: Rewriter,
    bindings: Mapping[str, object] | None = None,
    return_value: object = UNSET,
) -> StepResult:
    """Return the result with other bindings or another return value; evaluate nothing.

    Args:
        context: The state of the step.
        outcome: The outcome of the step.
        result: The result of the step.
        rewriter: The origin of the changes.
        bindings: The bindings to commit instead; None for no change.
        return_value: The value to return instead.

    Raises:
        ExecutionError: One of them is not acceptable; names it.
    """
    if bindings is not None:
        validated = _validate_bindings(context, outcome, bindings, kept=result.bindings)
        result = replace(result, bindings=validated, rewriter=rewriter)
    if return_value is not UNSET:
        origin: Origin = "changed" if return_value is result.return_value else "new"
        result = replace(result, return_value=_validate_return_value(context, return_value, origin=origin))
    return result


async def evaluated_value(
    actor: StepActor, outcome: ReturnStepOutcome | RaiseStepOutcome, result: StepResult
) -> object:
    """Evaluate the return or raise expression of an outcome, and validate its value.

    The expression sees the bindings to commit. If they were rewritten, a write binding that is left out has
    its value from before the step. Afterwards the step's state is restored, because the step may go on.

    Raises:
        ExecutionError: The value is not acceptable, or the expression has no value.
    """
    context = actor.context
    if result.rewriter is not None:
        with _committed(context, result.bindings):
            value = await _value_of(actor, outcome)
    else:
        for name, each in result.bindings.items():
            context.settle(name, each)
        value = await _value_of(actor, outcome)
    # The expression is also code of the step, so it may change objects.
    _check_changed_objects(context, result.bindings, note=done_note(outcome))
    return value


def done_note(outcome: StepOutcome) -> str:
    """Return the note that an evaluated expression had effects; empty if it called nothing."""
    match outcome:
        case ReturnStepOutcome(return_expression=str(expression)):
            name = "return_expression"
        case RaiseStepOutcome(raise_expression=str(expression)):
            name = "raise_expression"
        case _:
            return ""
    return f"; {name} was evaluated: what it called is done" if calls_something(expression) else ""


@contextmanager
def _committed(context: StepContext, bindings: Mapping[str, object]) -> Generator[None, None, None]:
    """Set the write bindings as they will be after the commit, during the `with` statement."""
    step_locals, names = context.step_locals, context.write_names
    before = {name: step_locals[name] for name in names if name in step_locals}
    _set_names(step_locals, names, {**context.initial_values, **bindings})
    try:
        yield
    finally:
        _set_names(step_locals, names, before)


def _set_names(step_locals: dict[str, object], names: Sequence[str], values: Mapping[str, object]) -> None:
    for name in names:
        if name in values:
            step_locals[name] = values[name]
        else:
            step_locals.pop(name, None)


def _check_kind(context: StepContext, outcome: StepOutcome) -> None:
    if not isinstance(cast("object", outcome), _OUTCOME_TYPES):
        what = f"step {context.step_id}: the executor's outcome is no StepOutcome"
        raise ExecutionError(f"{what}: {outcome!r}").without_content(what)
    if outcome.kind not in context.allowed_kinds:
        reason = context.refused_kinds.get(outcome.kind)
        raise ExecutionError(
            f"step {context.step_id}: the outcome '{outcome.kind}' is not allowed for this block"
            + ("" if reason is None else f", because {reason}")
            + f"; allowed: {', '.join(context.allowed_kinds)}"
        ).caused_by("outcome_kind")


def _validate_bindings(
    context: StepContext,
    outcome: StepOutcome,
    bindings: Mapping[str, object],
    kept: Mapping[str, object] = MappingProxyType({}),
) -> Mapping[str, object]:
    """The values to commit, each validated against the type of its write binding.

    Args:
        context: The state of the step.
        outcome: The outcome of the step. After `pass`, every write binding must have a value.
        bindings: The values.
        kept: Values that were converted already; a hook passes on those that it does not replace.

    Raises:
        ExecutionError: A name is not a write binding, a value does not match, or one is missing.
    """
    if not isinstance(cast("object", bindings), Mapping):
        what = f"step {context.step_id}: the executor's bindings are no mapping"
        raise ExecutionError(f"{what}: {bindings!r}").without_content(what)
    unknown = [name for name in bindings if name not in context.write_names]
    if unknown:
        raise ExecutionError(
            f"step {context.step_id}: {', '.join(map(repr, unknown))} cannot be committed; "
            f"the block's write bindings are: {', '.join(context.write_names) or 'none'}"
        ).caused_by("binding_name")
    if isinstance(outcome, PassStepOutcome):
        _check_nothing_missing(context, bindings)
    try:
        return MappingProxyType(
            {
                name: _validate_binding(context, name, value, is_kept=kept.get(name, _MISSING) is value)
                for name, value in bindings.items()
            }
        )
    except ToolValidationError as error:
        raise _not_valid(context, error, cause="binding_value") from error


def _validate_binding(context: StepContext, name: str, value: object, *, is_kept: bool) -> object:
    """Convert a new value; only check one that was converted, and only where code may have changed it."""
    origin: Origin = "new"
    if is_kept:  # by a hook, which may have changed it in place
        origin = "changed"
    elif context.is_converted(name, value) or context.is_declared(name, value):
        origin = "changed" if context.changes.is_changed(name) else "declared"
    if origin == "declared" and context.is_converted(name, value):
        return value
    annotation = context.binding_types.get(name, object)
    if origin == "new" and context.converted:
        origin = origin_of(value, annotation, NEW, context)
    return validate_value(value, annotation, subject=f"write binding '{name}'", origin=origin)


def _check_changed_objects(context: StepContext, bindings: Mapping[str, object], *, note: str = "") -> None:
    """Check that objects of write bindings that code changed in place still match their types.

    Args:
        context: The state of the step.
        bindings: The bindings to commit, already validated.
        note: A note for the error.

    Raises:
        ExecutionError: One does not; the error names the write binding.
    """
    for name, value in context.changes.changed():
        if name in bindings:
            continue
        subject = f"write binding '{name}', whose object was changed in place,"
        try:
            annotation = context.binding_types[name]
            validate_value(value, annotation, subject=subject, origin="changed")
        except ToolValidationError as error:
            raise _not_valid(context, error, note, cause="binding_value") from error
        context.changes.confirm(name)


def _not_valid(
    context: StepContext, error: ToolValidationError, note: str = "", *, cause: AnswerCause
) -> ExecutionError:
    refused = ExecutionError(f"step {context.step_id}: {error}{note}").caused_by(cause)
    return refused.without_content(f"step {context.step_id}: {error.message_without_content}")


def _check_nothing_missing(context: StepContext, bindings: Mapping[str, object]) -> None:
    missing = [
        name for name in context.write_names if name not in bindings and name not in context.initial_values
    ]
    if missing:
        raise ExecutionError(
            f"step {context.step_id}: {_named(missing)} no value: the "
            f"block did not assign it and it had none before{INITIALIZE_IT}"
        ).caused_by("binding_missing")


def _named(names: list[str]) -> str:
    quoted = ", ".join(map(repr, names))
    return f"the write binding {quoted} has" if len(names) == 1 else f"the write bindings {quoted} have"


async def _value_of(actor: StepActor, outcome: ReturnStepOutcome | RaiseStepOutcome) -> object:
    context, note = actor.context, done_note(outcome)
    if isinstance(outcome, ReturnStepOutcome):
        expression = outcome.return_expression
        _check_text(context, expression, "return_expression")
        declared = declared_type(expression, context)
        value = await _evaluated(actor, expression, "return_expression")
        return _validate_return_value(context, value, note=note, declared=declared)
    return _checked_exception(
        context, await _evaluated(actor, outcome.raise_expression, "raise_expression"), note
    )


async def _evaluated(
    actor: StepActor, expression: str, field_name: Literal["return_expression", "raise_expression"]
) -> object:
    context = actor.context
    _check_text(context, expression, field_name)
    try:
        return await actor.settle(actor.post_evaluate(expression), may_await=context.is_async)
    except (ToolEvaluationError, ToolBoundaryError) as error:
        message = f"step {context.step_id}: {field_name} {expression!r}: {error}"
        what = f"step {context.step_id}: {field_name} has no value: {type(error.__cause__).__name__}"
        raise ExecutionError(message).without_content(what).caused_by(field_name) from error


def _check_text(context: StepContext, value: object, field_name: str) -> None:
    if not isinstance(value, str):
        what = f"step {context.step_id}: {field_name} is no text"
        raise ExecutionError(f"{what}: {value!r}").without_content(what)


def _given_value(context: StepContext, outcome: ReturnStepOutcome) -> object:
    """The validated value of a `return` outcome; UNSET if it has an expression."""
    value = outcome.return_value
    if value is UNSET or context.is_converted("return", value):
        return value
    return _validate_return_value(context, value)


def _validate_return_value(
    context: StepContext,
    value: object,
    *,
    note: str = "",
    declared: Declared = NEW,
    origin: Origin | None = None,
) -> object:
    annotation = return_type(context)
    try:
        origin = origin or origin_of(value, annotation, declared, context)
        return validated_return(value, annotation, origin=origin)
    except ToolValidationError as error:
        if note and NOT_AWAITED in str(error):
            note = "; what else return_expression called is done"
        raise _not_valid(context, error, note, cause="return_value") from error


def _check_exception(context: StepContext, outcome: RaiseStepOutcome) -> None:
    name = outcome.raise_error_type
    _check_text(context, outcome.raise_message, "raise_message")
    if not isinstance(cast("object", name), str | None):
        what = f"step {context.step_id}: raise_error_type is no name"
        raise ExecutionError(f"{what}: {name!r}").without_content(what)
    if name is not None and full_type_name(name, context.raise_error_types) is None:
        refused = f"not allowed for this block; allowed: {', '.join(context.raise_error_types) or 'none'}"
        message = f"the exception type {name!r} is {refused}; message: {outcome.raise_message}"
        error = ExecutionError(f"step {context.step_id}: {message}")
        raise error.without_content(f"step {context.step_id}: its exception type is {refused}").caused_by(
            "raise_type"
        )


def _checked_exception(context: StepContext, value: object, note: str) -> Exception:
    """Return the exception that an expression gives; a class is called without arguments, as in Python.

    Raises:
        ExecutionError: It is not an exception that the block may raise.
    """
    given = value
    if issubclass(type(value), type) and issubclass(cast("type", value), Exception):
        try:
            given = cast("type[Exception]", value)()
        except Exception as error:  # the constructor is the user's, or the model's
            what = f"step {context.step_id}: raise_expression gives a class that needs arguments"
            refused = ExecutionError(f"{what}: {describe_error(error)}{note}").without_content(what)
            raise refused.caused_by("raise_expression") from error
    kind = type(given)
    if issubclass(kind, Exception):
        exception = cast("Exception", given)
        is_named = exception is context.failure or any(
            exception is each for each in context.named_exceptions()
        )
        is_typed = issubclass(kind, tuple(context.raise_error_types.values()))
        if is_named or is_typed or is_of_call(exception):
            return exception
    allowed = ", ".join(context.raise_error_types) or "none, since the program names no exception"
    what = (
        f"step {context.step_id}: raise_expression must give an exception that the block may raise, or an "
        f"instance of a subclass, or one that a call has raised; allowed types: {allowed}; it gives an "
        f"object of type {type_name(kind)}"
    )
    refused = ExecutionError(f"{what}{note}").caused_by("raise_expression")
    raise refused.without_content(f"step {context.step_id}: raise_expression: not allowed")


def full_type_name(name: str, names: Iterable[str]) -> str | None:
    """The name of an exception type as the program writes it: `Timeout` may mean `errors.Timeout`.

    Args:
        name: The name as the model writes it.
        names: The names of all types that may be raised.

    Returns:
        None if there is no such type, or several.
    """
    known = tuple(names)
    if name in known:
        return name
    found = [each for each in known if each.endswith(f".{name}")]
    return found[0] if len(found) == 1 else None


def exception_of(context: StepContext, outcome: RaiseStepOutcome) -> Exception:
    """Make the exception of a proposed `raise` outcome from its message.

    Raises:
        ExecutionError: Its type cannot be made from a message alone.
    """
    name = outcome.raise_error_type
    if name is None:
        what = f"step {context.step_id} raised, without a type"
        return ExecutionError(outcome.raise_message).without_content(what)
    try:
        full_name = full_type_name(name, context.raise_error_types)
        return context.raise_error_types[full_name or name](outcome.raise_message)
    except Exception as error:  # the constructor is the user's
        what = f"step {context.step_id}: {name} cannot be made from a message alone"
        message = f"{what} ({error}); message: {outcome.raise_message}"
        raise ExecutionError(message).without_content(what).caused_by("raise_type") from error
