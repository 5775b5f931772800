"""Levels of what the code of a model may do."""

from typing import Any, Literal, TypeAlias

CodeLevelName: TypeAlias = Literal["none", "shown", "python"]
"""The levels that have names: nothing is evaluated; what the prompt shows; what a program may do."""


class CodeLevel:
    """A level of code, for the steps of a run or scope: the base of levels that are objects."""

    __slots__ = ()

    @property
    def evaluates(self) -> bool:
        """Whether anything that a model writes is evaluated; otherwise its answers are data."""
        return True

    def step_code(self, actor: Any) -> Any:
        """Return what checks and runs the code of a step, a `kernel.commands.StepCode`.

        Called before the first code of the step, or never.

        Args:
            actor: The `kernel.actor.StepActor` of the step.
        """
        raise NotImplementedError

    def note(self, context: Any) -> str:
        """Return what the prompt of a step says about the level, as a paragraph; empty for nothing.

        Args:
            context: The `kernel.context.StepContext` of the step.
        """
        return ""
