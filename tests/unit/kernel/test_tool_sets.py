"""`tools=`: callables, tools and tool sets for a run, a scope, a function or a step."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.runtime import ForeignTool, Tool, ToolSet, make_tool_function
from nighthawk_async.testing import tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps
from tests.unit.observe.told_nodes import root
from tests.unit.policies.human_handlers import approving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer", "default": 2}},
}


def look_up(topic: str) -> str:
    """Find articles about a topic."""
    return f"about {topic}"


def count(text: str) -> int:
    """Count characters."""
    return len(text)


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


@nh.natural_function
async def work() -> object:
    """natural
    Work with the tools.
    """


def foreign(name: str, function: Callable[..., object] = dict, **options: Any) -> ForeignTool:
    return ForeignTool(name=name, description="A tool.", parameters=SCHEMA, function=function, **options)


def named(name: str) -> Tool:
    return make_tool_function(count, name=name)


def names_of(steps: ScriptedSteps) -> list[str]:
    return [tool.name for tool in steps.model.requests[-1].tools if not tool.name.startswith("nh_")]


async def offered(*scopes: Mapping[str, Any], run: Mapping[str, Any] | None = None) -> list[str]:
    """The tools that a step in these scopes offers to its model."""
    steps = ScriptedSteps(PASS)

    async def inside(rest: tuple[Mapping[str, Any], ...]) -> None:
        if not rest:
            await work()
            return
        with nh.scope(**rest[0]):
            await inside(rest[1:])

    async with nh.run(steps.executor, **(run or {})):
        await inside(scopes)
    return names_of(steps)


# ---- where tools are offered


async def test_tools_of_a_run_and_of_scopes_come_in_order_and_are_called() -> None:
    steps = ScriptedSteps(tool_call("look_up", topic="kettles"), PASS, PASS)
    async with nh.run(steps.executor, tools=[look_up]):
        with nh.scope(tools=[count]):
            await work()
            assert names_of(steps) == ["look_up", "count"]
        await work()
    assert names_of(steps) == ["look_up"]
    assert steps.model.requests[1].messages[-1].results[0].content == (  # type: ignore[union-attr]
        '{"value": "about kettles", "error": null}',
    )


async def test_tools_of_a_function_are_for_its_steps_and_for_those_within() -> None:
    @nh.natural_function(tools=[look_up])
    async def outer() -> None:
        """natural
        Call <work>.
        """

    steps = ScriptedSteps(tool_call("nh_eval", expression="work()"), PASS, PASS, PASS)
    async with nh.run(steps.executor):
        await outer()
        assert [[tool.name for tool in each.tools] for each in steps.model.requests] == [
            ["nh_eval", "nh_assign", "nh_exec", "look_up", "nh_outcome"]
        ] * 3
        await work()
    assert names_of(steps) == []


async def test_a_synchronous_function_has_tools() -> None:
    @nh.natural_function(tools=[look_up])
    def outer() -> None:
        """natural
        Look.
        """

    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        await nh.blocking(outer)()
    assert names_of(steps) == ["look_up"]


async def test_a_function_with_tools_may_call_itself() -> None:
    @nh.natural_function(tools=[look_up])
    async def again() -> None:
        """natural
        Call <again>.
        """

    steps = ScriptedSteps(tool_call("nh_eval", expression="again()"), PASS, PASS)
    async with nh.run(steps.executor):
        await again()
    assert [[*map(_name, each.tools)].count("look_up") for each in steps.model.requests] == [1, 1, 1]


def _name(tool: nh.models.ToolDefinition) -> str:
    return tool.name


async def test_tools_of_a_step_chosen_at_run_time() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        await nh.step("Look.", tools=[nh.tool_set([look_up], prefix="x_")])
    assert names_of(steps) == ["x_look_up"]


async def test_a_replacing_scope_hides_all_other_tools() -> None:
    replacing: Mapping[str, Any] = {"mode": "replace", "tools": [count]}
    assert await offered({"tools": [named("a")]}, replacing, run={"tools": [look_up]}) == ["count"]
    assert await offered({"mode": "replace", "tools": []}, run={"tools": [look_up]}) == []
    assert await offered({"mode": "replace"}, run={"tools": [look_up]}) == ["look_up"]


async def test_a_replacing_scope_hides_registered_tools_and_takes_new_ones() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        nh.tool(look_up)
        with nh.scope(mode="replace", tools=[count]):
            nh.tool(name="more")(look_up)
            await work()
    assert names_of(steps) == ["count", "more"]


async def test_a_tool_in_a_set_can_be_replaced_by_a_registered_one() -> None:
    steps = ScriptedSteps(tool_call("count", text="abc"), PASS)
    async with nh.run(steps.executor, tools=[nh.tool_set([count], deferred=True)]):
        with pytest.raises(nh.ToolRegistrationError, match="'count' is visible here already"):
            nh.tool(name="count")(look_up)
        nh.tool(name="count", overwrite=True)(lambda text: f"not counted: {text}")
        await work()
    assert names_of(steps) == ["count"]
    assert steps.envelopes[0]["value"] == "not counted: abc"


# ---- collisions and bad values


class Shelf:
    def find(self) -> None: ...


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            [look_up, make_tool_function(count, name="look_up")],
            rf"Two tools are named 'look_up': {__name__}.look_up and {__name__}.count; .*prefix",
        ),
        (
            [foreign("a-b"), foreign("a.b", source="files")],
            "Two tools are named 'a_b': 'a-b' and 'a.b' of files;",
        ),
        ([Shelf().find, Shelf().find], "Two tools are named 'find': .*Shelf.find and .*Shelf.find;"),
        ([named("nh_find_tools")], "'nh_find_tools' is the name of a provided tool"),
        ([3], "3 is no tool"),
        ("look_up", "tools must be a sequence"),
        (nh.tool_set([look_up]), "tools must be a sequence.* Put it into a list"),
        ([nh.mcp.stdio("notes")], r"is no tool.* Did you mean its tools\(\)\?"),
        (look_up, "tools must be a sequence"),
        ([lambda text: text], "must be ASCII and match"),
    ],
    ids=[*map(str, range(10))],
)
async def test_bad_tools_are_refused_at_once(tools: Any, message: str) -> None:
    executor = ScriptedSteps().executor
    with pytest.raises(nh.ToolRegistrationError, match=message):
        nh.run(executor, tools=tools)
    async with nh.run(executor):
        with pytest.raises(nh.ToolRegistrationError, match=message):
            nh.scope(tools=tools)


async def test_a_tool_of_a_scope_must_not_have_the_name_of_another_one() -> None:
    async with nh.run(ScriptedSteps().executor, tools=[named("look_up")]):
        with pytest.raises(nh.ToolRegistrationError, match=rf"{__name__}.count and {__name__}.look_up"):
            nh.scope(tools=[look_up])


async def test_the_same_tool_twice_is_no_collision() -> None:
    shelf = Shelf()
    assert await offered({"tools": [look_up, shelf.find]}, {"tools": [shelf.find, look_up]}) == [
        "look_up",
        "find",
    ]


def test_bad_options_of_a_set_are_refused() -> None:
    with pytest.raises(nh.ToolRegistrationError, match="prefix must be ASCII"):
        nh.tool_set([], prefix="a-")
    with pytest.raises(nh.ToolRegistrationError, match="search must be 'lexical', 'native', or a function"):
        nh.tool_set([], search="guess")  # type: ignore[arg-type]
    with pytest.raises(nh.ToolRegistrationError, match="deferred=True"):
        nh.tool_set([], search="native")


# ---- sets that are fetched


class Fetched(ToolSet):
    """Fetches one more tool for each step."""

    async def prepare(self) -> None:
        self.tools = [*self.tools, named(f"tool_{len(self.tools)}")]


async def test_a_set_may_fetch_its_tools_for_each_step() -> None:
    steps = ScriptedSteps(PASS, PASS)
    async with nh.run(steps.executor, tools=[Fetched()]):
        await work()
        assert names_of(steps) == ["tool_0"]
        await work()
        assert names_of(steps) == ["tool_0", "tool_1"]


async def test_a_fetched_tool_must_not_have_the_name_of_another_one() -> None:
    taken = make_tool_function(look_up, name="tool_0")
    async with nh.run(ScriptedSteps().executor, tools=[Fetched()]):
        with (
            nh.scope(tools=[taken]),
            pytest.raises(nh.ToolRegistrationError, match="Two tools are named 'tool_0'"),
        ):
            await work()


# ---- foreign tools


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("read-file", "read_file"),
        ("repo/issues.list", "repo_issues_list"),
        ("7z", "_7z"),
        ("größe", "gr__e"),
        ("", "_"),
        ("x" * 64, "x" * 64),
    ],
)
def test_names_from_elsewhere_are_made_valid(name: str, valid: str) -> None:
    assert foreign(name).name == valid


def test_long_names_from_elsewhere_are_cut_off_and_stay_different() -> None:
    (first, second) = nh.tool_set([foreign("x" * 80 + "1"), foreign("x" * 80 + "2")], prefix="files_").tools
    assert first.name != second.name
    assert {first.name[:55], second.name[:55]} == {"files_" + "x" * 49}
    assert (len(first.name), len(second.name)) == (64, 64)


async def test_a_foreign_tool_gets_its_arguments_as_they_are() -> None:
    calls: list[object] = []

    async def call(arguments: Mapping[str, object]) -> list[object]:
        calls.append(arguments)
        return [*arguments]

    steps = ScriptedSteps(tool_call("read_file", path="/", further=[1]), PASS)
    async with nh.run(steps.executor, tools=[foreign("read-file", call)]):
        await work()
    assert calls == [{"path": "/", "further": [1]}]
    assert steps.envelopes[0]["value"] == ["path", "further"]
    (definition,) = (tool for tool in steps.model.requests[0].tools if tool.name == "read_file")
    assert definition.parameters == SCHEMA


async def test_the_owner_of_a_foreign_tool_refuses_arguments() -> None:
    def call(arguments: Mapping[str, object]) -> None:
        raise nh.errors.ToolBoundaryError(
            kind="invalid_input", message="no such path", guidance="Try another."
        )

    steps = ScriptedSteps(
        (tool_call("read", path="/"), nh.models.ToolCall(id="1", name="read", arguments="[1]")),
        PASS,
    )
    async with nh.run(steps.executor, tools=[foreign("read", call)]):
        await work()
    errors = [envelope["error"] for envelope in steps.envelopes]
    assert [error["kind"] for error in errors] == ["invalid_input", "invalid_input"]
    assert "no such path" in errors[0]["message"]
    assert "not a JSON object" in errors[1]["message"]


def test_the_schema_of_a_foreign_tool_must_be_one_of_an_object() -> None:
    with pytest.raises(nh.ToolRegistrationError, match=r"'list': .* type 'object', not 'array'"):
        ForeignTool(name="list", description="", parameters={"type": "array"}, function=dict)


async def test_permissions_and_hooks_see_the_calls_of_foreign_tools() -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []

    def is_shallow(call: nh.policies.PermissionCall) -> bool:
        return call.arguments["depth"] <= 2

    def before(event: nh.hooks.BeforeToolCall) -> None:
        seen.append((event.tool_name, event.arguments))

    hooks = nh.Hooks()
    hooks.on(nh.hooks.BeforeToolCall)(before)
    steps = ScriptedSteps(
        (tool_call("tree", path="/"), tool_call("tree", path="/", depth=9)),
        (tool_call("remove", path="/"),),
        PASS,
    )
    permissions = nh.permissions(allow=[nh.policies.rule("tree", when=is_shallow)], default="deny")
    tools = [foreign("tree"), foreign("remove")]
    async with nh.run(steps.executor, tools=tools, permissions=permissions, hooks=hooks):
        await work()
    assert [envelope["error"] is None for envelope in steps.envelopes] == [True, False, False]
    assert steps.envelopes[2]["error"]["kind"] == "oversight"
    assert [name for name, _ in seen] == ["tree", "tree", "remove"]


async def test_budgets_count_the_calls_of_foreign_tools() -> None:
    steps = ScriptedSteps((tool_call("tree", path="/"), tool_call("tree", path="/a")), PASS)
    async with nh.run(steps.executor, tools=[foreign("tree")], budget=nh.budget(tool_calls=1)):
        with pytest.raises(nh.BudgetExceededError, match="tool_calls"):
            await work()


async def test_people_are_asked_about_the_calls_of_foreign_tools() -> None:
    handler = approving(["Ann"])
    steps = ScriptedSteps(tool_call("remove_file", path="/a"), PASS)
    permissions = nh.permissions(ask=["remove_file"], default="deny")
    async with nh.run(steps.executor, tools=[foreign("remove-file")], permissions=permissions, human=handler):
        await work()
    assert [(each.action, each.arguments) for each in handler.requests] == [("remove_file", {"path": "/a"})]
    assert steps.envelopes[0] == {"value": {"path": "/a"}, "error": None}


async def test_the_calls_of_tools_of_a_scope_are_in_the_tree() -> None:
    steps = ScriptedSteps((tool_call("nh_find_tools", query="tool"), tool_call("count", text="ab")), PASS)
    tools = [count, nh.tool_set([foreign("a")], deferred=True)]
    watched = root()
    with watched.watching():
        async with nh.run(steps.executor, tools=tools):
            await work()
    calls = [node for node in watched.find("step").children if node.kind == "tool_call"]
    assert [(call.name, call.state) for call in calls] == [
        ("nh_find_tools", "completed"),
        ("count", "completed"),
    ]
