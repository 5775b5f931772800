"""The methods of a server: signatures from schemas, arguments, and results as values."""

import inspect
import json
from typing import Any, Literal, get_type_hints

import pytest

import nighthawk_async as nh
from nighthawk_async.mcp.methods import SchemaTypes
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.unit.mcp.support import PlainServer

pytestmark = pytest.mark.anyio


async def test_each_tool_is_a_method_with_a_signature_a_type_for_each_parameter_and_a_docstring(
    plain: PlainServer,
) -> None:
    async with nh.mcp.connect(plain.describe(), name="my_tools") as tools:
        assert type(tools).__name__ == "MyTools"
        assert type(tools).__doc__ == "A server for tests."
        method = tools.show_arguments
        assert method.__qualname__ == "MyTools.show_arguments"
        assert inspect.iscoroutinefunction(method)
        assert str(inspect.signature(method)) == (
            "(class_: str, items: list[{'name': str}], count: int = 3, owner: str | None = ..., "
            "kind: Optional[Literal['a', 'b']] = None)"
        )
        assert get_type_hints(tools.add)["return"] is int
        assert tools.echo.__doc__ == "Return the text.\n\nArgs:\n    text: Some text."
        assert [name for name in vars(type(tools)) if not name.startswith("_")] == [
            *("echo", "show_arguments", "add", "append", "store", "die", "hang", "meet", "work", "fail"),
            *("ask", "visit", "sign_in_first", "sample", "roots", "change_tools", "contents", "one_content"),
            *("log", "environment", "leave_behind", "garbage"),
        ], "all pages, in order"


async def test_arguments_have_their_own_names_again_and_defaults_are_left_to_the_server(
    plain: PlainServer,
) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        shown = json.loads(await tools.show_arguments("x", [{"name": "y"}]))
        assert shown == {"class": "x", "items": [{"name": "y"}]}
        shown = json.loads(await tools.show_arguments(class_="x", items=[], count=4, owner=None, kind="b"))
        assert shown == {"class": "x", "items": [], "count": 4, "owner": None, "kind": "b"}
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'items'"):
            await tools.show_arguments("x")


async def test_any_names_of_arguments_become_names_of_python(plain: PlainServer) -> None:
    given = ["x\u00b2", "\ufb01", "fi", "__debug__", "1a", "a b", "a-b", "self", "\u00aa", "class"]
    server = plain.describe(f"odd_names={json.dumps(given)}")
    async with nh.mcp.connect(server) as tools:
        parameters = list(inspect.signature(tools.odd).parameters)
        shown = json.loads(await tools.odd(**{name: name for name in parameters}))
    expected = ["x2", "fi", "fi_", "__debug___", "_1a", "a_b", "a_b_", "self_", "a", "class_"]
    assert parameters == expected
    assert shown == dict(zip(given, expected, strict=True))


def test_a_schema_that_refers_to_itself_again_and_again_is_any_type() -> None:
    level = {
        f"level{number}": {"anyOf": [{"$ref": f"#/$defs/level{number + 1}"}] * 60} for number in range(6)
    }
    types = SchemaTypes({"$defs": level})
    assert types.type_of({"$ref": "#/$defs/level0"}) is Any
    assert types.type_of({"type": "string"}) is Any, "there is a bound for each document"


@pytest.mark.parametrize("value", [object(), {1, object()}, "\ud800"], ids=["object", "set", "surrogate"])
async def test_arguments_that_are_no_json_are_refused_before_anything_is_sent(
    plain: PlainServer, value: object
) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        with pytest.raises(nh.mcp.ServerCallError, match="echo: the arguments are no JSON") as caught:
            await tools.echo(text=value)
        assert caught.value.kind == "invalid_input"
        assert await tools.echo(text="still here") == "still here"
    assert plain.count("echo") == 1


async def test_results_are_python_values(plain: PlainServer) -> None:
    picture = nh.BinaryContent(data=b"\0\1\2", media_type="image/png")
    async with nh.mcp.connect(plain.describe()) as tools:
        assert await tools.echo(text="a") == "a"
        assert await tools.add(a=1, b=2) == 3, "a wrapped result stands for itself"
        assert await tools.contents() == [
            "text",
            picture,
            nh.mcp.LinkedResource(uri="plain://1", name="one"),
            nh.mcp.ResourceContent(uri="plain://1", media_type=None, content="one"),
        ]
        assert await tools.one_content(kind="none") is None
        assert await tools.one_content(kind="json") == '{"a": 1}', "a text stays a text"
        assert await tools.one_content(kind="audio") == nh.BinaryContent(
            data=b"\0\1\2", media_type="audio/wav"
        )


async def test_a_result_that_does_not_fit_its_schema_is_an_error(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        with pytest.raises(nh.mcp.ServerCallError, match="'thirteen' is not of type 'integer'") as caught:
            await tools.add(a=13, b=0)
        assert caught.value.kind == "execution"


@pytest.mark.parametrize(
    ("kind", "error", "expected"),
    [
        ("out of order", "ServerToolError", "execution"),
        ("Input validation error: text is missing", "ServerToolError", "invalid_input"),
        ("protocol", "ServerCallError", "invalid_input"),
        ("internal", "ServerCallError", "execution"),
    ],
)
async def test_failures_are_typed_errors(plain: PlainServer, kind: str, error: str, expected: str) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        with pytest.raises(nh.mcp.ServerCallError) as caught:
            await tools.fail(kind=kind)
        assert type(caught.value).__name__ == error
        assert caught.value.kind == expected
        assert caught.value.server == "plain"
        assert str(caught.value).startswith("fail: ")
        assert "fail: " not in caught.value.message_without_content


async def test_resources_and_prompts_are_read_with_functions_that_take_the_object(plain: PlainServer) -> None:
    async with nh.mcp.connect(plain.describe()) as tools:
        listed = await nh.mcp.list_resources(tools)
        assert [each.uri for each in listed] == ["plain://0", "plain://1", "plain://2"], "all pages"
        assert [each.content for each in await nh.mcp.read_resource(tools, "plain://1")] == [
            "one",
            nh.BinaryContent(data=b"\0\1\2", media_type="application/octet-stream"),
        ]
        (template,) = await nh.mcp.list_resource_templates(tools)
        assert template.uri_template == "plain://{number}"
        (prompt,) = await nh.mcp.list_prompts(tools)
        assert (prompt.name, prompt.required, prompt.optional) == ("poem", ("subject",), ("style",))
        (message,) = await nh.mcp.get_prompt(tools, "poem", subject="spring")
        assert message == nh.mcp.PromptText(role="user", content="Write a poem about spring.")
        with pytest.raises(nh.mcp.ServerCallError, match="there is no resource plain://9"):
            await nh.mcp.read_resource(tools, "plain://9")
    with pytest.raises(nh.mcp.McpError, match="'tools' is no server"):
        await nh.mcp.list_prompts("tools")  # pyright: ignore[reportArgumentType]


async def test_a_block_sees_one_line_for_each_method(plain: PlainServer) -> None:
    prompts: list[str] = []

    def answer(request: Any) -> Any:
        prompts.append(str(request.messages[0].content[0]))
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": "done"}))

    @nh.natural_function
    async def work() -> str:
        """natural
        Work with <tools>. Set <:result>.
        """
        return result

    server = plain.describe(only=["echo", "add", "show-*"])
    async with nh.run(ScriptedModel(answer), servers={"tools": server}):
        assert await work() == "done"
    shown = [line for line in prompts[0].splitlines() if line.startswith("tools")]
    assert shown == [
        "tools: object = Tools",
        "tools.add: (a: int, b: int) -> int  # Add two numbers. # async",
        "tools.echo: (text: str)  # Return the text. # async",
        "tools.show_arguments: (class_: str, items: list[{'name': str}], count: int = 3, "
        'owner: str | None = ..., kind: Literal["a", "b"] | None = None)  '
        "# Return the arguments as JSON. # async",
    ]


def test_literal_types_name_what_an_argument_may_be() -> None:
    from nighthawk_async.mcp.methods import SchemaTypes

    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "properties": {},
    }
    types = SchemaTypes(schema)
    assert types.type_of({"const": 1}) == Literal[1]
    assert types.type_of({"enum": [1.5, 2.5]}) is float
    assert types.type_of({"anyOf": [{"type": "string"}, {"type": "null"}]}) == str | None
    assert types.type_of({"type": "array", "items": {"type": "number"}}) == list[float]
    assert types.type_of({"type": "object", "additionalProperties": {"type": "integer"}}) == dict[str, int]
    assert types.type_of(True) is Any
    assert types.type_of({"$ref": "https://elsewhere.example/schema"}) is Any
    assert types.type_of({"type": "array", "items": {"$ref": "#/$defs/node"}}) is not None, "recursive"
