"""Runs a suite without pytest, to see which promises an object breaks."""

import inspect
from typing import Any

import anyio
import pytest

from nighthawk_async.testing.contracts import Contract


def broken_promises(
    suite: type[Contract], *, only: str = "", backend: str = "asyncio", **fixtures: Any
) -> dict[str, str]:
    """Run the tests of a suite, or one of them, and return what was broken, by the names of the tests."""
    found: dict[str, str] = {}
    for name in [only] if only else sorted(promises_of(suite)):
        method = getattr(suite(), name)
        given = {each: fixtures[each] for each in inspect.signature(method).parameters}
        try:
            if inspect.iscoroutinefunction(method):
                anyio.run(lambda method=method, given=given: method(**given), backend=backend)
            else:
                method(**given)
        except pytest.skip.Exception:
            continue
        except Exception as error:
            found[name] = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return found


def promises_of(suite: type[Contract]) -> set[str]:
    """The names of the tests of a suite."""
    return {name for name in dir(suite) if name.startswith("test_")}
