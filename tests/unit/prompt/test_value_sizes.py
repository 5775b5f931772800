"""What surely does not fit is not written first, and large values are written beside the event loop."""

import dataclasses
import math
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.agent.prompt import StepPrompt
from nighthawk_async.prompt.identities import LineObjects
from nighthawk_async.prompt.previews import render_preview, whole_preview
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.prompt.value_sizes import fewest_tokens, take_long
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
