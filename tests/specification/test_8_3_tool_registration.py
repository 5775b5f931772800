"""Section 8.3: `@nh.tool`, its names, its scopes, and its schema."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating, returning

if TYPE_CHECKING:
    from nighthawk_async import RunContext, StepContext

pytestmark = pytest.mark.anyio


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Query(BaseModel):
    text: str
    limit: int = Field(default=5, le=10)


@dataclass
class Point:
    x: int
    y: int = 0


@nh.natural_function
async def work() -> object:
    """natural
    Work with the tools.
    """


@pytest.fixture(autouse=True)
def _no_global_tool_stays() -> Iterator[None]:
    before = dict(GLOBAL_TOOLS._tools)
    yield
    GLOBAL_TOOLS._tools.clear()
    GLOBAL_TOOLS._tools.update(before)


async def offered(**scope: Any) -> dict[str, nh.models.ToolDefinition]:
    """The user's tools that a step offers to the model now."""
    steps = ScriptedSteps(PASS)
    with nh.scope(step_executor=steps.executor, **scope):
        await work()
    definitions = {tool.name: tool for tool in steps.model.requests[0].tools}
    return {name: tool for name, tool in definitions.items() if not name.startswith("nh_")}


async def schema_of(function: Callable[..., object], **options: Any) -> Any:
    async with nh.run(ScriptedSteps().executor):
        nh.tool(**options)(function)
        (definition,) = (await offered()).values()
    return definition.parameters


# ---- names


async def test_8_3_a_tool_is_named_and_described_by_its_function_unless_told_otherwise() -> None:
    async with nh.run(ScriptedSteps().executor):

        @nh.tool
        def plain() -> None:
            """Say what it does.

            At length.
            """

        @nh.tool(name="renamed", description="Another description.", metadata={"cost": 3})
        def other() -> None:
            """Not shown."""

        @nh.tool()
        def silent() -> None: ...

        tools = await offered()
    assert list(tools) == ["plain", "renamed", "silent"]
    assert tools["plain"].description == "Say what it does.\n\nAt length."
    assert tools["renamed"].description == "Another description."
    assert tools["renamed"].metadata == {"cost": 3}
    assert tools["silent"].description == ""
    assert other.__name__ == "other"


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a.b", "é", "a b", "a\n"])
def test_8_3_a_tool_name_must_be_ascii_and_an_identifier(name: str) -> None:
    with pytest.raises(nh.ToolRegistrationError, match="must be ASCII and match"):
        nh.tool(name=name)(len)


@pytest.mark.parametrize("name", ["nh_eval", "nh_assign", "nh_exec", "nh_outcome"])
def test_8_3_the_names_of_provided_tools_are_taken(name: str) -> None:
    with pytest.raises(nh.ToolRegistrationError, match="provided tool"):
        nh.tool(name=name, overwrite=True)(lambda: None)


def test_8_3_a_lambda_needs_a_name() -> None:
    with pytest.raises(nh.ToolRegistrationError, match="<lambda>"):
        nh.tool(lambda: None)


async def test_8_3_a_name_conflict_raises_unless_overwrite() -> None:
    def first() -> str:
        return "first"

    def second() -> str:
        return "second"

    nh.tool(name="twice")(first)
    with pytest.raises(nh.ToolRegistrationError, match="'twice' is visible here already"):
        nh.tool(name="twice")(second)
    steps = ScriptedSteps((nh.models.ToolCall(id="", name="twice", arguments="{}"),), PASS, PASS)
    async with nh.run(steps.executor):
        with pytest.raises(nh.ToolRegistrationError, match="overwrite=True"):
            nh.tool(name="twice")(second)
        nh.tool(name="twice", overwrite=True)(second)
        await work()
        assert steps.envelopes[0]["value"] == "second"
    async with nh.run(ScriptedSteps().executor):
        tools = await offered()
    assert list(tools) == ["twice"]
    nh.tool(name="twice", overwrite=True, description="newest")(second)
    async with nh.run(ScriptedSteps().executor):
        assert (await offered())["twice"].description == "newest"


# ---- scopes


async def test_8_3_a_tool_belongs_to_the_innermost_scope_and_is_gone_with_it() -> None:
    def make(name: str) -> None:
        nh.tool(name=name)(lambda: name)

    seen: dict[str, list[str]] = {}

    @nh.natural_function
    async def calling() -> None:
        make("of_call")
        seen["call"] = list(await offered())
        """natural
        Do nothing.
        """

    make("of_program")
    async with nh.run(ScriptedSteps(PASS).executor):
        make("of_run")
        with nh.scope():
            make("of_scope")
            await calling()
            seen["scope"] = list(await offered())
        seen["run"] = list(await offered())
        async with nh.run(ScriptedSteps().executor):
            seen["inner run"] = list(await offered())
    async with nh.run(ScriptedSteps().executor):
        seen["program"] = list(await offered())
    assert seen == {
        "call": ["of_program", "of_run", "of_scope", "of_call"],
        "scope": ["of_program", "of_run", "of_scope"],
        "run": ["of_program", "of_run"],
        "inner run": ["of_program", "of_run"],
        "program": ["of_program"],
    }


def test_8_3_a_synchronous_call_has_its_own_scope_too() -> None:
    @nh.natural_function
    def calling() -> None:
        nh.tool(name="of_call")(lambda: None)
        """natural
        Do nothing.
        """

    with nh.run(ScriptedSteps(PASS, PASS).executor):
        calling()
        calling()  # the name is free again


# ---- signatures and schemas


async def test_8_3_the_schema_comes_from_the_signature() -> None:
    def search(
        query: Query,
        color: Color,
        mode: Literal["fast", "deep"],
        near: Point | None = None,
        *,
        count: Annotated[int, Field(ge=1, description="How many.")] = 3,
        tags: list[str] = [],  # noqa: B006  (the default that a user may write)
        untyped=None,  # type: ignore[no-untyped-def]
    ) -> None: ...

    schema = await schema_of(search)
    properties = schema["properties"]
    assert list(properties) == ["query", "color", "mode", "near", "count", "tags", "untyped"]
    assert schema["required"] == ["query", "color", "mode"]
    assert schema["additionalProperties"] is False
    assert properties["count"] == {
        "default": 3,
        "description": "How many.",
        "minimum": 1,
        "type": "integer",
    }
    assert properties["mode"]["enum"] == ["fast", "deep"]
    assert schema["$defs"]["Color"]["enum"] == ["red", "blue"]


async def test_8_3_a_tool_without_parameters_has_an_empty_object_schema() -> None:
    assert await schema_of(lambda: None, name="nothing") == {
        "additionalProperties": False,
        "properties": {},
        "type": "object",
    }


async def test_8_3_names_that_pydantic_reserves_are_fine_as_parameters() -> None:
    def odd(_private: int, model_config: str, schema: str, copy: bool = True) -> list[object]:
        return [_private, model_config, schema, copy]

    steps = ScriptedSteps(
        nh.models.ToolCall(
            id="", name="odd", arguments='{"_private": 1, "model_config": "m", "schema": "s"}'
        ),
        PASS,
    )
    async with nh.run(steps.executor):
        nh.tool(odd)
        await work()
    assert steps.envelopes[0]["value"] == [1, "m", "s", True]


async def test_8_3_a_default_that_json_cannot_hold_is_left_out_of_the_schema() -> None:
    missing = object()

    def find(name: str, default: object = missing) -> bool:
        return default is missing

    steps = ScriptedSteps(nh.models.ToolCall(id="", name="find", arguments='{"name": "x"}'), PASS)
    async with nh.run(steps.executor):
        nh.tool(find)
        await work()
    (schema,) = [tool.parameters for tool in steps.model.requests[0].tools if tool.name == "find"]
    assert "default" not in schema["properties"]["default"]
    assert steps.envelopes[0]["value"] is True


def test_8_3_a_callable_without_signature_cannot_be_a_tool() -> None:
    with pytest.raises(nh.ToolRegistrationError, match="no signature"):
        nh.tool(name="builtin")(type)


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def __call__(self, by: Color | int) -> str:
        return f"counted by {by}"

    def add(self, by: int) -> int:
        """Add to the count."""
        self.count += by
        return self.count


def scaled(factor: int, number: int) -> int:
    """Multiply."""
    return factor * number


async def test_8_3_bound_methods_callable_objects_classes_and_partials_can_be_tools() -> None:
    counter = Counter()
    steps = ScriptedSteps(
        (
            nh.models.ToolCall(id="", name="add", arguments='{"by": 2}'),
            nh.models.ToolCall(id="", name="count", arguments='{"by": "red"}'),
            nh.models.ToolCall(id="", name="scale", arguments='{"number": 4}'),
            nh.models.ToolCall(id="", name="Point", arguments='{"x": 4}'),
        ),
        PASS,
    )
    async with nh.run(steps.executor):
        nh.tool(counter.add)
        nh.tool(name="count")(counter)
        nh.tool(name="scale")(functools.partial(scaled, 3))
        nh.tool(Point)
        await work()
    assert counter.count == 2
    assert [envelope["value"] for envelope in steps.envelopes[:3]] == [2, "counted by Color.RED", 12]
    assert steps.envelopes[3]["value"] == {"x": 4, "y": 0}
    tools = {tool.name: tool for tool in steps.model.requests[0].tools}
    assert tools["scale"].description == "Multiply."
    assert tools["add"].description == "Add to the count."


# ---- the run context


async def call_with_context(function: Callable[..., object]) -> Any:
    steps = ScriptedSteps(nh.models.ToolCall(id="c7", name="look", arguments='{"extra": "e"}'), PASS)
    async with nh.run(steps.executor):
        nh.tool(name="look")(function)
        await work()
    (tool,) = [tool for tool in steps.model.requests[0].tools if tool.name == "look"]
    assert list(tool.parameters["properties"]) == ["extra"]
    return steps.envelopes[0]["value"]


async def test_8_3_the_first_parameter_receives_the_run_context_and_is_hidden() -> None:
    def look(run_context: RunContext[StepContext], extra: str) -> list[str]:
        assert run_context.deps is nh.get_current_step_context()
        return [
            run_context.deps.step_id.partition(":")[0],
            run_context.tool_name,
            run_context.tool_call_id,
            extra,
        ]

    assert await call_with_context(look) == [__name__, "look", "c7", "e"]


async def test_8_3_the_run_context_is_known_by_its_annotation_or_its_name() -> None:
    def by_type(context: Any, extra: str) -> str:
        return context.tool_name

    by_type.__annotations__["context"] = nh.RunContext[nh.StepContext]

    def by_bare_type(context: Any, extra: str) -> str:
        return context.tool_name

    by_bare_type.__annotations__["context"] = nh.RunContext

    def by_qualified_text(context: nh.RunContext[nh.StepContext], extra: str) -> str:
        return context.tool_name

    def by_name(run_context, extra: str) -> str:  # type: ignore[no-untyped-def]
        return run_context.tool_name

    for function in (by_type, by_bare_type, by_qualified_text, by_name):
        assert await call_with_context(function) == "look"


async def test_8_3_an_annotation_that_cannot_be_resolved_is_a_registration_error() -> None:
    def lost(value: Nowhere) -> None: ...

    with pytest.raises(nh.ToolRegistrationError, match=r"'lost'.*'value'.*Nowhere"):
        await schema_of(lost)


async def test_8_3_a_type_without_json_schema_is_a_registration_error() -> None:
    def take(value: Counter) -> None: ...

    with pytest.raises(nh.ToolRegistrationError, match="'take' has no JSON Schema"):
        await schema_of(take)


async def test_8_3_tools_stand_in_a_stable_order_behind_the_provided_ones() -> None:
    async with nh.run(ScriptedSteps().executor):
        for name in ("zebra", "ant", "mole"):
            nh.tool(name=name)(lambda: None)
        steps = ScriptedSteps(PASS, PASS)
        with nh.scope(step_executor=steps.executor):
            await work()
            await work()
    first, second = ([tool.name for tool in request.tools] for request in steps.model.requests)
    assert first == second == ["nh_eval", "nh_assign", "nh_exec", "zebra", "ant", "mole", "nh_outcome"]


async def test_8_3_a_tool_registered_by_what_a_step_calls_is_there_for_the_next_step() -> None:
    def register() -> None:
        nh.tool(name="late")(lambda: "late")

    @nh.natural_function
    async def twice() -> object:
        """natural
        First.
        """
        """natural
        Second.
        """

    steps = ScriptedSteps((evaluating("register()"), PASS), returning("1"))
    async with nh.run(steps.executor), nh.scope(implicit_references={"register": register}):
        await twice()
    first, second = ([tool.name for tool in request.tools] for request in steps.model.requests)
    assert "late" not in first
    assert "late" in second
