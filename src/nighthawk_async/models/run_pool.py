"""What the steps of a run share for their requests: the HTTP connection pool, and the pacers. Floor 4."""

from collections.abc import AsyncGenerator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from ..runtime.mutation.sharing import shared_in_run
from .http_pool import HttpPool, open_http_pool
from .pacing import Pacer
from .pacing_shelf import PacerShelf

__all__ = ["pacer_of_run", "pool_of_run"]


def pool_of_run() -> AbstractAsyncContextManager[HttpPool]:
    """The pool of the run in force; without a run, one for the request alone."""
    return shared_in_run("http pool", open_http_pool)


@asynccontextmanager
async def pacer_of_run(key: Hashable) -> AsyncGenerator[Pacer, None]:
    """The pacer that the run in force keeps for an endpoint and a key; without a run, one for the request.

    Args:
        key: What tells the endpoint and the key from others.
    """
    async with shared_in_run("pacers", _open_shelf) as shelf:
        with shelf.use(key) as pacer:
            yield pacer


@asynccontextmanager
async def _open_shelf() -> AsyncGenerator[PacerShelf, None]:
    yield PacerShelf()
