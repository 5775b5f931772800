"""The commands of a step actor: synchronous functions of a step's state; awaiting and blocking in its code.

A command returns its reply, or an `Awaited`: the awaitable that the sender awaits, and the continuation that
runs in the actor's turn with its value.

Guards execute the commands, and decide about the calls that a step's code makes.
"""

import ast
import gc
import inspect
import logging
import textwrap
import time
import traceback
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ToolEvaluationError
from ..natural.tree import CLOSURE_NAMES
from ..prompt.callables import describe_callable, find_function
from ..types.unset import UNSET
from ..values.error_text import describe_error
from ..values.validation import NEW, Declared
from .assignment import MISSING, AssignmentTarget, assign, undoing, with_checked_calls
from .cells import (
    Cell,
    PausedCode,
    Together,
    await_value,
    awaitables_in,
    begin,
    check_event_loop,
    close_work,
    is_awaitable,
    is_of_call,
    with_results,
)
from .context import (
    Rewriting,
    StepContext,
    StepNamespace,
    bound_names,
    compile_expression,
    compile_statements,
    declared_global,
    is_expression,
    mentioned_names,
    statements_filename,
)
from .declared_types import declared_type, settle_copies

_LOGGER = logging.getLogger("nighthawk")
_SLOW_SECONDS = 0.1
_QUOTED_CHARACTERS = 80

Kind: TypeAlias = Literal["function", "class", "natural function", "tool", "code before an await", "code"]

_ADVICE: Mapping[Kind, str] = types.MappingProxyType(
    {
        "function": "wrap it with nighthawk_async.blocking, so that it runs in a worker thread",
        "class": "make it in a synchronous function that is wrapped with nighthawk_async.blocking",
        "natural function": "make it `async def`, or wrap it with nighthawk_async.blocking",
        "tool": "make it `async def`, or register nighthawk_async.blocking(function) as the tool",
        "code before an await": (
            "its awaits are fine; move slow computation into a synchronous function that is wrapped with "
            "nighthawk_async.blocking (on a busy machine it may only have waited for a processor)"
        ),
        "code": "move slow parts into a synchronous function that is wrapped with nighthawk_async.blocking",
    }
)


class SlowCall(Struct, frozen=True):
    """A call that held the event loop.

    Args:
        title: Its name.
        kind: The kind of code, for the advice.
    """

    title: str
    kind: Kind


class Stretch:
    """A period during which code of the user or the model holds the event loop."""

    __slots__ = ("_collections", "_started")

    def __init__(self) -> None:
        self._started, self._collections = time.perf_counter(), _full_collections()

    def end(self, call: Callable[[], SlowCall]) -> None:
        """Warn, once for each call, if it held the event loop for long.

        Args:
            call: Identifies the call; used only if it took long.
        """
        seconds = time.perf_counter() - self._started
        if seconds <= _SLOW_SECONDS or _full_collections() != self._collections:
            return
        slow = call()
        if slow.title not in _reported:
            _reported.add(slow.title)
            details = (slow.title, seconds * 1000, _ADVICE[slow.kind])
            _LOGGER.warning("%s held the event loop for %.0f ms; %s", *details)


_reported: set[str] = set()


def _full_collections() -> int:
    """Return the number of full garbage collections, which take long with thousands of steps in flight."""
    return gc.get_stats()[-1]["collections"]


def slow_code(text: str, called: Mapping[str, Any]) -> SlowCall:
    """Identify code by the only function that it calls, if that runs on the event loop; else by its text.

    Args:
        text: The code.
        called: The callables that the code mentions, by name.
    """
    title = textwrap.shorten(text, _QUOTED_CHARACTERS)
    if len(called) == 1:
        ((name, value),) = called.items()
        kind = _kind_of(value)
        return SlowCall(title if kind == "code before an await" else name, kind)
    return SlowCall(title, "code")


def slow_tool(name: str) -> SlowCall:
    """Identify a tool call.

    Args:
        name: The name of the tool.
    """
    return SlowCall(name, "tool")


def _kind_of(value: Any) -> Kind:
    if isinstance(value, type):
        return "class"
    if describe_callable(value).asynchrony:
        return "code before an await"
    code = getattr(find_function(value), "__code__", None)
    is_natural = CLOSURE_NAMES[0] in cast("tuple[str, ...]", getattr(code, "co_freevars", ()))
    return "natural function" if is_natural else "function"


class CallGuard(Protocol):
    """Decides about every call that the code of one step makes."""

    def run(
        self,
        namespace: StepNamespace,
        code: types.CodeType,
        text: str,
        mode: Literal["eval", "exec"],
        rewriting: Rewriting | None = None,
    ) -> object:
        """Run code, as `StepNamespace.run` does, asking before each call.

        Args:
            namespace: The names of the step.
            code: The compiled code.
            text: Its text.
            mode: Whether it is an expression or statements.
            rewriting: A change of it; None for none.

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

    async def admit_waiting(
        self, written: str, function: object, /, *args: object, **kwargs: object
    ) -> object:
        """Admit a call that is made outside the step's turns, after an approval if it needs one.

        Args:
            written: The callee as written, if it is a dotted name; otherwise empty.
            function: The function that is called.
            args: The positional arguments.
            kwargs: The keyword arguments.

        Returns:
            A callable that makes the call; it takes no arguments.

        Raises:
            ToolBoundaryError: The call is not permitted.
        """
        ...


class StepCode(Protocol):
    """Checks and runs the code of one step, as its level allows.

    A step without one runs what its model writes like the program's own code.
    """

    @property
    def is_elsewhere(self) -> bool:
        """Whether the code runs outside the program."""
        ...

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Refuse code before any of it runs.

        Args:
            text: The code, which is valid Python.
            mode: Whether it is an expression or statements.

        Raises:
            ToolBoundaryError: The level does not allow it.
        """
        ...

    def check_target(self, target: AssignmentTarget) -> None:
        """Refuse an assignment to a name or an attribute; see `check`."""
        ...

    def run(
        self, state: "StepState", code: types.CodeType, text: str, mode: Literal["eval", "exec"]
    ) -> object:
        """Run code that was checked; `StepState.run_as_python` runs it under the guard of calls, if any.

        Args:
            state: The state of the step.
            code: The compiled code.
            text: Its text.
            mode: Whether it is an expression or statements.

        Returns:
            The value; a `PausedCode` or another awaitable where it has to be waited for.
        """
        ...


_QUOTED_NAMES = 20
_QUOTED_ERROR_CHARACTERS = 1_000
_CONTAINERS = frozenset({list, tuple, dict, set})
_BINDING = ":="
"""The operator in expressions that bind names."""


class StepState(Struct, kw_only=True, eq=False):
    """State of a step actor: the context, its namespace, level and guard of its code, and counters."""

    context: StepContext
    namespace: StepNamespace
    step_code: StepCode | None = None
    call_guard: CallGuard | None = None
    executed_statements: int = 0

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Refuse code that the level of the step does not allow, or that uses another event loop.

        See `StepCode.check` and `check_event_loop`.
        """
        if self.step_code is not None:
            self.step_code.check(text, mode)
            if self.step_code.is_elsewhere:
                return
        check_event_loop(text, lambda: ast.parse(text, mode=mode))

    def run(self, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        """Run code as the level of the step allows; see `StepCode.run`."""
        self.context.changes.remember(mentioned_names(code))
        if self.step_code is not None:
            return self.step_code.run(self, code, text, mode)
        return self.run_as_python(code, text, mode)

    def run_as_python(
        self,
        code: types.CodeType,
        text: str,
        mode: Literal["eval", "exec"],
        rewriting: Rewriting | None = None,
    ) -> object:
        """Run code, guarded if there is a guard; see `StepNamespace.run` and `CallGuard.run`."""
        if self.call_guard is not None:
            return self.call_guard.run(self.namespace, code, text, mode, rewriting)
        checked = with_checked_calls(text, code, mode, rewriting)
        value: Any = self.namespace.run(checked)
        if checked.co_flags & ~code.co_flags & inspect.CO_COROUTINE:
            with self.namespace.active():
                return begin(value)
        return value


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
        close_work(self.awaitable)


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
        if _BINDING not in self.expression:
            return self.evaluate(state, describe_error)
        before = dict(state.context.step_locals)

        def describe(error: BaseException) -> str:
            return _describe_partly_done(describe_error(error), before, state)

        value = self.evaluate(state, describe)
        state.context.note_bound(_changed_names(before, state.context.step_locals), before)
        return value

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
        state.check(self.expression.strip(), "eval")
        with _running(lambda: _slow_call_in(code, self.expression, state.context), describe):
            value = state.run(code, self.expression.strip(), "eval")
        if type(value) is PausedCode:
            claims = _claims_of(code, state.context)
            return Awaited(awaitable=value, describe=describe, continuation=_reply_of, claims=claims)
        return _reply(value, describe)


class Assign(Struct, frozen=True, kw_only=True):
    """Store a value given as data, or the value of an expression, which may have to be awaited first.

    Args:
        target: The target.
        expression: The expression; empty where there is data.
        data: A decoded JSON value; UNSET where there is an expression.
        made: A Python object that the model made, such as an image; UNSET for none.
    """

    target: AssignmentTarget
    expression: str = ""
    data: object = UNSET
    made: object = UNSET

    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        root = frozenset({self.target.root})
        return root if not self.expression else Evaluate(expression=self.expression).reads() | root

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished."""
        return self._bound_names() | {self.target.root}

    def execute(self, state: StepState) -> object:
        """Evaluate and store; raises the same errors as `Evaluate` and `assign`, and then binds no name.

        Returns:
            The stored value.
        """
        if state.step_code is not None:
            state.step_code.check_target(self.target)
        if self.data is not UNSET:
            return self._assign(state, self.data)
        if self.made is not UNSET:
            return self._assign(state, self.made)
        names = state.context.step_locals
        declared = declared_type(self.expression, state.context)
        before = {name: names.get(name, MISSING) for name in self._bound_names()}
        undo = undoing(names, before)
        with undo:
            value = Evaluate(expression=self.expression).evaluate(state, describe_error)

        def store(state: StepState, value: object) -> object:
            with undo:
                return self._assign(state, value, declared)

        return replace(value.then(store), undo=undo) if type(value) is Awaited else store(state, value)

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
    """The names that a cell has changed, and what else it leaves.

    Args:
        names: The names.
        lost: Those whose old values come back after the block, because it does not set them.
        value: The value of the last line; UNSET if that is no expression.
        printed: What the cell has printed.
    """

    def __init__(
        self, names: Iterable[str], lost: Iterable[str] = (), *, value: object = UNSET, printed: str = ""
    ) -> None:
        super().__init__(names)
        self.lost = tuple(lost)
        self.value = value
        self.printed = printed


_TEXT = "text"
"""The name under which the statements of a cell see the raw text beside them."""


class Execute(Struct, frozen=True, kw_only=True):
    """Execute a cell: statements, or an expression.

    Args:
        statements: The code.
        text: A raw text that the code sees under the name `text`; None for none.
    """

    statements: str
    text: str | None = None

    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        try:
            return mentioned_names(compile_statements(self.statements, filename=statements_filename()))
        except SyntaxError:
            return frozenset()

    def claims(self, state: StepState) -> frozenset[str]:
        """Names whose value is unknown until the command has finished.

        These are the names it binds, and the data it mentions and could change in place. Functions, classes
        and modules are excluded: cells that call the same function run in parallel. A lone expression claims
        none, as that of `Evaluate`.
        """
        own = frozenset({_TEXT} if self.text is not None else set[str]())
        try:
            code = compile_statements(self.statements, filename=statements_filename())
        except SyntaxError:
            return own
        if is_expression(self.statements):
            return own | bound_names(code)
        return own | _claims_of(code, state.context)

    def execute(self, state: StepState) -> object:
        """Execute.

        Returns:
            What it leaves: `ChangedNames`, the names sorted.

        Raises:
            ToolEvaluationError: The text is not Python, or it raised; the error names the line. What the
                code did before is not undone; the error names what it bound.
        """
        state.executed_statements += 1
        filename = statements_filename(state.executed_statements)
        try:
            code = compile_statements(self.statements, filename=filename)
        except SyntaxError as error:
            what = "not Python statements"
            raise ToolEvaluationError(f"{what}: {describe_error(error)}").without_content(what) from error
        state.check(self.statements, "exec")
        done = _Executed(
            command=self, code=code, filename=filename, before=dict(state.context.step_locals), state=state
        )
        stretch = _running(lambda: _slow_call_in(code, self.statements, state.context), done.describe)
        with stretch, done.cell.active():
            pending: Any = state.run(code, done.given(), "exec")
            if code.co_flags & inspect.CO_COROUTINE:  # it has an `await` of its own
                pending = PausedCode(pending)
        if is_awaitable(pending):
            return Awaited(awaitable=pending, describe=done.describe, continuation=done.complete)
        return done.complete(state, None)


class _Executed:
    """One execution of a cell.

    Args:
        command: The command.
        code: Its compiled code.
        filename: The file name of the code.
        before: The step locals before it.
        state: The state of the step.
    """

    def __init__(
        self,
        *,
        command: Execute,
        code: types.CodeType,
        filename: str,
        before: Mapping[str, object],
        state: StepState,
    ) -> None:
        self.cell = Cell()
        self._command = command
        self._code = code
        self._filename = filename
        self._before = before
        self._state = state

    def given(self) -> str:
        """Give the code its text, and return the code."""
        if self._command.text is not None:
            self._state.context.step_locals[_TEXT] = self._command.text
        return self._command.statements

    def complete(self, state: StepState, _: object) -> object:
        """Await the calls that the cell has left in its value and in the names it bound, then reply."""
        names = state.context.step_locals
        bound = [names[name] for name in _changed_names(self._before, names)]
        left = [
            *awaitables_in((self.cell.value,), are_new=False),
            *awaitables_in(bound, are_new=True),
        ]
        if not left:
            return self._reply(state)
        work = Together(list({id(each): each for each in left}.values()), self.cell)
        return Awaited(awaitable=work, describe=self.describe, continuation=self._with_results)

    def _with_results(self, state: StepState, results: Any) -> object:
        names = state.context.step_locals
        changed = _changed_names(self._before, names)
        left = [self.cell.value, *(names[name] for name in changed)]
        settled: Any = with_results(left, results)
        value, *values = settled
        self.cell.value = value
        names.update(zip(changed, values, strict=True))
        return self._reply(state)

    def _reply(self, state: StepState) -> ChangedNames:
        context, before = state.context, self._before
        self._take_text_back()
        settle_copies(self._command.statements, context)
        names = _changed_names(before, context.step_locals)
        deleted = before.keys() - context.step_locals.keys()
        bound = sorted({*names, *deleted})
        lost = context.note_bound(bound, before, declared_global(self._code))
        return ChangedNames(names, lost, value=self.cell.value, printed=self.cell.printed)

    def _take_text_back(self) -> None:
        """Give the name `text` back to what had it before, unless the code has bound it."""
        names = self._state.context.step_locals
        if self._command.text is None or names.get(_TEXT) is not self._command.text:
            return
        if _TEXT in self._before:
            names[_TEXT] = self._before[_TEXT]
        else:
            del names[_TEXT]

    def describe(self, error: BaseException) -> str:
        """The error, with the innermost line of the statements in its traceback."""
        self._take_text_back()
        return _describe_partly_done(self._describe(error), self._before, self._state)

    def _describe(self, error: BaseException) -> str:
        text = describe_error(error)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self._filename and frame.lineno]
        if not lines:
            return text
        quoted = self._command.statements.splitlines()[lines[-1] - 1].strip()
        return f"line {lines[-1]} ({quoted}): {text}"


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
    return _reply(value, describe_error)


def _reply(value: object, describe: Callable[[BaseException], str]) -> object:
    """The reply with a value, or what to await first: the value, or the awaitables in its containers."""
    if is_awaitable(value):
        return Awaited(awaitable=value, describe=describe)
    if type(value) not in _CONTAINERS or not (pending := list(awaitables_in((value,), are_new=False))):
        return value

    def completed(_: StepState, results: Any) -> object:
        return with_results(value, results)

    return Awaited(awaitable=Together(pending), describe=describe, continuation=completed)


def _claims_of(code: types.CodeType, context: StepContext) -> frozenset[str]:
    """The names that code binds, and those of data that it mentions and could change in place."""
    return bound_names(code).union(
        name
        for name in mentioned_names(code)
        if not callable(value := _value_of(name, context))
        and not issubclass(type(value), types.ModuleType)
        and value is not MISSING
    )


def _value_of(name: str, context: StepContext) -> object:
    return context.step_locals.get(name, context.step_globals.get(name, MISSING))


def _changed_names(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(
        name
        for name, value in after.items()
        if before.get(name, MISSING) is not value and not name.startswith("__")
    )


def _describe_partly_done(text: str, before: Mapping[str, object], state: StepState) -> str:
    """Describe an error, given in words, and the names bound before it, which stay bound."""
    changed = _changed_names(before, state.context.step_locals)
    if not changed:
        return text
    names = ", ".join(changed[:_QUOTED_NAMES])
    if len(changed) > _QUOTED_NAMES:
        names += f" and {len(changed) - _QUOTED_NAMES} more"
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
            if exc is not None and not (isinstance(exc, KeyboardInterrupt) and is_of_call(exc)):
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
