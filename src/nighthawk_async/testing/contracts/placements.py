"""`PlacementContract`: what a placement of calls promises, as tests."""

import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from ...parallel import CallCancelledError, PlacementClosedError, PlacementError, task_values
from ...placements import PlacedCall, PlacedJob, Placement, call_placed
from .placed_calls import (
    BEGUN,
    CLEANED,
    ContractCallError,
    add,
    add_in_thread,
    die,
    fail,
    look_around,
    take_time,
    wait_for_ever,
)
from .promises import (
    Cancellation,
    Contract,
    broken,
    check,
    check_type,
    eventually,
    in_time,
    moments,
    without_leftovers,
)

_MOST_CALLS = 32


class PlacementContract(Contract):
    """The promises of a `Placement`, that is of what `on=` takes. Derive from it, and say how to make one.

        class TestMyPlacement(PlacementContract):
            def make_placement(self) -> nh.parallel.Placement:
                return MyPlacement()

    The calls are of functions that every process can import, where `nighthawk_async` is installed.

    Attributes:
        shares_files: Whether its calls see the files of the program, so that tests can see whether a
            cancelled call has really ended.
        is_elsewhere: Whether its calls run in other processes, which may be lost; one of them then ends its
            process.
        cancellations: The greatest number of calls that a test cancels.
    """

    shares_files: ClassVar[bool] = True
    is_elsewhere: ClassVar[bool] = False
    cancellations: ClassVar[int] = 24

    @abstractmethod
    def make_placement(self) -> Placement:
        """Return a placement that is not entered yet. Some tests call it before any event loop runs."""
        raise NotImplementedError

    def test_it_is_a_placement(self) -> None:
        """A placement has a capacity, the methods `start` and `close`, and is entered with `async with`."""
        placement = self.make_placement()
        check_type(placement, Placement, "it")
        check(hasattr(type(placement), "__aenter__"), f"{placement!r} is no async context manager")
        capacity: object = placement.capacity
        is_number = isinstance(capacity, int) and capacity > 0
        check(capacity is None or is_number, f"its capacity is {capacity!r}")

    @pytest.mark.parametrize("function", [add, add_in_thread])
    async def test_a_call_has_its_result(self, function: Callable[..., Any]) -> None:
        """A call gets its arguments, and its result is returned, whether its function is async or not."""
        async with self._entered() as placement:
            found = [await call_placed(placement, function, 19, second=23), await self._add(placement)]
        check(found == [42, 42], f"19 + 23 was {found!r}")

    async def test_an_error_arrives_as_it_was_raised(self) -> None:
        """An error that a call raises is raised where it is waited for, and does later calls no harm."""
        async with self._entered() as placement:
            raised: Exception | None = None
            try:
                await call_placed(placement, fail, "no")
            except Exception as error:
                raised = error
            is_same = type(raised) is ContractCallError and raised.args == ("no",)
            check(is_same, f"ContractCallError('no') became {raised!r}")
            await self._add(placement)

    async def test_calls_run_at_once_up_to_its_capacity(self) -> None:
        """Calls run at the same time, up to the capacity; further ones wait."""
        spans: list[tuple[float, float]] = []

        async def take(placement: Placement) -> None:
            spans.append(await call_placed(placement, take_time, 0.3))

        async with self._entered() as placement:
            await self._add(placement)
            capacity = placement.capacity
            count = min(4 if capacity is None else capacity + 2, _MOST_CALLS)
            async with anyio.create_task_group() as group:
                for _ in range(count):
                    group.start_soon(take, placement)
        most = _most_at_once(spans)
        if capacity is not None:
            check(most <= capacity, f"{most} calls ran at once, with a capacity of {capacity}")
        check(most > 1 or capacity == 1, f"of {count} calls, one ran at a time")

    async def test_a_job_can_be_waited_for_more_than_once(self) -> None:
        """A job gives its result as often as it is waited for; a cancelled wait does not cancel its call."""
        async with self._entered() as placement:
            job = await placement.start(PlacedCall(function=take_time, args=(0.1,)))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await job.wait()
            found = [await self._wait(job), await self._wait(job)]
            await job.wait_ended()
        check(found[0] is not None and found[0] == found[1], f"it gave {found[0]!r}, and then {found[1]!r}")

    async def test_a_cancelled_job_ends(self, tmp_path: Path) -> None:
        """A call that is cancelled ends, and waiting for it raises a CallCancelledError."""
        async with self._entered() as placement:
            job = await self._begin_endless(placement, tmp_path)
            job.cancel()
            job.cancel()
            await self._check_cancelled(job, tmp_path)
            await self._add(placement)

    async def test_a_cancelled_caller_cancels_its_call(self, tmp_path: Path) -> None:
        """A call whose caller is cancelled has ended when the caller has."""

        async def call() -> None:
            await call_placed(placement, wait_for_ever, self._folder(tmp_path))
            broken("the caller was not cancelled")

        async with self._entered() as placement:
            ended = in_time(self.patience_seconds, "it had not ended")
            async with ended, anyio.create_task_group() as group:
                group.start_soon(call)
                await self._wait_begun(tmp_path)
                group.cancel_scope.cancel()
            self._check_cleaned(tmp_path)
            await self._add(placement)

    async def test_a_cancellation_at_any_time_ends_a_call(self) -> None:
        """A caller that is cancelled at any time ends so, and later calls are made."""

        async def call(cancellation: Cancellation) -> None:
            found = await cancellation.watch(call_placed(placement, add, 19, 23), "the call")
            check(found == 42, f"cancelled, 19 + 23 was {found!r}")
            await cancellation.deliver()

        async with self._entered() as placement:
            await self._add(placement)
            for ticks in moments(self.cancellations):
                when = f"after {ticks} turns of the event loop"
                async with in_time(self.patience_seconds, f"cancelled {when}, it had not ended"):
                    if not await Cancellation(when).run(call, ticks=ticks):
                        break
            await self._add(placement)

    async def test_the_scope_of_the_caller_holds(self) -> None:
        """The deadline and the task values of the caller are those of its call, too."""
        async with self._entered() as placement:
            task_values().set("contract", "19")
            with anyio.fail_after(3_600):
                value, seconds = await call_placed(placement, look_around, "contract")
            check(value == "19", f"the task value '19' was {value!r} in the call")
            check(0 < seconds <= 3_600, f"3600 seconds before its deadline, the call had {seconds!r}")
            async with in_time(self.patience_seconds, "a call without an end ran on after its deadline,"):
                with anyio.move_on_after(0.1):
                    await call_placed(placement, wait_for_ever, "")
                    broken("a call without an end has ended")

    async def test_a_placement_that_is_not_entered_starts_nothing(self) -> None:
        """A placement starts calls while it is entered; before and after, it raises PlacementClosedError."""
        placement = self.make_placement()
        await self._check_closed(placement, "before it was entered")
        async with self._entered(placement):
            await self._add(placement)
        await self._check_closed(placement, "after it was left")

    async def test_leaving_waits_for_the_calls(self) -> None:
        """Leaving the block waits for the calls in progress, and leaves no task behind."""
        async with without_leftovers(self.patience_seconds), self._entered() as placement:
            job = await placement.start(PlacedCall(function=take_time, args=(0.1,)))
        async with in_time(self.patience_seconds, "a call had not ended"):
            began_at, ended_at = await job.wait()
        check(ended_at > began_at, f"the call that takes time has given {(began_at, ended_at)!r}")

    async def test_an_exception_cancels_the_calls(self, tmp_path: Path) -> None:
        """An exception that leaves the block cancels the calls in progress, and stays as it is."""
        raised = RuntimeError("raised in the block")
        caught: BaseException | None = None
        jobs: list[PlacedJob] = []
        async with (
            without_leftovers(self.patience_seconds),
            in_time(self.patience_seconds, "it had not ended"),
        ):
            try:
                async with self._entered() as placement:
                    jobs.append(await self._begin_endless(placement, tmp_path))
                    raise raised
            except Exception as error:
                caught = error
        check(caught is raised, f"{raised!r} became {caught!r}")
        await self._check_cancelled(jobs[0], tmp_path)

    async def test_a_closed_placement_starts_nothing(self, tmp_path: Path) -> None:
        """Closing, also again, cancels the calls in progress; later ones raise a PlacementClosedError."""
        async with self._entered() as placement:
            job = await self._begin_endless(placement, tmp_path)
            await placement.close()
            await placement.close()
            await self._check_cancelled(job, tmp_path)
            await self._check_closed(placement, "after it was closed")

    def test_it_works_on_both_event_loops(self) -> None:
        """A placement works on asyncio and on Trio, and may be made before they run."""

        async def use(placement: Placement) -> None:
            async with self._entered(placement):
                await self._add(placement)

        for backend in ("asyncio", "trio"):
            placement = self.make_placement()
            try:
                anyio.run(use, placement, backend=backend)
            except Exception as error:
                broken(f"on {backend}, it raised {error!r}")

    async def test_a_lost_call_is_an_error(self) -> None:
        """A call whose process is lost raises a PlacementError, and later calls are made."""
        if not self.is_elsewhere:
            pytest.skip("is_elsewhere is False")
        async with self._entered() as placement:
            raised: Exception | None = None
            async with in_time(self.patience_seconds, "a lost call had not ended"):
                try:
                    await call_placed(placement, die, os.getpid())
                except Exception as error:
                    raised = error
            check_type(raised, PlacementError, "what a lost call raises")
            await self._add(placement)

    @asynccontextmanager
    async def _entered(self, placement: Placement | None = None) -> AsyncGenerator[Placement, None]:
        made: Any = self.make_placement() if placement is None else placement
        failure: AssertionError | None = None
        with anyio.CancelScope() as scope:
            async with made:
                try:
                    yield made
                except AssertionError as error:  # what is broken may never end by itself
                    failure = error
                    scope.cancel()
        if failure is not None:
            raise failure

    async def _add(self, placement: Placement) -> int:
        """Make a call, which shows that the placement works."""
        __tracebackhide__ = True
        async with in_time(self.patience_seconds, "a call had not ended"):
            found = await call_placed(placement, add, 19, 23)
            check(found == 42, f"19 + 23 was {found!r}")
        return 42

    async def _wait(self, job: PlacedJob) -> object:
        __tracebackhide__ = True
        found: list[object] = []
        async with in_time(self.patience_seconds, "a call had not ended"):
            found.append(await job.wait())
        return found[0]

    async def _begin_endless(self, placement: Placement, folder: Path) -> PlacedJob:
        call = PlacedCall(function=wait_for_ever, args=(self._folder(folder),))
        job = await placement.start(call)
        await self._wait_begun(folder)
        return job

    def _folder(self, folder: Path) -> str:
        return str(folder) if self.shares_files else ""

    async def _wait_begun(self, folder: Path) -> None:
        """Wait until the call has begun, as far as that can be seen."""
        __tracebackhide__ = True
        if not self.shares_files:
            await anyio.sleep(0.2)
            return
        has_begun = await eventually((folder / BEGUN).exists, self.patience_seconds)
        check(has_begun, "a call had not begun in time")

    def _check_cleaned(self, folder: Path) -> None:
        __tracebackhide__ = True
        is_over = not self.shares_files or (folder / CLEANED).exists()
        check(is_over, "the cancelled call counts as ended, but goes on")

    async def _check_cancelled(self, job: PlacedJob, folder: Path) -> None:
        __tracebackhide__ = True
        did = "waiting for the cancelled call returned"
        async with in_time(self.patience_seconds, "a cancelled call had not ended"):
            await job.wait_ended()
            self._check_cleaned(folder)
            try:
                await job.wait()
            except CallCancelledError:
                return
            except Exception as error:
                did = f"waiting for the cancelled call raised {error!r}"
        broken(did)

    async def _check_closed(self, placement: Placement, when: str) -> None:
        __tracebackhide__ = True
        did = f"{when}, it started a call"
        try:
            await placement.start(PlacedCall(function=add, args=(19, 23)))
        except PlacementClosedError:
            return
        except Exception as error:
            did = f"{when}, it raised {error!r}"
        broken(did)


def _most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """The greatest number of spans of time that have a moment in common."""
    return max(sum(other[0] <= each[0] < other[1] for other in spans) for each in spans)
