"""Steps that carry out tool calls as a function of the test says, for tests of steps beside each other."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import nighthawk_async as nh
from nighthawk_async.runtime.concurrent_mutation import ConcurrentMutationError

Play: TypeAlias = Callable[[nh.StepActor], Awaitable[object]]


class PlayingExecutor:
    """Lets `play`, a local variable of every block, do the step's work on the step's actor."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: nh.StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[nh.StepOutcome, dict[str, object]]:
        """Play, then commit what was bound."""
        play: Any = step_context.step_locals["play"]
        await play(nh.get_current_step_actor())
        return nh.PassStepOutcome(), step_context.changed_bindings()


async def evaluate(actor: nh.StepActor, expression: str) -> object:
    """What `nh_eval` does."""
    return await actor.settle(actor.post_evaluate(expression))


async def assign(actor: nh.StepActor, target: str, expression: str) -> object:
    """What `nh_assign` does."""
    return await actor.settle(actor.post_assign(target, expression))


async def execute(actor: nh.StepActor, statements: str) -> object:
    """What `nh_exec` does."""
    return await actor.settle(actor.post_execute(statements))


async def refused(call: Awaitable[object]) -> ConcurrentMutationError | None:
    """What the model would be told of a call; None when nothing is wrong."""
    try:
        await call
    except ConcurrentMutationError as error:
        return error
    return None
