"""Policies keep the promises of policies, and each broken one is found."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.policies import (
    CommitProceed,
    ModelCall,
    OpenRequest,
    Step,
    StepEnd,
    StepProceed,
    StepResult,
    ToolCallProceed,
    replayed,
)
from nighthawk_async.testing.contracts import PolicyContract

from .suites import broken_promises, promises_of


class Everything(nh.Policy):
    """It is around everything, and changes nothing."""

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        with anyio.fail_after(60):
            return await proceed()

    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        async with open_request() as events:
            yield events

    async def around_tool_call(
        self, call: nh.models.ToolCall, proceed: ToolCallProceed
    ) -> nh.models.ToolResult:
        return await proceed(replace(call))

    async def around_commit(self, commit: nh.oversight.StepCommit, proceed: CommitProceed) -> StepResult:
        await proceed.value()
        return await proceed(commit.changed())

    @asynccontextmanager
    async def scope(self, kind: str) -> AsyncGenerator[None, None]:
        yield

    async def on_event(self, event: object) -> None:
        await anyio.lowlevel.checkpoint()


class Cache(nh.Policy):
    """The one of the documentation."""

    def __init__(self) -> None:
        self.kept: dict[str, list[nh.models.ModelEvent]] = {}

    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        key = f"{call.model.name} {call.request}"
        if key not in self.kept:
            async with open_request() as events:
                self.kept[key] = [event async for event in events]
        async with replayed(self.kept[key]) as events:
            yield events


class InShort(nh.Policy):
    """It has the short forms alone."""

    async def before_request(self, call: ModelCall) -> None:
        call.request = replace(call.request, system_prompt=f"{call.request.system_prompt} Be brief.")

    async def after_tool_call(self, result: nh.models.ToolResult) -> nh.models.ToolResult:
        return result

    async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
        assert commit.bindings["total"] > 0


class Limited(nh.Policy):
    """It lets a few steps run at once."""

    def __init__(self) -> None:
        self.room = anyio.Semaphore(2)

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        async with self.room:
            return await proceed()


class TestNothing(PolicyContract):
    def make_policy(self) -> nh.Policy:
        return nh.Policy()


class TestEverything(PolicyContract):
    def make_policy(self) -> nh.Policy:
        return Everything()


class TestCache(PolicyContract):
    def make_policy(self) -> nh.Policy:
        return Cache()


class TestInShort(PolicyContract):
    def make_policy(self) -> nh.Policy:
        return InShort()


class TestLimited(PolicyContract):
    exempt: ClassVar = {"test_it_works_on_both_event_loops": "A semaphore belongs to one event loop."}

    def make_policy(self) -> nh.Policy:
        return Limited()


class Misspelt(nh.Policy):
    async def arround_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        return await proceed()

    around_steps = arround_step


class OfTheLibrary(nh.Policy):
    async def around_attempts(self, step_id: str, execute: Any) -> Any:
        return await execute()


class ReturnsNothing(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> Any:
        await proceed()


class Changes(nh.Policy):
    async def around_commit(self, commit: nh.oversight.StepCommit, proceed: CommitProceed) -> StepResult:
        return await proceed(commit.changed(bindings={**commit.bindings, "total": 0}))


class ForgetsResponses(nh.Policy):
    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        self.response = open_request()
        yield await self.response.__aenter__()


class SharesState(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        self.proceed = proceed
        await anyio.lowlevel.checkpoint()
        return await self.proceed()


class Single(nh.Policy):
    def __init__(self) -> None:
        self.room = anyio.Semaphore(1)

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        async with self.room:
            return await proceed()


class WrapsErrors(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        try:
            return await proceed()
        except Exception as error:
            raise RuntimeError(str(error)) from error


class AnswersFailures(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> Any:
        with suppress(Exception):
            return await proceed()
        return None


class CommitsAnyway(nh.Policy):
    async def around_commit(self, commit: nh.oversight.StepCommit, proceed: CommitProceed) -> StepResult:
        try:
            return await proceed()
        except nh.errors.StepRejectedError:
            return StepResult(bindings=dict(commit.bindings))  # pyright: ignore[reportCallIssue]


class StaysBusy(nh.Policy):
    def __init__(self) -> None:
        self.room = anyio.Semaphore(8)

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        await self.room.acquire()
        end = await proceed()
        self.room.release()
        return end


class Swallows(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> Any:
        try:
            return await proceed()
        except anyio.get_cancelled_exc_class():
            return None


class Converts(nh.Policy):
    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        try:
            return await proceed()
        except anyio.get_cancelled_exc_class():
            raise RuntimeError("cancelled") from None


class Picky(nh.Policy):
    def on_event(self, event: object) -> None:
        raise TypeError(f"what is {event!r}")


class AnswersEvents(nh.Policy):
    def on_event(self, event: object) -> Any:
        return True


class BoundToALoop(nh.Policy):
    token: Any = None

    async def around_step(self, step: Step, proceed: StepProceed) -> StepEnd:
        token = anyio.lowlevel.current_token()
        self.token = self.token or token
        assert self.token == token, "another event loop"
        return await proceed()


METHODS, CANCELLED = (
    "test_it_overrides_documented_methods_only",
    "test_a_cancellation_at_any_time_ends_a_step",
)
BROKEN: list[tuple[Any, str, str]] = [
    (lambda: object(), METHODS, "object is not derived from nighthawk_async.Policy"),
    (Misspelt, METHODS, "Misspelt defines around_steps, which .*; did you mean around_step.?"),
    (OfTheLibrary, METHODS, "OfTheLibrary defines around_attempts"),
    (ReturnsNothing, "test_a_step_has_its_answer", "must return what `proceed..` gave"),
    (Changes, "test_a_step_has_its_answer", "the sum of .19, 23. was 0"),
    (ForgetsResponses, "test_responses_are_left", "1 responses are still open"),
    (SharesState, "test_steps_at_once_do_not_share_state", "sub-exceptions?"),
    (Single, "test_a_step_within_a_step_ends", "a step within a step had not ended"),
    (WrapsErrors, "test_an_error_of_a_step_stays", "became RuntimeError"),
    (AnswersFailures, "test_an_error_of_a_step_stays", "became HookError"),
    (WrapsErrors, "test_a_refused_commit_stays_refused", "the StepRejectedError became RuntimeError"),
    (CommitsAnyway, "test_a_refused_commit_stays_refused", "StepRejectedError became|and the step gave"),
    (StaysBusy, "test_failed_steps_leave_nothing_held", "a step had not ended"),
    (StaysBusy, CANCELLED, "it had not ended|a step had not ended"),
    (Swallows, CANCELLED, "it raised HookError"),
    (Converts, CANCELLED, "it raised RuntimeError"),
    (Picky, "test_an_unknown_event_is_ignored", "what is <object"),
    (AnswersEvents, "test_an_unknown_event_is_ignored", "on_event returned True"),
    (BoundToALoop, "test_it_works_on_both_event_loops", "on trio, it raised AssertionError"),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("make", "test", "did"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_a_broken_policy_is_found(backend: str, make: Any, test: str, did: str) -> None:
    class Suite(PolicyContract):
        patience_seconds = 2.0

        def make_policy(self) -> nh.Policy:
            return make()

    found = broken_promises(Suite, only=test, backend=backend)
    assert re.search(did, found.get(test, ""), re.DOTALL), found


def test_each_promise_has_a_policy_that_breaks_it() -> None:
    assert {each[1] for each in BROKEN} == promises_of(PolicyContract)
