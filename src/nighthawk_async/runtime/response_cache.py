"""The response cache that is active, as the kernel needs it; `resilience` implements caches.

The journal of a run comes before the cache: a recorded response is never looked up. The cache comes before
budgets, which a cached response does not touch, and before interceptors, such as a recorder.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial
from typing import Protocol

from msgspec import Struct

from ..ports import Model, OpenSource
from ..types.model import ModelEvent, ModelRequest
from .environment import find_environment
from .model_access import ask_model


class CacheEntry(Protocol):
    """The entry of a response cache for one request."""

    @property
    def is_hit(self) -> bool:
        """Whether no model is asked, because an equal request has a response, or has just failed.

        Otherwise equal requests wait until this one has ended or is released.
        """
        ...

    def open(self, open_source: OpenSource) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response, from the cache or from its source.

        Args:
            open_source: Asks the model.
        """
        ...

    def release(self) -> None:
        """Let equal requests go on, unless the response has arrived."""
        ...


class ResponseCache(Protocol):
    """Answers equal requests with the response to the first of them."""

    async def look_up(self, model: Model, request: ModelRequest) -> CacheEntry | None:
        """Return the entry of a request, as soon as no equal request is in progress.

        Args:
            model: The model.
            request: The request.

        Returns:
            None for a request that is not cached.
        """
        ...


class _Active(Struct, frozen=True, eq=False):
    cache: ResponseCache | None
    outer: "_Active | None"


_active: ContextVar[_Active | None] = ContextVar("nighthawk_async_response_cache", default=None)


def enter_response_cache(cache: ResponseCache | None) -> None:
    """Activate a response cache until `leave_response_cache`; None for none, whatever is active."""
    _active.set(_Active(cache, _active.get()))


def leave_response_cache() -> None:
    """Activate the response cache again that was active before."""
    active = _active.get()
    _active.set(None if active is None else active.outer)


def find_response_cache() -> ResponseCache | None:
    """Return the active response cache; None for none."""
    active = _active.get()
    return None if active is None else active.cache


class CachedSource:
    """The source of the response to one request where a response cache is active; see `ports.RequestSource`.

    Args:
        cache: The cache.
        model: The model.
        place: The place of the request in a run with a journal; None without one.
    """

    __slots__ = ("_cache", "_entry", "_model", "_place", "_request", "is_cached")

    def __init__(self, cache: ResponseCache, model: Model, place: str | None) -> None:
        self._cache = cache
        self._model = model
        self._request: ModelRequest | None = None
        self._entry: CacheEntry | None = None
        self._place = place
        self.is_cached = False

    async def find(self, request: ModelRequest) -> bool:
        """Look for the request in the journal and in the cache, once."""
        if self._request is not None:
            return self.is_cached
        self._request = request
        environment = find_environment()
        journal = None if environment is None else environment.journal
        if journal is not None and self._place is not None:
            recorded = journal.find_cached(self._place)
            if recorded is not None:
                self.is_cached = recorded
                return recorded
        self._entry = await self._cache.look_up(self._model, request)
        self.is_cached = self._entry is not None and self._entry.is_hit
        return self.is_cached

    def open(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return the response. One to a request that a policy has changed since `find` is not stored."""
        model, environment = self._model, find_environment()
        step_path = () if environment is None else environment.step_path
        entry = self._entry
        if request != self._request:
            self.release()
            entry = None

        def ask(source: Model = model) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
            asked = partial(ask_model, source, request, step_path)
            return asked() if entry is None or source is not model else entry.open(asked)

        if environment is None or environment.journal is None or self._place is None:
            return ask()
        return environment.journal.respond(self._place, model.name, ask)

    def release(self) -> None:
        """Let equal requests go on; see `ports.RequestSource`."""
        if self._entry is not None:
            self._entry.release()
