"""One bad tool, resource, prompt or part of a result of a server is one bad one: the others work."""

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import from_thread
from mcp_types import CallToolResult

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

from .odd_server import application
from .serving_support import CLIENT_WARNINGS, serving
from .support import wait_until

pytestmark = [pytest.mark.anyio, CLIENT_WARNINGS]
ODD_SERVER = Path(__file__).with_name("odd_server.py")
OBJECT: dict[str, Any] = {"type": "object"}


def tool(**changes: Any) -> dict[str, Any]:
    return {"name": "bad", "inputSchema": OBJECT, **changes}


def with_parameter(schema: Any, **others: Any) -> dict[str, Any]:
    return tool(inputSchema={"type": "object", "properties": {"n": schema}, **others})


BOMB = {f"a{number}": {"anyOf": [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(30)}
DEEP: dict[str, Any] = {"type": "string"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}

BAD_TOOLS: dict[str, tuple[Any, str]] = {
    "a text": ("bad", "it is no object"),
    "no name": ({"inputSchema": OBJECT}, "it has no name"),
    "an empty name": (tool(name=""), "it has no name"),
    "a number as name": (tool(name=5), "name: Input should be a valid string"),
    "the name of another one": (tool(name="good", description="other"), "'good' is left out: a tool of the"),
    "a number as description": (tool(description=5), "description: Input should be a valid string"),
    "a list of annotations": (tool(annotations=[]), "annotations: Input should be a valid dictionary"),
    "no schema": ({"name": "bad"}, "it has no inputSchema"),
    "a schema that is null": (tool(inputSchema=None), "it is no object"),
    "a schema of a list": (tool(inputSchema={"type": "array"}), "its type is 'array', not 'object'"),
    "properties that are null": (
        tool(inputSchema={"type": "object", "properties": None}),
        "'properties' is None",
    ),
    "a text as required": (tool(inputSchema={"type": "object", "required": "n"}), "'required' is 'n'"),
    "a type that is none": (with_parameter({"type": "int"}), "at properties/n: 'type' is 'int'"),
    "a text as enum": (with_parameter({"enum": "a"}), "'enum' is 'a'"),
    "a pattern that is none": (with_parameter({"pattern": "("}), "'(' is no regular expression"),
    "a reference to nothing": (with_parameter({"$ref": "#/$defs/a"}), "'#/$defs/a' refers to no schema"),
    "a reference to elsewhere": (
        with_parameter({"$ref": "https://a.example/b"}),
        "refers to no schema in it",
    ),
    "a reference to itself": (
        with_parameter({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/a"}}}),
        "refers to itself",
    ),
    "an anchor that is none": (with_parameter({"$anchor": "1"}), "'$anchor' is '1'"),
    "a bad dependency": (with_parameter({}, dependencies={"a": {"type": "int"}}), "'type' is 'int'"),
    "a number that is too large": (with_parameter({"multipleOf": 10**400}), "'multipleOf' is 1000"),
    "references that multiply": (
        with_parameter({"$ref": "#/$defs/a0"}, **{"$defs": {**BOMB, "a30": True}}),
        "more than 10,000 parts",
    ),
    "a deep schema": (with_parameter(DEEP), "nested more than 32 deep"),
    "a huge schema": (tool(inputSchema={**OBJECT, "description": "<huge>"}), "at most 262,144 are used"),
    "NaN": (with_parameter({"default": float("nan")}), "a number that JSON does not have"),
}


@asynccontextmanager
async def connected(
    transport: str, *, options: nh.mcp.ServerArguments | None = None, **configuration: Any
) -> AsyncIterator[Any]:
    """The object of an odd server."""
    options = options or {}
    if transport == "stdio":
        async with nh.mcp.connect(described(options, **configuration)) as server:
            yield server
        return
    configuration["modern"] = transport == "modern http"
    async with (
        serving(application(configuration)) as url,
        nh.mcp.connect(nh.mcp.http(url, name="odd", **options)) as server,
    ):
        yield server


def described(options: nh.mcp.ServerArguments | None = None, **configuration: Any) -> nh.mcp.Server:
    described = json.dumps(configuration)
    return nh.mcp.stdio(sys.executable, "-I", ODD_SERVER, described, name="odd", **options or {})


def tools_of(server: Any) -> list[str]:
    return [name for name in vars(type(server)) if not name.startswith("_")]


TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http", "modern http"])


@TRANSPORTS
async def test_bad_tools_are_left_out_and_named(transport: str, caplog: pytest.LogCaptureFixture) -> None:
    bad = [each for each, _ in BAD_TOOLS.values()]
    with caplog.at_level(logging.WARNING, "nighthawk.mcp"):
        async with connected(transport, tools=[*bad, tool(name="last")]) as server:
            assert tools_of(server) == ["good", "change", "last"]
            assert await server.good() == await server.last() == "fine"
    lines = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert len(lines) == len(bad)
    for line, (name, (_, reason)) in zip(lines, BAD_TOOLS.items(), strict=True):
        assert line.startswith("odd: tool "), name
        assert reason in line, name


async def test_bad_tools_that_come_later_are_left_out_too(caplog: pytest.LogCaptureFixture) -> None:
    late = [with_parameter({"type": "int"}), tool(name="late"), {"name": "bad"}]
    async with nh.mcp.connect(described(late=late)) as server:
        assert await server.change() == "fine"
        await wait_until(lambda: "late" in tools_of(server))
        assert await server.late() == "fine"
        assert tools_of(server) == ["good", "change", "late"]
    assert caplog.text.count("tool 'bad' is left out") == 2


@pytest.mark.parametrize("deferred", [False, True])
async def test_bad_tools_reach_no_model(deferred: bool) -> None:
    @nh.natural_function
    async def work() -> str:
        """natural
        Set <:result>.
        """
        return result  # pyright: ignore

    def answer(request: Any) -> Any:
        assert "'int'" not in repr(request)
        assert "bad" not in [each.name for each in request.tools]
        assert deferred or "good" in [each.name for each in request.tools]
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": "done"}))

    server = described(tools=[each for each, _ in BAD_TOOLS.values()])
    async with nh.run(ScriptedModel(answer), tools=[server.tools(deferred=deferred)]):
        assert await work() == "done"


async def test_names_that_providers_refuse_are_others_for_models(caplog: pytest.LogCaptureFixture) -> None:
    tools = [
        tool(name="nh_eval"),
        tool(
            name="search",
            inputSchema={
                "type": "object",
                "properties": {"$top": {"type": "integer"}, "_top": {}, "größe": {}, "x-y": {}},
                "required": ["$top"],
            },
        ),
    ]

    @nh.natural_function
    async def work() -> str:
        """natural
        Set <:result>.
        """
        return result  # pyright: ignore

    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        (search,) = [each for each in request.tools if each.name == "search"]
        assert list(search.parameters["properties"]) == ["_top_", "_top", "gr__e", "x-y"]
        assert search.parameters["required"] == ["_top_"]
        if len(requests) == 1:
            return model_response(tool_call("search", _top_=1, _top=2, gr__e=3))
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": "done"}))

    server = described(tools=tools, results={"search": "<arguments>"})
    async with nh.run(ScriptedModel(answer), tools=[server.tools()]):
        assert await work() == "done"
    assert "$top=1 _top=2 größe=3" in repr(requests[1].messages)
    assert "tool 'nh_eval' is left out: it has the name of a provided tool" in caplog.text


async def test_a_tool_that_is_not_used_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    server = nh.mcp.stdio(
        sys.executable,
        "-I",
        ODD_SERVER,
        json.dumps({"tools": [tool(description=5)]}),
        name="odd",
        only=["good"],
    )
    async with nh.mcp.connect(server) as connected:
        assert tools_of(connected) == ["good"]
    assert "bad" not in caplog.text


@TRANSPORTS
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "int"}, id="no type"),
        pytest.param({"$ref": "#/$defs/a"}, id="a reference to nothing"),
        pytest.param("text", id="a text"),
        pytest.param({"type": "object", "properties": {"a": {"pattern": "("}}}, id="a bad pattern"),
    ],
)
async def test_a_bad_schema_of_results_does_not_take_the_tool_away(
    transport: str, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(transport, tools=[tool(outputSchema=schema)]) as server:
        assert await server.bad() == "fine"
    assert "the outputSchema of tool 'bad' is not used: " in caplog.text


async def test_a_list_as_structured_content_of_an_earlier_version_leaves_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    content = [{"type": "text", "text": "[1]"}]
    listed = {
        "tools": [tool(outputSchema={"type": "array", "items": {"type": "integer"}})],
        "results": {"bad": {"content": content, "structuredContent": [1]}},
    }
    async with connected("stdio", **listed) as server:
        assert await server.bad() == "[1]"
    assert "structuredContent of a result is not used" in caplog.text
    async with connected("modern http", **listed) as server:
        assert await server.bad() == [1]


@TRANSPORTS
async def test_a_part_of_an_unknown_kind_becomes_a_text_and_the_others_stay(transport: str) -> None:
    content: list[Any] = [
        {"type": "text", "text": "before"},
        {"type": "hologram", "data": 1},
        {"type": "image", "mimeType": "image/png"},
        {"type": "text", "text": "after", "annotations": 5},
        7,
    ]
    async with connected(transport, results={"good": {"content": content}}) as server:
        found = await server.good()
    assert found == [
        "before",
        "[a part of the kind 'hologram', which cannot be read]",
        "[a part of the kind 'image', which cannot be read]",
        "after",
        "[a part of the kind without a name, which cannot be read]",
    ]


async def test_bad_resources_and_prompts_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    server = described(
        resources=[
            {"uri": "odd://1"},
            5,
            {"uri": "odd://2", "name": "two"},
            {"uri": "odd://3", "name": "3", "size": "x"},
        ],
        resourceTemplates=[{"uriTemplate": "odd://{a}", "name": "a"}, {"name": "b"}],
        prompts=[
            {"name": "good", "arguments": []},
            {"name": "bad", "arguments": {}},
            {"description": "none"},
        ],
        messages=[
            {"role": "user", "content": {"type": "text", "text": "write"}},
            {"role": "user", "content": {"type": "hologram"}},
        ],
    )
    async with nh.mcp.connect(server) as odd:
        assert [each.uri for each in await nh.mcp.list_resources(odd)] == ["odd://2"]
        assert [each.name for each in await nh.mcp.list_resource_templates(odd)] == ["a"]
        assert [each.name for each in await nh.mcp.list_prompts(odd)] == ["good"]
        first, second = await nh.mcp.get_prompt(odd, "good")
        with pytest.raises(nh.mcp.McpError, match="a text has a lone surrogate"):
            await nh.mcp.get_prompt(odd, "good", subject="\ud800")
        with pytest.raises(nh.mcp.McpError, match="a text has a lone surrogate"):
            await nh.mcp.read_resource(odd, "odd://\ud800")
    assert (first.content, second.content) == (
        "write",
        "[a part of the kind 'hologram', which cannot be read]",
    )
    for name in (
        "resource 'odd://1'",
        "resource 'odd://3'",
        "resource template",
        "prompt 'bad'",
        "prompt without",
    ):
        assert f"odd: {name}" in caplog.text


LEVELS: dict[str, Any] = {
    "anyOf": [{"properties": {"a": {"$ref": "#/$defs/level"}}}] * 2,
    "not": {"const": 1},
}


@pytest.mark.parametrize(
    ("schema", "content", "reason"),
    [
        pytest.param(
            {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}},
            {"a": "a" * 40 + "b"},
            None,
            id="pattern",
        ),
        pytest.param(
            {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
            {"a" * 40 + "b": 1},
            None,
            id="names",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
            {"a": [*range(10_000), "x"]},
            "at a.10000: 'x' is not of type 'integer'",
            id="a large result",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"uniqueItems": True}}},
            {"a": [1, True, "1", [1], [True], {"b": 1}, {"b": "1"}, 0, False, None, 1.5, [0, "0x1"]]},
            None,
            id="items that differ",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"uniqueItems": True}}},
            {"a": [*range(2_000), {"b": 1, "c": [2]}, {"c": [2.0], "b": 1.0}]},
            "at a: two of its items are equal",
            id="equal items",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"a": "a" * 100_000},
            "'a{900,}$",
            id="a long value",
        ),
        pytest.param({"type": "object"}, None, "returned no structured content", id="none"),
    ],
)
async def test_results_are_checked_without_patterns(schema: Any, content: Any, reason: str | None) -> None:
    result: dict[str, Any] = {"content": []} | ({} if content is None else {"structuredContent": content})
    async with connected("stdio", tools=[tool(outputSchema=schema)], results={"bad": result}) as server:
        if reason is None:
            assert await server.bad() == content
            return
        with pytest.raises(nh.mcp.ServerCallError, match=reason):
            await server.bad()


async def test_a_check_that_multiplies_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from nighthawk_async.mcp import results

    monkeypatch.setattr(results, "_MAX_CHECKS", 20_000)
    content: dict[str, Any] = {"a": 1}
    for _ in range(60):
        content = {"a": content}
    schema = {"type": "object", "$ref": "#/$defs/level", "$defs": {"level": LEVELS}}
    result = {"content": [], "structuredContent": content}
    async with connected("stdio", tools=[tool(outputSchema=schema)], results={"bad": result}) as server:
        assert await server.good() == "fine"
        with pytest.raises(nh.mcp.ServerCallError, match="too large to be checked"):
            await server.bad()


LONG_CHECKS: dict[str, tuple[Any, Any]] = {
    "enum": ({"items": {"enum": [f"a{number}" for number in range(9_000)]}}, ["a8999"] * 9_000),
    "const": ({"items": {"const": [1] * 9_000}}, [[1] * 9_000] * 100),
    "uniqueItems": ({"items": {"uniqueItems": True}}, [[{f"a{number}": 1} for number in range(900)]] * 400),
    "required": ({"items": {"required": ["a"] * 9_000}}, [{"a": 1}] * 9_000),
    "allOf": ({"items": {"allOf": [{}] * 9_000}}, [1] * 9_000),
    "dependentRequired": ({"items": {"dependentRequired": {"a": ["a"] * 9_000}}}, [{"a": 1}] * 9_000),
    "unknown keywords": ({"items": {f"x{number}": 1 for number in range(9_000)}}, [1] * 9_000),
    "faults": ({"anyOf": [{"type": "string"}] * 5_000}, list(range(50_000))),
}


async def test_a_check_that_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from nighthawk_async.mcp import results

    monkeypatch.setattr(results, "_MAX_CHECKS", 50_000)
    given_up: list[str] = []
    for name, (schema, content) in LONG_CHECKS.items():
        result = CallToolResult(content=[], structured_content={"a": content})
        try:
            await results.check_result({"properties": {"a": schema}}, result)
        except RuntimeError as error:
            given_up += [name] if "too large to be checked" in str(error) else []
    assert given_up == list(LONG_CHECKS)


async def test_a_check_ends_with_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread notices the cancellation, and does not go on to the end."""
    from nighthawk_async.mcp import results

    monkeypatch.setattr(results, "_MAX_CHECKS", 10**15)
    looks: list[int] = []
    check_cancelled = from_thread.check_cancelled
    schema = {"properties": {"a": {"items": {"allOf": [{"enum": list(range(9_000))}] * 1_000}}}}
    result = CallToolResult(content=[], structured_content={"a": [8_999] * 9_000})
    with anyio.CancelScope() as scope:

        def look() -> None:
            looks.append(1)
            if len(looks) == 3:
                from_thread.run_sync(scope.cancel)
            check_cancelled()

        monkeypatch.setattr(from_thread, "check_cancelled", look)
        await results.check_result(schema, result)
    assert scope.cancelled_caught
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        ({"instructions": 5}, "'instructions' of a result is not used"),
        ({"_meta": 5}, "'_meta' of a result is not used"),
        ({"serverInfo": "<none>"}, "serverInfo: Field required"),
        ({"serverInfo": {"name": "odd", "version": "1", "icons": 5}}, "icons: Input should be a valid list"),
        ({"capabilities": "<none>"}, "capabilities: Field required"),
        ({"capabilities": []}, "capabilities: Input should be a valid dictionary"),
        ({"capabilities": {"tools": True, "experimental": 5}}, "tools: Input should be"),
    ],
)
async def test_a_bad_description_of_itself_does_not_take_the_server_away(
    greeting: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected("stdio", greeting=greeting) as server:
        assert tools_of(server) == ["good", "change"]
        assert await server.good() == "fine"
    assert reason in caplog.text


async def test_bad_parts_beside_a_list_do_not_take_it_away(caplog: pytest.LogCaptureFixture) -> None:
    async with connected("stdio", beside={"_meta": 5, "ttlMs": "x", "nextCursor": 5}) as server:
        assert tools_of(server) == ["good", "change"]
    for name in ("_meta", "nextCursor", "ttlMs"):
        assert f"{name!r} of a result is not used" in caplog.text


async def test_a_list_that_never_ends_is_cut(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from nighthawk_async.mcp import connection

    monkeypatch.setattr(connection, "_MAX_PAGES", 5)
    async with connected("stdio", beside={"nextCursor": "0"}) as server:
        assert tools_of(server) == ["good", "change"]
    assert "odd: only 5 pages of its list of tools are used" in caplog.text


async def test_many_bad_tools_are_few_lines_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from nighthawk_async.mcp import screening

    monkeypatch.setattr(screening, "_MAX_LINES", 1)
    async with connected("stdio", resources=[5, 6, 7]) as server:
        assert await nh.mcp.list_resources(server) == []
    assert caplog.text.count("resource without a name is left out") == 1
    assert "2 more are left out: of 3 in one list" in caplog.text


NESTED: dict[str, Any] = {}
for _ in range(400):
    NESTED = {"a": NESTED}
TEXT = [{"type": "text", "text": "fine"}]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param({"content": TEXT, "structuredContent": NESTED}, "fine", id="deep"),
        pytest.param({"content": TEXT, "structuredContent": None}, "fine", id="null structured"),
        pytest.param({"content": TEXT, "isError": None}, "fine", id="null error"),
        pytest.param({"content": TEXT, "_meta": 5}, "fine", id="metadata"),
        pytest.param({"content": [*TEXT, 5], "tools": [5]}, None, id="tools"),
        pytest.param({"structuredContent": {"a": 1}}, {"a": 1}, id="no content"),
        pytest.param({"content": None, "structuredContent": {"a": 1}}, {"a": 1}, id="null content"),
        pytest.param({"content": [{"type": "text", "text": "half \ud800"}]}, "half ?", id="surrogate"),
    ],
)
async def test_results_with_bad_parts_are_read(result: Any, expected: Any) -> None:
    async with connected("stdio", results={"good": result}) as server:
        found = await server.good()
        assert found == (expected or ["fine", "[a part of the kind without a name, which cannot be read]"])
        assert await server.change() == "fine"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("text", "its answer is no message of the protocol: "),
        ({"content": {"type": "text", "text": "a"}}, "content: Input should be a valid list"),
        ({"content": TEXT, "isError": 5}, "isError: Input should be a valid boolean"),
    ],
)
async def test_answers_that_cannot_be_read_are_errors_at_once(result: Any, reason: str) -> None:
    async with connected("stdio", results={"good": result}) as server:
        with pytest.raises(nh.mcp.ServerCallError, match=reason):
            await server.good()
        assert await server.change() == "fine"


async def test_a_message_that_is_no_strict_json_is_read(caplog: pytest.LogCaptureFixture) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    tools = [
        tool(name="half", description="half \ud800"),
        tool(name="deep", inputSchema={**OBJECT, "default": deep}),
        tool(name="long", inputSchema={**OBJECT, "default": "<digits>"}),
    ]
    async with connected("stdio", tools=tools, greeting={"instructions": "Half \ud800."}) as server:
        assert tools_of(server) == ["good", "change", "half"]
        assert server.half.__doc__ == "half ?"
        assert type(server).__doc__ == "Half ?."
    assert "tool 'deep' is left out: it is nested too deeply" in caplog.text
    assert "tool 'long' is left out: it has a number that JSON does not have" in caplog.text


async def test_references_are_found_as_they_are_written_in_addresses() -> None:
    schema = with_parameter(
        {"$ref": "#/definitions/Page%3Ca%2Fb%3E"}, definitions={"Page<a/b>": {"type": "integer"}}
    )["inputSchema"]
    async with connected("stdio", tools=[tool(inputSchema=schema)]) as server:
        assert server.bad.__annotations__ == {"n": int | None}


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {1: 1, "1": 2}, {"\ud800": 1}],
    ids=["nan", "inf", "keys", "surrogate"],
)
async def test_arguments_that_json_would_change_are_refused(value: object) -> None:
    listed = [tool(inputSchema={"type": "object", "properties": {"n": {}}})]
    async with connected("stdio", tools=listed) as server:
        with pytest.raises(nh.mcp.ServerCallError, match="bad: the arguments are no JSON: "):
            await server.bad(n=value)


@TRANSPORTS
async def test_a_result_of_too_many_parts_is_an_error(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nighthawk_async.mcp import screening

    monkeypatch.setattr(screening, "_MAX_PARTS", 3)
    results = {"good": {"content": [{"type": "text", "text": ""}] * 4}}
    async with connected(transport, results=results) as server:
        with pytest.raises(nh.mcp.ServerCallError, match="4 parts; at most 3 are used"):
            await server.good()
        assert await server.change() == "fine"


@TRANSPORTS
async def test_a_list_of_too_many_tools_is_cut(
    transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from nighthawk_async.mcp import connection, screening

    monkeypatch.setattr(connection, "MAX_ENTRIES", 4)
    monkeypatch.setattr(screening, "MAX_ENTRIES", 2)
    async with connected(transport, tools=[tool(name=f"t{number}") for number in range(9)]) as server:
        assert tools_of(server) == ["good", "change", "t1", "t2"]
    assert "only 2 entries of a list are used" in caplog.text
    assert "only 4 of its tools are used" in caplog.text


@TRANSPORTS
async def test_a_message_that_is_too_large_ends_no_program(transport: str) -> None:
    large = {"content": [{"type": "text", "text": "<huge>"}]}
    options: dict[str, Any] = {"max_message_bytes": 100_000, "call_timeout": 5}
    async with connected(transport, options=options, results={"good": large}) as server:
        with pytest.raises(nh.mcp.ServerCallError):
            await server.good()
        assert await server.change() == "fine"


async def test_a_long_message_is_read_in_a_thread() -> None:
    large = {"content": [{"type": "text", "text": "<huge>"}]}
    async with connected("stdio", results={"good": large}) as server:
        assert await server.good() == "a" * 300_000


@pytest.mark.parametrize("size", [0, -1, 1.5, "5", True])
def test_the_size_of_messages_is_a_number(size: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="max_message_bytes"):
        nh.mcp.stdio("x", max_message_bytes=size)
