"""`vote` and `ensemble` around synchronous functions, wherever they are called."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import EnsembleError, VoteError, ensemble, plurality, timeout, vote
from nighthawk_async.testing import CallbackExecutor, ScriptedExecutor, StepCall, StepResponse, pass_response
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import Script

anyio_test = pytest.mark.anyio


@nh.natural_function
def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


def scripted(*counts: int) -> ScriptedExecutor:
    return ScriptedExecutor([pass_response(count=count) for count in counts])


def meet() -> Callable[[], str]:
    """A function whose calls return when three of them go on at once."""
    barrier = threading.Barrier(3, timeout=240)

    def call() -> str:
        barrier.wait()
        return "met"

    return call


class ThirdHangs:
    """Answers two steps when the third hangs."""

    def __init__(self) -> None:
        self._begun = 0
        self._hangs: anyio.Event | None = None
        self.cancelled = 0

    async def answer(self, call: StepCall) -> StepResponse:
        self._hangs = self._hangs or anyio.Event()
        self._begun += 1
        if self._begun < 3:
            await self._hangs.wait()
            return pass_response(count=4)
        self._hangs.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled += 1
        return pass_response()


def sleep_in_thread() -> None:
    anyio.from_thread.run(anyio.sleep_forever)


# Without an event loop.


def test_calls_go_at_once_in_a_plain_script() -> None:
    assert vote(meet())() == "met"


def test_calls_go_at_once_in_a_run() -> None:
    with nh.run(scripted()):
        assert vote(meet())() == "met"


def test_synchronous_natural_functions_vote_in_a_plain_script() -> None:
    with nh.run(scripted(4, 5, 4)) as run:
        assert vote(stars)("Good") == 4
    assert run.usage_meter.steps >= 2


def test_the_steps_that_make_no_difference_are_cancelled() -> None:
    third = ThirdHangs()
    with nh.run(CallbackExecutor(third.answer)):
        assert vote(stars)("Good") == 4
    assert third.cancelled == 1


def test_what_a_thread_waits_for_on_an_event_loop_is_cancelled_without_a_run_too() -> None:
    both = threading.Barrier(2, timeout=240)

    def call(hangs: list[bool] = [True, False]) -> str:  # noqa: B006  (each call takes one)
        hang = hangs.pop()
        both.wait()
        if hang:
            sleep_in_thread()
        return "done"

    assert vote(call, count=2, min_success=1)() == "done"


def test_more_calls_than_threads_and_votes_in_votes_come_to_an_end() -> None:
    assert vote(Script("a").call, count=50, decide=len)() == 50
    assert vote(vote(Script("a").call, count=7), count=7)() == "a"
    with nh.run(scripted()):
        assert vote(vote(Script("a").call, count=7), count=7)() == "a"


def test_a_deadline_of_the_thread_reaches_the_calls() -> None:
    with pytest.raises(nh.parallel.DeadlineExceededError):
        timeout(vote(sleep_in_thread), 0.01)()
    with nh.run(scripted()), pytest.raises(nh.parallel.DeadlineExceededError):
        timeout(vote(sleep_in_thread), 0.01)()


def test_failures_are_told() -> None:
    with pytest.raises(VoteError, match=r"2 of 3 calls of .* failed"):
        vote(Script(OSError("down")).call)()
    assert vote(Script(OSError("down"), "up").call)() == "up"


def test_the_caller_decides_in_its_own_thread() -> None:
    threads: list[int] = []

    def decide(values: list[str]) -> str:
        threads.append(threading.get_ident())
        return plurality(values)

    assert vote(Script("a", "b", "b").call, decide=decide)() == "b"
    assert threads == [threading.get_ident()]


def test_a_synchronous_natural_function_may_decide() -> None:
    @nh.natural_function
    def best(values: list[str]) -> str:
        value: str
        """natural
        Set <:value> to the best of <values>.
        """
        return value

    with nh.run(ScriptedExecutor([pass_response(value="b")])):
        assert vote(Script("a", "b").call, decide=best)() == "b"


def test_async_functions_in_disguise_are_refused() -> None:
    async def call(values: object = None) -> None: ...

    disguised: Callable[..., Any] = lambda *args: call(*args)  # noqa: E731
    with pytest.raises(VoteError) as caught:
        vote(disguised)()
    assert all("gave an awaitable" in str(error) for error in caught.value.errors)
    with pytest.raises(TypeError, match="gave an awaitable"):
        vote(Script("a").call, decide=disguised)()


def test_context_variables_flow_into_the_calls_and_not_out_of_them() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    def call() -> str:
        seen = variable.get()
        variable.set("by a call")
        return seen

    variable.set("by the caller")
    assert vote(call)() == "by the caller"
    with nh.run(scripted()):
        assert vote(call)() == "by the caller"
    assert variable.get() == "by the caller"


# With an event loop.


@anyio_test
async def test_in_a_worker_thread_the_steps_belong_to_its_event_loop() -> None:
    threads: set[int] = set()

    def answer(call: StepCall) -> StepResponse:
        threads.add(threading.get_ident())
        return pass_response(count=4)

    async with nh.run(CallbackExecutor(answer)):
        assert await anyio.to_thread.run_sync(vote(stars), "Good") == 4
    assert threads == {threading.get_ident()}
    assert await anyio.to_thread.run_sync(vote(meet())) == "met"


@anyio_test
async def test_in_a_worker_thread_the_rest_is_cancelled_too() -> None:
    third = ThirdHangs()
    async with nh.run(CallbackExecutor(third.answer)):
        assert await anyio.to_thread.run_sync(vote(stars), "Good") == 4
    assert third.cancelled == 1


@anyio_test
async def test_the_cancellation_of_whoever_waits_for_the_thread_reaches_every_call() -> None:
    begun, cancelled = 0, 0
    all_begun = anyio.Event()

    async def sleep() -> None:
        nonlocal begun, cancelled
        begun += 1
        if begun == 3:
            all_begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled += 1

    def call() -> None:
        anyio.from_thread.run(sleep)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, vote(call))
        await all_begun.wait()
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught
    assert cancelled == 3


@anyio_test
async def test_on_the_thread_of_an_event_loop_it_works_and_warns() -> None:
    with pytest.warns(RuntimeWarning, match="running event loop and blocks it"):
        assert vote(meet())() == "met"
    async with nh.run(scripted(4, 5, 4)):
        with pytest.warns(RuntimeWarning, match="running event loop and blocks it"):
            assert vote(stars)("Good") == 4


def test_a_step_may_call_a_synchronous_vote() -> None:
    def of_three(review: str) -> int:
        return vote(stars)(review)

    @nh.natural_function
    def ask(review: str) -> str:
        answer: str
        """natural
        Set <:answer> to what of_three says of <review>.
        """
        return answer

    def answer(call: StepCall) -> StepResponse:
        if "count" in call.binding_names:
            return pass_response(count=4)
        return pass_response(answer=f"{of_three('Good')} stars")

    with nh.run(CallbackExecutor(answer)):
        assert ask("Good") == "4 stars"


# Ensembles.

MODELS = {"test:a": 2, "test:b": 1}


def by_model(model: str, call: StepCall) -> StepResponse:
    if model == "test:broken":
        raise nh.ExecutionError("broken")
    return pass_response(count={"test:a": 4, "test:b": 5}[model])


def test_synchronous_functions_run_on_models_in_a_plain_script() -> None:
    with nh.run(ModelsExecutor(by_model)):
        assert ensemble(stars, MODELS)("Good") == 4
        answers = ensemble(stars, MODELS, reconcile=lambda answers: [each.value for each in answers])
        assert answers("Good") == [4, 4, 5]
        with pytest.raises(EnsembleError, match="on test:broken"):
            ensemble(stars, {"test:broken": 1})("Good")


@anyio_test
async def test_synchronous_functions_run_on_models_in_a_worker_thread() -> None:
    async with nh.run(ModelsExecutor(by_model)):
        assert await anyio.to_thread.run_sync(ensemble(stars, MODELS), "Good") == 4


@anyio_test
async def test_synchronous_functions_run_on_models_on_the_thread_of_an_event_loop() -> None:
    async with nh.run(ModelsExecutor(by_model)):
        with pytest.warns(RuntimeWarning, match="running event loop and blocks it"):
            assert ensemble(stars, MODELS)("Good") == 4
