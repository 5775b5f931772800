"""A run with `many_steps=True` makes the garbage collector look less often, and leaves no trace of that."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.run import Run
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

RAISED = 50_000


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, int, int]]:
    """The usual threshold, whatever others have set."""
    before = gc.get_threshold()
    gc.set_threshold(2_000, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def open_run(**arguments: Any) -> Run:
    model = ScriptedModel(lambda request: model_response(tool_call("nh_outcome", kind="pass")))
    return nh.run(nh.AgentStepExecutor.from_model(model), many_steps=True, **arguments)


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


@pytest.mark.anyio
async def test_the_collector_looks_less_often_while_the_outermost_run_lasts(
    threshold: tuple[int, int, int],
) -> None:
    async with open_run():
        assert gc.get_threshold() == (RAISED, *threshold[1:])
        with nh.scope():
            await act()
        async with open_run():
            await act()
        assert gc.get_threshold() == (RAISED, *threshold[1:])
        async with nh.run(nh.AgentStepExecutor.from_model(ScriptedModel([]))):
            assert gc.get_threshold() == (RAISED, *threshold[1:])
    assert gc.get_threshold() == threshold
    with pytest.raises(KeyError), open_run():
        raise KeyError
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("given", [0, RAISED, 70_000])
def test_a_higher_threshold_of_the_program_stays(given: int) -> None:
    gc.set_threshold(given)
    with open_run():
        assert gc.get_threshold()[0] == given
    assert gc.get_threshold()[0] == given


def test_what_the_program_sets_meanwhile_stays() -> None:
    with open_run():
        gc.set_threshold(9_000)
    assert gc.get_threshold()[0] == 9_000


def test_runs_without_it_change_nothing(threshold: tuple[int, int, int]) -> None:
    with open_run(), nh.run(nh.AgentStepExecutor.from_model(ScriptedModel([]))):
        pass
    with nh.run(nh.AgentStepExecutor.from_model(ScriptedModel([]))):
        assert gc.get_threshold() == threshold
