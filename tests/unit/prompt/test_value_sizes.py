"""What surely does not fit is not written first, and large values are written beside the event loop."""

import dataclasses
import hashlib
import math
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.agent.prompt import StepPrompt
from nighthawk_async.configuration import JsonRendererStyle
from nighthawk_async.prompt.identities import LineObjects
from nighthawk_async.prompt.previews import render_preview, whole_preview
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.prompt.value_sizes import fewest_tokens, take_long
from nighthawk_async.prompt.walk import CHARACTERS_PER_CELL, MAX_DEPTH
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.cases import every

_COUNTERS = [
    TokenCounter.resolve(encoding_name=name, model_name="") for name in ("o200k_base", "cl100k_base")
]


class _Line(BaseModel):
    sku: str
    quantity: Any


@dataclasses.dataclass
class _Node:
    name: str
    held: Any = None


_TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "a", "1", "-", '"', "true", "null", "0.5", ", ", "é", "日本", "x" * 60, "  a", "\n"]
    ),
)
_NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.sampled_from([0, 1, 10, 1e16]))


def _composed(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(parts, max_size=6),
        st.dictionaries(_TEXTS, parts, max_size=5),
        st.lists(parts, max_size=3).map(tuple),
        st.builds(_Line, sku=_TEXTS, quantity=parts),
        st.builds(_Node, name=_TEXTS, held=parts),
        st.lists(st.builds(_Node, name=_TEXTS, held=parts), max_size=5),
        parts.map(lambda part: [part, part]),
        parts.map(lambda part: [{"id": 1, "part": part} for _ in range(5)]),
    )


@given(st.recursive(st.one_of(_TEXTS, _NUMBERS), _composed, max_leaves=25))
def test_the_bound_is_never_more_than_the_tokens(value: object) -> None:
    bound = fewest_tokens([value], most=10**9, objects=LineObjects.alone())
    for style in ("default", "detailed", "strict"):
        for counter in _COUNTERS:
            text = render_preview([value], max_tokens=10**6, style=style, counter=counter)
            assert bound <= counter.count(text), text


def _counted_one_by_one(value: Any, seen: set[int], depth: int = 0) -> int:
    """The bound without a shortcut; for values without secrets."""
    if id(value) in seen or depth > MAX_DEPTH:
        return 1
    seen.add(id(value))
    total = 1
    is_list = type(value) in (list, tuple)
    for item in value if is_list else (value if type(value) is dict else vars(value)).values():
        if type(item) is str:
            total += (2 if item[:1].isalnum() else 1) + (len(item) // CHARACTERS_PER_CELL if is_list else 0)
        elif type(item) in _SCALAR_TOKENS:
            total += _SCALAR_TOKENS[type(item)]
        else:
            total += _counted_one_by_one(item, seen, depth + 1)
    return total


_SCALAR_TOKENS: dict[Any, int] = {int: 2, float: 3, bool: 2, type(None): 2, bytes: 1}

_SCALARS = st.one_of(_TEXTS, _NUMBERS, st.binary(max_size=3))


@given(st.recursive(_SCALARS, _composed, max_leaves=25), st.integers(0, 60))
def test_shortcuts_for_lists_and_rows_give_the_same_bound(value: object, most: int) -> None:
    expected = _counted_one_by_one([value], set())
    assert fewest_tokens([value], most=10**9, objects=LineObjects.alone()) == expected
    assert (fewest_tokens([value], most=most, objects=LineObjects.alone()) > most) == (expected > most)


class _OddKey(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("keys of a value are compared")

    def __hash__(self) -> int:
        return 1


def test_objects_with_other_fields_than_the_one_before_show_their_own() -> None:
    nodes = [_Node(f"n{index}", index) for index in range(6)]
    vars(nodes[2])["extra"] = "more"
    vars(nodes[3]).pop("held")
    vars(nodes[4])["_private"] = 1
    vars(nodes[5])[_OddKey("held")] = 1
    rows: list[Any] = [{"a": 1, "b": "x"}, {"a": 2, "c": "y"}, {"a": 3, "password": "p"}, {"a": 4, "b": "z"}]
    urls = [{"a": 5, "b": "https://user:word@host/"}, {"a": 6, "b": "https://host/"}]
    text = render_preview([nodes, [*rows, *urls]], max_tokens=2_000, style="strict", counter=_COUNTERS[0])
    assert text == (
        '[[{"name": "n0", "held": 0}, {"name": "n1", "held": 1}, {"name": "n2", "held": 2, "extra": "more"}, '
        '{"name": "n3"}, {"name": "n4", "held": 4}, {"name": "n5", "held": 5}], '
        '[{"a": 1, "b": "x"}, {"a": 2, "c": "y"}, {"a": 3, "password": "<hidden>"}, {"a": 4, "b": "z"}, '
        '{"a": 5, "b": "<hidden>"}, {"a": 6, "b": "https://host/"}]]'
    )


_MIXED_ROWS = [
    {"id": index, "name": f"name {index}", "amount": index / 7, "paid": index % 3 == 0}
    for index in range(1_000)
]


@every(
    "value, digests",
    [
        (list(range(10_000)), ["0ac018e6269f30e8", "7ac8bed57f122046"]),
        (_MIXED_ROWS, ["5de526deea271137", "1ed02d3939abfee6"]),
        (
            [_Node(f"node {index}", [index / 3, f"text {index}"]) for index in range(300)],
            ["fcce8e53703bd9cc", "1bc9c6db03bbf997"],
        ),
        ([f"text {index} " * 4 for index in range(900)], ["dd13d424b0b72228", "f693f9db8a2237ec"]),
        ({str(index): [index] * 3 for index in range(600)}, ["7a55dcbf8c724e83", "ce3850b266ee92da"]),
    ],
)
def test_what_large_values_show_is_the_same_as_ever(value: object, digests: list[str]) -> None:
    """Change the digests where what is shown changes; what makes rendering quicker changes none."""
    counter = _COUNTERS[0]
    if not counter.is_exact:
        pytest.skip("what is shown depends on the tokenizer")
    found: list[str] = []
    for limit in (400, 3_000):
        styles: tuple[JsonRendererStyle, ...] = ("default", "detailed", "strict")
        texts = [
            render_preview(value, max_tokens=limit, style=style, counter=counter, shows_ending=shows_ending)
            for style in styles
            for shows_ending in (True, False)
        ]
        found.append(hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16])
    assert found == digests


def _rows(count: int) -> list[dict[str, object]]:
    return [{"id": index, "name": f"name {index}", "amount": index / 4} for index in range(count)]


def _lines(count: int) -> list[_Node]:
    return [_Node(f"node {index}", [_Line(sku=f"s{index}", quantity=index)]) for index in range(count)]


@every(
    "value",
    [
        list(range(10_000)),
        _rows(1_000),
        _lines(2_000),
        {str(index): index for index in range(5_000)},
        [["text " * 10] * 10 for _ in range(400)],
        [math.pi] * 4_000,
    ],
)
def test_a_value_that_surely_does_not_fit_is_given_up_after_a_look(value: object) -> None:
    assert whole_preview(value, max_tokens=2_000, style="default") is None
    assert fewest_tokens(value, most=2_000, objects=LineObjects.alone()) > 2_000


def test_shared_objects_are_counted_once() -> None:
    node = _Node("shared", list(range(400)))
    shared = [node] * 300
    text = whole_preview(shared, max_tokens=8_000, style="default")
    assert text is not None
    assert text.count("shared") >= 2
    around: list[Any] = []
    around.append(around)
    assert fewest_tokens(around, most=100, objects=LineObjects.alone()) <= 4


@every(
    "values, expected",
    [
        ([1, "text" * 10_000, None, len], False),
        ([[1, 2], {"a": 1}, _Node("a")], False),
        ([_rows(20)], False),
        ([_rows(500)], True),
        ([_rows(100) for _ in range(5)], True),
        ([_lines(300)], True),
    ],
)
def test_only_large_values_take_long(values: list[object], expected: bool) -> None:
    assert take_long(values) is expected


@nh.natural_function
async def count(rows: list[Any]) -> int:
    """natural
    Count <rows>.
    """
    return 0


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_large_values_are_written_in_a_worker_thread(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    prompts: list[str] = []
    write = StepPrompt.write_values

    def noted(self: StepPrompt) -> None:
        threads.append(threading.current_thread())
        write(self)

    def answer(request: nh.models.ModelRequest) -> ModelResponse:
        prompts.append(str(request.messages[0]))
        return model_response(tool_call("nh_outcome", kind="pass"))

    async def main() -> None:
        async with nh.run(nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))):
            await count(_rows(5))
            assert not threads
            await count(_rows(700))

    monkeypatch.setattr(StepPrompt, "write_values", noted)
    anyio.run(main, backend=backend)
    assert [each is threading.main_thread() for each in threads] == [False]
    assert "name 4" in prompts[0]
    assert "of 700 rows" in prompts[1]
