"""The HTTP connection pool that the steps of a run share. Floor 4."""

from contextlib import AbstractAsyncContextManager

from ..runtime.sharing import shared_in_run
from .http_pool import HttpPool, open_http_pool

__all__ = ["pool_of_run"]


def pool_of_run() -> AbstractAsyncContextManager[HttpPool]:
    """The pool of the run in force; without a run, one for the request alone."""
    return shared_in_run("http pool", open_http_pool)
