"""What steps in flight bind, and that nothing of it stays when they have ended."""

from types import SimpleNamespace

import pytest

import nighthawk_async as nh
from nighthawk_async.policies.shared_objects import bound_objects
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, model_response, pass_response, tool_call

pytestmark = pytest.mark.anyio


@nh.natural_function
async def read_two_fields(user: SimpleNamespace) -> None:
    """natural
    Look at <user.name> and <user.email>.
    """


@nh.natural_function
async def read_object_and_field(user: SimpleNamespace) -> None:
    """natural
    Look at <user> and <user.email>.
    """


@nh.natural_function
async def rename(user: SimpleNamespace) -> None:
    """natural
    Change the name of <user>.
    """


async def test_a_step_that_names_an_object_twice_lets_go_of_it_and_is_blamed_on_nobody_later() -> None:
    user = SimpleNamespace(name="Emma", email="emma@host.test")
    async with nh.run(ScriptedExecutor(default_response=pass_response())):
        await read_two_fields(user)
        await read_object_and_field(user)
    assert not bound_objects._REGISTRY._bindings
    assign = tool_call("nh_assign", target_path="user.name", expression="'Ada'")
    model = ScriptedModel([model_response(assign, tool_call("nh_outcome", kind="pass"))])
    executor = nh.AgentStepExecutor.from_model(model=model)
    async with nh.run(executor, concurrent_mutation="error"):
        await rename(user)
    assert user.name == "Ada"
