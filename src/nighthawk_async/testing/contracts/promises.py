"""The base of all contract suites: how a broken promise is found and reported."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from inspect import iscoroutinefunction, isfunction
from typing import Any, ClassVar, Generic, NoReturn, TypeVar, TypeVarTuple

import anyio
import pytest
from anyio.lowlevel import checkpoint

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_PAUSE_SECONDS = 0.005


@pytest.mark.anyio
class Contract:
    """Base class of the suites. Each method whose name begins with `test_` is a test of one promise.

    The docstring of the test is the promise. The message of a failure has it, and what the object did.

    Attributes:
        exempt: Promises that the object does not keep on purpose: the names of tests, each with the reason.
            These tests are skipped.
        patience_seconds: The seconds for which a test waits for what should have happened.
    """

    exempt: ClassVar[Mapping[str, str]] = {}
    patience_seconds: ClassVar[float] = 30.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if name.startswith("test_") and isfunction(method) and method.__doc__:
                setattr(cls, name, _naming_promise(method, " ".join(method.__doc__.split())))

    @pytest.fixture(autouse=True)
    def _skipping_exempt_promises(self, request: pytest.FixtureRequest) -> None:
        unknown = [name for name in self.exempt if not hasattr(type(self), name)]
        if unknown:
            pytest.fail(f"{type(self).__name__}.exempt names no test: {', '.join(unknown)}", pytrace=False)
        reason = self.exempt.get(request.function.__name__)
        if reason is not None:
            pytest.skip(reason)


def _naming_promise(method: Callable[..., Any], promise: str) -> Callable[..., Any]:
    """The test with a promise in the message of its failure."""

    @wraps(method)
    async def test_on_loop(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        with _promising(promise):
            await method(*args, **kwargs)

    @wraps(method)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        with _promising(promise):
            method(*args, **kwargs)

    return test_on_loop if iscoroutinefunction(method) else test


@contextmanager
def _promising(promise: str) -> Generator[None, None, None]:
    __tracebackhide__ = True
    try:
        yield
    except AssertionError as error:
        error.args = (f"{promise}\nInstead: {error}",)
        raise
    except Exception as error:
        error.add_note(f"It has broken this promise: {promise}")
        raise


def broken(did: str) -> NoReturn:
    """Report a broken promise.

    Args:
        did: What the object did instead.

    Raises:
        AssertionError: Always.
    """
    __tracebackhide__ = True
    raise AssertionError(did)


def check(holds: object, did: str) -> None:
    """Report a broken promise unless it holds; see `broken`."""
    __tracebackhide__ = True
    if not holds:
        broken(did)


def check_type(given: object, expected: type, what: str) -> None:
    """Report a broken promise unless an object, named in words, has a type."""
    __tracebackhide__ = True
    check(isinstance(given, expected), f"{what} is {given!r}")


@asynccontextmanager
async def in_time(seconds: float, did: str) -> AsyncGenerator[None, None]:
    """Report a broken promise when the block has not ended after some seconds."""
    __tracebackhide__ = True
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        broken(f"{did} after {seconds:g} seconds")


async def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait, for some seconds, for what nothing reports; return whether it has happened."""
    for _ in range(round(seconds / _PAUSE_SECONDS)):
        if condition():
            return True
        await anyio.sleep(_PAUSE_SECONDS)
    return condition()


@asynccontextmanager
async def without_leftovers(seconds: float) -> AsyncGenerator[None, None]:
    """Report async generators and tasks that the block leaves behind; tasks have some seconds to end."""
    __tracebackhide__ = True
    before = {task.id for task in anyio.get_running_tasks()}
    with _noting_generators() as generators:
        yield
    left_open = [each for each in generators if each.ag_frame is not None]
    for each in left_open:
        with suppress(Exception):
            await each.aclose()
    names = ", ".join(dict.fromkeys(each.__qualname__ for each in left_open))
    check(not left_open, f"it has left async generators open, which `aclosing` closes: {names}")
    await eventually(lambda: not _tasks_since(before), seconds)
    left = _tasks_since(before)
    check(not left, f"it has left tasks behind: {', '.join(left)}")


@contextmanager
def _noting_generators() -> Generator[list[Any], None, None]:
    """Note the async generators that this thread begins, and keep them from the garbage collector."""
    hooks = sys.get_asyncgen_hooks()
    begun: list[Any] = []

    def note(generator: Any) -> None:
        begun.append(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=note)
    try:
        yield begun
    finally:
        sys.set_asyncgen_hooks(firstiter=hooks.firstiter)


def _tasks_since(before: set[int]) -> list[str]:
    return [str(task.name) for task in anyio.get_running_tasks() if task.id not in before]


class Watched(Generic[Result]):
    """Something to await, and how often it has suspended the task after a cancellation.

    Whatever suspends in a cancelled scope ends with the cancellation, on both event loops. What returns
    anyway has swallowed it, or was shielded.

    Args:
        work: What to await.
        scope: The scope; suspensions count once it was cancelled.
    """

    def __init__(self, work: Awaitable[Result], scope: anyio.CancelScope) -> None:
        self._work = work
        self._scope = scope
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, Result]:
        inner: Any = self._work.__await__()
        resume, given = inner.send, None
        while True:
            try:
                awaited = resume(given)
            except StopIteration as end:
                return end.value
            self.suspensions += self._scope.cancel_called
            try:
                given = yield awaited
                resume = inner.send
            except BaseException as error:
                resume, given = inner.throw, error


class Cancellation:
    """One cancellation of an object at work, and how it takes it.

    Args:
        when: When it is cancelled, in words.
    """

    def __init__(self, when: str) -> None:
        self.scope = anyio.CancelScope()
        self._when = when
        self._is_delivered = False

    async def watch(self, work: Awaitable[Result], what: str) -> Result:
        """Await something that must not go on once it was cancelled.

        Args:
            work: What to await.
            what: What it is, in words.
        """
        __tracebackhide__ = True
        watched = Watched(work, self.scope)
        try:
            result = await watched
        except anyio.get_cancelled_exc_class():
            self._is_delivered = True
            raise
        if watched.suspensions:
            broken(f"cancelled {self._when}, {what} went on and gave {result!r}")
        return result

    async def deliver(self) -> None:
        """Let the cancellation, if it was requested, leave the block in which this is called."""
        if self.scope.cancel_called:
            self._is_delivered = True
            await checkpoint()

    async def run(
        self,
        work: Callable[["Cancellation", *Arguments], Awaitable[object]],
        *args: *Arguments,
        ticks: int | None = None,
    ) -> bool:
        """Run something that is cancelled.

        Args:
            work: Uses the object; it may cancel `scope` itself.
            args: Its arguments.
            ticks: The number of turns of the event loop after which to cancel it; None for never.

        Returns:
            Whether it was cancelled before its end.
        """
        __tracebackhide__ = True
        failure: BaseException | None = None
        is_over = False
        async with anyio.create_task_group() as group:
            if ticks is not None:
                group.start_soon(self._cancel_later, ticks)
            with self.scope:
                try:
                    await work(self, *args)
                    is_over = not self.scope.cancel_called
                except Exception as error:
                    failure = error
                if self.scope.cancel_called and not self._is_delivered:
                    await checkpoint()
            group.cancel_scope.cancel()
        if isinstance(failure, AssertionError):
            raise failure
        if failure is not None:
            broken(f"cancelled {self._when}, it raised {failure!r}")
        if not is_over and not self.scope.cancelled_caught:
            broken(f"cancelled {self._when}, it ended as if nothing had happened")
        return not is_over

    async def _cancel_later(self, ticks: int) -> None:
        for _ in range(ticks):
            await checkpoint()
        self.scope.cancel()


def moments(most: int) -> Iterator[int]:
    """Turns of the event loop after which to cancel something: each of the first, then ever fewer."""
    ticks = 0
    for number in range(most):
        yield ticks
        ticks += 1 if number < most // 2 else max(1, ticks // 3)
