import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.messages import ToolDefinition
from nighthawk_async.types.model import ModelRequest, NamedToolChoice, ToolChoice
from nighthawk_async.wire.json_text import check_tool_choice

LOOK = ToolDefinition(name="look", description="", parameters={"type": "object"})


@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedToolChoice(name="look")])
def test_a_choice_that_the_tools_allow_is_left_alone(choice: ToolChoice) -> None:
    check_tool_choice(ModelRequest(messages=(), tools=(LOOK,), tool_choice=choice))


@pytest.mark.parametrize("choice", ["required", NamedToolChoice(name="look")])
def test_a_call_cannot_be_demanded_without_a_tool(choice: ToolChoice) -> None:
    with pytest.raises(ConfigurationError, match="offers no tool"):
        check_tool_choice(ModelRequest(messages=(), tool_choice=choice))


def test_a_tool_that_is_not_offered_cannot_be_demanded() -> None:
    choice = NamedToolChoice(name="jump")
    with pytest.raises(ConfigurationError, match="'jump' but does not offer it"):
        check_tool_choice(ModelRequest(messages=(), tools=(LOOK,), tool_choice=choice))
