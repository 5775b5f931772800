"""What a tree shows of a recall, and a memory as the tools of an MCP server."""

import json

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel
from tests.unit.mcp.serving_support import connected, text_of

from .conftest import Opened

pytestmark = pytest.mark.anyio


async def test_a_tree_shows_what_was_recalled_and_why(in_file: Opened) -> None:
    memory = in_file()
    with nh.observe.recording() as tree:
        await memory.store("refunds", "Refunds take three days.", tags=["policy"])
        await memory.store("ann", "lives in Lima")
        await memory.recall("policy refunds")
        await memory.erase(query="lima")
    stored, _, recalled, erased = tree.snapshot().children
    assert stored.name == "Memory.store"
    assert recalled.inputs["query"] == '"policy refunds"'
    (shown,) = recalled.outputs.values()
    assert "refunds [policy]: Refunds take three days." in shown
    assert "words " in shown
    assert "tags 0.5" in shown
    assert "lima" not in str(erased).lower()
    assert "Memory.recall" in nh.observe.view_as_text(tree.snapshot(), outputs=True)


async def test_a_server_has_the_memory_as_tools(in_file: Opened) -> None:
    memory = in_file()
    executor = nh.AgentStepExecutor.from_model(ScriptedModel([]))
    app = nh.mcp.serve(nh.memory.functions(memory), run=lambda: nh.run(executor))
    async with connected(app) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == [
            "memory_forget",
            "memory_get",
            "memory_recall",
            "memory_store",
            "memory_summarize",
        ]
        assert "query" in tools["memory_recall"].input_schema["properties"]
        stored = await client.call_tool(
            "memory_store", {"key": "refunds", "value": {"days": 3}, "tags": ["policy"]}
        )
        assert not stored.is_error
        found = await client.call_tool("memory_recall", {"query": "refunds"})
        assert json.loads(text_of(found))[0]["value"] == {"days": 3}
        summary = await client.call_tool("memory_summarize", {})
        assert text_of(summary) == '- refunds: {"days":3}'
        assert (await client.call_tool("memory_recall", {"query": "x", "k": 0})).is_error
        assert not (await client.call_tool("memory_forget", {"key": "refunds"})).is_error
        assert await memory.get("refunds") is None
    names = [function.__name__ for function in nh.memory.functions(memory, writable=False)]
    assert names == ["memory_recall", "memory_get", "memory_summarize"]
