"""The context of a run, for tasks that were not started in it.

Context variables reach the tasks that are started below, and no others. A server starts the tasks of requests
beside the task in which an application's run was entered.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

__all__ = ["Surroundings"]


class Surroundings:
    """The context variables that were set between a moment before and now.

    Args:
        before: The context of that moment.
    """

    __slots__ = ("_values",)

    def __init__(self, before: Context) -> None:
        self._values: tuple[tuple[ContextVar[Any], Any], ...] = tuple(
            (variable, value)
            for variable, value in copy_context().items()
            if variable not in before or before[variable] is not value
        )

    @contextmanager
    def in_force(self) -> Generator[None, None, None]:
        """Set them for the extent of the `with` statement, in whatever task or thread it is."""
        tokens = [(variable, variable.set(value)) for variable, value in self._values]
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)
