"""Steps that carry out tool calls as a function of the test says, for tests of steps beside each other."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio

import nighthawk_async as nh
from nighthawk_async.kernel.run import Run
from nighthawk_async.policies.shared_objects.bound_objects import ConcurrentMutationError

Play: TypeAlias = Callable[[nh.runtime.StepActor], Awaitable[object]]


class PlayingExecutor:
    """Lets `play`, a local variable of every block, do the step's work on the step's actor."""

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: nh.StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        """Play, then commit what was bound."""
        play: Any = step_context.step_locals["play"]
        await play(nh.get_current_step_actor())
        return nh.executors.PassStepOutcome(), step_context.changed_bindings()


async def evaluate(actor: nh.runtime.StepActor, expression: str) -> object:
    """What `nh_eval` does."""
    return await actor.settle(actor.post_evaluate(expression))


async def assign(actor: nh.runtime.StepActor, target: str, expression: str) -> object:
    """What `nh_assign` does."""
    return await actor.settle(actor.post_assign(target, expression))


async def execute(actor: nh.runtime.StepActor, statements: str) -> object:
    """What `nh_exec` does."""
    return await actor.settle(actor.post_execute(statements))


async def refused(call: Awaitable[object]) -> ConcurrentMutationError | None:
    """What the model would be told of a call; None when nothing is wrong."""
    try:
        await call
    except ConcurrentMutationError as error:
        return error
    return None


@nh.natural_function
async def step(thing: Any, play: Play, other: Any = None) -> None:
    """natural
    Work with <thing>.
    """


@nh.natural_function
async def holding_step(item: Any, play: Play) -> None:
    """natural
    Work with <item>.
    """


@asynccontextmanager
async def holding(item: object) -> AsyncGenerator[None]:
    """A step in flight has an object bound."""
    is_held, release = anyio.Event(), anyio.Event()

    async def wait(_: nh.runtime.StepActor) -> None:
        is_held.set()
        await release.wait()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(holding_step, item, wait)
        await is_held.wait()
        yield
        release.set()


def strict_run() -> Run:
    """A run in which a concurrent change is a tool error."""
    return nh.run(PlayingExecutor(), concurrent_mutation="error")


async def refusal_of(expression: str, thing: object, other: object = None) -> ConcurrentMutationError | None:
    """What a step is told that evaluates an expression."""
    errors: list[ConcurrentMutationError | None] = []

    async def play(actor: nh.runtime.StepActor) -> None:
        errors.append(await refused(evaluate(actor, expression)))

    await step(thing, play, other)
    return errors[0]


@nh.natural_function
def sync_step(thing: Any, play: Play) -> None:
    """natural
    Work with <thing>.
    """
