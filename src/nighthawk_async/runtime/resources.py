"""Resources that live with a step, a task or a run: opened once, and closed when their owner has ended."""

from collections.abc import Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncContextDecorator,
    ContextDecorator,
)
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from ..parallel.errors import ResourceOwnerError
from ..parallel.resource_keeper import ResourceKeeper
from ..parallel.resources import AsyncClosable, Closable, use_resource
from ..parallel.task_current import find_node
from ..parallel.task_node import TaskNode
from .environment import Environment, find_environment, get_current_step, get_environment
from .run_state import RunState

Result = TypeVar("Result")
Closing = TypeVar("Closing", bound=AsyncClosable | Closable)

ResourceOwner: TypeAlias = Literal["step", "task", "parent", "run"]
"""The owner of a resource: the current step, the current task, the task above it, or the run."""


@overload
async def resource(
    name: str, opener: Callable[[], AbstractAsyncContextManager[Result]], *, owner: ResourceOwner = "task"
) -> Result: ...
@overload
async def resource(
    name: str, opener: Callable[[], Awaitable[Closing]], *, owner: ResourceOwner = "task"
) -> Closing: ...
@overload
async def resource(
    name: str, opener: Callable[[], AbstractContextManager[Result]], *, owner: ResourceOwner = "task"
) -> Result: ...
async def resource(name: str, opener: Callable[[], Any], *, owner: ResourceOwner = "task") -> Any:
    """Return the resource of a name that lives with its owner, such as a browser, a session or a shell.

    The first call opens it; all others, also those that arrive meanwhile, get the same object. It is closed
    when the work of the owner has ended, and that of everything that the owner has started, after a success,
    an error or a cancellation, and before anybody sees the end: those that were opened last first, each
    within 10 seconds, shielded from cancellation.

    It is opened and closed in one task of its own, with the context variables that the owner began with. So
    it may hold task groups and cancel scopes open. If opening fails, all who wait get the error, and the next
    call opens it anew; so does the next call after it has ended by itself. A call that is cancelled leaves
    the others waiting; when nobody waits any more, the opening is cancelled.

    An error of closing ends the owner with that error; several are raised in an exception group. If the owner
    has ended with an error already, that one is raised, with notes of the others.

    Args:
        name: Its name, unique among the resources of the owner.
        opener: A function without arguments that returns an async context manager, a context manager, or an
            awaitable of an object with `aclose` or `close`. Context managers give what they are entered with.
            It is the same function in all calls: another one is refused. Its arguments, if a lambda or
            `functools.partial` holds them, are those of the first call.
        owner: `task`, the task that the caller is part of: started by `nighthawk_async.open_tasks`, or the
            run itself. `step`, the step in progress; each attempt is one. `parent`, the task whose block of
            tasks the current task was started in, or in which a nested run was entered. `run`, the innermost
            run.

    Raises:
        NighthawkError: No run is active; or the owner is `step`, and no step is.
        ResourceOwnerError: There is no such owner, it belongs to another event loop, or it has ended; or the
            run was entered with `with`, and the caller is on an event loop of the program.
        ResourceConflictError: Another function opens the resource of this name.
        ResourceDeadlockError: The opener waits for its own resource.
        ValueError: The name is empty, or contains `/`, `[` or `]`; or there is no such kind of owner.
        TypeError: The opener is not such a function.
        Exception: Any exception raised by the opener.
    """
    if not name or any(character in name for character in "/[]"):
        raise ValueError(f"the name of a resource is not empty and contains no '/', '[' or ']': {name!r}")
    if not callable(opener) or isinstance(cast("object", opener), AsyncContextDecorator | ContextDecorator):
        raise TypeError(
            f"the resource {name!r} needs a function without arguments that opens it, such as open_shell and "
            f"not open_shell(), not {opener!r}"
        )
    keeper = _checked(_find_keeper(get_environment(), owner), name, owner)
    return await use_resource(keeper, name, name, opener)


def find_task_keeper() -> ResourceKeeper | None:
    """The keeper of the current task, or of the step where the task keeps nothing here; None for none."""
    environment = find_environment()
    if environment is None:
        return None
    keepers = [_keeper_of(find_node(), environment.run_state)]
    if environment.step is not None:
        keepers.append(environment.step.actor.keeper)
    return next((each for each in keepers if each is not None and each.is_here and not each.is_ending), None)


def _find_keeper(environment: Environment, owner: ResourceOwner) -> ResourceKeeper | None:
    match owner:
        case "step":
            return get_current_step().actor.keeper
        case "task":
            return _keeper_of(find_node(), environment.run_state)
        case "parent":
            node = find_node()
            if node.owner is None:
                raise ResourceOwnerError(f"task {node.id} has no parent that could own a resource")
            return _keeper_of(node.owner, environment.run_state)
        case "run":
            if environment.run_state.is_stand_in:
                raise ResourceOwnerError(
                    "the run is in the program, and this call of it on a worker, which cannot keep resources "
                    "of the run: let the task or the step own it, or enter a run in the function"
                )
            return environment.run_state.find_keeper()
    raise ValueError(f"the owner of a resource is 'step', 'task', 'parent' or 'run', not {owner!r}")


def _keeper_of(node: TaskNode, run_state: RunState) -> ResourceKeeper | None:
    return run_state.find_keeper() if node is run_state.root else node.keeper


def _checked(keeper: ResourceKeeper | None, name: str, owner: ResourceOwner) -> ResourceKeeper:
    if keeper is None:
        raise ResourceOwnerError(
            f"the {owner} cannot keep the resource {name!r}: it has not begun, or was not entered with "
            "`async with`; enter the run with `async with`, or let the step in progress own the resource"
        )
    if not keeper.is_here:
        raise ResourceOwnerError(
            f"{keeper.title} belongs to another event loop, so it keeps no resource {name!r} for the caller; "
            "let the step own it, or make the synchronous function `async def`"
        )
    return keeper
