"""Shared state of a run's requests: the HTTP connection pool, and the pacers."""

from collections.abc import AsyncGenerator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType

from ..runtime.shared_resources import shared_in_run
from .http_pool import HttpPool, open_http_pool
from .pacing import Pacer
from .pacing_shelf import PacerShelf

__all__ = ["pacer_of_run", "pool_of_run"]


def pool_of_run() -> AbstractAsyncContextManager[HttpPool]:
    """The pool of the run in force; without a run, one for the request alone."""
    return shared_in_run("http pool", open_http_pool)


def pacer_of_run(key: Hashable) -> AbstractAsyncContextManager[Pacer]:
    """The pacer that the run in force keeps for an endpoint and a key; without a run, one for the request.

    Args:
        key: What tells the endpoint and the key from others.
    """
    return _PacerOfRun(key)


class _PacerOfRun(AbstractAsyncContextManager[Pacer]):
    """Every request enters one, so this is no generator."""

    __slots__ = ("_key", "_shared", "_shelf")

    def __init__(self, key: Hashable) -> None:
        self._key = key
        self._shared = shared_in_run("pacers", _open_shelf)

    async def __aenter__(self) -> Pacer:
        self._shelf = await self._shared.__aenter__()
        return self._shelf.take(self._key)

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shelf.give_back(self._key)
        await self._shared.__aexit__(exception_type, exception, traceback)


@asynccontextmanager
async def _open_shelf() -> AsyncGenerator[PacerShelf, None]:
    yield PacerShelf()
