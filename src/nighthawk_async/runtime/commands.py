"""The commands of a step actor: synchronous functions of a step's state.

A command returns its reply, or an `Awaited`: the awaitable that the sender awaits, and the continuation that
runs in the actor's turn with its value.

Guards execute the commands, and decide about the calls that a step's code makes.
"""

import inspect
import traceback
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ToolEvaluationError
from ..types.unset import UNSET
from .argument_check import with_checked_calls
from .assignment import AssignmentTarget, assign
from .awaitable import await_value, is_awaitable
from .blocking import PausedCode, SlowCall, Stretch, slow_code, slow_tool
from .declared_types import declared_type, settle_copies
from .error_text import describe_error
from .expression import (
    StepNamespace,
    bound_names,
    compile_expression,
    compile_statements,
    declared_global,
    mentioned_names,
    statements_filename,
)
from .step_context import StepContext
from .validation import NEW, Declared


class CallGuard(Protocol):
    """Decides about every call that the code of one step makes."""

    def run(
        self, namespace: StepNamespace, code: types.CodeType, text: str, mode: Literal["eval", "exec"]
    ) -> object:
        """Run code, as `StepNamespace.run` does, asking before each call.

        Args:
            namespace: The names of the step.
            code: The compiled code.
            text: Its text.
            mode: Whether it is an expression or statements.

        Returns:
            The value; a `PausedCode` when people have to be waited for.
        """
        ...

    def keep_attribute(self, receiver: object, name: str, value: object, /) -> object:
        """Record that an attribute is about to be set."""
        ...

    def raise_failure(self) -> None:
        """Raise the failure of a rule, even if the step's code has caught it."""
        ...


_QUOTED_NAMES = 20
_QUOTED_ERROR_CHARACTERS = 1_000
_MISSING = object()
_BINDING = ":="
"""The operator in expressions that bind names."""


class StepState(Struct, kw_only=True, eq=False):
    """State of a step actor: the context, its namespace, the guard of its calls, and counters."""

    context: StepContext
    namespace: StepNamespace
    call_guard: CallGuard | None = None
    executed_statements: int = 0

    def run(self, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        """Run code, guarded if there is a guard; see `StepNamespace.run` and `CallGuard.run`."""
        self.context.changes.remember(mentioned_names(code))
        if self.call_guard is None:
            return self.namespace.run(with_checked_calls(text, code, mode))
        return self.call_guard.run(self.namespace, code, text, mode)


Continuation: TypeAlias = Callable[[StepState, object], object]


class Awaited(Struct, frozen=True, kw_only=True, eq=False):
    """The reply to a command whose value has to be awaited first.

    Args:
        awaitable: The awaitable to await outside the actor.
        describe: Describes the error if awaiting raises.
        continuation: Turns the value into the reply, in the actor's turn; None if the value is the reply.
        claims: Names that other commands must not use meanwhile, besides those that the command claims.
        undo: Undoes what the command has done so far, if awaiting raises; None to leave it.
    """

    awaitable: Awaitable[object]
    describe: Callable[[BaseException], str] = describe_error
    continuation: Continuation | None = None
    claims: frozenset[str] = frozenset()
    undo: Callable[[], None] | None = None

    def then(self, continuation: Continuation) -> "Awaited":
        """Return the same with a further continuation, which gets the reply."""
        before = self.continuation
        if before is None:
            return replace(self, continuation=continuation)

        def go_on(state: StepState, value: object) -> object:
            reply = before(state, value)
            return reply.then(continuation) if type(reply) is Awaited else continuation(state, reply)

        return replace(self, continuation=go_on)

    def close(self) -> None:
        """Close the coroutine, so that Python does not warn that it was never awaited."""
        if inspect.iscoroutine(self.awaitable):
            self.awaitable.close()


class Evaluate(Struct, frozen=True, kw_only=True):
    """Evaluate an expression."""

    expression: str

    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        try:
            return mentioned_names(compile_expression(self.expression))
        except SyntaxError:
            return frozenset()

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished: none."""
        return frozenset()

    def execute(self, state: StepState) -> object:
        """Evaluate.

        Raises:
            ToolEvaluationError: The text is not an expression, or it raised; the error names what it
                bound before.
        """
        describe = describe_error
        if _BINDING in self.expression:
            before = dict(state.context.step_locals)
            describe = partial(_describe_partly_done, describe_error, before, state)
            value = self.evaluate(state, describe)
            state.context.note_bound(_changed_names(before, state.context.step_locals), before)
            return value
        return self.evaluate(state, describe)

    def evaluate(self, state: StepState, describe: Callable[[BaseException], str]) -> object:
        """Evaluate; raises the same errors as `execute`.

        Args:
            state: The state of the step.
            describe: Describes the error if it raises.
        """
        try:
            code = compile_expression(self.expression)
        except SyntaxError as error:
            what = "not a Python expression"
            raise ToolEvaluationError(f"{what}: {describe_error(error)}").without_content(what) from error
        with _running(lambda: _slow_call_in(code, self.expression, state.context), describe):
            value = state.run(code, self.expression.strip(), "eval")
        if type(value) is PausedCode:
            claims = _claims_of(code, state.context)
            return Awaited(awaitable=value, describe=describe, continuation=_reply_of, claims=claims)
        return Awaited(awaitable=value, describe=describe) if is_awaitable(value) else value


class Assign(Struct, frozen=True, kw_only=True):
    """Store a value given as data, or the value of an expression, which may have to be awaited first.

    Args:
        target: The target.
        expression: The expression; empty where there is data.
        data: A decoded JSON value; UNSET where there is an expression.
    """

    target: AssignmentTarget
    expression: str = ""
    data: object = UNSET

    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        root = frozenset({self.target.root})
        return root if self.data is not UNSET else Evaluate(expression=self.expression).reads() | root

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished."""
        return self._bound_names() | {self.target.root}

    def execute(self, state: StepState) -> object:
        """Evaluate and store; raises the same errors as `Evaluate` and `assign`, and then binds no name.

        Returns:
            The stored value.
        """
        if self.data is not UNSET:
            return self._assign(state, self.data)
        names = state.context.step_locals
        declared = declared_type(self.expression, state.context)
        before = {name: names.get(name, _MISSING) for name in self._bound_names()}
        undo = partial(_restore, names, before)
        with _undoing(undo):
            value = Evaluate(expression=self.expression).evaluate(state, describe_error)
        store = partial(self._store, undo, declared)
        return replace(value.then(store), undo=undo) if type(value) is Awaited else store(state, value)

    def _store(self, undo: Callable[[], None], declared: Declared, state: StepState, value: object) -> object:
        with _undoing(undo):
            return self._assign(state, value, declared)

    def _assign(self, state: StepState, value: object, declared: Declared = NEW) -> object:
        if state.call_guard is not None and self.target.fields:
            state.call_guard.keep_attribute(None, self.target.fields[-1], value)
        is_data = self.data is not UNSET
        return assign(state.context, self.target, value, is_data=is_data, declared=declared)

    def _bound_names(self) -> frozenset[str]:
        """The names that the expression binds itself; none if the text is not an expression."""
        if _BINDING not in self.expression:
            return frozenset()
        try:
            return bound_names(compile_expression(self.expression))
        except SyntaxError:
            return frozenset()


class ChangedNames(list[str]):
    """The names that statements have changed.

    Args:
        names: The names.
        lost: Those whose old values come back after the block, because it does not set them.
    """

    def __init__(self, names: Iterable[str], lost: Iterable[str]) -> None:
        super().__init__(names)
        self.lost = tuple(lost)


class Execute(Struct, frozen=True, kw_only=True):
    """Execute statements."""

    statements: str

    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        try:
            return mentioned_names(compile_statements(self.statements, filename=statements_filename()))
        except SyntaxError:
            return frozenset()

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished.

        These are the names it binds, and the data it mentions and could change in place. Functions, classes
        and modules are excluded: statements that call the same function run in parallel.
        """
        try:
            code = compile_statements(self.statements, filename=statements_filename())
        except SyntaxError:
            return frozenset()
        return _claims_of(code, state.context)

    def execute(self, state: StepState) -> object:
        """Execute.

        Returns:
            The sorted names that were bound or rebound: `ChangedNames`.

        Raises:
            ToolEvaluationError: The text is not Python, or it raised; the error names the line. What the
                statements did before is not undone; the error names what they bound.
        """
        state.executed_statements += 1
        filename = statements_filename(state.executed_statements)
        try:
            code = compile_statements(self.statements, filename=filename)
        except SyntaxError as error:
            what = "not Python statements"
            raise ToolEvaluationError(f"{what}: {describe_error(error)}").without_content(what) from error
        before = dict(state.context.step_locals)

        describe = partial(_describe_partly_done, partial(self._describe, filename=filename), before, state)

        def changed_names(state: StepState, _: object) -> object:
            context = state.context
            settle_copies(self.statements, context)
            names = _changed_names(before, context.step_locals)
            deleted = before.keys() - context.step_locals.keys()
            bound = sorted({*names, *deleted})
            return ChangedNames(names, context.note_bound(bound, before, declared_global(code)))

        with _running(lambda: _slow_call_in(code, self.statements, state.context), describe):
            pending = state.run(code, self.statements, "exec")
        if is_awaitable(pending):
            return Awaited(awaitable=pending, describe=describe, continuation=changed_names)
        return changed_names(state, None)

    def _describe(self, error: BaseException, *, filename: str) -> str:
        """The error, with the innermost line of the statements in its traceback."""
        text = describe_error(error)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == filename and frame.lineno]
        if not lines:
            return text
        return f"line {lines[-1]} ({self.statements.splitlines()[lines[-1] - 1].strip()}): {text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call a tool function with validated arguments."""

    name: str
    call: Callable[[], object] = field(repr=False)

    def reads(self) -> frozenset[str]:
        """Names the command depends on; what a function reads is unknown."""
        return frozenset()

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished: none."""
        return frozenset()

    def execute(self, state: StepState) -> object:
        """Call the function.

        Raises:
            ToolEvaluationError: The function raised.
        """
        with _running(lambda: slow_tool(self.name), describe_error):
            value = self.call()
        return _reply_of(state, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue a command whose value was awaited."""

    continuation: Continuation = field(repr=False)
    value: object = field(repr=False)

    def reads(self) -> frozenset[str]:
        """Names the command depends on: none, since it waited for them before it began."""
        return frozenset()

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished: none besides those already claimed."""
        return frozenset()

    def execute(self, state: StepState) -> object:
        """Continue; raises the same errors as the command."""
        return self.continuation(state, self.value)


Command: TypeAlias = Evaluate | Assign | Execute | Call | Resume


def _reply_of(_: StepState, value: object) -> object:
    return Awaited(awaitable=value) if is_awaitable(value) else value


def _claims_of(code: types.CodeType, context: StepContext) -> frozenset[str]:
    """The names that code binds, and those of data that it mentions and could change in place."""
    return bound_names(code).union(
        name
        for name in mentioned_names(code)
        if not callable(value := _value_of(name, context))
        and not issubclass(type(value), types.ModuleType)
        and value is not _MISSING
    )


def _value_of(name: str, context: StepContext) -> object:
    return context.step_locals.get(name, context.step_globals.get(name, _MISSING))


def _changed_names(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(
        name
        for name, value in after.items()
        if before.get(name, _MISSING) is not value and not name.startswith("__")
    )


class _undoing:  # noqa: N801  (a context manager that reads as a function at its call)
    """Call `undo` if the block raises. No generator, because each assignment enters two."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is not None:
            self._undo()


def _restore(names: dict[str, object], before: Mapping[str, object]) -> None:
    for name, value in before.items():
        if value is _MISSING:
            names.pop(name, None)
        else:
            names[name] = value


def _describe_partly_done(
    describe: Callable[[BaseException], str],
    before: Mapping[str, object],
    state: StepState,
    error: BaseException,
) -> str:
    """Describe an error and the names bound before it, which stay bound."""
    changed = _changed_names(before, state.context.step_locals)
    if not changed:
        return describe(error)
    names = ", ".join(changed[:_QUOTED_NAMES])
    if len(changed) > _QUOTED_NAMES:
        names += f" and {len(changed) - _QUOTED_NAMES} more"
    text = describe(error)
    if len(text) > _QUOTED_ERROR_CHARACTERS:
        text = f"{text[:_QUOTED_ERROR_CHARACTERS]}…"
    return f"{text}; changed before the error, and not undone: {names}"


class _running:  # noqa: N801  (a context manager that reads as a function at its call)
    """Turn errors of user code into `ToolEvaluationError`; warn once of a call that holds the event loop."""

    __slots__ = ("_call", "_describe", "_stretch")

    def __init__(self, call: Callable[[], SlowCall], describe: Callable[[BaseException], str]) -> None:
        self._call = call
        self._describe = describe

    def __enter__(self) -> None:
        self._stretch = Stretch()

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            if exc is not None and not isinstance(exc, KeyboardInterrupt):
                # Code of the user or the model: a stray `exit()` must not end the program. Nothing here can
                # be cancelled, so a cancellation belongs to something else.
                raise ToolEvaluationError(self._describe(exc)).without_content(type(exc).__name__) from exc
        finally:
            self._stretch.end(self._call)


def _slow_call_in(code: types.CodeType, text: str, context: StepContext) -> SlowCall:
    mentioned = {name: _value_of(name, context) for name in mentioned_names(code)}
    return slow_code(text, {name: value for name, value in mentioned.items() if callable(value)})


class CommandGuard:
    """Executes the commands of one step. A policy may provide a guard that observes what they do.

    Attributes:
        verdicts: The errors that the guard itself raises, as opposed to failures of the commands.
    """

    __slots__ = ()

    verdicts: ClassVar[tuple[type[Exception], ...]] = ()

    def in_flight(self) -> AbstractContextManager[None]:
        """Return the context manager to hold open while the step is in flight."""
        return nullcontext()

    def execute(self, command: Command, state: StepState) -> object:
        """Execute a command; see `Command.execute`."""
        return command.execute(state)

    async def await_value(self, awaitable: Awaitable[object]) -> object:
        """Await the awaitable of a command; see `awaitable.await_value`."""
        return await await_value(awaitable)
