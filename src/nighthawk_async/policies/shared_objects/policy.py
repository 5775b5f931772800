"""The guard of shared objects as a policy. `bound_objects` documents its reports and limits."""

from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from ...errors import NighthawkError
from ...kernel.assignment import AssignmentTarget
from ...kernel.cells import close_work
from ...kernel.commands import Assign, Awaited, Command, CommandGuard, StepState, await_value
from ...kernel.context import StepContext
from ...kernel.policy import InnerScope, Policies, Policy, Position
from ...kernel.step import Step
from ...lazy_exports import LazyModule
from ...values.snapshots import attribute_of
from .bound_objects import (
    Binding,
    BoundObjects,
    ConcurrentMutation,
    ConcurrentMutationError,
    ConcurrentMutationWarning,
    Mutation,
    MutationWatch,
    mutations_of,
    report_of,
    warn_of,
)

if TYPE_CHECKING:
    from . import first_writer
else:
    first_writer = LazyModule(f"{__package__}.first_writer")  # few runs let the first step win


class MutationGuard(CommandGuard):
    """The guard of one step; see `command_guard.CommandGuard`.

    Args:
        context: The state of the step.
        mode: The reaction to a change.
        filename: The source file of the block, to which warnings point.
        line: The line of the block in that file.
        turn: Returns the number of the step's turns.
    """

    verdicts = (ConcurrentMutationError, ConcurrentMutationWarning)

    def __init__(
        self,
        context: StepContext,
        *,
        mode: ConcurrentMutation = "ignore",
        filename: str = "<natural>",
        line: int = 1,
        turn: Callable[[], int] = int,
    ) -> None:
        self._bound = BoundObjects(context, is_registered=mode != "ignore")
        self._mode: ConcurrentMutation = mode
        self._place = (filename, line)
        self._reported: dict[tuple[int, BoundObjects], object] = {}
        self._first = first_writer.FirstWriter(self._bound, turn) if mode == "first" else None

    def in_flight(self) -> AbstractContextManager[None]:
        """Return the context manager of the step's duration."""
        return self._bound if self._first is None else self._first.in_flight()

    def execute(self, command: Command, state: StepState) -> object:
        """Run a command; see `Command.execute`.

        Raises:
            ConcurrentMutationError: It changed an object that another step has bound, and the mode is
                `error`; or another step has changed one that it mentions or changes, and the mode is
                `first`.
            ConcurrentMutationWarning: It changed one, and Python's warning filters turn the warning into an
                error.
        """
        if self._mode == "ignore":
            return command.execute(state)
        if self._first is not None:
            self._first.begin(command)
        watch = self._open_watch(command)
        try:
            if watch is None:
                return command.execute(state)
            return self._execute_watched(watch, command, state)
        finally:
            self._bound.refresh()

    async def await_value(self, awaitable: Awaitable[object]) -> object:
        """Await the result of a command, for this step alone; see `awaitable.await_value`.

        Raises:
            ConcurrentMutationError: The awaited code changed an object that another step has bound, and the
                mode is `error`.
            ConcurrentMutationWarning: It changed one, and Python's warning filters turn the warning into an
                error.
        """
        if self._mode == "ignore":
            return await await_value(awaitable)
        watched = _WatchedAwaitable(awaitable, self)
        try:
            value = await await_value(watched)
        except (Exception, SystemExit):
            watched.raise_failure()
            raise
        finally:
            watched.close()
            self._bound.refresh()
        watched.raise_failure()
        return value

    def open_watch(self) -> MutationWatch | None:
        """Begin to watch a stretch of awaited code; return None when no object is contested.

        The steps that this one called do not count: their changes are part of the stretch.
        """
        if self._first is not None:
            return self._first.open_watch()
        roots = self._bound.contested(with_callees=False)
        return MutationWatch(self._bound, roots) if roots else None

    def close_watch(self, watch: MutationWatch) -> Exception | None:
        """End a watch and handle the changes it found.

        Returns:
            The error to raise; None when there is none.
        """
        found = watch.close()
        if self._first is not None:
            return self._first.settle(found)
        mutations = mutations_of(found)
        if not mutations:
            return None
        if self._mode == "error":
            is_restored = watch.restore()
            return ConcurrentMutationError(report_of(self._bound, mutations[0]), is_restored=is_restored)
        failures = [failure for mutation in mutations if (failure := self._warn(mutation))]
        return failures[0] if failures else None

    def _open_watch(self, command: Command) -> MutationWatch | None:
        if self._first is not None:
            return self._first.open_watch()
        roots = self._bound.contested(with_callees=True)
        if isinstance(command, Assign) and command.target.fields:
            roots.extend(self._owners(command.target))
        return MutationWatch(self._bound, roots) if roots else None

    def _execute_watched(self, watch: MutationWatch, command: Command, state: StepState) -> object:
        context = state.context
        names, assigned_names = dict(context.step_locals), set(context.assigned_names)
        reply: object = None
        try:
            reply = command.execute(state)
        except BaseException as error:
            failure = self.close_watch(watch)
            if failure is None or not isinstance(error, Exception):
                raise
            failure.__cause__ = error
        else:
            failure = self.close_watch(watch)
            if failure is None:
                return reply
        if type(reply) is Awaited:
            reply.close()
        if isinstance(failure, ConcurrentMutationError):
            context.step_locals.clear()
            context.step_locals.update(names)
            context.assigned_names.intersection_update(assigned_names)
        try:
            raise failure
        finally:
            del failure  # so that the error and this frame do not hold each other

    def _owners(self, target: AssignmentTarget) -> Iterator[tuple[str, object, Binding]]:
        """Yield the objects on a dotted assignment's path that other steps bind, without running code."""
        path = target.root
        value = self._bound.context.step_locals.get(target.root)
        for field in target.fields[:-1]:
            path, value = f"{path}.{field}", attribute_of(value, field)
            if other := self._bound.other(value, with_callees=True):
                yield path, value, other

    def _warn(self, mutation: Mutation) -> Exception | None:
        """Warn once for each pair of an object and another step."""
        key = (id(mutation.root), mutation.other.owner)
        if key in self._reported:
            return None
        self._reported[key] = mutation.root  # held, so that its identity is not used again
        filename, line = self._place
        try:
            warn_of(report_of(self._bound, mutation), filename=filename, line=line)
        except ConcurrentMutationWarning as warning:
            return warning
        return None


class _WatchedAwaitable:
    """An awaitable of a command, watched whenever its code runs.

    The tasks of other steps run in between, so each stretch from one suspension to the next has a watch of
    its own. A failure is raised only at the end: suspended code must not be interrupted from outside.

    Args:
        awaitable: The awaitable.
        guard: The guard of the step.
    """

    def __init__(self, awaitable: Awaitable[object], guard: MutationGuard) -> None:
        self._failure: Exception | None = None
        self._awaitable = awaitable
        self._coroutine = _await(awaitable)
        self._proceed: Callable[[], object] = partial(self._coroutine.send, None)
        self._guard = guard

    def __await__(self) -> Generator[Any, Any, object]:
        while True:
            try:
                suspension = self._run()
            except StopIteration as end:
                return end.value
            try:
                # No variable holds the value sent in: on Trio it can be an error that references this frame.
                self._proceed = partial(self._coroutine.send, (yield suspension))
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # a cancellation, on its way to the awaited code
                self._proceed = partial(self._coroutine.throw, error)

    def close(self) -> None:
        """Close an awaitable that was not awaited, so that Python does not warn about it."""
        self._coroutine.close()
        close_work(self._awaitable)

    def raise_failure(self) -> None:
        """Raise the error that the watches found, if any."""
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # so that the error and this frame do not hold each other

    def _run(self) -> object:
        """Run the awaited code to its next suspension."""
        watch = self._guard.open_watch()
        try:
            return self._proceed()
        finally:
            self._proceed = _end  # an error on its way in is not held on its way out
            if watch is not None:
                self._failure = self._guard.close_watch(watch) or self._failure


def _end() -> object:
    raise RuntimeError("the awaitable has already ended")


async def _await(awaitable: Awaitable[object]) -> object:
    return await awaitable


@dataclass(frozen=True, slots=True, eq=False)
class SharedObjectsPolicy(Policy):
    """Detects when a step changes an object that another step in flight has bound.

    Args:
        mode: The reaction to a change.
    """

    mode: ConcurrentMutation

    position: ClassVar[Position] = Position.SHARED_OBJECTS

    def prepare(self, step: Step) -> None:
        """Guard the commands of the step."""
        block = step.block
        step.actor.guard = MutationGuard(
            step.context,
            mode=self.mode,
            filename=block.filename,
            line=block.line,
            turn=lambda: step.actor.progress.turns,
        )


def with_concurrent_mutation(policies: Policies, mode: ConcurrentMutation, inner: InnerScope) -> Policies:
    """Add the `concurrent_mutation` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before.
        mode: The reaction when a step changes an object that another one has bound.
        inner: The run or scope.

    Raises:
        NighthawkError: The mode is unknown.
    """
    if mode not in get_args(ConcurrentMutation):
        raise NighthawkError(
            f"concurrent_mutation must be one of {get_args(ConcurrentMutation)}, not {mode!r}"
        )
    if mode == "ignore":
        return policies.without(SharedObjectsPolicy)
    return policies.with_policy(SharedObjectsPolicy(mode))
