"""The end of runs, scopes and steps is told to every hook, whatever else fails."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.testing import CallbackExecutor, ScriptedExecutor, StepCall, StepResponse, pass_response

from .hook_samples import running

pytestmark = pytest.mark.anyio

FINISHED = (nhh.RunFinished, nhh.ScopeFinished, nhh.StepFinished)


@nh.natural_function
async def act(result: object = "untouched") -> object:
    """natural
    Set <:result>.
    """
    return result


class Told:
    """Hooks that keep the ends they are told of, and do something then."""

    def __init__(self, *deeds: Callable[[], Any]) -> None:
        self.hooks = nh.Hooks()
        self.ends: list[tuple[str, BaseException | None]] = []
        for deed in deeds:
            self.hooks.on(*FINISHED)(self._doing(deed))
        self.hooks.on(*FINISHED)(self._keep)

    def _doing(self, deed: Callable[[], Any]) -> Callable[[object], Any]:
        def do(event: object) -> Any:
            return deed()

        do.__qualname__ = deed.__name__
        return do

    def _keep(self, event: nhh.RunFinished | nhh.ScopeFinished | nhh.StepFinished) -> None:
        assert event.is_cancelled == (event.error is not None and not isinstance(event.error, Exception))
        self.ends.append((type(event).__name__.removesuffix("Finished"), event.error))

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(name, type(error).__name__) for name, error in self.ends]


def break_down() -> None:
    raise OSError("disk full")


async def break_down_later() -> None:
    await checkpoint()
    raise OSError("disk full")


async def linger() -> None:
    await anyio.sleep_forever()


def failing_steps() -> CallbackExecutor:
    def fail(call: StepCall) -> StepResponse:
        raise LookupError("the step's own")

    return CallbackExecutor(fail)


def waiting_steps() -> tuple[CallbackExecutor, anyio.Event]:
    """Steps that never end, and the moment in which one has begun."""
    begun = anyio.Event()

    async def wait(call: StepCall) -> StepResponse:
        begun.set()
        await anyio.sleep_forever()
        return pass_response()

    return CallbackExecutor(wait), begun


async def test_every_end_is_told_once_and_from_the_inside_out() -> None:
    told = Told()
    async with running(told.hooks), nh.scope():
        await act()
    assert told.ends == [("Step", None), ("Scope", None), ("Run", None)]


async def test_every_end_is_told_with_the_error_itself() -> None:
    told = Told()
    with pytest.raises(LookupError) as caught:
        async with nh.run(failing_steps(), hooks=told.hooks), nh.scope():
            await act()
    assert told.ends == [(name, caught.value) for name in ("Step", "Scope", "Run")]


@pytest.mark.parametrize("deed", [break_down, break_down_later])
async def test_the_error_of_a_step_stays_the_primary_one_and_a_failing_hook_is_a_note_on_it(
    deed: Callable[[], Any],
) -> None:
    told = Told(deed)
    with pytest.raises(LookupError, match="the step's own") as caught:
        async with nh.run(failing_steps(), hooks=told.hooks):
            await act()
    assert caught.value.__notes__ == [
        f"hook {deed.__name__} failed at StepFinished: OSError: disk full",
        f"hook {deed.__name__} failed at RunFinished: OSError: disk full",
    ]
    assert told.kinds == [("Step", "LookupError"), ("Run", "LookupError")]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_fails_at_the_end_of_a_good_step_fails_the_step_before_its_commit(
    is_async: bool,
) -> None:
    committed: list[object] = []

    @nh.natural_function
    async def act_and_tell() -> None:
        result = "untouched"
        try:
            """natural
            Set <:result>.
            """
        finally:
            committed.append(result)

    executor = ScriptedExecutor(default_response=pass_response(result="committed"))
    told = Told(break_down_later if is_async else break_down)
    async with nh.run(executor):
        with pytest.raises(nh.errors.HookError, match="failed at StepFinished: OSError: disk full"):
            async with nh.scope(hooks=told.hooks):
                await act_and_tell()
        await act_and_tell()
    assert committed == ["untouched", "committed"]


async def test_every_hook_is_told_although_others_fail_and_the_first_failure_counts() -> None:
    told = Told(break_down_later, break_down)
    with pytest.raises(nh.errors.HookError) as caught:
        async with running(told.hooks):
            pass
    assert caught.value.hook == "break_down_later"
    assert caught.value.__notes__ == ["hook break_down failed at RunFinished: OSError: disk full"]
    assert told.kinds == [("Run", "NoneType")]


async def test_an_answer_to_an_end_is_a_failure_like_any_other() -> None:
    def refuse() -> nhh.Veto:
        return nhh.Veto("no end")

    told = Told(refuse)
    with pytest.raises(nh.errors.HookError, match="refuse answered Veto to RunFinished; allowed: None"):
        async with running(told.hooks):
            pass
    assert told.kinds == [("Run", "NoneType")]


async def test_after_a_cancellation_the_ends_are_told_and_failures_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, awaited = Told(break_down_later), list[str]()
    executor, begun = waiting_steps()

    @told.hooks.on(*FINISHED)
    async def save(event: Any) -> None:
        await checkpoint()
        awaited.append(type(event).__name__)

    async def live() -> None:
        async with nh.run(executor, hooks=told.hooks), nh.scope():
            await act()

    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(live)
            await begun.wait()
            task_group.cancel_scope.cancel()
    assert awaited == ["StepFinished", "ScopeFinished", "RunFinished"]
    assert [name for name, error in told.ends if not isinstance(error, Exception) and error] == [
        "Step",
        "Scope",
        "Run",
    ]
    assert [record.message for record in caplog.records] == [
        f"hook break_down_later failed at {name}Finished: OSError: disk full"
        for name in ("Step", "Scope", "Run")
    ]


@pytest.mark.virtual_time
async def test_after_a_cancellation_a_hook_has_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(linger)
    executor, begun = waiting_steps()

    async def live() -> None:
        async with nh.run(executor, hooks=told.hooks):
            await act()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(live)
        await begun.wait()
        cancelled_at = anyio.current_time()
        task_group.cancel_scope.cancel()
    assert anyio.current_time() - cancelled_at == pytest.approx(10.0)
    assert [name for name, _ in told.ends] == ["Step", "Run"]
    assert [record.message for record in caplog.records] == [
        f"hook linger took longer than 5 seconds at {name}Finished, after a cancellation, and was cancelled"
        for name in ("Step", "Run")
    ]


async def test_a_cancellation_during_the_end_cancels_that_hook_and_the_others_are_still_told() -> None:
    lingering = anyio.Event()

    async def wait() -> None:
        if not lingering.is_set():
            lingering.set()
            await anyio.sleep_forever()

    told = Told(wait)

    async def live() -> None:
        async with running(told.hooks):
            await act()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(live)
        await lingering.wait()
        task_group.cancel_scope.cancel()
    assert task_group.cancel_scope.cancelled_caught
    first, *_ = told.ends
    assert first == ("Step", None), "this step had ended well"


async def test_no_other_hook_is_called_while_a_cancelled_step_is_cleaned_up() -> None:
    hooks, told = nh.Hooks(), list[str]()

    @hooks.on(nhh.StepStarted, nhh.BeforeCommit, nhh.StepSuspended, nhh.StepResumed, nhh.StepFinished)
    def keep(event: Any) -> None:
        told.append(type(event).__name__)

    executor, begun = waiting_steps()
    async with anyio.create_task_group() as task_group, nh.run(executor, hooks=hooks):
        task_group.start_soon(act)
        await begun.wait()
        task_group.cancel_scope.cancel()
    assert told == ["StepStarted", "StepFinished"]


# ---- beginnings that are refused


async def test_the_end_is_told_when_the_beginning_was_also_when_a_hook_refused_it() -> None:
    told = Told()
    told.hooks.on(nhh.RunStarted, nhh.ScopeStarted)(lambda event: nhh.Veto("no"))  # type: ignore[arg-type]
    with pytest.raises(nh.errors.HookError, match="answered Veto to RunStarted"):
        async with running(told.hooks):
            raise AssertionError("not entered")
    with ExitStack() as stack:
        stack.enter_context(running([]))
        with pytest.raises(nh.errors.HookError, match="answered Veto to ScopeStarted"):
            stack.enter_context(nh.scope(hooks=told.hooks))
    assert told.kinds == [("Run", "HookError"), ("Scope", "HookError")]


@nh.natural_function
async def read_what_is_missing() -> None:
    if not __name__:
        missing = 1  # noqa: F841
    """natural
    Read <missing>.
    """


async def test_a_step_that_fails_before_it_is_admitted_has_neither_beginning_nor_end() -> None:
    told, begun = Told(), list[object]()
    told.hooks.on(nhh.StepStarted, begun.append)
    with pytest.raises(UnboundLocalError):
        async with running(told.hooks):
            await read_what_is_missing()
    assert begun == []
    assert told.kinds == [("Run", "UnboundLocalError")]


async def test_a_vetoed_step_has_an_end() -> None:
    told = Told()
    told.hooks.on(nhh.StepStarted)(lambda event: nhh.Veto("not today", "tomorrow"))
    with pytest.raises(nh.ExecutionError, match="vetoed the step: not today \\(tomorrow\\)"):
        async with running(told.hooks):
            await act()
    assert told.kinds == [("Step", "StepRejectedError"), ("Run", "StepRejectedError")]


@pytest.mark.parametrize("event_type", [nhh.RunStarted, nhh.RunFinished])
def test_a_run_entered_with_plain_with_refuses_async_hooks_of_its_own_events(event_type: Any) -> None:
    told = Told()

    @told.hooks.on(event_type)
    async def later(event: object) -> None: ...

    message = r"later is async, but this Run\w+ happens in synchronous code"
    with pytest.raises(nh.errors.HookError, match=message), running(told.hooks):
        raise AssertionError("not entered")
    assert told.ends == []
    with running([]), nh.scope(hooks=told.hooks):
        pass
    assert [name for name, _ in told.ends] == ["Scope"], "the events of its run do not concern a scope"


def test_in_plain_with_the_ends_are_told_with_the_same_rules() -> None:
    told = Told(break_down)
    with pytest.raises(LookupError) as caught, running(told.hooks), nh.scope():
        raise LookupError("my own")
    assert told.ends == [("Scope", caught.value), ("Run", caught.value)]
    assert len(caught.value.__notes__) == 2
    with pytest.raises(nh.errors.HookError, match="failed at RunFinished"), running(told.hooks):
        pass


def test_a_hook_that_shows_only_when_called_that_it_is_async_fails_there() -> None:
    told = Told(lambda: break_down_later())
    message = "is async, but this RunFinished happens in synchronous code"
    with pytest.raises(nh.errors.HookError, match=message), running(told.hooks):
        pass
    assert told.kinds == [("Run", "NoneType")]
