"""What the steps of a run share for their requests: the HTTP connection pool, and the pacers. Floor 4."""

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager

from ..runtime.sharing import shared_in_run
from .http_pool import HttpPool, open_http_pool
from .pacing import Pacer, open_pacer

__all__ = ["pacer_of_run", "pool_of_run"]


def pool_of_run() -> AbstractAsyncContextManager[HttpPool]:
    """The pool of the run in force; without a run, one for the request alone."""
    return shared_in_run("http pool", open_http_pool)


def pacer_of_run(key: Hashable) -> AbstractAsyncContextManager[Pacer]:
    """The pacer that the run in force keeps for an endpoint and a key; without a run, one for the request.

    Args:
        key: What tells the endpoint and the key from others.
    """
    return shared_in_run(("pacer", key), open_pacer)
