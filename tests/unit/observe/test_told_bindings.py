"""The bindings of a step before and after, as whoever watches sees them."""

import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio


@nh.natural_function
async def edit(items: list[int], limit: int) -> str:
    summary: str = "none yet"
    """natural
    Append to <items> up to <limit>, then set <:summary>.
    """
    return summary


async def test_a_step_shows_what_its_bindings_were_and_what_became_of_them() -> None:
    response = model_response(
        tool_call("nh_eval", expression="items.append(7)"),
        tool_call("nh_assign", target_path="summary", expression="'done'"),
        tool_call("nh_outcome", kind="pass"),
    )
    with observe.recording() as tree:
        async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel([response]))):
            assert await edit([1], 3) == "done"
    step = next(view for view in tree.snapshot().walk() if view.kind == "step")
    assert step.inputs == {"items": "[1]", "limit": "3", "summary": '"none yet"'}
    assert step.outputs == {"items": "[1, 7]", "summary": '"done"'}
