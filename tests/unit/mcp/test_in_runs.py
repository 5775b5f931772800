"""Servers in runs: blocks, permissions, approvals, tools of models, the tree, and durable runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.unit.mcp.support import PlainServer, wait_until

pytestmark = pytest.mark.anyio
END = tool_call("nh_outcome", kind="pass", bindings={"result": "done"})


@nh.natural_function
async def work() -> str:
    """natural
    Work with <tools>. Set <:result>.
    """
    return result  # pyright: ignore


@nh.natural_function
async def work_with_offered_tools() -> str:
    """natural
    Call tools. Set <:result>.
    """
    return result  # pyright: ignore


def evaluate(expression: str) -> Any:
    return tool_call("nh_eval", expression=expression)


def results_in(request: Any) -> list[str]:
    """The results of tools in the last message of a request."""
    return [str(item.content[0]) for item in request.messages[-1].results]


async def test_two_calls_of_methods_cost_one_request_and_their_results_stay_values(
    plain: PlainServer,
) -> None:
    model = ScriptedModel(
        [
            model_response(
                tool_call(
                    "nh_assign",
                    target_path="result",
                    expression="str(await tools.add(a=1, b=2)) + await tools.echo(text='!')",
                ),
                tool_call("nh_outcome", kind="pass"),
            )
        ]
    )
    async with nh.run(model, servers={"tools": plain.describe()}):
        assert await work() == "3!"
        assert nh.get_usage_meter().usage.requests == 1


async def test_permissions_match_the_class_and_the_method(plain: PlainServer) -> None:
    seen: list[str] = []

    def answer(request: Any) -> Any:
        if len(request.messages) == 1:
            return model_response(
                evaluate("await tools.echo(text='a')"), evaluate("await tools.append(line='b')")
            )
        seen.extend(results_in(request))
        return model_response(END)

    rules = nh.permissions(allow=["Tools.echo"], deny=["Tools.append"], default="allow")
    async with nh.run(ScriptedModel(answer), servers={"tools": plain.describe()}, permissions=rules):
        assert await work() == "done"
    assert seen[0] == "a"
    assert "Tools.append is not permitted" in seen[1]
    assert plain.count("append") == 0


class People:
    """Approves everything, and remembers what was asked."""

    def __init__(self, before: Any = None) -> None:
        self.requests: list[Any] = []
        self.before = before

    async def ask(self, question: Any) -> object:
        raise AssertionError(question)

    async def approve(self, request: Any) -> None:
        self.requests.append(request)
        if self.before is not None:
            await self.before(len(self.requests))
        request.approve("ann", digest=request.digest)


async def test_an_approval_is_bound_to_the_definition_of_the_tool(plain: PlainServer) -> None:
    """A definition that changes while people think is not what they approved; the next call asks again."""
    seen: list[str] = []

    def answer(request: Any) -> Any:
        if len(request.messages) < 6:
            seen.extend(results_in(request) if len(request.messages) > 1 else [])
            return model_response(evaluate("await tools.late(text='x')"), finish_reason="tool_calls")
        seen.extend(results_in(request))
        return model_response(END)

    async def change(number: int) -> None:
        if number == 2:
            await tools.change_tools(description="now it deletes everything")
            await wait_for_description(tools, "now it deletes everything")

    people = People(change)
    rules = nh.permissions(ask=["Tools.late"], default="allow")
    server = plain.describe()
    async with (
        nh.run(ScriptedModel(answer), servers={"tools": server}, permissions=rules, human=people),
        nh.mcp.connect(server, name="tools") as tools,
    ):
        await tools.change_tools(description="harmless")
        await wait_for_description(tools, "harmless")
        assert await work() == "done"
    assert seen[0] == "late x"
    assert "not what was approved" in seen[1], "it changed while the person was asked"
    assert seen[2] == "late x", "asked again, and approved as it is now"
    digests = [request.arguments["definition"] for request in people.requests]
    assert digests[0] == digests[1] != digests[2]
    assert plain.count("late") == 2


async def test_an_approval_of_a_tool_that_the_model_calls_is_bound_to_its_definition_too(
    plain: PlainServer,
) -> None:
    people = People()
    model = ScriptedModel([model_response(tool_call("echo", text="a")), model_response(END)])
    rules = nh.permissions(ask=["echo"], default="deny")
    server = plain.describe()
    async with nh.run(model, tools=[server.tools()], permissions=rules, human=people):
        assert await work_with_offered_tools() == "done"
        async with nh.mcp.connect(server) as tools:
            digest = type(tools).echo.definition_digest()
    assert people.requests[0].arguments == {"text": "a", "definition": digest}
    assert plain.count("echo") == 1


async def test_a_tool_that_is_replaced_after_an_approval_is_refused(plain: PlainServer) -> None:
    server = plain.describe()
    async with nh.run(ScriptedModel([])), nh.mcp.connect(server, name="tools") as tools:
        await tools.change_tools(description="harmless")
        await wait_for_description(tools, "harmless")
        shown = type(tools).late.definition_digest()  # as an approval does before the call
        assert shown["server"]["name"] == server.description.name
        assert shown["server"]["target"] == server.description.target
        assert (shown["name"], shown["description"]) == ("late", "harmless")
        assert '"text"' in shown["input_schema"]
        approved = tools.late
        await tools.change_tools(description="it deletes everything")
        await wait_for_description(tools, "it deletes everything")
        with pytest.raises(nh.mcp.ServerCallError, match="has replaced the tool since people were asked"):
            await approved(text="x")
        assert plain.count("late") == 0
        assert await tools.late(text="x") == "late x"


async def wait_for_description(tools: Any, description: str) -> None:
    await wait_until(lambda: getattr(getattr(tools, "late", None), "__doc__", None) == description)


async def test_the_tools_of_a_server_are_called_by_the_model_itself(plain: PlainServer) -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        if len(requests) == 1:
            return model_response(
                tool_call("plain_add", a=1, b=2), tool_call("plain_fail", kind="-32602: bad")
            )
        return model_response(END)

    server = plain.describe(only=["add", "fail"])
    async with nh.run(ScriptedModel(answer), tools=[server.tools(prefix="plain_")]):
        assert await work_with_offered_tools() == "done"
        async with nh.mcp.connect(server) as tools:
            assert await tools.add(a=3, b=4) == 7
    offered = {tool.name: tool for tool in requests[0].tools}
    assert offered["plain_add"].parameters["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "integer"},
    }
    assert offered["plain_add"].description == "Add two numbers."
    first, second = results_in(requests[1])
    assert json.loads(first) == {"value": 3, "error": None}
    assert json.loads(second)["error"]["kind"] == "invalid_input"
    assert plain.count("started") == 1, "the run has one session, opened at the first step"


@nh.natural_function
def work_synchronously() -> str:
    """natural
    Call tools. Set <:result>.
    """
    return result  # pyright: ignore


def test_a_synchronous_run_has_the_tools_of_servers_too(plain: PlainServer) -> None:
    model = ScriptedModel([model_response(tool_call("echo", text="a")), model_response(END)])
    with nh.run(model, tools=[plain.describe().tools()]):
        assert work_synchronously() == "done"
    assert [what for what, _ in plain.record if what in ("started", "echo", "end_of_input")] == [
        "started",
        "echo",
        "end_of_input",
    ]


async def test_deferred_tools_are_found(plain: PlainServer) -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        match len(requests):
            case 1:
                return model_response(tool_call("nh_find_tools", query="add numbers"))
            case 2:
                return model_response(tool_call("add", a=1, b=2))
            case _:
                return model_response(END)

    tools = [plain.describe().tools(deferred=True)]
    async with nh.run(ScriptedModel(answer)):
        with nh.scope(tools=tools):
            assert await work_with_offered_tools() == "done"
    assert "add" not in {tool.name for tool in requests[0].tools}
    assert "add" in {tool.name for tool in requests[1].tools}
    assert '"value": 3' in results_in(requests[2])[0]


async def test_the_list_of_tools_is_frozen_for_a_step(plain: PlainServer) -> None:
    offered: list[set[str]] = []

    def answer(request: Any) -> Any:
        offered.append({tool.name for tool in request.tools})
        if len(offered) == 1:
            return model_response(tool_call("change_tools", description="new"))
        return model_response(END)

    server = plain.describe()
    async with (
        nh.run(ScriptedModel(answer), tools=[server.tools()]),
        nh.mcp.connect(server, name="tools") as tools,
    ):
        await work_with_offered_tools()
        await wait_for_description(tools, "new")
        await work_with_offered_tools()
    assert ["late" in each for each in offered] == [False, False, True]


async def test_the_tools_of_a_server_offered_twice_are_the_same_tools(plain: PlainServer) -> None:
    server = plain.describe(only=["echo"])

    def answer(request: Any) -> Any:
        assert [tool.name for tool in request.tools].count("echo") == 1
        return model_response(END)

    async with nh.run(ScriptedModel(answer), tools=[server.tools()]):
        with nh.scope(tools=[server.tools()]):
            assert await work_with_offered_tools() == "done"


async def test_tools_of_two_servers_with_the_same_name_are_an_error_that_names_both(
    plain: PlainServer,
) -> None:
    one, other = plain.describe(name="one", only=["echo"]), plain.describe(name="other", only=["echo"])
    model = ScriptedModel([])
    async with nh.run(model, tools=[one.tools(), other.tools()]):
        with pytest.raises(
            nh.errors.ToolRegistrationError, match="'echo' of server 'one' and 'echo' of server 'other'"
        ):
            await work_with_offered_tools()


async def test_calls_are_nodes_of_the_tree_with_their_progress(plain: PlainServer) -> None:
    model = ScriptedModel([model_response(evaluate("await tools.work(steps=2)"), END)])
    with nh.observe.recording() as tree:
        async with nh.run(model, servers={"tools": plain.describe()}):
            await work()
    nodes = {node.name: node for node in walk(tree.snapshot())}
    node = nodes["Tools.work"]
    assert node.kind == "function"
    assert node.state == "completed"
    assert node.attributes["mcp.server"] == "plain"
    assert node.attributes["mcp.progress"] == 2
    assert node.attributes["mcp.progress.total"] == 2
    assert "2/2 step 2" in "".join(part.text for part in node.transcript)


def walk(node: Any) -> Any:
    yield node
    for child in node.children:
        yield from walk(child)


async def test_hooks_and_budgets_see_the_calls_of_tools(plain: PlainServer) -> None:
    calls: list[str] = []
    hooks = nh.Hooks()

    @hooks.on(nh.hooks.BeforeToolCall)
    async def note(event: nh.hooks.BeforeToolCall) -> None:
        calls.append(event.tool_name)

    model = ScriptedModel([model_response(tool_call("echo", text="a")), model_response(END)])
    async with nh.run(model, tools=[plain.describe().tools()], hooks=hooks):
        await work_with_offered_tools()
    assert "echo" in calls


async def test_calls_are_made_once_in_all_lives_of_a_durable_run(plain: PlainServer, tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for life in (1, 2):
            async with (
                nh.run(ScriptedModel([]), servers={"tools": plain.describe()}, journal=store, run_id="one"),
                nh.mcp.connect(plain.describe(), name="tools") as tools,
            ):
                assert await tools.append(line="a") == "done"
                assert (await tools.contents())[1].data == b"\0\1\2"
                with pytest.raises(nh.mcp.ServerToolError, match="fail: broken") as caught:
                    await tools.fail(kind="broken")
                assert caught.value.kind == "execution", life
    assert plain.count("append") == plain.count("contents") == plain.count("fail") == 1


async def test_tools_of_models_are_called_once_in_all_lives(plain: PlainServer, tmp_path: Path) -> None:
    model = ScriptedModel([model_response(tool_call("append", line="a")), model_response(END)])
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for _ in range(2):
            async with nh.run(model, tools=[plain.describe().tools()], journal=store, run_id="one"):
                assert await work_with_offered_tools() == "done"
    assert plain.count("append") == 1
