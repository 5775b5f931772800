"""Runs that live in a task or a thread of their own, which any code of the process can open and close."""

import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from typing import Any

import anyio
import anyio.to_thread
from anyio import from_thread, get_cancelled_exc_class
from anyio.lowlevel import current_token

from ..parallel.event_loop import find_running_loop

_LOGGER = logging.getLogger("nighthawk")

_tasks: set[Any] = set()
"""The tasks of hosts on asyncio, which itself refers to tasks weakly."""


class RunHost:
    """Holds a run open in a task of its own, until it is closed. Its event loop ends it at the latest.

    Args:
        run: The run.
        name: The name of the task.
    """

    def __init__(self, run: AbstractAsyncContextManager[object], name: str) -> None:
        self._run = run
        self._name = name
        self._token = current_token()
        self._entered, self._closing, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._scope = anyio.CancelScope()
        self._error: BaseException | None = None
        self._is_awaited = False

    async def start(self) -> None:
        """Enter the run; see `Run.start`."""
        _spawn(self._hold, self._name)
        try:
            await self._entered.wait()
        except get_cancelled_exc_class():
            await self._cancel()
            raise
        self._raise_error()

    async def aclose(self) -> None:
        """Leave the run; see `Run.aclose`."""
        if find_running_loop() != self._token:
            await anyio.to_thread.run_sync(self._close_from_thread)
            return
        self._closing.set()
        self._is_awaited = True
        try:
            await self._ended.wait()
        except get_cancelled_exc_class():
            await self._cancel()
            raise
        self._raise_error()

    def _close_from_thread(self) -> None:
        from_thread.run(self.aclose, token=self._token)

    async def _cancel(self) -> None:
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _hold(self) -> None:
        try:
            with self._scope:
                async with self._run:
                    self._entered.set()
                    await self._closing.wait()
        except Exception as error:
            self._error = error
            if self._entered.is_set() and not self._is_awaited:
                _LOGGER.error("a started run has failed; aclose() raises the error", exc_info=error)
        finally:
            self._entered.set()
            self._ended.set()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is None:
            return
        try:
            raise error
        finally:
            del error  # so that the error and this frame do not hold each other


class ThreadRunHost:
    """Holds a run open in a thread of its own, for programs without an event loop.

    The thread does not keep the process alive.

    Args:
        run: The run.
        name: The name of the thread.
    """

    def __init__(self, run: AbstractContextManager[object], name: str) -> None:
        self._run = run
        self._entered, self._closing = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=copy_context().run, args=(self._hold,), name=name, daemon=True)

    def start_sync(self) -> None:
        """Enter the run; see `Run.start_sync`."""
        self._thread.start()
        self._entered.wait()
        self._raise_error()

    def close(self) -> None:
        """Leave the run; see `Run.close`."""
        self._closing.set()
        self._thread.join()
        self._raise_error()

    def _hold(self) -> None:
        try:
            with self._run:
                self._entered.set()
                self._closing.wait()
        except Exception as error:
            self._error = error
        finally:
            self._entered.set()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is None:
            return
        try:
            raise error
        finally:
            del error


def _spawn(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Start a task that no task group owns, in the context of the caller."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(function, name=name, context=copy_context())
        return
    loop: Any = current_token().native_token  # of asyncio
    task = loop.create_task(function(), name=name)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
