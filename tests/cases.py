"""Many small cases in one test: each of them as a test of its own would take longer around it than in it."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

__all__ = ["every"]

Test = Callable[..., Any]


def every(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Carry out a test with each case of a table, as `pytest.mark.parametrize` does, but as one test.

    Each case that fails is named in a note of its error, and the others are carried out all the same; several
    errors come as a group. For tests that leave nothing behind from which the next case would differ: what
    fixtures give is the same for all cases.

    Args:
        names: The names of arguments, separated by commas.
        cases: The values: of one name as they are, of several ones as tuples.
    """
    arguments = [name.strip() for name in names.split(",")]
    rows = [(case,) if len(arguments) == 1 else tuple(case) for case in cases]
    assert rows, "there is no case"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def in_turn(**given: Any) -> None:
            failures: list[BaseException] = []
            for row in rows:
                with _noted(arguments, row, failures):
                    test(**given, **dict(zip(arguments, row, strict=True)))
            _raise_all(failures)

        @functools.wraps(test)
        async def in_turn_and_awaited(**given: Any) -> None:
            failures: list[BaseException] = []
            for row in rows:
                await checkpoint()  # a case may be a single step of the event loop; all of them are not
                with _noted(arguments, row, failures):
                    await test(**given, **dict(zip(arguments, row, strict=True)))
            _raise_all(failures)

        made = in_turn_and_awaited if inspect.iscoroutinefunction(test) else in_turn
        signature = inspect.signature(test)
        left = [each for each in signature.parameters.values() if each.name not in arguments]
        assert len(left) == len(signature.parameters) - len(arguments), f"{test} has no arguments {names}"
        made.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return made

    return decorate


@contextmanager
def _noted(arguments: list[str], row: tuple[Any, ...], failures: list[BaseException]) -> Iterator[None]:
    """Keep what a case fails with; what is no failure, a cancellation for one, goes on."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {dict(zip(arguments, row, strict=True))!r}")
        if not isinstance(error, Exception | pytest.fail.Exception):
            raise
        failures.append(error)


def _raise_all(failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} cases failed", failures)
