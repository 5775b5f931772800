"""The messages of a step actor and what each decides: pure functions of a step's state. Floor 3.

Nothing here awaits. A command returns its value, which may be an awaitable for the sender to await.
"""

import inspect
import logging
import time
import traceback
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

from ..errors import ToolBoundaryError, ToolEvaluationError
from .assignment import AssignmentTarget, assign
from .expression import StepNamespace, compile_expression, compile_statements, mentioned_names
from .step_context import StepContext

__all__ = ["Assign", "Call", "Command", "Evaluate", "Execute", "StepState", "Store"]

_LOGGER = logging.getLogger("nighthawk")
_SLOW_CALL_SECONDS = 0.1


@dataclass(slots=True, kw_only=True, eq=False)
class StepState:
    """What a step actor owns: the context, its namespace, and counters."""

    context: StepContext
    namespace: StepNamespace
    executed_statements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Evaluate an expression."""

    expression: str
    writes: frozenset[str] = frozenset()

    @property
    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        return _names_of_expression(self.expression)

    def carry_out(self, state: StepState) -> object:
        """Evaluate.

        Raises:
            ToolEvaluationError: The expression is no expression, or raised.
        """
        try:
            code = compile_expression(self.expression)
        except (SyntaxError, ValueError) as error:
            raise ToolEvaluationError(f"not a Python expression: {_last_line(error)}") from error
        started = time.perf_counter()
        try:
            return state.namespace.run(code)
        except Exception as error:
            raise ToolEvaluationError(_last_line(error)) from error
        finally:
            _report_slow_call(code, state, time.perf_counter() - started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Evaluate an expression and store its value, at once unless it has to be awaited first."""

    target: AssignmentTarget
    expression: str

    @property
    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        return _names_of_expression(self.expression)

    @property
    def writes(self) -> frozenset[str]:
        """Names whose value is unknown until the command has finished."""
        return frozenset({self.target.root})

    def carry_out(self, state: StepState) -> object:
        """Evaluate and store; raises what `Evaluate` and `assign` raise.

        Returns:
            The stored value, or the awaitable to be awaited and then stored by `Store`.
        """
        value = Evaluate(expression=self.expression).carry_out(state)
        return value if inspect.isawaitable(value) else assign(state.context, self.target, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Store the awaited value of an assignment."""

    target: AssignmentTarget
    value: object = field(repr=False)
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def carry_out(self, state: StepState) -> object:
        """Store the value; raises what `assign` raises."""
        return assign(state.context, self.target, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Execute statements."""

    statements: str

    @property
    def reads(self) -> frozenset[str]:
        """Names the command depends on."""
        try:
            return mentioned_names(compile_statements(self.statements, filename="<statements>"))
        except (SyntaxError, ValueError):
            return frozenset()

    @property
    def writes(self) -> frozenset[str]:
        """Names whose value is unknown until the command has finished: any that it mentions."""
        return self.reads

    def carry_out(self, state: StepState) -> object:
        """Execute.

        Returns:
            The sorted names that were bound or rebound; a coroutine that gives them when the statements
            await.

        Raises:
            ToolEvaluationError: The text is not Python, or raised; names the line. What the statements did
                before is not undone.
        """
        state.executed_statements += 1
        filename = f"<statements {state.executed_statements}>"
        try:
            code = compile_statements(self.statements, filename=filename)
        except (SyntaxError, ValueError) as error:
            raise ToolEvaluationError(f"not Python statements: {_last_line(error)}") from error
        before = dict(state.context.step_locals)
        started = time.perf_counter()
        try:
            pending = state.namespace.run(code)
        except Exception as error:
            raise self._failure(error, filename) from error
        finally:
            _report_slow_call(code, state, time.perf_counter() - started)
        if isinstance(pending, types.CoroutineType):
            awaited = cast("Awaitable[object]", pending)
            return self._finish(awaited, state, before, filename)
        return _changed_names(before, state.context.step_locals)

    async def _finish(
        self,
        pending: Awaitable[object],
        state: StepState,
        before: dict[str, object],
        filename: str,
    ) -> list[str]:
        try:
            await pending
        except Exception as error:
            raise self._failure(error, filename) from error
        finally:
            state.namespace.adopt_globals()
        return _changed_names(before, state.context.step_locals)

    def _failure(self, error: Exception, filename: str) -> ToolEvaluationError:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename
        ]
        if not lines or lines[0] is None:
            return ToolEvaluationError(_last_line(error))
        source = self.statements.splitlines()[lines[0] - 1].strip()
        return ToolEvaluationError(f"line {lines[0]} ({source}): {_last_line(error)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call a tool function with validated arguments."""

    name: str
    call: Callable[[], object] = field(repr=False)
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def carry_out(self, state: StepState) -> object:
        """Call the function.

        Raises:
            ToolBoundaryError: The function raised it.
            ToolEvaluationError: The function raised something else.
        """
        started = time.perf_counter()
        try:
            return self.call()
        except ToolBoundaryError:
            raise
        except Exception as error:
            raise ToolEvaluationError(_last_line(error)) from error
        finally:
            _report_slow_name(self.name, time.perf_counter() - started)


Command = Evaluate | Assign | Store | Execute | Call


def _names_of_expression(expression: str) -> frozenset[str]:
    try:
        return mentioned_names(compile_expression(expression))
    except (SyntaxError, ValueError):
        return frozenset()


def _changed_names(before: dict[str, object], after: dict[str, object]) -> list[str]:
    missing = object()
    return sorted(name for name, value in after.items() if before.get(name, missing) is not value)


def _last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


_reported_names: set[str] = set()


def _report_slow_call(code: types.CodeType, state: StepState, seconds: float) -> None:
    if seconds <= _SLOW_CALL_SECONDS:
        return
    context = state.context
    for name in sorted(mentioned_names(code)):
        if callable(context.step_locals.get(name, context.step_globals.get(name))):
            _report_slow_name(name, seconds)


def _report_slow_name(name: str, seconds: float) -> None:
    """Say once for each function that it holds the event loop."""
    if seconds <= _SLOW_CALL_SECONDS or name in _reported_names:
        return
    _reported_names.add(name)
    _LOGGER.warning(
        "%s held the event loop for %.0f ms; wrap slow synchronous functions with nighthawk_async.blocking",
        name,
        seconds * 1000,
    )
