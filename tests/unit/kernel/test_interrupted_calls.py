"""Ctrl-C at the worst moments of a call of a synchronous natural function from a script."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal

import nighthawk_async as nh
from nighthawk_async.kernel import run_state
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response


@nh.natural_function
def work(seconds: float) -> None:
    """natural
    Work for <seconds>.
    """


@pytest.mark.parametrize("sync_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_what_ctrl_c_interrupts_has_ended_when_the_interruption_arrives(
    monkeypatch: pytest.MonkeyPatch, sync_backend: Any, is_under_way: bool
) -> None:
    begun = threading.Event()
    log: list[str] = []
    start = BlockingPortal.start_task_soon

    async def answer(call: StepCall) -> StepResponse:
        log.append("begun")
        begun.set()
        try:
            await anyio.sleep(float(str(call.step_locals["seconds"])))
        finally:
            log.append("ended")
        return pass_response()

    def interrupt(portal: BlockingPortal, function: Any, *args: Any) -> None:
        monkeypatch.undo()
        if is_under_way:
            begun.clear()
            start(portal, function, *args)
            assert begun.wait(240)
        raise KeyboardInterrupt

    with nh.run(CallbackExecutor(answer), sync_backend=sync_backend):
        work(0)
        log.clear()
        monkeypatch.setattr(BlockingPortal, "start_task_soon", interrupt)
        with pytest.raises(KeyboardInterrupt):
            work(1_000)
        assert log == (["begun", "ended"] if is_under_way else [])
        log.clear()
        work(0)
        assert log == ["begun", "ended"]


@pytest.mark.parametrize("sync_backend", ["asyncio", "trio"])
def test_a_call_that_ctrl_c_interrupts_before_its_caller_knows_of_its_task_does_not_begin_later(
    monkeypatch: pytest.MonkeyPatch, sync_backend: Any
) -> None:
    calls: list[StepCall] = []
    start = BlockingPortal.start_task_soon

    def answer(call: StepCall) -> StepResponse:
        calls.append(call)
        return pass_response()

    def interrupt(portal: BlockingPortal, function: Any, *args: Any) -> None:
        monkeypatch.undo()
        late.append(partial(start, portal, function, *args))
        raise KeyboardInterrupt

    late: list[Callable[[], Future[Any]]] = []
    with nh.run(CallbackExecutor(answer), sync_backend=sync_backend):
        work(0)
        calls.clear()
        monkeypatch.setattr(BlockingPortal, "start_task_soon", interrupt)
        with pytest.raises(KeyboardInterrupt):
            work(1)
        late[0]().result()
        assert calls == []


@pytest.mark.parametrize("sync_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_started", [False, True])
def test_ctrl_c_while_the_portal_starts_leaves_the_run_usable(
    monkeypatch: pytest.MonkeyPatch, sync_backend: Any, is_started: bool
) -> None:
    class Interrupted(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            monkeypatch.undo()
            if is_started:
                super().submit(fn, *args, **kwargs).result()
            raise KeyboardInterrupt

    with nh.run(CallbackExecutor(lambda call: pass_response()), sync_backend=sync_backend):
        monkeypatch.setattr(run_state, "ThreadPoolExecutor", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            work(1)
        work(0)
