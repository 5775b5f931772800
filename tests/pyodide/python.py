"""The Python of Pyodide, made ready for tests: it has no sockets, no threads, and no wheel of tiktoken."""

import asyncio
import inspect
import sys
import time
from collections.abc import Sequence
from functools import partial
from types import ModuleType
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


class _Tokenizer:
    """Counts each character as a token."""

    def encode_ordinary(self, text: str) -> list[str]:
        return list(text)


class _Tokenizers(dict[str, _Tokenizer]):
    def get(self, key: str, default: Any = None) -> Any:
        return _Tokenizer()


class _OnAsyncio:
    """A plugin that runs asynchronous tests on asyncio, which that of AnyIO cannot do here."""

    def pytest_configure(self, config: Any) -> None:
        """Name the marker that tests have."""
        config.addinivalue_line("markers", "anyio: the test is asynchronous")

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool | None:
        """Run an asynchronous test."""
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        import anyio  # here, because pytest rewrites the assertions of its plugin

        names = pyfuncitem._fixtureinfo.argnames
        anyio.run(partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}))
        return True


def run_tests(arguments: Sequence[str]) -> int:
    """Run tests on asyncio, without the project's conftest, which needs Trio; return pytest's exit code."""
    asyncio.events._set_running_loop(None)  # that of Pyodide, which runs for ever
    asyncio.new_event_loop = asyncio.events.new_event_loop = _Loop
    sys.modules["tiktoken"] = ModuleType("tiktoken")
    registry = sys.modules["tiktoken.registry"] = ModuleType("tiktoken.registry")
    model = sys.modules["tiktoken.model"] = ModuleType("tiktoken.model")
    vars(registry)["ENCODINGS"] = _Tokenizers()
    vars(model)["encoding_name_for_model"] = {}.__getitem__  # it knows no model
    import pytest

    options = ("--noconftest", "--config-file=/dev/null", "--rootdir=/project", "--import-mode=importlib")
    quiet = ("-p", "no:anyio", "-p", "no:cacheprovider", "-p", "no:threadexception", "-W", "error")
    return int(pytest.main(["-q", "-ra", *options, *quiet, *arguments], plugins=[_OnAsyncio()]))
