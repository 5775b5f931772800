"""The mutable state of one step, expressions over its names, and step executors (specification 4, 8.1, 14.1).

The names resolve as in Python: step locals, then step globals, then builtins. Code runs like a module
whose variables are the step locals, so functions, classes, lambdas, comprehensions and `global` statements
see and bind the same names as the enclosing code. Names that are not step locals are looked up in the
builtins of the code, a dictionary that looks in the step globals first (guarded by
`tests/specification/test_8_3_expressions.py`).

The code of a step's model is recognised by its file name.
"""

import ast
import builtins
import functools
import re
import types
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from dis import EXTENDED_ARG, opmap
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from typing_extensions import TypeIs

from ..configuration import DEFAULT_MAX_CODE_SECONDS, StepExecutorConfiguration
from ..errors import NighthawkError, ToolEvaluationError
from ..lazy_exports import LazyModule
from ..types.execution import ExecutionRef
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    OutcomeKind,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)
from ..values.snapshots import NEVER_CHANGED, Snapshot
from .cells import CELL, CURRENT_CELL, OF_STEP, builtin_of_step, is_of_call, with_cell, with_output

if TYPE_CHECKING:
    from . import code_checks, pausing
else:  # most code of models has no loop and makes no function
    code_checks = LazyModule("nighthawk_async.kernel.code_checks")
    pausing = LazyModule("nighthawk_async.kernel.pausing")

__all__ = [
    "AsyncStepExecutor",
    "BreakStepOutcome",
    "ChangedRoots",
    "ConfigurableStepExecutor",
    "ContinueStepOutcome",
    "OutcomeKind",
    "PassStepOutcome",
    "RaiseStepOutcome",
    "ReturnStepOutcome",
    "StepContext",
    "StepExecutor",
    "StepOutcome",
    "SyncStepExecutor",
    "check_executor",
    "is_async_executor",
    "shows_named_only",
]


_MISSING = object()


def _no_names() -> set[str]:
    """Make an empty set; `set[str]` takes ten times as long, because it tries to note itself in it."""
    return set()


def _is_shared(value: object) -> bool:
    """Whether equal values may be the same object, wherever they come from."""
    kind = type(value)
    if kind is int:
        return -5 <= cast("int", value) <= 256
    if kind in (str, bytes):
        return len(cast("str | bytes", value)) <= 1
    if kind in (tuple, frozenset):
        return not value
    return value is None or kind is bool or issubclass(kind, Enum | type)


class ChangedRoots:
    """The valid objects of write bindings, and their changes by the step's code.

    A snapshot of an initial object is taken right before the first code that mentions its binding, because
    most steps mention few. One of an object that was assigned is taken before the first code that runs,
    because the object may have other names.

    Attributes:
        objects: The objects to track, by the names of their bindings.
    """

    __slots__ = ("_assigned", "_marked", "_remembered", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, object] = {}
        self._assigned: set[str] = set()
        self._remembered: dict[str, Snapshot] = {}
        self._marked: set[str] = set()

    def track(self, name: str, value: object) -> None:
        """Track the object that a write binding has been assigned."""
        self.objects[name] = value
        self._assigned.add(name)
        self._remembered.pop(name, None)
        self._marked.discard(name)

    def remember(self, names: Iterable[str]) -> None:
        """Take snapshots before code that mentions these names runs."""
        for name in self._assigned.union(names):
            if name in self.objects and name not in self._remembered:
                value = self.objects[name]
                if type(value) not in NEVER_CHANGED:
                    self._remembered[name] = Snapshot(value)

    def mark(self, name: str, value: object) -> None:
        """Mark a write binding's object as changed, unless the binding holds another object by now."""
        if self.objects.get(name, self) is value:
            self._marked.add(name)

    def confirm(self, name: str) -> None:
        """Mark the current state of a write binding's object as valid; only later changes count."""
        self._marked.discard(name)
        self._remembered[name] = Snapshot(self.objects[name])

    def is_changed(self, name: str) -> bool:
        """Whether the object of a write binding was changed."""
        snapshot = self._remembered.get(name)
        return name in self._marked or (snapshot is not None and snapshot.is_changed())

    def changed(self) -> Iterator[tuple[str, object]]:
        """The write bindings whose objects were changed, with the objects."""
        for name, value in tuple(self.objects.items()):
            if self.is_changed(name):
                yield name, value


@dataclass(slots=True, kw_only=True, eq=False)
class StepContext:
    """The state of one execution of one natural block.

    It belongs to its step actor: while the step runs, the agent executor and the tools reach it through
    messages. An executor of your own receives it and may read and change `step_locals` while its `run_step`
    runs.

    Args:
        step_id: The block, `python_module:line`.
        execution_ref: The identity of the run, scope and step.
        step_globals: The module globals of the block's expressions: the live globals of the function's
            module, with the scope's implicit references on top when there are any.
        step_locals: The names the block can read and assign.
        inherited_names: The step locals that come from the calling step alone, and that the program does not
            reference: code of the step can use them, and the prompt does not show them.
        is_async: Whether the block's function is async, so that awaitables are awaited.
        is_generator: Whether that function is a generator or async generator.
        read_names: The names of the `<name>` bindings.
        write_names: The names of the `<:name>` bindings.
        binding_types: The type of each write binding; `object` if unknown.
        references: Every `<name>` and dotted `<name.field>` of the program, in order of appearance.
        mentions: The same, repeated as often as the program mentions them.
        referenced_globals: The values of referenced names that are not step locals.
        shown_types: The types that the prompt shows.
        visible_builtins: The only builtins that the step's code can use; it then sees no globals besides
            `referenced_globals`. None for all globals and builtins.
        allowed_kinds: The outcome kinds the block may end with.
        refused_kinds: Outcome kinds that the function's return annotation excludes, with the reasons.
        raise_error_types: The exception types a `raise` outcome may name.
        enclosing_names: The known variables of the functions that enclose the block's function; texts in its
            signature's annotations may use them.
        parameter_annotations: The annotations of the function's parameters, unresolved.
        return_annotation: The annotation of the function's return value, unresolved; None for none.
        initial_values: The values of the write bindings when the step began.
        helper_names: Names that the step's code has made for itself.
        lost_names: Names that code has assigned although the block does not set them, and the program names
            them, or the assignment had no other purpose.
        assigned_names: Write bindings assigned by a tool, or dirty because a field of theirs was.
        changes: The objects that the step's code has changed in place.
        converted: The values that have the types of their write bindings already, by the names of the
            bindings; a value to return has the name "return".
        declared: The values of write bindings that come from variables of the same type: their initial
            objects, and copies.
        copies: Other names that code has set to values with declared types: the declared type and the value.
        variable_annotations: The annotations of the function's variables besides its write bindings,
            unresolved.
        initial_variables: The values of those variables when the step began.
        failure: The exception of the last call that failed, which code of the step finds as `nh_error`; None
            for none.
        max_code_seconds: The seconds for which one piece of the step's code may run, without those for which
            it waits; None for no limit.
        phase: Whether the step goes on, was asked to stop or to end, so that its code ends, or has ended.
    """

    step_id: str
    execution_ref: ExecutionRef
    step_globals: dict[str, object]
    step_locals: dict[str, object]
    inherited_names: frozenset[str] = frozenset()
    is_async: bool = True
    is_generator: bool = False
    read_names: tuple[str, ...] = ()
    write_names: tuple[str, ...] = ()
    binding_types: Mapping[str, object] = field(default_factory=lambda: {})
    references: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    referenced_globals: Mapping[str, object] = field(default_factory=lambda: {})
    shown_types: Sequence[object] = ()
    visible_builtins: frozenset[str] | None = None
    allowed_kinds: tuple[OutcomeKind, ...] = ()
    refused_kinds: Mapping[OutcomeKind, str] = field(default_factory=lambda: {})
    raise_error_types: Mapping[str, type[Exception]] = field(default_factory=lambda: {})
    enclosing_names: Mapping[str, object] = field(default_factory=lambda: {})
    parameter_annotations: Mapping[str, object] = field(default_factory=lambda: {})
    return_annotation: object = None
    initial_values: Mapping[str, object] = field(default_factory=lambda: {})
    helper_names: set[str] = field(default_factory=_no_names)
    lost_names: set[str] = field(default_factory=_no_names)
    assigned_names: set[str] = field(default_factory=_no_names)
    changes: ChangedRoots = field(default_factory=ChangedRoots)
    converted: dict[str, object] = field(default_factory=lambda: {})
    declared: dict[str, object] = field(default_factory=lambda: {})
    copies: dict[str, tuple[object, object]] = field(default_factory=lambda: {})
    variable_annotations: Mapping[str, object] = field(default_factory=lambda: {})
    initial_variables: Mapping[str, object] = field(default_factory=lambda: {})
    failure: Exception | None = None
    max_code_seconds: float | None = DEFAULT_MAX_CODE_SECONDS
    phase: Literal["running", "ending", "ended"] = "running"

    def settle(self, name: str, value: object) -> None:
        """Set a write binding to a value that was converted to its type."""
        self.step_locals[name] = self.converted[name] = value
        self.changes.track(name, value)

    def is_converted(self, name: str, value: object) -> bool:
        """Whether a value is the one that was converted for this name, so that it must not be again."""
        return self.converted.get(name, _MISSING) is value

    def converted_name(self, value: object, annotation: object) -> str | None:
        """The write binding of a type for which this very object was converted; None for none.

        Values of which Python keeps one object for all uses do not say so.
        """
        if _is_shared(value):
            return None
        names = (name for name, each in self.converted.items() if each is value)
        return next((each for each in names if self.binding_types.get(each) == annotation), None)

    def is_declared(self, name: str, value: object) -> bool:
        """Whether a value comes from a variable of the type of this write binding."""
        return self.declared.get(name, _MISSING) is value

    def note_bound(
        self, names: Iterable[str], before: Container[str], global_names: Container[str] = ()
    ) -> list[str]:
        """Note names that code has bound or deleted; return those whose old values come back after the block.

        Args:
            names: The names.
            before: The step locals before that.
            global_names: The names that the code declares `global`.
        """
        lost: list[str] = []
        roots = {reference.partition(".")[0] for reference in self.references}
        for name in names:
            if name in self.write_names:
                continue
            is_global = name in self.visible_globals and (name in roots or name in global_names)
            if is_global or (name in before and name not in self.helper_names):
                lost.append(name)
                if is_global or name in roots:
                    self.lost_names.add(name)
            else:
                self.helper_names.add(name)
        return lost

    def note_failure(self, error: ToolEvaluationError) -> None:
        """Note the exception that a call raised; one that the model's own code raises is no call's."""
        failure = error.__cause__
        if isinstance(failure, Exception) and is_of_call(failure):
            self.failure = failure
            raises = "raise" in self.allowed_kinds
            error.can_be_raised = raises and bool(self.raise_error_types or self.named_exceptions())

    def named_exceptions(self) -> list[Exception]:
        """The exception objects that the program names; the block may raise them, whatever their types."""
        roots = dict.fromkeys(reference.partition(".")[0] for reference in self.references)
        values = (self.step_locals.get(name, self.referenced_globals.get(name)) for name in roots)
        return [cast("Exception", value) for value in values if issubclass(type(value), Exception)]

    @property
    def shown_locals(self) -> Mapping[str, object]:
        """The step locals that the prompt shows."""
        hidden = self.inherited_names
        if not hidden:
            return self.step_locals
        return {name: value for name, value in self.step_locals.items() if name not in hidden}

    @property
    def visible_globals(self) -> Mapping[str, object]:
        """The globals that the step's code can use."""
        return self.step_globals if self.visible_builtins is None else self.referenced_globals

    def changed_bindings(self) -> dict[str, object]:
        """The write bindings that were assigned, rebound or made dirty, with their current values."""
        missing = object()
        return {
            name: self.step_locals[name]
            for name in self.write_names
            if name in self.step_locals
            and (
                name in self.assigned_names
                or self.step_locals[name] is not self.initial_values.get(name, missing)
            )
        }


EXPRESSION = "<expression>"


def statements_filename(number: int | None = None) -> str:
    """The file name of statements, numbered in the order of their execution."""
    return "<statements>" if number is None else f"<statements {number}>"


def runs_step_code(kind: type) -> bool:
    """Whether instances of a class run code that the model wrote: methods, properties, a metaclass."""
    return _declares_step_code(kind) or _declares_step_code(type(kind))


def _declares_step_code(kind: type) -> bool:
    return any(
        any(map(_is_of_step, tuple(vars(each).values())))
        for each in kind.__mro__
        if each.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9
"""The flag of classes that are made at run time, by `class` for example."""


def _is_of_step(declared: object) -> bool:
    return any(
        isinstance(each, types.FunctionType) and is_step_function(each) for each in functions_in(declared)
    )


def is_step_function(function: types.FunctionType) -> bool:
    """Whether the model wrote a function."""
    return OF_STEP.fullmatch(function.__code__.co_filename) is not None


def functions_in(declared: object) -> tuple[object, ...]:
    """The functions in a declaration of a class; an unknown kind of declaration is returned itself."""
    if isinstance(declared, classmethod | staticmethod):
        return (cast("staticmethod[Any, Any]", declared).__func__,)
    if isinstance(declared, property):
        return (declared.fget, declared.fset, declared.fdel)
    if isinstance(declared, functools.cached_property | functools.partial | functools.partialmethod):
        return (cast("Any", declared).func,)
    return (declared,)


_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_BUILTINS = "__builtins__"
_LISTED_NAMES = 40


FAILURE = "nh_error"
"""The name by which code of a step finds the exception of the last call that failed."""


class StepBuiltins(dict[str, object]):
    """Builtins of evaluated code: CPython looks here for names that are not globals.

    It looks up `__import__` without calling `__getitem__`. A class body looks here for every name outside it,
    because its lookup of globals ignores `__missing__`.
    """

    __slots__ = ("_context",)

    def __init__(self, context: StepContext) -> None:
        super().__init__(__import__=builtins.__import__)
        self._context = context

    @property
    def context(self) -> StepContext:
        """The state of the step."""
        return self._context

    def __getitem__(self, name: str) -> object:
        step_globals = self._context.step_globals
        if name in step_globals:
            return step_globals[name]
        if name == FAILURE and self._context.failure is not None:
            return self._context.failure
        if name not in vars(builtins):
            return super().__getitem__(name)
        return builtin_of_step(name, vars(builtins)[name])


class _NamedBuiltins(StepBuiltins):
    """Builtins for a step that sees only what its block names.

    `__import__` stays, because functions written in C import through the builtins of the calling code. Code
    of the step cannot use that name (`permissions.internals`). A class body reads `__name__`.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> object:
        context = self._context
        if name in context.referenced_globals or name == "__name__":
            return context.step_globals[name]
        if name == FAILURE and context.failure is not None:
            return context.failure
        if name == "__import__" or name in (context.visible_builtins or ()):
            return builtin_of_step(name, vars(builtins)[name])
        if name in context.write_names:  # it has no value yet
            raise KeyError(name)
        raise name_not_visible(name, context)


def context_of_code(frame: types.FrameType) -> StepContext | None:
    """The state of the step whose model wrote the code of a frame; None for other code.

    Args:
        frame: The frame.
    """
    names: object = frame.f_builtins  # those that the code began with, also after an `await`
    return names.context if isinstance(names, StepBuiltins) else None


class StepNamespace:
    """The names of one step, as code evaluated in it sees them.

    Args:
        context: The state of the step.
    """

    __slots__ = ("_builtins", "_context")

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._builtins: StepBuiltins = (StepBuiltins if context.visible_builtins is None else _NamedBuiltins)(
            context
        )

    def narrow(self, narrowed: Callable[[StepContext, StepBuiltins], StepBuiltins]) -> None:
        """Have code see other builtins from now on.

        Args:
            narrowed: Makes them from those that it would see.
        """
        self._builtins = narrowed(self._context, self._builtins)

    def run(self, code: types.CodeType) -> object:
        """Evaluate an expression or execute statements.

        Returns:
            The value of an expression; None for statements; a coroutine, or a `StepWork`, for code with a
            top-level `await`; a `PausedCode` for code that lets the event loop run before it ends.
        """
        if _made.functions or (code.co_consts and code.co_consts[-1] is _CHECKED):
            return pausing.run_code(code, self._context, self._builtins)
        names = self._context.step_locals
        names[_BUILTINS] = self._builtins  # as `active`, which takes longer than most code
        try:
            # A step exists to evaluate what the model wrote; sandboxing is not a goal (specification 2).
            return eval(code, names)
        finally:
            names.pop(_BUILTINS, None)

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Put the builtins of the step into its globals, as `eval` and `exec` do, for a `with` statement."""
        names = self._context.step_locals
        names[_BUILTINS] = self._builtins
        try:
            yield
        finally:
            names.pop(_BUILTINS, None)


def name_not_visible(name: str, context: StepContext, *, why: str = "") -> NameError:
    """The error for a name that the block does not name; it lists the visible ones.

    Args:
        name: The name.
        context: The state of a step that sees only what its block names.
        why: A prefix of the message.
    """
    names = {*context.step_locals, *context.referenced_globals, *(context.visible_builtins or ())}
    visible = sorted(each for each in names if not each.startswith("__"))
    listed = ", ".join(visible[:_LISTED_NAMES]) or "none"
    if len(visible) > _LISTED_NAMES:
        listed += f" and {len(visible) - _LISTED_NAMES} more"
    return NameError(f"{why}name {name!r} is not visible in this block; visible: {listed}", name=name)


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> types.CodeType:
    """Compile an expression; results are cached.

    Raises:
        SyntaxError: The text is not one expression.
    """
    return _compile(expression.strip(), filename=EXPRESSION, mode="eval")


def compile_statements(statements: str, *, filename: str) -> types.CodeType:
    """Compile a block of statements.

    Raises:
        SyntaxError: The text is not Python.
    """
    return _compile(statements, filename=filename, mode="exec")


def is_expression(text: str) -> bool:
    """Whether the text of a cell is one expression."""
    try:
        compile_expression(text)
    except SyntaxError:
        return False
    return True


def are_statements(text: str) -> bool:
    """Whether a text that is no expression is Python statements."""
    try:
        compile_statements(text, filename=EXPRESSION)
    except SyntaxError:
        return False
    return True


def calls_something(expression: str) -> bool:
    """Whether the text of an expression contains a call or an `await`; False if it is not an expression."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(tree))


def mentioned_names(code: types.CodeType) -> frozenset[str]:
    """Every name that the code, or a function in it, may look up or bind outside its own locals."""
    names = set(code.co_names)
    for inner in _inner_codes(code):
        names |= mentioned_names(inner)
    return frozenset(names)


def bound_names(code: types.CodeType) -> frozenset[str]:
    """The names that module-level code, or a `global` statement inside it, may bind or delete."""
    return frozenset(_names_of(code, _BINDING_NAMES) | declared_global(code))


def declared_global(code: types.CodeType) -> set[str]:
    """The names that `global` statements in code declare, and that it binds or deletes."""
    return _names_of(code, _BINDING_GLOBALS).union(*map(declared_global, _inner_codes(code)))


_BINDING_NAMES = frozenset({opmap["STORE_NAME"], opmap["DELETE_NAME"]})
_BINDING_GLOBALS = frozenset({opmap["STORE_GLOBAL"], opmap["DELETE_GLOBAL"]})


def _names_of(code: types.CodeType, operations: frozenset[int]) -> set[str]:
    """The names of some instructions; `dis` took a third of the time of a cell with functions."""
    names = set[str]()
    argument = 0
    numbers = iter(code.co_code)
    for operation, low in zip(numbers, numbers, strict=True):
        argument |= low
        if operation in operations:
            names.add(code.co_names[argument])
        argument = argument << 8 if operation == EXTENDED_ARG else 0
    return names


def _inner_codes(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def parse_code(text: str, *, filename: str, mode: str) -> ast.AST:
    """Parse code that may have a top-level `await`; statements become a cell.

    Raises:
        SyntaxError: The text is not Python.
    """
    flags = ast.PyCF_ONLY_AST | _FLAGS
    return with_cell(cast("ast.AST", compile(text, filename, mode, flags=flags, dont_inherit=True)))


class Rewriting(NamedTuple):
    """A last change of code before it is compiled, for a level of code.

    Args:
        change: Changes a parsed tree.
        placeholder: A constant in the changed tree.
        value: The object that takes its place.
    """

    change: Callable[[ast.AST], ast.AST]
    placeholder: str
    value: object


_MAY_NEED_CHECKS = re.compile(
    r"\b(?:for|while|def|lambda|range|iter|count|cycle|repeat|itertools|sleep|product|permutations|"
    r"combinations\w*)\b|\*|<<"
)
_CHECKED = object()
"""The last constant of code that has checks."""


class _Made:
    """Whether code of a model in this program has made functions, which other code may call."""

    functions = False


_made = _Made()


def may_need_checks(text: str) -> bool:
    """Whether code may run for long by itself; False for most."""
    return _MAY_NEED_CHECKS.search(text) is not None


def compile_tree(
    tree: ast.AST, text: str, *, filename: str, mode: str, rewriting: Rewriting | None = None
) -> types.CodeType:
    """Compile a parsed tree that was changed; missing locations are filled in, and checks are put in.

    Args:
        tree: The tree.
        text: The code as it was before.
        filename: The file name of the code.
        mode: `eval` for an expression, `exec` for statements.
        rewriting: A change of it; None for none.

    Raises:
        SyntaxError: Python does not allow it.
    """
    tree = with_output(tree)
    if rewriting is not None:
        tree = rewriting.change(tree)
    checked = code_checks.with_checks(tree) if may_need_checks(text) else None
    whole = cast("Any", ast.fix_missing_locations(tree if checked is None else checked.tree))
    code = compile(whole, filename, mode, flags=_FLAGS, dont_inherit=True)
    if rewriting is not None:
        code = with_constant(code, rewriting.placeholder, rewriting.value)
    code = with_constant(code, CELL, CURRENT_CELL)
    if checked is None or not checked.has_checks:
        return code
    _made.functions |= checked.makes_functions
    code = with_constant(code, code_checks.PLACEHOLDER, pausing.CHECKS)
    return code.replace(co_consts=(*code.co_consts, _CHECKED))


def with_constant(code: types.CodeType, placeholder: str, value: object) -> types.CodeType:
    """Return code in which an object takes the place of a constant, in the functions in it too.

    Args:
        code: The code.
        placeholder: The constant.
        value: The object.
    """
    constants = [
        with_constant(each, placeholder, value)
        if isinstance(each, types.CodeType)
        else value
        if each == placeholder
        else each
        for each in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def _compile(text: str, *, filename: str, mode: str) -> types.CodeType:
    try:
        return compile(text, filename, mode, flags=_FLAGS, dont_inherit=True)
    except (MemoryError, RecursionError) as error:  # raised by CPython for deep nesting
        raise SyntaxError("the code is nested too deeply") from error
    except ValueError as error:  # null bytes, lone surrogates
        raise SyntaxError(str(error)) from error


@runtime_checkable
class SyncStepExecutor(Protocol):
    """Executes a step in a worker thread."""

    def run_step(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Execute a step.

        Args:
            processed_natural_program: The program text after sentinel removal, dedent, f-string evaluation
                and frontmatter stripping.
            step_context: The state of the step.
            binding_names: The names of the `<:name>` write bindings.
            allowed_step_kinds: The outcome kinds the block may end with.

        Returns:
            The outcome, and the final value of each write binding to commit.
        """
        ...


@runtime_checkable
class AsyncStepExecutor(Protocol):
    """Executes a step on the step's event loop."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Execute a step. Arguments and result are those of `SyncStepExecutor.run_step`."""
        ...


StepExecutor: TypeAlias = SyncStepExecutor | AsyncStepExecutor
"""A step executor. One that implements both protocols is used as an async executor."""


def is_async_executor(executor: StepExecutor) -> TypeIs[AsyncStepExecutor]:
    """Whether an executor executes steps on their event loop.

    Called for every step: on Python 3.11 `isinstance` with a protocol takes fifty times longer than this.

    Args:
        executor: The executor.
    """
    return hasattr(executor, "run_step_async")


def shows_named_only(executor: StepExecutor) -> bool:
    """Whether steps of an executor see only what their blocks name; its configuration decides, if any.

    Args:
        executor: The executor.
    """
    configuration: object = getattr(executor, "configuration", None)
    if not isinstance(configuration, StepExecutorConfiguration):
        return False
    return configuration.context_limits.visible_names == "named"


@runtime_checkable
class ConfigurableStepExecutor(Protocol):
    """An executor whose configuration a scope can replace."""

    @property
    def configuration(self) -> StepExecutorConfiguration:
        """The active configuration."""
        ...

    def with_configuration(self, configuration: StepExecutorConfiguration) -> StepExecutor:
        """Return the same executor with another configuration."""
        ...


def check_executor(executor: object) -> None:
    """Refuse an object that is not a step executor.

    Raises:
        NighthawkError: The object implements neither protocol.
    """
    methods = [getattr(executor, name, None) for name in ("run_step_async", "run_step")]
    if isinstance(executor, type) or not any(callable(method) for method in methods):
        raise NighthawkError(
            f"{executor!r} is no step executor: it has neither run_step_async nor run_step, or is a class. "
            "Give a model id such as 'openai-responses:gpt-5.4-nano', a StepExecutorConfiguration, a Model, "
            "or an executor."
        )
