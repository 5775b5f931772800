"""Code over what the prompt shows."""

import types
from typing import Literal

from ...kernel.assignment import AssignmentTarget
from ...kernel.commands import StepState
from ...kernel.context import StepContext


class ShownCode:
    """Checks and runs the code of one step at the level `shown`.

    Args:
        context: The state of the step.
    """

    is_elsewhere = False

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def check(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Refuse code before any of it runs; see `StepCode.check`."""

    def check_target(self, target: AssignmentTarget) -> None:
        """Refuse an assignment; see `StepCode.check_target`."""

    def run(self, state: StepState, code: types.CodeType, text: str, mode: Literal["eval", "exec"]) -> object:
        """Run checked code; see `StepCode.run`."""
        return state.run_as_python(code, text, mode)
