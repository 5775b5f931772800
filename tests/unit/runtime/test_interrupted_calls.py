"""Ctrl-C at the worst moments of a call of a synchronous natural function from a script."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.runtime import portals
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

    async def answer(call: StepCall) -> StepResponse:
        log.append("begun")
        begun.set()
        try:
            await anyio.sleep(float(str(call.step_locals["seconds"])))
        finally:
            log.append("ended")
        return pass_response()

    class Interrupted(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            monkeypatch.undo()
            if is_under_way:
                super().submit(fn, *args, **kwargs)
                assert begun.wait(30)
            raise KeyboardInterrupt

    with nh.run(CallbackExecutor(answer), sync_backend=sync_backend):
        monkeypatch.setattr(portals, "ThreadPoolExecutor", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            work(1_000)
        assert log == (["begun", "ended"] if is_under_way else [])
        log.clear()
        work(0)
        assert log == ["begun", "ended"]
