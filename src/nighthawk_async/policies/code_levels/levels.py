"""The levels of code that have names, and what `code=` accepts."""

import types
from typing import TYPE_CHECKING, Literal, TypeGuard, get_args

from ...errors import NighthawkError, ToolBoundaryError
from ...kernel.actor import StepActor
from ...kernel.assignment import AssignmentTarget
from ...kernel.commands import StepCode, StepState
from ...kernel.context import StepContext
from ...lazy_exports import LazyModule
from ...types.code import CodeLevel, CodeLevelName

if TYPE_CHECKING:
    from . import shown
else:
    shown = LazyModule(f"{__package__}.shown")  # needed by the first code of a step


def checked_level(level: object) -> CodeLevelName | CodeLevel:
    """Return the value of `code=`.

    Raises:
        NighthawkError: It is no level.
    """
    if _is_level(level):
        return level
    names = ", ".join(map(repr, get_args(CodeLevelName)))
    raise NighthawkError(f"code must be {names} or a sandbox, not {level!r}")


def _is_level(level: object) -> TypeGuard[CodeLevelName | CodeLevel]:
    return isinstance(level, CodeLevel) or level in get_args(CodeLevelName)


def coding_of(level: CodeLevelName | CodeLevel) -> CodeLevel | None:
    """Return the work of a level; None for `python`.

    Args:
        level: The level. An object does its own work.
    """
    return level if isinstance(level, CodeLevel) else _NAMED[level]


class _NoCode(CodeLevel):
    """The level at which nothing is evaluated."""

    __slots__ = ()

    @property
    def evaluates(self) -> bool:
        return False

    def step_code(self, actor: StepActor) -> StepCode:
        return _Results(actor.context)


class _Results:
    """Refuses all code but the names of results, which stand for what tools have returned.

    Args:
        context: The state of the step.
    """

    def __init__(self, context: StepContext) -> None:
        self._context = context

    is_elsewhere = False

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        if text in self._context.helper_names and text in self._context.step_locals:
            return
        raise ToolBoundaryError(
            kind="invalid_input",
            message="no code is evaluated in this block: answers are data",
            guidance="Give values as JSON, and call the tools that are offered."
            " (For the author of the block: code='shown' allows expressions.)",
        )

    def check_target(self, target: AssignmentTarget) -> None:
        if target.fields:
            self.check(str(target), "eval")

    def run(self, state: StepState, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        return self._context.step_locals[text]


class _Shown(CodeLevel):
    """The level of what the prompt shows."""

    __slots__ = ()

    @property
    def evaluates(self) -> bool:
        return True

    def step_code(self, actor: StepActor) -> StepCode:
        return shown.ShownCode(actor.context)

    def note(self, context: StepContext) -> str:
        return ""


_NAMED: dict[CodeLevelName, CodeLevel | None] = {"none": _NoCode(), "shown": _Shown(), "python": None}
