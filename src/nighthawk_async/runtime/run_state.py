"""What one run owns: resources by event loop, and portal threads for synchronous code. Floor 3."""

from collections.abc import Hashable
from typing import Literal

from anyio.lowlevel import current_token

from .portals import PortalPool
from .resources import RunResources

__all__ = ["RunState", "SyncBackend"]

SyncBackend = Literal["trio", "asyncio"]


class RunState:
    """The mutable part of a run.

    Args:
        sync_backend: The AnyIO backend of the portal threads that carry out synchronous natural functions.
    """

    def __init__(self, *, sync_backend: SyncBackend) -> None:
        self._resources: dict[Hashable, RunResources] = {}
        self._warned: set[str] = set()
        self.portals = PortalPool(
            backend=sync_backend, attach=self.attach_resources, detach=self.detach_resources
        )

    def warn_once(self, subject: str) -> bool:
        """Whether this is the first time the run asks to warn about a subject."""
        is_first = subject not in self._warned
        self._warned.add(subject)
        return is_first

    def attach_resources(self) -> RunResources:
        """Make resources for the present event loop."""
        resources = RunResources()
        self._resources[_loop_key()] = resources
        return resources

    async def detach_resources(self) -> None:
        """Close the resources of the present event loop."""
        resources = self._resources.pop(_loop_key(), None)
        if resources is not None:
            await resources.aclose()

    def current_resources(self) -> RunResources | None:
        """The resources of the present event loop; None when the run has none for it."""
        return self._resources.get(_loop_key())


def _loop_key() -> Hashable:
    return id(current_token().native_token)
