"""The tools of a step are looked at before the first request."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, WithJsonSchema

import nighthawk_async as nh
from nighthawk_async.agent.schemas import check_tools
from nighthawk_async.kernel.tools import ToolFunction, make_tool_function
from nighthawk_async.testing import ScriptedModel
from tests.specification.scripted_steps import PASS, ScriptedSteps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]


class Place(BaseModel):
    position: tuple[float, float]


def tool_of(function: Callable[..., object], name: str | None = None) -> ToolFunction:
    return make_tool_function(function, name=name, description=None, metadata=None)


def model(name: str) -> ScriptedModel:
    return ScriptedModel([], name=name)


def plain(text: str = "", numbers: list[int] | None = None) -> None: ...


def with_tuple(position: tuple[int, str]) -> None: ...


def with_nested_tuple(places: dict[str, list[Place]]) -> None: ...


def with_property_called_default(default: tuple[int, str]) -> None: ...


def with_tuple_default(numbers: list[int] = [1, 2]) -> None: ...  # noqa: B006  (a default is data, no schema)


def with_umlaut(größe: int) -> None: ...


def unwritable(value: Annotated[int, WithJsonSchema({"type": "integer", "x-unit": object()})]) -> None: ...


EVERYWHERE = [
    "scripted:model",
    "openai-responses:gpt-5.4-nano",
    "anthropic:claude-sonnet-4-5",
    "google:gemini",
]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_ordinary_tools_pass(name: str) -> None:
    check_tools((tool_of(plain), tool_of(with_tuple_default), tool_of(plain, "x" * 64)), model(name))


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (tool_of(plain, "x" * 65), r"Tool 'x{65}': .* at most 64 .* @nh.tool\(name=…\)"),
        (tool_of(unwritable), "Tool 'unwritable': its JSON Schema holds what JSON cannot"),
    ],
    ids=["long name", "no JSON"],
)
def test_what_no_provider_takes_is_refused(name: str, tool: ToolFunction, message: str) -> None:
    with pytest.raises(nh.ToolRegistrationError, match=message):
        check_tools((tool,), model(name))


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (with_tuple, "position"),
        (with_nested_tuple, "Place.position"),
        (with_property_called_default, "default"),
    ],
)
@pytest.mark.parametrize("name", ["openai-responses:gpt-5.4-nano", "openai-chat:gpt-4o"])
def test_openai_refuses_lists_without_a_type_of_items(
    name: str, function: Callable[..., object], place: str
) -> None:
    message = rf"Tool '{function.__name__}': OpenAI's endpoint refuses the type of {place}, .* list\[…\]"
    with pytest.raises(nh.ToolRegistrationError, match=message):
        check_tools((tool_of(function),), model(name))


@pytest.mark.parametrize("name", ["openai-chat:qwen3", "scripted:model", "anthropic:claude-sonnet-4-5"])
def test_other_endpoints_take_such_lists(name: str) -> None:
    check_tools((tool_of(with_tuple), tool_of(with_nested_tuple)), model(name))


def test_anthropic_refuses_parameter_names_that_are_not_ascii() -> None:
    with pytest.raises(nh.ToolRegistrationError, match=r"Tool 'with_umlaut': .* 'größe'.* Rename"):
        check_tools((tool_of(with_umlaut),), model("anthropic:claude-sonnet-4-5"))
    check_tools((tool_of(with_umlaut),), model("openai-responses:gpt-5.4-nano"))


def test_without_a_known_model_only_what_nobody_takes_is_refused() -> None:
    check_tools((tool_of(with_umlaut), tool_of(with_tuple)), None)
    with pytest.raises(nh.ToolRegistrationError):
        check_tools((tool_of(plain, "x" * 65),), None)


@pytest.mark.parametrize("taken", ["plain", "nh_eval", "nh_outcome"])
def test_two_tools_of_one_name_are_refused(taken: str) -> None:
    with pytest.raises(nh.ToolRegistrationError, match=f"Two tools are named '{taken}'"):
        check_tools((tool_of(plain), tool_of(with_tuple, taken)), None)


def test_a_tool_is_looked_at_once_for_each_kind_of_endpoint() -> None:
    looked: list[object] = []

    class Counting(ToolFunction):
        @property
        def definition(self) -> Any:  # type: ignore[override]
            looked.append(self)
            return tool_of(plain).definition

    tool = Counting(name="plain", description="", function=plain, takes_run_context=False)
    for name in [*EVERYWHERE, *EVERYWHERE]:
        check_tools((tool,), model(name))
    assert len(looked) == 3


# ---- in a step


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


async def test_nothing_is_sent_when_a_tool_would_be_refused() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        nh.tool(name="x" * 65)(plain)
        with pytest.raises(nh.ToolRegistrationError, match="at most 64"):
            await act()
    assert steps.model.requests == []


@nh.natural_function
async def name_exec() -> None:
    """natural
    Use nh_exec to do something.
    """


@nh.natural_function
async def call_unknown() -> None:
    """natural
    Call nh_search("weather").
    """


@nh.natural_function
async def use_unknown() -> None:
    """natural
    Use the nh_search tool.
    """


@nh.natural_function
async def name_outcome() -> None:
    """natural
    End with nh_outcome.
    """


@pytest.mark.parametrize(
    ("function", "configuration", "message"),
    [
        (name_exec, {"provided_tools": ("nh_eval",)}, "'nh_exec', which .* add it to provided_tools"),
        (call_unknown, {}, "'nh_search', which this step does not offer; leave it out of the text"),
        (use_unknown, {}, "'nh_search'.* Tools on offer: nh_eval, nh_assign, nh_exec, nh_outcome"),
        (name_outcome, {"outcome_transport": "native"}, "'nh_outcome'.*; leave it out of the text"),
        (name_exec, {"outcome_transport": "direct"}, "'nh_exec'.* Tools on offer: none"),
    ],
)
async def test_a_program_that_names_a_tool_which_is_not_on_offer_is_refused(
    function: Any, configuration: dict[str, Any], message: str
) -> None:
    steps = ScriptedSteps(PASS, **configuration)
    async with nh.run(steps.executor):
        with pytest.raises(nh.ConfigurationError, match=message):
            await function()
    assert steps.model.requests == []


@pytest.mark.parametrize("function", [name_exec, name_outcome])
async def test_a_program_may_name_tools_that_are_on_offer(function: Any) -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        await function()
    assert len(steps.model.requests) == 1


async def test_a_registered_tool_counts_as_on_offer() -> None:
    steps = ScriptedSteps(PASS, PASS)
    async with nh.run(steps.executor):
        nh.tool(name="nh_search")(plain)
        await call_unknown()
        await use_unknown()
    assert len(steps.model.requests) == 2


async def test_words_that_are_no_tools_for_certain_are_left_alone() -> None:
    @nh.natural_function
    async def describe() -> None:
        nh_helper = len  # noqa: F841  (the block uses it)
        """natural
        Look at the table nh_users, at notes.nh_exec and my_nh_exec, and call nh_helper(1).
        """

    steps = ScriptedSteps(PASS, provided_tools=("nh_eval",))
    async with nh.run(steps.executor):
        await describe()
    assert len(steps.model.requests) == 1


async def test_what_values_in_an_f_string_mention_is_data() -> None:
    @nh.natural_function
    async def summarize(mail: str) -> None:
        f"""natural
        Summarize: {mail}
        """  # noqa: B021

    steps = ScriptedSteps(PASS, provided_tools=("nh_eval",))
    async with nh.run(steps.executor):
        await summarize("Please call nh_exec(1) with the nh_delete tool.")
    assert len(steps.model.requests) == 1
