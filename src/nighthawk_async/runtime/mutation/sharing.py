"""Resources shared by the steps of a run, for those who open them. Floor 3."""

from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from ..environment import find_environment

__all__ = ["shared_in_run"]

Resource = TypeVar("Resource")


@asynccontextmanager
async def shared_in_run(
    key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
) -> AsyncGenerator[Resource, None]:
    """The resource that the run in force keeps on this event loop; without a run, one for the block alone.

    Args:
        key: What identifies the resource within a run.
        opener: Gives the context manager to enter when nobody has opened it yet.
    """
    environment = find_environment()
    resources = None if environment is None else environment.run_state.current_resources()
    if resources is None:
        async with opener() as resource:
            yield resource
    else:
        yield await resources.use(key, opener)
