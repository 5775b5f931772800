"""Access to resources that the steps of a run share."""

from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TypeVar

from .environment import find_environment
from .run_state import RunResources

Resource = TypeVar("Resource")


def shared_in_run(
    key: Hashable, opener: Callable[[], AbstractAsyncContextManager[Resource]]
) -> AbstractAsyncContextManager[Resource]:
    """The resource that the active run keeps on this event loop; without a run, one for the block only.

    Args:
        key: The identity of the resource within a run.
        opener: Returns the context manager to enter if the resource is not open yet.
    """
    environment = find_environment()
    resources = None if environment is None else environment.run_state.current_resources()
    return opener() if resources is None else _Shared(resources, key, opener)


class _Shared(AbstractAsyncContextManager[Resource]):
    """A resource of a run, which the run closes. Every request uses two, so this is no generator."""

    __slots__ = ("_key", "_opener", "_resources")

    def __init__(
        self,
        resources: RunResources,
        key: Hashable,
        opener: Callable[[], AbstractAsyncContextManager[Resource]],
    ) -> None:
        self._resources = resources
        self._key = key
        self._opener = opener

    async def __aenter__(self) -> Resource:
        return await self._resources.use(self._key, self._opener)

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass
