"""The Python of Pyodide, made ready for tests: it has no sockets and no threads."""

import asyncio
import inspect
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any


class _Clock:
    """Waits for the next timer of an event loop; nothing else can happen."""

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every task waits, and there is no timer")
        time.sleep(max(timeout, 0))
        return []


class _Loop(asyncio.BaseEventLoop):
    """An event loop without sockets, which can be run until a task ends; that of Pyodide cannot."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Clock()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _OnAsyncio:
    """A plugin that runs asynchronous tests on asyncio, which that of AnyIO cannot do here."""

    def pytest_configure(self, config: Any) -> None:
        """Name the markers that tests have."""
        project = tomllib.loads(Path("/project/pyproject.toml").read_text())
        for each in ("anyio: the test is asynchronous", *project["tool"]["pytest"]["ini_options"]["markers"]):
            config.addinivalue_line("markers", each)

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool | None:
        """Run an asynchronous test."""
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        import anyio  # here, because pytest rewrites the assertions of its plugin
        from anyio._backends._asyncio import AsyncIOBackend

        type.__setattr__(AsyncIOBackend, "run_sync_in_worker_thread", classmethod(_at_once))
        names = pyfuncitem._fixtureinfo.argnames
        anyio.run(partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}))
        return True


async def _at_once(
    cls: type, func: Callable[..., Any], args: tuple[Any, ...], *options: Any, **keywords: Any
) -> Any:
    """Call a function that would run in a worker thread."""
    return func(*args)


def run_tests(arguments: Sequence[str]) -> int:
    """Run tests on asyncio, without the project's conftest, which needs Trio; return pytest's exit code."""
    asyncio.events._set_running_loop(None)  # that of Pyodide, which runs for ever
    asyncio.new_event_loop = asyncio.events.new_event_loop = _Loop
    import pytest

    options = (
        "--confcutdir=/project/tests/unit",
        "--config-file=/dev/null",
        "--rootdir=/project",
        "--import-mode=importlib",
    )
    quiet = ("-p", "no:anyio", "-p", "no:cacheprovider", "-p", "no:threadexception", "-W", "error")
    return int(pytest.main(["-q", "-ra", *options, *quiet, *arguments], plugins=[_OnAsyncio()]))
