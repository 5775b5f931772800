"""Programs that use the names which keywords had before go on."""

import inspect
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.distributed import Processes, RayWorkers
from nighthawk_async.evals import Case, equals, evaluate
from nighthawk_async.former_names import takes_former
from nighthawk_async.testing import CallbackExecutor, pass_response


async def _app(scope: object, receive: object, send: object) -> None: ...


def test_keywords_are_taken_by_their_former_names() -> None:
    made: Any = NighthawkMiddleware
    made(_app, executor=CallbackExecutor(lambda call: pass_response()), request_timeout_seconds=1)
    with pytest.raises(TypeError, match="'model' twice, also by its former name 'executor'"):
        made(_app, model="openai-chat:a", executor="openai-chat:b")
    workers: Any = Processes
    assert vars(workers(2, calls_per_worker=3))["_max_concurrent_per_worker"] == 3
    configuration: Any = nh.StepExecutorConfiguration
    given = configuration(
        step_timeout_seconds=3, model_settings={"timeout_seconds": 4, "idle_timeout_seconds": None, "seed": 1}
    )
    assert given.step_timeout == 3
    assert given.model_settings == {"timeout": 4, "idle_timeout": None, "seed": 1}


def test_an_evaluation_takes_its_model_by_the_former_name() -> None:
    async def subject(value: int) -> int:
        return value

    async def main() -> None:
        run: Any = evaluate
        cases = [Case("a", inputs={"value": 1}, expected=1)]
        report = await run(subject, cases, scorers=[equals()], executor=None, deadline=5)
        assert report.pass_rate == 1.0

    anyio.run(main)


def test_signatures_show_the_present_names_alone() -> None:
    for shown in (NighthawkMiddleware, Processes, RayWorkers, evaluate):
        names = inspect.signature(shown).parameters
        assert not {"executor", "calls_per_worker", "request_timeout_seconds", "deadline"} & names.keys()
    assert inspect.iscoroutinefunction(evaluate)


def test_the_message_names_the_function() -> None:
    @takes_former(old="new")
    def divide(new: int = 1) -> int:
        return new

    taking: Any = divide
    assert taking(old=3) == taking(new=3) == taking(3) == 3
    with pytest.raises(TypeError, match=r"divide\(\) got 'new' twice"):
        taking(old=1, new=2)
