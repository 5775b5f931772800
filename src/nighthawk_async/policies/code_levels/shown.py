"""The level `shown`: code over what the prompt shows.

Code is looked at before it runs, once for each text (`checking`). While it runs, its builtins find only what
is shown, and attributes of values that are not known before pass through `members`.
"""

import builtins
import sys
import types
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, cast, get_args

from ...kernel.assignment import AssignmentTarget
from ...kernel.cells import builtin_of_step
from ...kernel.commands import StepState
from ...kernel.context import FAILURE, StepBuiltins, StepContext
from .checking import HIDDEN_BUILTINS, NEVER, SHOWN_BUILTINS, Findings, findings, raise_problem
from .class_makers import needs_care
from .members import AUTHOR, Members, is_private, makes_powers, refusal
from .modules import import_for, is_shown, shown_module
from .rewriting import CHECKED

_LISTED_NAMES = 20


class ShownCode:
    """Checks and runs the code of one step.

    Args:
        context: The state of the step.
    """

    __slots__ = ("_careful", "_context", "_hidden", "_is_narrowed", "_names")

    is_elsewhere = False

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._hidden = set(context.inherited_names)
        self._names = _ShownNames(context)
        self._is_narrowed = False
        self._careful: set[str] = set()

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Refuse code before any of it runs; see `StepCode.check`."""
        found = findings(text, mode)
        if found.problem is not None:
            raise_problem(found.problem)
        step_locals = self._context.step_locals
        if found.private and not any(map(Members.is_own, tuple(step_locals.values()))):
            raise refusal(f"the attribute {found.private!r} is private")
        for name in found.read:
            is_local = name in step_locals
            if not is_local or name in self._hidden:
                self._names.check(name)
            if not found.needs_checks and needs_care(
                step_locals[name] if is_local else self._context.step_globals.get(name)
            ):
                self._careful.add(text)
        for name, problem in found.held.items():
            if not self._is_variable(name):
                raise_problem(problem)
        for name in found.as_builtins:
            if self._is_variable(name):
                raise refusal(f"such a use of {name}, which is no builtin here", "Write it without.")
        for name in found.imports:
            if self._names.module(name) is None:
                raise refusal(f"{name!r} cannot be imported here", self._names.guidance())
        if self._hidden:
            self._forget(found)

    def check_target(self, target: AssignmentTarget) -> None:
        """Refuse an assignment; see `StepCode.check_target`."""
        for each in target.fields:
            if is_private(each):
                raise refusal(f"the attribute {each!r} is private")
        step_locals = self._context.step_locals
        if not target.fields:
            self._hidden.discard(target.root)
            return
        if target.root in self._hidden:
            raise self._names.hidden(target.root)
        value: object = step_locals.get(target.root)
        for each in target.fields[:-1]:
            value = Members.member(getattr(value, each, None))
        Members.owner(value, target.fields[-1])

    def run(self, state: StepState, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        """Run checked code; see `StepCode.run`."""
        if not self._is_narrowed:
            self._is_narrowed = True
            names = self._names
            state.namespace.narrow(lambda context, inner: _ShownBuiltins(context, inner, names))
        is_plain = not (findings(text, mode).needs_checks or text in self._careful)
        return state.run_as_python(code, text, mode, None if is_plain else CHECKED)

    def _is_variable(self, name: str) -> bool:
        """Whether a name means something of the program's, and not a builtin."""
        context = self._context
        return name in context.step_locals or name in context.referenced_globals

    def _forget(self, found: Findings) -> None:
        """Let names that code binds be its own, where they are only those of the calling step."""
        for name in found.bound & self._hidden:
            self._hidden.discard(name)
            self._context.step_locals.pop(name, None)


class _ShownNames:
    """The names that a step shows, besides its variables."""

    __slots__ = ("_context",)

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def has(self, name: str) -> bool:
        """Whether a name is shown."""
        context = self._context
        if name in context.referenced_globals or name in context.raise_error_types:
            return True
        if name == FAILURE:
            return True
        return name in context.step_globals and self._is_shown_type(context.step_globals[name])

    def standard(self, name: str) -> object | None:
        """The meaning of a global of the program if it is, or is part of, a module that code can import."""
        value: Any = self._context.step_globals.get(name)
        if isinstance(value, types.ModuleType):
            title = value.__name__
            return shown_module(title) if is_shown(title) and sys.modules.get(title) is value else None
        if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            return None
        module, own_name = value.__module__, value.__name__
        if type(module) is not str or module == "builtins" or not is_shown(module):
            return None
        is_its_own = getattr(sys.modules.get(module), own_name, None) is value
        return vars(shown_module(module)).get(own_name) if is_its_own else None

    def is_named_builtin(self, name: str) -> bool:
        """Whether the block names a builtin that is not shown otherwise."""
        return name not in NEVER and any(name == each for each in self._context.references)

    def check(self, name: str) -> None:
        """Refuse a name that is not shown but means something.

        Raises:
            ToolBoundaryError: It is hidden.
        """
        if name in SHOWN_BUILTINS or self.has(name) or self.standard(name) is not None:
            return
        context = self._context
        is_hidden = name in context.step_globals or name in context.inherited_names
        if is_hidden or (name in HIDDEN_BUILTINS and not self.is_named_builtin(name)):
            raise self.hidden(name)

    def hidden(self, name: str) -> Exception:
        """The error for a name that is not shown."""
        return refusal(f"the name {name!r} is not shown in this block", self.guidance())

    def guidance(self) -> str:
        """The advice to use the names that are shown."""
        context = self._context
        shown = sorted({*context.shown_locals, *context.referenced_globals} - {"__builtins__"})
        listed = ", ".join(shown[:_LISTED_NAMES])
        more = f" and {len(shown) - _LISTED_NAMES} more" if len(shown) > _LISTED_NAMES else ""
        names = f"the names of the block ({listed}{more})" if shown else "data"
        return f"Use {names}, harmless builtins, and pure standard modules such as math, re, json."

    def module(self, name: str) -> types.ModuleType | None:
        """The module of a name, if the block shows it as a value; None for others."""
        context = self._context
        module = sys.modules.get(name)
        shown = (*context.shown_locals.values(), *context.referenced_globals.values())
        return module if module is not None and any(each is module for each in shown) else None

    def _is_shown_type(self, value: object) -> bool:
        context = self._context
        if makes_powers(value):
            return False
        return any(value is each for each in chain(context.shown_types, _types_of(context)))


def _types_of(context: StepContext) -> Iterator[object]:
    """Yield the classes in the types of what the block reads, writes and returns."""
    annotations = (*context.binding_types.values(), *context.parameter_annotations.values())
    yield from _classes_in((*annotations, context.return_annotation))
    yield from map(type, context.shown_locals.values())


def _classes_in(annotations: tuple[object, ...]) -> Iterator[object]:
    for annotation in annotations:
        yield annotation
        yield from _classes_in(cast("tuple[object, ...]", get_args(annotation)))


class _ShownBuiltins(StepBuiltins):
    """Builtins of code that sees what is shown.

    Args:
        context: The state of the step.
        inner: The builtins that it would see otherwise, which may be fewer.
        names: The names that are shown.
    """

    __slots__ = ("_import", "_inner", "_names")

    def __init__(self, context: StepContext, inner: StepBuiltins, names: _ShownNames) -> None:
        super().__init__(context)
        self._inner = inner
        self._names = names
        self._import = self["__import__"] = import_for(names.module)

    def __getitem__(self, name: str) -> object:
        names, context = self._names, self.context
        if name in context.referenced_globals:
            return context.step_globals[name]
        if name in SHOWN_BUILTINS and name not in context.step_globals:
            return self._inner[name]
        if name == "__import__":
            return self._import
        if name in _OF_CLASSES:
            return self._inner[name]
        if name in SHOWN_BUILTINS:  # a global of the program that is not shown has this name
            return builtin_of_step(name, vars(builtins)[name])
        if names.has(name) or (name in HIDDEN_BUILTINS and names.is_named_builtin(name)):
            return self._inner[name]
        if (standard := names.standard(name)) is not None:
            return standard
        if name in context.step_globals or name in HIDDEN_BUILTINS:
            raise NameError(f"the name {name!r} is not shown in this block{AUTHOR}", name=name)
        return self._inner[name]


_OF_CLASSES = ("__build_class__", "__name__")
"""What `class` statements look up."""
