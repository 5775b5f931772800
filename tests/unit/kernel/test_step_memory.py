"""Steps and tasks that have ended keep nothing alive, also before the collector of cycles runs."""

import gc
import weakref
from collections.abc import Iterator

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio


class Value:
    number = 7


@nh.natural_function
async def look(value: Value) -> int:
    result = 0
    """natural
    Set <:result> to the number of <value>.
    """
    return result


async def look_at_new() -> weakref.ref[Value]:
    value = Value()
    assert await look(value) == 7
    return weakref.ref(value)


def looking_model(steps: int) -> ScriptedModel:
    looks = model_response(tool_call("nh_eval", expression="value.number"))
    ends = model_response(tool_call("nh_outcome", kind="pass", bindings={"result": 7}))
    return ScriptedModel([looks, ends] * steps)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_a_step_that_has_ended_frees_its_values() -> None:
    async with nh.run(looking_model(2)):
        await look_at_new()  # may load the tokenizer, in a thread that lets go of the step a moment later
        assert (await look_at_new())() is None


async def test_steps_of_tasks_free_their_values() -> None:
    async def look_once(number: int) -> weakref.ref[Value]:
        return await look_at_new()

    async with nh.run(looking_model(3)):
        await look_at_new()
        found = await nh.parallel.map(look_once, [1, 2])
        assert [each() for each in found] == [None, None]
