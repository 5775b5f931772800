"""The library's own placements keep the promises of placements, and each broken one is found."""

import re
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any, ClassVar, Self

import anyio
import pytest

from nighthawk_async.parallel import Here, Placement
from nighthawk_async.parallel.here import HereJob
from nighthawk_async.placements import PlacedCall, PlacedJob
from nighthawk_async.testing.contracts import PlacementContract
from nighthawk_async.testing.contracts.placed_calls import add, die

from .suites import broken_promises, promises_of


class TestHere(PlacementContract):
    def make_placement(self) -> Placement:
        return Here()


class TestHereWithACapacity(PlacementContract):
    def make_placement(self) -> Placement:
        return Here(max_concurrent=2)


class Careless(Here):
    """A placement whose jobs are of another class."""

    job: type[HereJob]

    async def start(self, call: PlacedCall) -> PlacedJob:
        job = await super().start(call)
        assert isinstance(job, HereJob)
        job.__class__ = self.job
        return job


class ForgetfulJob(HereJob):
    async def wait(self) -> Any:
        result = await super().wait()
        self._result = None
        return result


class Forgetful(Careless):
    job = ForgetfulJob


class EagerJob(HereJob):
    async def wait(self) -> Any:
        try:
            return await super().wait()
        except anyio.get_cancelled_exc_class():
            self.cancel()
            raise


class CancelsWithItsWaiters(Careless):
    job = EagerJob


class WrappingJob(HereJob):
    async def wait(self) -> Any:
        try:
            return await super().wait()
        except Exception as error:
            raise RuntimeError(str(error)) from error


class WrapsErrors(Careless):
    job = WrappingJob


class DeafJob(HereJob):
    def cancel(self) -> None:
        pass


class Deaf(Careless):
    job = DeafJob


class HastyJob(HereJob):
    def cancel(self) -> None:
        self.end()


class CountsAsEnded(Careless):
    job = HastyJob


class SwallowingJob(HereJob):
    async def wait(self) -> Any:
        try:
            return await super().wait()
        except anyio.get_cancelled_exc_class():
            return None


class Swallows(Careless):
    job = SwallowingJob


class DropsKeywords(Here):
    async def start(self, call: PlacedCall) -> PlacedJob:
        return await super().start(PlacedCall(function=call.function, args=call.args))


class OneAtATime(Here):
    def __init__(self) -> None:
        super().__init__(1)

    @property
    def capacity(self) -> int | None:
        return 4


class TooMany(Here):
    @property
    def capacity(self) -> int | None:
        return 2


class NoCapacity(Here):
    capacity = 0  # pyright: ignore[reportAssignmentType]


class OtherScope(Here):
    """Calls have no deadline and no task values of their caller."""

    async def start(self, call: PlacedCall) -> PlacedJob:
        jobs: list[PlacedJob] = []

        async def start() -> None:
            with anyio.CancelScope(shield=True):
                jobs.append(await super(OtherScope, self).start(call))

        async with anyio.create_task_group() as group:
            Context().run(group.start_soon, start)
        return jobs[0]


class AlwaysOpen(Here):
    """It enters itself for a call."""

    async def start(self, call: PlacedCall) -> PlacedJob:
        if self._group is None:
            async with self:
                return await super().start(call)
        return await super().start(call)


class StaysOpen(Here):
    async def close(self) -> None:
        for job in self._jobs:
            job.cancel()


class ClosesOnly(Here):
    async def close(self) -> None:
        self._is_closed = True


class CancelsOnLeaving(Here):
    async def __aexit__(self, *details: Any) -> None:
        await self.close()
        await super().__aexit__(*details)


class GroupsErrors(Here):
    async def __aexit__(self, *details: Any) -> None:
        await super().__aexit__(*details)
        if isinstance(details[1], Exception):
            raise ExceptionGroup("in the block", [details[1]])


class BoundToALoop(Here):
    token: ClassVar[Any] = None

    async def __aenter__(self) -> Self:
        token = anyio.lowlevel.current_token()
        type(self).token = type(self).token or token
        assert type(self).token == token, "another event loop"
        return await super().__aenter__()


class Loses(Here):
    """Its calls of `die` fail with an error of another kind."""

    async def start(self, call: PlacedCall) -> PlacedJob:
        if call.function is die:
            raise OSError("gone")
        return await super().start(call)


ENDS = "test_a_cancelled_job_ends"
BROKEN: list[tuple[type[Here], str, str]] = [
    (NoCapacity, "test_it_is_a_placement", "its capacity is 0"),
    (DropsKeywords, "test_a_call_has_its_result", "19 . 23 was .19, 42"),
    (WrapsErrors, "test_an_error_arrives_as_it_was_raised", "became RuntimeError"),
    (OneAtATime, "test_calls_run_at_once_up_to_its_capacity", "one ran at a time"),
    (TooMany, "test_calls_run_at_once_up_to_its_capacity", "4 calls ran at once, with a capacity of 2"),
    (Forgetful, "test_a_job_can_be_waited_for_more_than_once", "and then None"),
    (CancelsWithItsWaiters, "test_a_job_can_be_waited_for_more_than_once", "the call was cancelled"),
    (Deaf, ENDS, "a cancelled call had not ended"),
    (CountsAsEnded, ENDS, "counts as ended, but goes on"),
    (WrapsErrors, ENDS, "waiting for the cancelled call raised RuntimeError"),
    (CountsAsEnded, "test_a_cancelled_caller_cancels_its_call", "counts as ended, but goes on"),
    (Swallows, "test_a_cancellation_at_any_time_ends_a_call", "cancelled, 19 . 23 was None"),
    (OtherScope, "test_the_scope_of_the_caller_holds", "the task value '19' was None"),
    (AlwaysOpen, "test_a_placement_that_is_not_entered_starts_nothing", "before it was entered, it started"),
    (CancelsOnLeaving, "test_leaving_waits_for_the_calls", "the call was cancelled"),
    (GroupsErrors, "test_an_exception_cancels_the_calls", "became ExceptionGroup"),
    (ClosesOnly, "test_an_exception_cancels_the_calls", "it had not ended"),
    (ClosesOnly, "test_a_closed_placement_starts_nothing", "a cancelled call had not ended"),
    (StaysOpen, "test_a_closed_placement_starts_nothing", "after it was closed, it started a call"),
    (BoundToALoop, "test_it_works_on_both_event_loops", "it raised AssertionError"),
    (Loses, "test_a_lost_call_is_an_error", "what a lost call raises is OSError"),
]


def suite_of(make: Callable[[], Placement]) -> type[PlacementContract]:
    class Suite(PlacementContract):
        patience_seconds = 0.3
        is_elsewhere = True

        def make_placement(self) -> Placement:
            return make()

    return Suite


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("kind", "test", "did"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_a_broken_placement_is_found(
    backend: str, kind: type[Here], test: str, did: str, tmp_path: Path
) -> None:
    found = broken_promises(suite_of(kind), only=test, backend=backend, tmp_path=tmp_path, function=add)
    assert re.search(did, found.get(test, ""), re.DOTALL), found


def test_each_promise_has_a_placement_that_breaks_it() -> None:
    assert {each[1] for each in BROKEN} == promises_of(PlacementContract)
