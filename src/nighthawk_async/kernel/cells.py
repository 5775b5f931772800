"""Notebook cells: the statements of a model, what they print, the value of their last line, and its calls.

The code of a cell is changed in three places. The value of its last line, if that is an expression, goes to
the current `Cell`. Where a call stands as a statement of its own, an awaitable that it returns is awaited, so
that no call of an async function is lost. This needs `await`, and makes the code a coroutine; it begins in
the turn of the step's actor, ends in it if nothing has to be awaited, and pauses otherwise. Where code reads
`sys.stdout` or `sys.stderr`, in whatever way it names them, it gets the output of the cell.

No call is added to the code, because guards rewrite the calls of a step's code.
"""

import ast
import dis
import functools
import inspect
import io
import logging
import re
import secrets
import sys
import textwrap
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import CoroutineType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any, Protocol, TypeGuard

from anyio import get_cancelled_exc_class

from .. import parallel
from ..actors import BareTaskGroup
from ..errors import ToolBoundaryError
from ..parallel.task_current import share_positions
from ..prompt.plain_text import class_of, type_module
from ..types.unset import UNSET
from .features import Feature

_LOGGER = logging.getLogger("nighthawk")

CELL = f"cell of the step {secrets.token_hex(16)}"
"""The constant that stands for the current cell in compiled code: a text that no source text can guess."""

_MAX_PRINTED = 200_000
"""The number of characters of one cell's output that are kept; results are cut much earlier."""

_MAX_SEARCHED = 10_000
"""The number of containers in which one search looks for awaitables, because it holds the event loop."""

_QUOTED_CHARACTERS = 80

_current: "Feature[Cell | None]" = Feature(None)
"""The cell of the running code, so that cells that run at the same time do not mix what they print."""


class Cell:
    """The value and the output of one piece of a step's code, besides the names that it binds.

    Attributes:
        value: The value of the last line; UNSET if that is no expression.
        is_in_turn: Whether the step's actor runs the code, so that it must pause before it waits.
    """

    __slots__ = ("_dropped", "_output", "_program", "is_in_turn", "value")

    def __init__(self) -> None:
        self._program = _outputs_of_program()
        self.value: object = UNSET
        self.is_in_turn = False
        self._output: io.StringIO | None = None
        self._dropped = 0

    def takes(self, file: object) -> bool:
        """Whether it takes what is printed to a file: to the program's output, not one of the code's own."""
        return any(file is each for each in self._program)

    def write(self, text: str) -> None:
        """Keep a printed text."""
        if self._output is None:
            self._output = io.StringIO()
        room = max(0, _MAX_PRINTED - self._output.tell())
        self._output.write(text[:room])
        self._dropped += len(text) - len(text[:room])

    @property
    def printed(self) -> str:
        """The printed text, with the number of characters left out."""
        if self._output is None:
            return ""
        note = f"\n… {self._dropped} more characters" if self._dropped else ""
        return self._output.getvalue() + note

    def active(self) -> AbstractContextManager[None]:
        """Make it the current cell during the `with` statement."""
        return _current.active(self)


def _outputs_of_program() -> tuple[object, ...]:
    return (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)


class _Output(io.TextIOBase):
    """The output of the code of steps: it goes to the current cell, never to the program's output.

    Code that runs outside cells, such as a function that a block has returned, has none.
    """

    encoding: str = "utf-8"  # pyright: ignore[reportIncompatibleVariableOverride]

    def write(self, text: str, /) -> int:
        """Write a text to the cell, or to the file to which the code has redirected its output."""
        cell = _current.get()
        if cell is None:
            if text.strip():
                quoted = textwrap.shorten(text, _QUOTED_CHARACTERS)
                _LOGGER.info("code of a step printed something outside nh_exec and nh_eval: %s", quoted)
        elif type(sys.stdout) is not _OutputOfCall and not cell.takes(sys.stdout):
            sys.stdout.write(text)
        else:
            cell.write(text)
        return len(text)

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def close(self) -> None:
        """Do nothing: all cells have the same."""

    @property
    def buffer(self) -> "_BytesOutput":
        """The same for bytes."""
        return _BytesOutput()


class _BytesOutput(io.RawIOBase):
    """The output of the code of steps, for bytes."""

    def write(self, data: Any, /) -> int:
        """Write a text in UTF-8."""
        OUTPUT.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True


OUTPUT = _Output()
_PRINT = functools.partial(print, file=OUTPUT)
"""The `print` of a step's code. A partial, so that permissions see the builtin in it."""


def builtin_of_step(name: str, value: object) -> object:
    """Return a builtin as the code of a step sees it.

    Args:
        name: The name of the builtin.
        value: Python's own.
    """
    return _PRINT if name == "print" else value


_PRINTING = frozenset(
    {"pprint", "traceback", "dis", "calendar", "pydoc", "_sitebuiltins", "rich", "numpy", "pandas", "polars"}
)
"""Libraries with functions that print without `print`, to whatever `sys.stdout` is."""


def printing_to_cell(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that code of a step calls; one of a library that prints, so that the cell gets it.

    Args:
        function: The function.
    """
    if function is print:  # `builtins.print`
        return _PRINT
    defined: Any = function
    if type(defined) is MethodType:
        defined = defined.__func__
    module: object = defined.__module__ if type(defined) is FunctionType else type_module(class_of(defined))
    if type(module) is not str or module.partition(".")[0] not in _PRINTING:
        return function

    def printing(*args: object, **kwargs: object) -> object:
        return _with_output_of_cell(function, *args, **kwargs)

    return printing


def _with_output_of_cell(function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    cell = _current.get()
    if cell is None or not cell.takes(sys.stdout):
        return function(*args, **kwargs)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_OutputOfCall, before)
    try:
        return function(*args, **kwargs)
    finally:
        sys.stdout, sys.stderr = before


class _OutputOfCall(_Output):
    """The program's output while a library works for a cell: what others print meanwhile goes on to it.

    Others are other threads, and functions of the program that the library calls.

    Args:
        program: The program's output.
    """

    def __init__(self, program: Any) -> None:
        super().__init__()
        self._program, self._thread = program, threading.get_ident()

    def write(self, text: str, /) -> int:
        """Write a text to the cell, or for others to the program's output."""
        return super().write(text) if self._is_of_library() else self._program.write(text)

    def flush(self) -> None:
        """Flush the program's output."""
        self._program.flush()

    def _is_of_library(self) -> bool:
        if threading.get_ident() != self._thread:
            return False
        frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_code is not _with_output_of_cell.__code__:
            module = str(frame.f_globals.get("__name__")).partition(".")[0]
            if module not in _PRINTING and module not in sys.stdlib_module_names:
                return False
            frame = frame.f_back
        return True


class _CurrentCell:
    """Stands in compiled code for the cell that is current when the code runs."""

    def __setitem__(self, _: object, value: object) -> None:
        if (cell := _current.get()) is not None:
            cell.value = value

    def __mod__(self, value: object) -> object:
        cell = _current.get()
        is_output = (
            any(value is each for each in _outputs_of_program()) if cell is None else cell.takes(value)
        )
        return OUTPUT if is_output else value

    def __matmul__(self, value: object) -> Awaitable[None]:
        return _settled(value)


CURRENT_CELL = _CurrentCell()


async def _settled(value: object) -> None:
    """Await the calls in the value of a statement, which nobody else can await."""
    pending = list(awaitables_in((value,), are_new=True))
    if not pending:
        return
    cell = _current.get()
    if cell is not None and cell.is_in_turn:
        await _Pause()
    await Together(pending)


def with_cell(tree: ast.AST) -> ast.AST:
    """Change the statements of a cell as this module says.

    Args:
        tree: The parsed statements; other code stays as it is.
    """
    if not isinstance(tree, ast.Module):
        return tree
    for position, statement in enumerate(tree.body):
        if not isinstance(statement, ast.Expr):
            continue
        value = statement.value
        if position == len(tree.body) - 1:
            target = ast.Subscript(value=_cell(), slice=ast.Constant(value=None), ctx=ast.Store())
            tree.body[position] = ast.copy_location(ast.Assign(targets=[target], value=value), statement)
        elif any(isinstance(each, ast.Call) for each in ast.walk(value)):
            statement.value = ast.Await(value=ast.BinOp(left=_cell(), op=ast.MatMult(), right=value))
            ast.copy_location(statement.value, value)
    return tree


def with_output(tree: ast.AST) -> ast.AST:
    """Give code the output of its cell where it reads the program's, as this module says.

    Args:
        tree: The parsed code, with the changes of others.
    """
    names = {getattr(node, "attr", None) or getattr(node, "module", None) for node in ast.walk(tree)}
    return tree if names.isdisjoint({*_OUTPUTS, "sys"}) else _GivingOutput().visit(tree)


_OUTPUTS = frozenset(("stdout", "stderr", "__stdout__", "__stderr__"))


class _GivingOutput(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return _given(node) if node.attr in _OUTPUTS and isinstance(node.ctx, ast.Load) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        is_all = any(each.name == "*" for each in node.names)
        named = [each.asname or each.name for each in node.names if each.name in _OUTPUTS]
        names = ["stdout", "stderr"] if is_all else named
        given: list[ast.stmt] = [
            ast.Assign(targets=[ast.Name(id=each, ctx=ast.Store())], value=_given(ast.Name(each, ast.Load())))
            for each in (names if node.module == "sys" else ())
        ]
        return [node, *(ast.copy_location(each, node) for each in given)]


def _given(output: ast.expr) -> ast.expr:
    return ast.copy_location(ast.BinOp(left=_cell(), op=ast.Mod(), right=output), output)


def _cell() -> ast.expr:
    return ast.Constant(value=CELL)


_LOOPS = {"asyncio": "trio", "trio": "asyncio"}
"""Each event loop with the other one, whose functions do not work on it."""

_LOOP_FUNCTIONS = re.compile(
    r"gather|sleep\w*|wait\w*|create_task|ensure_future|as_completed|run\w*|to_thread|timeout\w*|shield|"
    r"get_\w*loop|new_event_loop|open_\w+|TaskGroup|Runner|Event|Lock|Semaphore|Queue|Condition|"
    r"move_on_\w+|fail_\w+|current_time|CancelScope"
)


def check_event_loop(text: str, tree: Callable[[], ast.AST]) -> None:
    """Refuse code that uses the functions of another event loop, before any of it runs.

    Args:
        text: The code.
        tree: Parses it.

    Raises:
        ToolBoundaryError: It does; the error says what to write instead.
    """
    if not any(name in text for name in _LOOPS):
        return
    running = "trio" if _is_in_trio() else "asyncio"
    other = _LOOPS[running]
    if other not in text:
        return
    for node in ast.walk(tree()):
        if (used := _used_of(node, other)) is not None:
            raise ToolBoundaryError(
                kind="execution",
                message=f"{used} does not work here: the program runs on {running}. Nothing was run.",
                guidance="Put calls into a list, as in [f(1), f(2)]: its items are awaited at the same time. "
                "Use anyio for the rest: anyio.sleep, anyio.create_task_group, anyio.fail_after.",
            )


def _is_in_trio() -> bool:
    trio: Any = sys.modules.get("trio")
    return trio is not None and trio.lowlevel.in_trio_run()


def _used_of(node: ast.AST, module: str) -> str | None:
    """The function of a module that needs its event loop, as code names it."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == module:
            names = [attribute]
        case ast.ImportFrom(module=name) if name == module:
            names = [each.name for each in node.names]
        case _:
            return None
    return next((f"{module}.{each}" for each in names if _LOOP_FUNCTIONS.fullmatch(each)), None)


def is_awaitable(value: object) -> TypeGuard[Awaitable[object]]:
    """Whether a value is awaitable, from its type alone: no code of the value runs, `__class__` included."""
    kind = type(value)
    if issubclass(kind, GeneratorType):
        return inspect.isawaitable(value)
    return hasattr(kind, "__await__")


_DICTS = (dict, OrderedDict, defaultdict)
_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, *_DICTS)


def _is_container(kind: Any) -> bool:
    return kind in _CONTAINERS or (hasattr(kind, "_make") and tuple in kind.__mro__)


def _has_ended(value: Any) -> bool:
    """Whether a value is a coroutine that was awaited already, or is being awaited elsewhere."""
    return inspect.iscoroutine(value) and inspect.getcoroutinestate(value) != inspect.CORO_CREATED


def awaitables_in(values: Iterable[object], *, are_new: bool) -> Iterator[Awaitable[object]]:
    """Yield the awaitables among values and in their lists, tuples, dicts and sets, at any depth, in order.

    Args:
        values: The values.
        are_new: Whether only calls count that have not begun, and not tasks and futures that run already.
    """
    seen: set[int] = set()
    left = [values]
    while left and len(seen) < _MAX_SEARCHED:
        items = list(left.pop())
        kinds = {kind for kind in set(map(_type_of, items)) if _is_relevant(kind)}
        if not kinds:
            continue
        inner: list[Iterable[object]] = []
        for each in items:
            kind = _type_of(each)
            if kind not in kinds or id(each) in seen:
                continue
            seen.add(id(each))
            if _is_container(kind):
                inner.append(_items(each))
            elif is_awaitable(each) and not _has_ended(each) and not (are_new and hasattr(each, "cancel")):
                yield each
        left += reversed(inner)


def _type_of(value: object) -> type[object]:
    return type(value)


def _items(container: Any) -> Iterable[object]:
    return container.values() if type(container) in _DICTS else container


def _is_relevant(kind: type[object]) -> bool:
    return hasattr(kind, "__await__") or _is_container(kind) or issubclass(kind, GeneratorType)


def with_results(value: object, results: Mapping[int, object]) -> object:
    """Return a value with the results of its awaitables in their places; what holds none stays as it is.

    Args:
        value: The value.
        results: The results by the identities of the awaitables.
    """
    return _Replacing(results).replaced(value)


class _Replacing:
    """Replaces awaitables in containers. One that appears twice is the same object twice again."""

    def __init__(self, results: Mapping[int, object]) -> None:
        self._results = results
        self._made: dict[int, object] = {}

    def replaced(self, value: object) -> object:
        if id(value) in self._results:
            return self._results[id(value)]
        if id(value) in self._made or not _is_container(_type_of(value)):
            return self._made.get(id(value), value)
        self._made[id(value)] = value  # while it is being made, and for cycles
        items = list(_items(value))
        made = [self.replaced(each) for each in items]
        if any(new is not old for new, old in zip(made, items, strict=True)):
            self._made[id(value)] = _made_again(value, made)
        return self._made[id(value)]


def _made_again(value: Any, items: list[Any]) -> object:
    kind: Any = _type_of(value)
    if issubclass(kind, dict):
        copied: Any = value.copy()
        copied.update(zip(copied, items, strict=True))
        return copied
    try:
        return value._make(items) if hasattr(kind, "_make") else kind(items)
    except TypeError:  # a result that cannot be in a set
        return items


class StepWork:
    """Awaitable work of a step's code. Close it if it is not awaited, so that no coroutine is lost."""

    __slots__ = ()

    def close(self) -> None:
        """Close its coroutines."""
        raise NotImplementedError


def close_work(awaitable: Any) -> None:
    """Close an awaitable that is not awaited, so that Python does not warn that a coroutine never was."""
    if issubclass(type(awaitable), CoroutineType | StepWork):
        awaitable.close()


class Beginning(Protocol):
    """A coroutine, or what runs one."""

    def send(self, value: None, /) -> object:
        """Run it until it pauses."""
        ...

    def close(self) -> None:
        """Close it."""
        ...

    def __await__(self) -> Generator[Any, Any, object]: ...


DRIVERS: list[Callable[[Awaitable[object]], Awaitable[object]]] = []
"""The function that `driven` calls, since some code of a model has checks: see `pausing`."""


def driven(awaitable: Awaitable[object]) -> Awaitable[object]:
    """Return an awaitable that lets the event loop run, for a coroutine of a model's function."""
    return DRIVERS[0](awaitable) if DRIVERS else awaitable


class PausedCode(StepWork):
    """Code that has begun in the actor's turn, or has an `await` of its own. Await it outside the actor."""

    __slots__ = ("_cell", "_coroutine")

    def __init__(self, coroutine: Beginning) -> None:
        self._coroutine = coroutine
        self._cell = _current.get()

    def __await__(self) -> Generator[Any, Any, object]:
        if self._cell is None:
            return (yield from self._coroutine.__await__())  # `await` refuses what has begun
        with self._cell.active():
            return (yield from self._coroutine.__await__())

    def close(self) -> None:
        """Close its coroutine."""
        self._coroutine.close()


class Together(StepWork):
    """Awaitables that are awaited at the same time. Its value is their results, by their identities.

    The first failure cancels the others, and is raised alone.

    Args:
        awaitables: The awaitables.
        cell: The cell to which they belong; None for the current one, if any.
    """

    __slots__ = ("_awaitables", "_cell")

    def __init__(self, awaitables: list[Awaitable[object]], cell: Cell | None = None) -> None:
        self._awaitables = awaitables
        self._cell = cell

    def __await__(self) -> Generator[Any, Any, Mapping[int, object]]:
        if self._cell is None:
            return (yield from self._run().__await__())
        with self._cell.active():
            return (yield from self._run().__await__())

    async def _run(self) -> Mapping[int, object]:
        awaitables = self._awaitables
        if len(awaitables) == 1:
            return {id(awaitables[0]): await driven(awaitables[0])}
        try:
            results = await parallel.gather(*map(driven, awaitables))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return dict(zip(map(id, awaitables), results, strict=True))

    def close(self) -> None:
        """Close its coroutines."""
        for each in self._awaitables:
            if isinstance(each, Coroutine):
                each.close()


OF_STEP = re.compile(r"<(?:expression|statements(?: \d+)?)>")
"""The file names of code of steps."""


def is_of_call(error: BaseException) -> bool:
    """Whether an exception comes from something that was called, and not from a `raise` of the model's."""
    traceback = error.__traceback__
    if traceback is None or isinstance(error, ToolBoundaryError):  # that one is meant for the model
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    if OF_STEP.fullmatch(code.co_filename) is None:
        return True
    return dis.opname[code.co_code[traceback.tb_lasti]] not in ("RAISE_VARARGS", "RERAISE")


async def await_value(awaitable: Awaitable[object]) -> object:
    """Await in a task of its own.

    On asyncio, user code may await a task that other code cancelled, which raises a cancellation that is not
    the step's. Here it ends only this separate task, and the step's task goes on.

    Raises:
        RuntimeError: Other code had cancelled the awaited task.
        Exception: Any exception raised by the awaitable.
    """
    values: list[object] = []
    failures: list[BaseException] = []

    async def run() -> None:
        share_positions()
        try:
            values.append(await driven(awaitable))
        except (Exception, SystemExit) as error:  # a stray `exit()` must not end the program
            failures.append(error)
        except BaseException as error:
            if is_of_call(error) or isinstance(error, get_cancelled_exc_class()):
                raise
            failures.append(RuntimeError(f"{type(error).__name__} was raised"))  # it would end the program

    try:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(run)
    finally:
        close_work(awaitable)  # it may have been cancelled before it began
    if failures:
        raise failures[0]
    if not values:
        raise RuntimeError("what was awaited had been cancelled")
    return values[0]


class _Pause:
    """Ends the part of a step's code that runs in the actor's turn."""

    def __await__(self) -> Generator["_Pause", None, None]:
        yield self


def pause() -> Awaitable[None]:
    """Await this in code that `begin` runs, before it waits."""
    return _Pause()


class _Turn(threading.local):
    """Whether code of this thread runs in the turn of an actor."""

    is_on = False


_turn = _Turn()


def is_in_turn() -> bool:
    """Whether the running code has to await `pause` before it waits."""
    return _turn.is_on


def begin(coroutine: Beginning) -> object:
    """Run code in the actor's turn until it ends or pauses.

    Args:
        coroutine: The code. It awaits `pause` before it waits.

    Returns:
        The value; a `PausedCode` if it has paused.
    """
    cell = _current.get()
    if cell is not None:
        cell.is_in_turn = True
    _turn.is_on = True
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        _turn.is_on = False
        if cell is not None:
            cell.is_in_turn = False
    return PausedCode(coroutine)
