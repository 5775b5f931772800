"""The keeper of the resources of one owner: a task, a step or a run.

It is light, as every step and every task has one. `resources` opens and closes them.
"""

from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from threading import get_ident
from types import TracebackType
from typing import Any, Protocol

from anyio.abc import TaskGroup


class Resources(Protocol):
    """The resources of one owner; see `resources.OwnedResources`."""

    async def use(
        self, key: Hashable, name: str, opener: Callable[[], Any], *, ends_last: bool = False
    ) -> Any:
        """Return the resource of a key; the first caller has it opened."""
        ...

    def find(self, key: Hashable) -> object | None:
        """Return the resource of a key if it is open."""
        ...

    async def close(self, leaving: BaseException | None) -> None:
        """Close every resource."""
        ...


class ResourceKeeper:
    """Holds what the resources of one owner need, and closes them when its work has ended.

    Made in the task of the owner. As an async context manager it is around the work of the owner.

    Args:
        kind: The kind of the owner, for errors.
        name: The name of the owner, for errors.
        task_group: A task group that ends with the owner, on its event loop.
        context: The context variables that openers see; None for those of the caller.

    Attributes:
        is_ending: Whether the work of the owner has ended, so that nothing more is opened for it.
        resources: The resources; None before the first.
    """

    __slots__ = ("_kind", "_name", "_thread", "context", "is_ending", "resources", "task_group")

    def __init__(
        self, kind: str, name: str, task_group: TaskGroup, *, context: Context | None = None
    ) -> None:
        self._kind = kind
        self._name = name
        self.task_group = task_group
        self.context = copy_context() if context is None else context
        self.is_ending = False
        self._thread = get_ident()
        self.resources: Resources | None = None

    @property
    def title(self) -> str:
        """The kind and the name of the owner."""
        return f"{self._kind} {self._name}"

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the event loop of the owner, which runs in one thread."""
        return self._thread == get_ident()

    def find(self, key: Hashable) -> object | None:
        """The resource of a key if it is open; None otherwise."""
        return None if self.resources is None else self.resources.find(key)

    async def close(self, leaving: BaseException | None) -> None:
        """Close the resources, as the work of the owner has ended; see `resources.OwnedResources.close`."""
        self.is_ending = True
        try:
            if self.resources is not None:
                await self.resources.close(leaving)
        finally:
            self.context = Context()  # the other one refers to the owner, which refers to this keeper

    async def __aenter__(self) -> "ResourceKeeper":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(exc)
