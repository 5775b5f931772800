"""The executor of a worker's own run, in which calls have executors of their own."""

from typing import NoReturn

from ..errors import NighthawkError
from ..kernel.context import StepContext


class IdleExecutor:
    """Executes nothing: no step runs in the worker's own scope."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> NoReturn:
        """Refuse a step.

        Raises:
            NighthawkError: Always.
        """
        raise NighthawkError("a worker has no executor of its own; its calls bring theirs")
