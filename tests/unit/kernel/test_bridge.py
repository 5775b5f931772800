"""Synchronous natural functions, wherever they are called from."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import trio
from anyio.from_thread import BlockingPortal

import nighthawk_async as nh
from nighthawk_async.kernel.run_state import PortalPool, RunState
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    return_response,
    tool_call,
)

SOURCE = Path(nh.__file__).parents[1]

mood: ContextVar[str] = ContextVar("mood", default="calm")


@nh.natural_function
def shout(text: str) -> str:
    """natural
    Return <text> in upper case.
    """
    raise AssertionError("the block returns")


@nh.natural_function
def shout_twice(text: str) -> str:
    """natural
    Return <shout> of <text>, twice.
    """
    raise AssertionError("the block returns")


@nh.natural_function
async def shout_later(text: str) -> str:
    """natural
    Return <shout> of <text>, from a worker thread.
    """
    raise AssertionError("the block returns")


def upper(call: StepCall) -> StepResponse:
    return return_response("text.upper()")


def evaluating(expressions: dict[str, str]) -> nh.AgentStepExecutor:
    """An executor that returns, for a program that contains a word, the value of an expression."""

    def answer(request: nh.models.ModelRequest) -> Any:
        prompt = str(request.messages[0])
        program = prompt[: prompt.index("LOCALS")]
        expression = next(expression for word, expression in expressions.items() if word in program)
        return model_response(tool_call("nh_outcome", kind="return", return_expression=expression))

    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))


def nested() -> nh.AgentStepExecutor:
    return evaluating({"upper case": "text.upper()", "twice": "shout(text) + shout(text)"})


def portal_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if "portal" in thread.name)


# ---- in a plain script, that is on a thread without an event loop


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_synchronous_natural_function_runs_on_one_named_portal_thread_of_its_run(backend: Any) -> None:
    seen: list[tuple[str, str]] = []

    def answer(call: StepCall) -> StepResponse:
        seen.append((threading.current_thread().name, anyio.get_current_task().name and backend))
        return return_response("text.upper()")

    with nh.run(CallbackExecutor(answer), sync_backend=backend):
        assert portal_threads() == []
        assert [shout("a"), shout("b")] == ["A", "B"]
        assert portal_threads() == ["nighthawk-async portal 0"]
    assert portal_threads() == []
    assert {name for name, _ in seen} == {"nighthawk-async portal 0"}


@pytest.mark.parametrize(("backend", "library"), [("trio", "trio"), ("asyncio", "asyncio")])
def test_the_run_says_on_which_backend_its_portals_run(backend: Any, library: str) -> None:
    libraries: list[str] = []

    async def answer(call: StepCall) -> StepResponse:
        try:
            asyncio.get_running_loop()
            libraries.append("asyncio")
        except RuntimeError:
            trio.lowlevel.current_task()
            libraries.append("trio")
        return return_response("text")

    with nh.run(CallbackExecutor(answer), sync_backend=backend):
        shout("a")
    assert libraries == [library]


def test_nested_synchronous_natural_functions_each_get_a_portal_and_no_warning() -> None:
    with nh.run(nested()):
        assert shout_twice("ab") == "ABAB"
        assert portal_threads() == ["nighthawk-async portal 0", "nighthawk-async portal 1"]
    assert portal_threads() == []


def test_context_variables_flow_into_the_portal_and_do_not_leak_out() -> None:
    seen: list[str] = []

    def answer(call: StepCall) -> StepResponse:
        seen.append(mood.get())
        mood.set("angry")
        return return_response("text")

    token = mood.set("happy")
    try:
        with nh.run(CallbackExecutor(answer)):
            shout("a")
            assert mood.get() == "happy"
            shout("b")
    finally:
        mood.reset(token)
    assert seen == ["happy", "happy"]


def test_threads_with_a_copied_context_share_the_run() -> None:
    with nh.run(CallbackExecutor(upper)) as run, ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(copy_context().run, shout, f"text {n}") for n in range(20)]
        results = [future.result() for future in futures]
    assert results == [f"TEXT {n}" for n in range(20)]
    assert run.usage_meter.steps == 20


def test_a_thread_without_the_context_is_outside_the_run() -> None:
    with nh.run(CallbackExecutor(upper)), ThreadPoolExecutor(1) as pool:
        future = pool.submit(shout, "text")
        with pytest.raises(nh.NighthawkError, match="No run is active"):
            future.result()


def test_an_error_of_the_step_arrives_bare_and_the_portal_goes_on() -> None:
    def answer(call: StepCall) -> StepResponse:
        if call.step_locals["text"] == "bad":
            raise LookupError("bad text")
        return return_response("text")

    with nh.run(CallbackExecutor(answer)):
        with pytest.raises(LookupError, match="bad text"):
            shout("bad")
        assert shout("good") == "good"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_programs_arrives_bare_too_and_does_not_break_the_portal(error: BaseException) -> None:
    def answer(call: StepCall) -> StepResponse:
        if call.step_locals["text"] == "exit":
            raise error
        return return_response("text")

    with nh.run(CallbackExecutor(answer)):
        with pytest.raises(type(error)) as caught:
            shout("exit")
        assert caught.value is error
        assert shout("good") == "good"


def test_a_call_after_the_run_is_refused_and_starts_no_thread() -> None:
    with nh.run(CallbackExecutor(upper)):
        context = copy_context()
    with pytest.raises(nh.NighthawkError, match="has ended"):
        context.run(shout, "text")
    assert portal_threads() == []


def test_leaving_the_run_cancels_what_other_threads_still_wait_for() -> None:
    began = threading.Event()
    cancelled: list[bool] = []

    async def answer(call: StepCall) -> StepResponse:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        return return_response("text")

    with ThreadPoolExecutor(1) as pool:
        with nh.run(CallbackExecutor(answer)):
            future = pool.submit(copy_context().run, shout, "text")
            began.wait()
        assert cancelled == [True]
        with pytest.raises(nh.NighthawkError, match="has ended"):
            future.result()


def test_leaving_the_run_does_not_wait_for_a_nested_call_that_would_start_another_portal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, leaving = threading.Event(), threading.Event()

    def nested_call() -> str:
        began.set()
        leaving.wait()
        return shout("nested")

    class Executor:
        async def run_step_async(
            self, *, step_context: nh.StepContext, **_: Any
        ) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
            step_context.step_locals["value"] = nested_call()
            return nh.executors.ReturnStepOutcome(return_expression="value"), {}

    end = RunState.end
    monkeypatch.setattr(RunState, "end", lambda state: (end(state), leaving.set()))
    with ThreadPoolExecutor(1) as pool:
        with nh.run(Executor()):
            future = pool.submit(copy_context().run, shout, "text")
            began.wait()
        with pytest.raises(nh.NighthawkError, match="has ended"):
            future.result()


def test_a_call_that_meets_the_end_of_the_run_while_it_starts_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = BlockingPortal.start_task_soon

    def close_first(portal: BlockingPortal, function: Any, *args: Any, **options: Any) -> Any:
        if getattr(function, "__name__", "") == "deliver":
            pools[0].close()
        return start(portal, function, *args, **options)

    pools: list[PortalPool] = []
    monkeypatch.setattr(BlockingPortal, "start_task_soon", close_first)
    monkeypatch.setattr(RunState, "__init__", remembering(RunState.__init__, pools))
    with nh.run(CallbackExecutor(upper)), pytest.raises(nh.NighthawkError, match="has ended"):
        shout("text")


def remembering(make: Callable[..., None], pools: list[PortalPool]) -> Callable[..., None]:
    def remember(state: RunState, **options: Any) -> None:
        make(state, **options)
        pools.append(state.portals)

    return remember


# ---- in worker threads of a running loop


@pytest.mark.anyio
async def test_in_a_worker_thread_the_step_runs_on_the_loop_that_owns_the_thread() -> None:
    threads: list[threading.Thread] = []

    def answer(call: StepCall) -> StepResponse:
        threads.append(threading.current_thread())
        return return_response("text.upper()")

    async with nh.run(CallbackExecutor(answer)):
        assert await anyio.to_thread.run_sync(shout, "text") == "TEXT"
    assert threads == [threading.current_thread()]
    assert portal_threads() == []


@pytest.mark.anyio
async def test_cancelling_the_worker_threads_host_cancels_the_step() -> None:
    began = anyio.Event()
    cancelled: list[bool] = []

    async def answer(call: StepCall) -> StepResponse:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        return return_response("text")

    async with nh.run(CallbackExecutor(answer)):
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(anyio.to_thread.run_sync, shout, "text")
            await began.wait()
            task_group.cancel_scope.cancel()
        assert cancelled == [True]


@pytest.mark.anyio
async def test_blocking_functions_of_a_step_may_call_synchronous_natural_functions() -> None:
    executor = evaluating({"upper case": "text.upper()", "worker thread": "shout_in_thread(text)"})
    async with nh.run(executor):
        with nh.scope(implicit_references={"shout_in_thread": nh.blocking(shout)}):
            assert await shout_later("text") == "TEXT"
    assert portal_threads() == []


# ---- on the thread of a running loop


async def called_on_loop(function: Callable[[str], str], text: str) -> str:
    return function(text)


@pytest.mark.anyio
async def test_on_the_loops_own_thread_it_works_and_warns_once_a_run_at_the_call() -> None:
    for _ in range(2):
        async with nh.run(CallbackExecutor(upper)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                line = sys._getframe().f_lineno + 1
                results = [shout("a"), shout("b")]
            assert results == ["A", "B"]
            (warning,) = caught
            assert warning.category is RuntimeWarning
            assert "blocks" in str(warning.message)
            assert (warning.filename, warning.lineno) == (__file__, line)
    assert portal_threads() == []


@pytest.mark.anyio
async def test_inside_with_on_a_loop_the_portals_end_with_the_run() -> None:
    with nh.run(nested()):
        with pytest.warns(RuntimeWarning, match="blocks"):
            assert shout_twice("a") == "AA"
        assert len(portal_threads()) == 2
    assert portal_threads() == []


@pytest.mark.anyio
async def test_a_synchronous_natural_function_called_by_a_block_of_an_async_one_runs_on_a_portal() -> None:
    executor = evaluating({"upper case": "text.upper()", "worker thread": "shout(text)"})
    async with nh.run(executor):
        with pytest.warns(RuntimeWarning, match="blocks"):
            assert await shout_later("text") == "TEXT"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_a_loop_that_runs_already_as_in_a_notebook_cells_work_one_after_the_other(backend: str) -> None:
    async def notebook() -> list[str]:
        results: list[str] = []
        for text in ("first cell", "second cell"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                with nh.run(CallbackExecutor(upper)):
                    results.append(shout(text))
        return results

    assert anyio.run(notebook, backend=backend) == ["FIRST CELL", "SECOND CELL"]


def test_in_a_callback_of_the_loop_without_a_task_it_works() -> None:
    async def main() -> str:
        results: list[str] = []
        with nh.run(CallbackExecutor(upper)):
            asyncio.get_running_loop().call_soon(lambda: results.append(shout("text")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return results[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert asyncio.run(main()) == "TEXT"


# ---- the agent executor as a synchronous executor


class FromThread:
    """Carries steps out with the synchronous method of the agent executor."""

    def __init__(self, executor: nh.AgentStepExecutor) -> None:
        self.executor = executor

    def run_step(self, **arguments: Any) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        return self.executor.run_step(**arguments)


class FromLoop(FromThread):
    """Does so on the loop of the step, where it would wait for itself."""

    async def run_step_async(self, **arguments: Any) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        return self.executor.run_step(**arguments)


@pytest.mark.anyio
async def test_the_agent_executors_synchronous_method_works_in_a_worker_thread() -> None:
    async with nh.run(FromThread(evaluating({"worker thread": "text.upper()"}))):
        assert await shout_later("text") == "TEXT"


def test_the_agent_executors_synchronous_method_works_for_synchronous_natural_functions() -> None:
    with nh.run(FromThread(nested())):
        assert shout_twice("a") == "AA"


@pytest.mark.anyio
async def test_the_agent_executors_synchronous_method_refuses_to_wait_on_the_steps_own_loop() -> None:
    async with nh.run(FromLoop(nested())):
        with pytest.raises(nh.NighthawkError, match="worker thread"):
            await shout_later("text")


# ---- interruption


@pytest.mark.parametrize("place", ["script", "loop"])
def test_an_interrupted_call_is_cancelled_and_awaited(place: str) -> None:
    cancelled: list[bool] = []

    async def answer(call: StepCall) -> StepResponse:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        signal.pthread_kill(main_thread, signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        return return_response("text")

    def interrupted() -> None:
        with nh.run(CallbackExecutor(answer)), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(KeyboardInterrupt):
                shout("text")
            assert cancelled == [True]

    async def main() -> None:
        interrupted()

    if place == "script":
        interrupted()
    else:
        trio.run(main)


SCRIPT = '''
import signal
import sys
import threading

import anyio
import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, return_response


@nh.natural_function
def shout(text: str) -> str:
    """natural
    Return <text> in upper case.
    """


async def answer(call):
    if call.step_locals["text"] == "wait":
        print("waiting", flush=True)
        if sys.argv[3] == "unnoticed":  # a waiting main thread is woken by signals to itself only
            await anyio.sleep(0.2)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            print("cancelled", flush=True)
    return return_response("text.upper()")


def main():
    with nh.run(CallbackExecutor(answer), sync_backend=sys.argv[1]):
        print(shout("text"), flush=True)
        try:
            shout("wait")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(shout("again"), flush=True)
    print(threading.active_count(), "thread", flush=True)


async def on_loop():
    main()


if sys.argv[2] == "script":
    main()
else:
    anyio.run(on_loop, backend="trio")
'''


@pytest.mark.parametrize("place", ["script", "loop"])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("signal_is", ["noticed", "unnoticed"])
def test_ctrl_c_cancels_the_step_and_leaves_the_run_usable(
    backend: str, place: str, signal_is: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", str(script), backend, place, signal_is]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "TEXT\n"
            assert process.stdout.readline() == "waiting\n"
            if signal_is == "noticed":
                process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    assert rest.splitlines() == ["cancelled", "interrupted", "AGAIN", "1 thread"]
    assert process.returncode == 0


# ---- awaitables


def test_a_synchronous_natural_function_takes_the_result_of_a_blocking_call() -> None:
    main_thread = threading.current_thread()

    def where(text: str) -> str:
        return "elsewhere" if threading.current_thread() is not main_thread else "here"

    executor = evaluating({"upper case": "where(text)"})
    with nh.run(executor), nh.scope(implicit_references={"where": nh.blocking(where)}):
        assert shout("text") == "elsewhere"


def test_running_from_a_trio_thread_without_anyio_uses_a_portal() -> None:
    async def main() -> str:
        async with nh.run(CallbackExecutor(upper)):
            return await trio.to_thread.run_sync(partial(shout, "text"))

    assert trio.run(main) == "TEXT"


@pytest.mark.anyio
async def test_a_thread_that_inherited_the_context_of_a_loop_uses_the_portal() -> None:
    results: list[str] = []
    executor = CallbackExecutor(lambda call: return_response("text.upper()"))
    async with nh.run(executor):
        thread = threading.Thread(target=copy_context().run, args=(lambda: results.append(shout("hey")),))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert results == ["HEY"]
