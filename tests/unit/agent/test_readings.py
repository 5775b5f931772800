"""Answers and calls with faults are read where they can mean one thing, and refused where that is a guess."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

TRANSPORTS = ["tool", "native", "direct"]


class Tone(Enum):
    WARM = "warm"
    COLD = "cold"


@dataclass
class Order:
    number: int
    lines: list[str]


@nh.natural_function
async def read(text: str) -> tuple[Any, ...]:
    n: int = 0
    mood: Literal["positive", "negative"] = "negative"
    tone: Tone = Tone.COLD
    order: Order | None = None
    tags: list[str] = []
    loose: list[str] | str = ""
    note: str = ""
    """natural
    Read <text> into <:n>, <:mood>, <:tone>, <:order>, <:tags>, <:loose> and <:note>.
    """
    return n, mood, tone, order, tags, loose, note


NOTHING = (0, "negative", Tone.COLD, None, [], "", "")
AGAIN = {"kind": "raise", "raise_message": "again"}


def result(**changed: Any) -> tuple[Any, ...]:
    names = ("n", "mood", "tone", "order", "tags", "loose", "note")
    return tuple(changed.get(name, before) for name, before in zip(names, NOTHING, strict=True))


def response(transport: str, text: str) -> Any:
    if transport == "tool":
        return model_response(ToolCall(id="call", name="nh_outcome", arguments=text))
    return model_response(text=text)


def every(view: nh.observe.NodeView) -> list[nh.observe.NodeView]:
    """A node and all below it."""
    return [view, *(each for child in view.children for each in every(child))]


class Asked:
    """What came of one answer."""

    def __init__(self, value: object, requests: int, run: Any, view: nh.observe.NodeView) -> None:
        self.value = value
        self.requests = requests
        self.meter = run.usage_meter
        self.attributes = [dict(node.attributes) for node in every(view)]


async def ask(*responses: Any, transport: str = "tool", call: Any = None, **settings: Any) -> Asked:
    last = model_response(tool_call("nh_outcome", **AGAIN))
    model = ScriptedModel(
        [*responses, last if transport == "tool" else model_response(text=json.dumps(AGAIN))]
    )
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport, **settings)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    with nh.observe.recording() as tree:
        async with nh.run(executor) as run:
            try:
                value: object = await (call or read)("text")
            except nh.ExecutionError as error:
                value = str(error)
    return Asked(value, len(model.requests), run, tree.snapshot())


def fields(**bindings: Any) -> str:
    return json.dumps({"kind": "pass", "bindings": bindings})


READ: list[tuple[str, tuple[Any, ...], Mapping[str, int]]] = [
    (f"```json\n{fields(n=3)}\n```", result(n=3), {"fence": 1}),
    (f"```\n{fields(n=3)}```", result(n=3), {"fence": 1}),
    (f"I read it. {fields(n=3)} Done.", result(n=3), {"sentence": 1}),
    (f"Here:\n```json\n{fields(n=3)}\n```\nDone.", result(n=3), {"fence": 1}),
    (f"The set {{a, b}} gives {fields(n=3)}", result(n=3), {"sentence": 1}),
    (json.dumps(fields(n=3)), result(n=3), {"json_text": 1}),
    ('{"kind": "pass", "bindings": {"n": 3,},}', result(n=3), {"json_syntax": 1}),
    (
        "{'kind': 'pass', 'bindings': {'note': 'it\\'s \"so\"'}}",
        result(note='it\'s "so"'),
        {"json_syntax": 1},
    ),
    ('{"kind": "pass", "bindings": {"note": "a\nb"}}', result(note="a\nb"), {"json_syntax": 1}),
    ("{'kind': 'pass', 'bindings': {'order': None, 'n': 3}}", result(n=3), {"json_syntax": 1}),
    ('{"kind": "pass", "bindings": "{\\"n\\": 3}"}', result(n=3), {"json_text": 1}),
    (fields(order='{"number": 3, "lines": ["a"]}'), result(order=Order(3, ["a"])), {"json_text": 1}),
    (fields(order={"number": 3, "lines": '["a"]'}), result(order=Order(3, ["a"])), {"json_text": 1}),
    (fields(tags='["a", "b"]'), result(tags=["a", "b"]), {"json_text": 1}),
    (fields(tags="['a', 'b',]"), result(tags=["a", "b"]), {"json_text": 1, "json_syntax": 1}),
    (fields(note='["a"]', loose='["a"]'), result(note='["a"]', loose='["a"]'), {}),
    ('{"kind": "pass", "bindings": {"n": 3}, "reason": "read"}', result(n=3), {"extra_field": 1}),
    ('{"kind": "pass", "bindings": {"n": 3}, "confidence": 0.9}', result(n=3), {"extra_field": 1}),
    ('{"kind": "pass", "bindings": {"n": 3}, "raise_message": ""}', result(n=3), {"extra_field": 1}),
    ('{"bindings": {"n": 3}}', result(n=3), {"no_kind": 1}),
    ('{"kind": "Pass", "bindings": {"n": 3}}', result(n=3), {"kind": 1}),
    ('{"kind": " PASS", "bindings": {"n": 3}}', result(n=3), {"kind": 1}),
    (fields(**{"<:n>": 3}), result(n=3), {"binding_name": 1}),
    (fields(**{":n": 3, "<note>": "x"}), result(n=3, note="x"), {"binding_name": 1}),
    ('{"kind": "pass", "n": 3}', result(n=3), {"binding_place": 1}),
    ('{"kind": "pass", "<:n>": 3}', result(n=3), {"binding_place": 1, "binding_name": 1}),
    ('{"n": 3}', result(n=3), {"binding_place": 1, "no_kind": 1}),
    (fields(mood="Positive"), result(mood="positive"), {"choice": 1}),
    (fields(tone="Warm"), result(tone=Tone.WARM), {"choice": 1}),
    (fields(tone="WARM"), result(tone=Tone.WARM), {}),  # the name of a member has always been read
    (fields(tone="Tone.WARM"), result(tone=Tone.WARM), {"choice": 1}),
]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("text", "value", "readings"), READ)
async def test_what_can_mean_one_thing_is_read_marked_and_counted(
    text: str, value: tuple[Any, ...], readings: Mapping[str, int], transport: str
) -> None:
    asked = await ask(response(transport, text), transport=transport)
    assert (asked.value, asked.requests) == (value, 1)
    assert asked.meter.readings == readings
    assert not asked.meter.corrections
    marks = [str(each["nighthawk.read_as"]) for each in asked.attributes if "nighthawk.read_as" in each]
    assert {*", ".join(marks).split(", ")} - {""} == set(readings)
    steps = [each for each in asked.attributes if any("step.readings" in name for name in each)]
    assert bool(steps) == bool(readings)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("text", "value", "readings"), READ)
async def test_strict_answers_read_nothing_that_is_not_as_it_should_be(
    text: str, value: tuple[Any, ...], readings: Mapping[str, int], transport: str
) -> None:
    asked = await ask(response(transport, text), transport=transport, answers="strict")
    if not readings:
        assert asked.value == value
        return
    assert asked.requests == 2
    assert sum(asked.meter.corrections.values()) == 1
    assert not asked.meter.readings


GUESSES = [
    f"{fields(n=3)} or {fields(n=4)}",  # two answers
    f"```json\n{fields(n=3)}\n```\n```json\n{fields(n=4)}\n```",
    '{"kind": "pass", "bindings": {"n": 3, "n": 4}}',  # a field twice
    '{"kind": "pass", "kind": "raise", "raise_message": "no"}',
    '{"kind": "pass", "n": 3, "bindings": {"n": 4}}',  # two values
    '{"kind": "pass", "bindings": {"<:n>": 3, "n": 4}}',
    '{"kind": "pass", "bindings": {"n": 3}, "raise_message": "no"}',  # a field of another kind
    '{"kind": "pass", "bindings": {"n": 3}, "return_value": 4}',
    '{"kind": "pass", "bindngs": {"n": 3}}',  # a field that may be misspelt
    '{"kind": "pass", "values": {"n": 3}}',
    '{"kind": "pass", "value": 3}',
    '{"kind": "pass", "updates": {"n": 3}}',
    "{}",
    '{"bindings": {}}',
    '{"raise_message": "no", "return_expression": "1"}',
    '{"kind": "pass", "bindings": {"m": 3}}',  # no variable
    '{"kind": "pass", "bindings": {"mood": "posit"}}',  # no member
    '{"kind": "pass", "bindings": {"tags": "a, b"}}',  # no JSON
    '{"kind": "pass", "bindings": {"tags": "{}"}}',  # no list
    '{"kind": "pass", "bindings": [["n", 3]]}',
    '[{"kind": "pass"}]',
    '"kind": "pass", "bindings": {"n": 3}}',  # the beginning is missing
    '{"kind": "pass", "bindings": {"n": 3}',  # the end is missing
    "{kind: pass}",
    '{"kind": "pass", "bindings": {"tags": ["a",, "b"]}}',  # a value may be missing
    "{'kind': 'pass', 'bindings': {'note': 'it's'}}",
    '{"kind": "pass", "bindings": {"n": NaN}}',
]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("text", GUESSES)
async def test_what_would_be_a_guess_is_refused(text: str, transport: str) -> None:
    asked = await ask(response(transport, text), transport=transport)
    assert asked.requests == 2
    assert sum(asked.meter.corrections.values()) == 1
    assert not asked.meter.readings


@nh.natural_function
async def judge(text: str) -> Literal["Yes", "yes", "no"]:
    """natural
    ---
    deny: [pass]
    ---
    Return whether <text> is good.
    """
    raise AssertionError("the block returns")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_literal_that_differs_from_others_by_its_case_alone_is_not_guessed(transport: str) -> None:
    text = '{"kind": "return", "return_value": "YES"}'
    asked = await ask(response(transport, text), transport=transport, call=judge)
    assert asked.requests == 2


@nh.natural_function
async def find(text: str) -> Literal["none", "some"] | None:
    """natural
    ---
    deny: [pass]
    ---
    Return how much <text> has; None if that is not known.
    """
    raise AssertionError("the block returns")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("given", "value", "requests"),
    [("none", "none", 1), ("Some", "some", 1), ("None", "again", 2), ("NULL", "again", 2)],
)
async def test_a_literal_that_may_also_be_none_is_not_guessed(
    given: str, value: str, requests: int, transport: str
) -> None:
    text = json.dumps({"kind": "return", "return_value": given})
    asked = await ask(response(transport, text), transport=transport, call=find)
    assert (asked.value, asked.requests) == (value, requests)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_without_a_kind_returns_what_it_gives(transport: str) -> None:
    asked = await ask(response(transport, '{"return_value": "NO"}'), transport=transport, call=judge)
    assert asked.value == "no"
    assert asked.meter.readings == {"no_kind": 1, "choice": 1}


@nh.natural_function
async def loop(text: str) -> int:
    total = 0
    for _ in range(3):
        """natural
        Set <:total> from <text>; break at the end.
        """
    return total


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_without_a_kind_is_refused_where_a_loop_may_also_be_left(transport: str) -> None:
    asked = await ask(response(transport, '{"bindings": {"total": 3}}'), transport=transport, call=loop)
    assert asked.requests == 2


# ---- the answer as text, where a tool should be called


@pytest.mark.parametrize("text", [f"```json\n{fields(n=3)}\n```", f"The answer is {fields(n=3)}."])
async def test_an_answer_as_text_counts_although_no_tool_was_called(text: str) -> None:
    asked = await ask(model_response(text=text))
    assert (asked.value, asked.requests) == (result(n=3), 1)
    strict = await ask(model_response(text=text), answers="strict")
    assert strict.requests == 2


@pytest.mark.parametrize("text", ['The order is {"n": 3}.', 'It has {"kind": "box", "n": 3}.', "Done."])
async def test_text_about_an_object_is_no_answer(text: str) -> None:
    asked = await ask(model_response(text=text))
    assert asked.requests == 2
    assert asked.meter.corrections == {"no_outcome": 1}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_that_was_cut_off_is_not_read(transport: str) -> None:
    text = f"First: {fields(n=3)} and"
    cut = model_response(text=text, finish_reason="length")
    asked = await ask(cut, transport=transport)
    assert asked.requests == 2
    assert asked.meter.corrections == {"cut_off": 1}


# ---- names of tools


@pytest.mark.parametrize(
    "name",
    [
        "functions.nh_outcome",
        "default_api.nh_outcome",
        "tools.nh_outcome",
        "functions:nh_outcome",
        "NH_Outcome",
    ],
)
async def test_the_name_of_the_outcome_tool_is_read_with_its_namespace(name: str) -> None:
    call = ToolCall(id="call", name=name, arguments=fields(n=3))
    asked = await ask(model_response(call))
    assert (asked.value, asked.requests) == (result(n=3), 1)
    assert asked.meter.readings == {"tool_name": 1}
    strict = await ask(model_response(call), answers="strict")
    assert strict.requests == 2


@pytest.mark.parametrize("name", ["github.nh_outcome", "outcome", "nh_outcomes", "functions.nh"])
async def test_another_name_is_no_tool(name: str) -> None:
    asked = await ask(model_response(ToolCall(id="call", name=name, arguments=fields(n=3))))
    assert asked.requests == 2
    assert asked.meter.corrections == {"resolution": 1}


def double(values: list[int], tone: Tone) -> int:
    return sum(values) * (2 if tone is Tone.WARM else 1)


@pytest.mark.parametrize(
    ("name", "arguments", "readings"),
    [
        ("functions.double", '{"values": [1, 2], "tone": "warm"}', {"tool_name": 1}),
        ("double", '{"values": "[1, 2]", "tone": "warm"}', {"json_text": 1}),
        ("double", '{"values": [1, 2,], "tone": "Warm"}', {"json_syntax": 1, "choice": 1}),
        ("double", '"{\\"values\\": [1, 2], \\"tone\\": \\"warm\\"}"', {"json_text": 1}),
    ],
)
async def test_a_call_of_a_tool_of_the_program_is_read(
    name: str, arguments: str, readings: Mapping[str, int]
) -> None:
    seen: list[Any] = []

    def respond(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(ToolCall(id="call", name=name, arguments=arguments))
        seen.append(request.messages[-1])
        assert request.messages[-2].tool_calls[0].name == name  # type: ignore[union-attr]
        return model_response(tool_call("nh_outcome", kind="pass"))

    with nh.observe.recording() as tree:
        async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(respond))) as run:
            nh.tool(double)
            await read("text")
    (result,) = seen[0].results
    assert (result.name, result.content) == (name, ('{"value": 6, "error": null}',))
    assert run.usage_meter.readings == readings
    (node,) = [each for each in every(tree.snapshot()) if each.kind == "tool_call"]
    assert node.name == "double"
    assert node.attributes["nighthawk.read_as"] == ", ".join(readings)


# ---- code


CODE: list[tuple[str, dict[str, Any], str]] = [
    ("nh_eval", {"expression": "```python\nlen(text)\n```"}, "code"),
    ("nh_eval", {"expression": "`len(text)`"}, "code"),
    ("nh_eval", {"expression": "n = 3"}, "statements"),
    ("nh_eval", {"expression": "```py\nn = 3\nnote = 'x'\n```"}, "code, statements"),
    ("nh_eval", {"expression": "len(text)", "reason": "to see"}, "extra_field"),
    ("nh_exec", {"statements": "```python\nn = 3\n```"}, "code"),
    ("nh_exec", {"statements": "    n = 3\n    note = 'x'\n"}, "code"),
    ("nh_exec", {"statements": "```\n    if text:\n        n = 3\n```"}, "code"),
    ("nh_assign", {"target_path": "n", "expression": "```\n3\n```"}, "code"),
    ("nh_assign", {"target_path": "<:n>", "value": 3}, "binding_name"),
    ("nh_assign", {"target_path": "tags", "value": '["a"]'}, "json_text"),
]


@pytest.mark.parametrize(("name", "arguments", "readings"), CODE)
async def test_code_is_read_and_nothing_else_changes(
    name: str, arguments: dict[str, Any], readings: str
) -> None:
    end = tool_call("nh_outcome", kind="pass")
    offered = ("nh_eval", "nh_assign", "nh_exec")
    asked = await ask(model_response(tool_call(name, **arguments), end), provided_tools=offered)
    assert asked.requests == 1
    assert ", ".join(asked.meter.readings) == readings
    assert not asked.meter.corrections
    strict = await ask(model_response(tool_call(name, **arguments), end), answers="strict")
    assert strict.requests == 2
    assert not strict.meter.readings


NO_CODE = [
    ("nh_eval", {"expression": "first:\n```python\nlen(text)\n```"}),
    ("nh_eval", {"expression": "```python\nlen(text)\n```\n```python\n3\n```"}),
    ("nh_exec", {"statements": "    n = 3\n  note = 'x'\n"}),
    ("nh_exec", {"statements": "    note = '''\n    x'''\n"}),  # the text would change
    ("nh_exec", {"code": "n = 3"}),
    ("nh_eval", {"expression": "len(text)", "value": 3}),
]


@pytest.mark.parametrize(("name", "arguments"), NO_CODE)
async def test_code_that_would_be_a_guess_is_refused(name: str, arguments: dict[str, Any]) -> None:
    asked = await ask(model_response(tool_call(name, **arguments)))
    assert sum(asked.meter.corrections.values()) == 1
    assert not asked.meter.readings


async def test_statements_are_not_run_where_they_may_not_be() -> None:
    asked = await ask(model_response(tool_call("nh_eval", expression="n = 3")), provided_tools=("nh_eval",))
    assert asked.meter.corrections == {"invalid_input": 1}
    assert asked.value == "again"


# ---- what observers are shown, and settings


async def test_the_tree_as_text_shows_how_an_answer_was_read() -> None:
    model = ScriptedModel([model_response(text=f"```\n{fields(n=3)}\n```")])
    with nh.observe.recording() as tree:
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            await read("text")
    assert "(read: fence)" in nh.observe.view_as_text(tree.snapshot())


async def test_a_scope_and_a_function_set_how_answers_are_read() -> None:
    strict = nh.StepExecutorConfiguration(answers="strict")
    model = ScriptedModel(
        [
            *[model_response(ToolCall(id="call", name="nh_outcome", arguments='{"n": 3}'))] * 2,
            model_response(tool_call("nh_outcome", kind="pass")),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)) as run:
        assert (await read("text"))[0] == 3
        async with nh.scope(step_executor_configuration=strict) as _:
            assert (await read("text"))[0] == 0
    assert run.usage_meter.readings == {"binding_place": 1, "no_kind": 1}
    assert run.usage_meter.corrections == {"outcome_kind": 1}
