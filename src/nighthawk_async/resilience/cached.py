"""`cached`: answer equal model requests with the response to the first of them."""

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, cast, overload
from weakref import WeakValueDictionary

from ..kernel.environment import begin_policy, end_policy
from ..threads import call_in_thread
from ..types.unset import UNSET, Unset
from .errors import InvalidPolicyError
from .response_cache import NoResponses, StoredResponses
from .response_stores import MemoryStore, ResponseStore
from .sqlite_store import SqliteStore, checked_path
from .transforming import Call, Transformer

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

StoreChoice: TypeAlias = MemoryStore | SqliteStore | str | os.PathLike[str]
"""A store, or the path of the file of a `SqliteStore` without limits of age."""


@overload
def cached(
    function: Callable[Parameters, Result], /, *, store: StoreChoice | Unset | None = UNSET
) -> Callable[Parameters, Result]: ...


@overload
def cached(*, store: StoreChoice | Unset | None = UNSET) -> "Cached": ...


def cached(
    function: Callable[..., Any] | None = None, /, *, store: StoreChoice | Unset | None = UNSET
) -> Any:
    """Answer equal model requests of the steps inside with the response to the first of them.

        async with cached(store="responses.db"):      # `with` does the same
            summaries = await nh.parallel.map(summarize, texts)

        @cached
        async def classify(text: str) -> str: ...

    Functions and tools run as ever; only the requests of their steps to models are answered. Requests are
    equal when everything that reaches the model is: the model and its endpoint, the prompts, the
    conversation, the tools and the settings, but not keys and time limits. Of equal requests at the same
    time, one asks the model, and the others wait for its response. When it fails, they fail with the same
    error; when it is cancelled, the next of them asks. Whole responses alone are kept.

    The calls of a `vote` or `ensemble` and the attempts of `retrying` and `Baseline` have responses of their
    own. Requests with effects are not cached: those that let the provider keep something or run its own
    tools, and those of steps that may call a function that is decorated with `nighthawk_async.once`.

    A cached response has no cost, waits for no pacing, and takes nothing from budgets:
    `Usage.cached_requests` counts it. The innermost cache counts. In a run with a journal, recorded
    responses come before it.

    Args:
        function: The function; None returns a decorator and context manager.
        store: The store of the responses, or the path of a SQLite file; omitted for one in memory, with its
            defaults. None turns a cache off inside.

    Returns:
        The function with the same signature, or a decorator and context manager.

    Raises:
        InvalidPolicyError: The store is none.
        ResponseStoreError: Raised on entering, or by the function: the file cannot be used.
        TypeError: The function cannot be called, or is a generator.
    """
    transformer = Cached(_cache_of(store))
    return transformer if function is None else transformer(function)


class Cached(Transformer):
    """A response cache for one block, or for each call of a function. Made by `cached`.

    It may be entered any number of times, also at the same time.

    Args:
        cache: The cache; None for none.
    """

    __slots__ = ("_cache",)

    title = "cached"

    def __init__(self, cache: StoredResponses | None) -> None:
        self._cache = cache

    def __enter__(self) -> Self:
        if self._cache is not None:
            self._cache.store.open()
        begin_policy(self._cache or _NO_CACHE)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_policy(self._cache or _NO_CACHE)

    async def __aenter__(self) -> Self:
        if self._cache is not None and self._cache.store.blocks:
            await call_in_thread(self._cache.store.open)
        begin_policy(self._cache or _NO_CACHE)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_policy(self._cache or _NO_CACHE)

    def run(self, call: Call[Any]) -> Any:
        """Call the function with the cache."""
        with self:
            return call()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function with the cache."""
        async with self:
            return await call()


_NO_CACHE = NoResponses()
_lock = threading.Lock()
_stores: WeakValueDictionary[Path, SqliteStore] = WeakValueDictionary()
_caches: WeakValueDictionary[int, StoredResponses] = WeakValueDictionary()
"""By the identity of the store, which lives as long as its cache."""


def _cache_of(store: object) -> StoredResponses | None:
    """Return the cache of a store, the same for all that use it, so that equal requests meet there."""
    if store is None:
        return None
    if store is UNSET:
        return StoredResponses(MemoryStore())
    if not isinstance(store, ResponseStore | str | os.PathLike):
        raise InvalidPolicyError(
            f"store is a MemoryStore, a SqliteStore or the path of a file, not {store!r}"
        )
    with _lock:
        if not isinstance(store, ResponseStore):
            path = checked_path(cast("object", store))
            store = _stores.get(path) or _stores.setdefault(path, SqliteStore(path))
        cache = _caches.get(id(store))
        if cache is None:
            cache = _caches[id(store)] = StoredResponses(store)
        return cache
