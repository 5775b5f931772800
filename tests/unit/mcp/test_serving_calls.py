"""Calls of served functions: results, failures and what clients see of the tools."""

import dataclasses
import json
import logging
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import ImageContent
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.mcp import Served
from nighthawk_async.testing import CallbackExecutor

from .serving_support import CLIENT_WARNINGS, ERAS, Era, connected, count_run, stars, text_of

pytestmark = [
    pytest.mark.anyio,
    *(CLIENT_WARNINGS, pytest.mark.parametrize("era", ERAS)),
]

SECRET = "sk-live-0123456789"


@dataclasses.dataclass
class Owner:
    """Somebody who owns something."""

    name: str
    team: str | None = None


class Tree(BaseModel):
    """A tree."""

    children: list["Tree"] = []


async def find_owner(name: str, depth: int = 1) -> Owner:
    """Find an owner.

    Args:
        name: The name of the component.
        depth: The number of teams to ask.
    """
    return Owner(name)


async def test_a_natural_function_is_called_in_the_run(era: Era) -> None:
    async with connected(nh.mcp.serve([stars], run=count_run), era) as client:
        result = await client.call_tool("stars", {"review": "Good ****"})
    assert (text_of(result), result.is_error, result.structured_content) == ("4", False, None)


async def test_clients_see_names_descriptions_schemas_and_hints(era: Era) -> None:
    served = Served(find_owner, name="owner", title="Owners", read_only=True, idempotent=True)
    async with connected(nh.mcp.serve([served], run=count_run, name="shop"), era) as client:
        (tool,) = (await client.list_tools()).tools
        assert client.server_info is not None
        assert client.server_info.name == "shop"
    assert (tool.name, tool.title, tool.description) == ("owner", "Owners", "Find an owner.")
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the component."},
            "depth": {"type": "integer", "description": "The number of teams to ask.", "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert tool.output_schema is not None
    assert tool.output_schema["type"] == "object"
    assert tool.annotations is not None
    hints = (tool.annotations.read_only_hint, tool.annotations.idempotent_hint)
    assert (*hints, tool.annotations.destructive_hint) == (True, True, None)


async def test_an_object_is_structured_content_and_the_same_text(era: Era) -> None:
    async with connected(nh.mcp.serve([find_owner], run=count_run), era) as client:
        result = await client.call_tool("find_owner", {"name": "kettle"})
    assert result.structured_content == {"name": "kettle", "team": None}
    assert json.loads(text_of(result)) == result.structured_content


async def test_a_recursive_model_is_structured_content(era: Era) -> None:
    async def grow() -> Tree:
        return Tree(children=[Tree()])

    async with connected(nh.mcp.serve([grow], run=count_run), era) as client:
        assert (await client.call_tool("grow", {})).structured_content == {"children": [{"children": []}]}


async def test_other_values_are_json_texts(era: Era) -> None:
    async def values() -> list[Any]:
        return [1, None, "ä", {"b": float("inf")}, b"\xff"]

    async def nothing() -> None:
        return

    async with connected(nh.mcp.serve([values, nothing], run=count_run), era) as client:
        assert text_of(await client.call_tool("values", {})) == '[1,null,"ä",{"b":"Infinity"},"_w=="]'
        assert text_of(await client.call_tool("nothing", {})) == "null"


async def test_an_image_is_an_image(era: Era) -> None:
    async def picture() -> nh.BinaryContent:
        return nh.BinaryContent(data=b"\x89PNG", media_type="image/png")

    async with connected(nh.mcp.serve([picture], run=count_run), era) as client:
        (content,) = (await client.call_tool("picture", {})).content
    assert isinstance(content, ImageContent)
    assert (content.data, content.mime_type) == ("iVBORw==", "image/png")


async def test_arguments_that_do_not_fit_are_an_error_that_says_why(era: Era) -> None:
    async with connected(nh.mcp.serve([find_owner], run=count_run), era) as client:
        for arguments, reason in [
            ({"name": 3}, "at name: Input should be a valid string"),
            ({}, "at name: Field required"),
            ({"name": "a", "unknown": 1}, "at unknown: Extra inputs are not permitted"),
            ({"name": "a", "depth": "deep"}, "at depth: Input should be a valid integer"),
        ]:
            result = await client.call_tool("find_owner", arguments)
            assert result.is_error
            assert reason in text_of(result)


async def test_an_unknown_tool_is_a_protocol_error(era: Era) -> None:
    async with connected(nh.mcp.serve([stars], run=count_run), era) as client:
        with pytest.raises(MCPError, match="Unknown tool: planets"):
            await client.call_tool("planets", {})


async def test_an_exception_is_its_type_and_message_without_a_traceback(
    era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    async def divide(number: float) -> float:
        if number == 0:
            raise ZeroDivisionError("there is no quotient")
        return 1 / number

    async with connected(nh.mcp.serve([divide], run=count_run), era) as client:
        failed = await client.call_tool("divide", {"number": 0})
        assert text_of(await client.call_tool("divide", {"number": 4})) == "0.25"
    assert failed.is_error
    assert text_of(failed) == "ZeroDivisionError: there is no quotient"
    (record,) = [each for each in caplog.records if each.name == "nighthawk"]
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


async def test_several_errors_are_named_one_after_the_other(era: Era) -> None:
    async def fail(number: int) -> None:
        raise ValueError(f"number {number}")

    async def both() -> None:
        await nh.parallel.settle(fail, range(2))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, 1)
            tasks.start_soon(fail, 2)

    async with connected(nh.mcp.serve([both], run=count_run), era) as client:
        text = text_of(await client.call_tool("both", {}))
    assert sorted(text.split("; ")) == ["ValueError: number 1", "ValueError: number 2"]


async def test_errors_of_the_library_do_not_quote_models(era: Era) -> None:
    def refuse(call: Any) -> Any:
        raise nh.errors.ModelError(f"401: {SECRET}").without_content("the provider refused the credentials")

    run = lambda: nh.run(CallbackExecutor(refuse))  # noqa: E731
    async with connected(nh.mcp.serve([stars], run=run), era) as client:
        result = await client.call_tool("stars", {"review": "*"})
    assert result.is_error
    assert text_of(result).endswith("the provider refused the credentials")
    assert SECRET not in text_of(result)


async def test_a_budget_that_is_used_up_is_readable(era: Era) -> None:
    async def twice(review: str) -> int:
        return await stars(review) + await stars(review)

    app = nh.mcp.serve([twice], run=count_run, request_budget=nh.budget(steps=1, name="call"))
    async with connected(app, era) as client:
        for _ in range(2):  # each call has an account of its own
            result = await client.call_tool("twice", {"review": "*"})
            assert result.is_error
            assert text_of(result) == "BudgetExceededError: budget call: no room for 1 step: 1 spent of 1"


async def test_a_result_that_is_not_of_the_declared_type_is_an_error(era: Era) -> None:
    async def lie() -> Owner:
        return "nobody"  # type: ignore[return-value]

    async def knot() -> Any:
        knot: list[Any] = []
        knot.append(knot)
        return knot

    async with connected(nh.mcp.serve([lie, knot], run=count_run), era) as client:
        wrong = await client.call_tool("lie", {})
        assert (wrong.is_error, wrong.structured_content) == (True, None)
        assert text_of(wrong) == "The function has returned something else than it declares."
        assert "no JSON form: Circular reference" in text_of(await client.call_tool("knot", {}))


async def test_functions_without_async_run_in_worker_threads(era: Era) -> None:
    def shout(text: str) -> str:
        return anyio.from_thread.run(_upper, text)

    async def _upper(text: str) -> str:
        return text.upper()

    @nh.natural_function
    def count(review: str) -> int:
        count: int
        """natural
        Set <:count> to the number of stars that <review> gives.
        """
        return count

    async with connected(nh.mcp.serve([shout, count, stop, leave], run=count_run), era) as client:
        assert text_of(await client.call_tool("shout", {"text": "kettle"})) == "KETTLE"
        assert text_of(await client.call_tool("count", {"review": "**"})) == "2"
        for name in ("stop", "leave"):
            end = text_of(await client.call_tool(name, {}))
            assert end == "RuntimeError: the function wanted to end the process, with 3"
        assert text_of(await client.call_tool("count", {"review": "*"})) == "1"


async def leave() -> None:
    raise SystemExit(3)


def stop() -> None:
    raise SystemExit(3)


async def test_a_hundred_calls_at_once_have_one_run(era: Era) -> None:
    app = nh.mcp.serve([stars], run=count_run)
    texts: list[str] = []

    async with connected(app, era) as client:

        async def call(number: int) -> None:
            texts.append(text_of(await client.call_tool("stars", {"review": "*" * number})))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(call, number)
        assert app.run is not None
        assert app.run.usage_meter.steps == 100
    assert sorted(map(int, texts)) == list(range(100))
    assert (app.run, app.calls_in_progress, app.calls_waiting) == (None, 0, 0)
