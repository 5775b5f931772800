"""Guards of the calls that a step's code makes, as the step actor knows them."""

import types
from typing import Literal, Protocol

from .expression import StepNamespace

__all__ = ["CallGuard"]


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
            The value; a `PausedCode` when somebody has to be waited for.
        """
        ...

    def keep_attribute(self, receiver: object, name: str, value: object, /) -> object:
        """Note that an attribute is about to be set."""
        ...

    def raise_failure(self) -> None:
        """Raise the failure of a rule, whatever the step's code has made of it."""
        ...
