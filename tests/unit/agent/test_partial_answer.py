"""The values of an answer while it streams, read from events without a model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

import nighthawk_async as nh
from nighthawk_async.agent import partial_answer
from nighthawk_async.agent.partial_answer import PartialAnswer
from nighthawk_async.types.outcomes import OutcomeKind
from tests.cases import every

Tree = TypeAliasType("Tree", "list[Tree] | str")


class Level(Enum):
    LOW = "low"
    LOWER = "lower"


class Item(BaseModel):
    name: str
    count: int = 1


@dataclass
class Point:
    x: int
    y: int = 0


class Report(TypedDict):
    title: str
    lines: list[str]


class Draft(TypedDict, total=False):
    title: str
    lines: list[str]


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.are_wanted = True
        self.told: list[tuple[int, dict[str, object]]] = []
        self._attempts = 0

    def begin_attempt(self) -> int:
        self._attempts += 1
        return self._attempts

    def deliver(self, values: Mapping[str, object], attempt: int) -> None:
        self.told.append((attempt, dict(values)))

    def end(self, result: object) -> None:
        """Nobody ends the step here."""

    def close(self) -> None:
        """Nobody ends the step here."""

    @property
    def values(self) -> list[dict[str, object]]:
        return [values for _, values in self.told]


def context(types: Mapping[str, Any], *, returns: Any = object) -> nh.StepContext:
    kinds: tuple[OutcomeKind, ...] = ("pass", "return")
    return nh.StepContext(
        step_id="tests:1",
        execution_ref=nh.ExecutionRef(run_id="r", scope_id="s", step_id="tests:1", execution_id="e"),
        step_globals={},
        step_locals={},
        write_names=tuple(types),
        binding_types=types,
        allowed_kinds=kinds,
        return_annotation=returns,
    )


def heard(
    types: Mapping[str, Any], fragments: Iterable[str], *, returns: Any = object, is_over: bool = False
) -> Heard:
    """What listeners hear of an answer whose text has arrived as far as the fragments go."""
    listeners = Heard()
    answer = PartialAnswer(context(types, returns=returns), listeners)
    for fragment in fragments:
        answer.feed(nh.models.TextDelta(text=fragment))
    if is_over:
        answer.feed(nh.models.ResponseFinished(reason="stop"))
    return listeners


def pieces(text: str, size: int) -> list[str]:
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def shown(annotation: Any, beginning: str) -> object:
    """The last value shown of a variable when this much of its JSON is there; None for no value."""
    told = heard({"v": annotation}, [f'{{"kind": "pass", "bindings": {{"v": {beginning}']).values
    return told[-1].get("v") if told else None


@every(
    "annotation, beginning, expected",
    [
        (str, '"Once up', "Once up"),
        (str, '"', ""),
        (str, r'"caf\u00', "caf"),
        (str, r'"caf\u00e9', "café"),
        (str, '"a line\\', "a line"),
        (str, r'"\ud83d', ""),
        (str, r'"\ud83d\ude00!', "😀!"),
        (Annotated[str, Field(min_length=4)], '"Onc', None),
        (Annotated[str, Field(min_length=4)], '"Once', "Once"),
        (str | None, '"Once', "Once"),
        (int, "12", None),
        (int, "12,", 12),
        (int, "12 ", None),
        (float, "-1.5e", None),
        (bool, "true", None),
        (bool, "true}", True),
        (Level, '"low', None),
        (Level, '"low"', Level.LOW),
        (Level, '"lower"', Level.LOWER),
        (Literal["a", "ab"], '"a', None),
        (Literal["a", "ab"], '"a"', "a"),
        (date, '"2026-11-2', None),
        (date, '"2026-11-23"', date(2026, 11, 23)),
        (Item, '{"name": "lamp"', None),
        (Item, '{"name": "lamp"}', Item(name="lamp")),
        (Item | None, '{"name": "lamp"', None),
        (Item | dict[str, str], '{"name": "lamp"', None),
        (Point, '{"x": 1, ', None),
        (Point, '{"x": 1}', Point(1)),
        (list[Item], '[{"name": "lamp"}, {"name": "bed", "cou', [Item(name="lamp")]),
        (list[Item], '[{"name": "lamp"}, {"name": "bed"}', [Item(name="lamp"), Item(name="bed")]),
        (list[Item], '[{"name": "lamp"}', [Item(name="lamp")]),
        (list[Item], '[{"name": "lamp"}, {"no": 1}', [Item(name="lamp")]),
        (list[int], "[1, 2, 3", [1, 2]),
        (list[int], "[", []),
        (list[Level], '["lower", "low', [Level.LOWER]),
        (list[list[str]], '[["a"], ["b", "c', [["a"], ["b", "c"]]),
        (Sequence[str], '["a", "b', ["a", "b"]),
        (set[int], "[1, 2, 3", {1, 2}),
        (tuple[int, ...], "[1, 2, 3", (1, 2)),
        (tuple[str, int], '["a", 1', None),
        (tuple[str, int], '["a", 1]', ("a", 1)),
        (tuple[int, ...] | None, "[1, 2, 3", (1, 2)),
        (dict[str, int], '{"a": 1, "b": 2', {"a": 1}),
        (dict[str, list[Item]], '{"a": [{"name": "lamp"}, {"na', {"a": [Item(name="lamp")]}),
        (Report, '{"title": "A"', None),
        (Report, '{"title": "A", "lines": ["x", "y', {"title": "A", "lines": ["x", "y"]}),
        (Draft, '{"title": "A l', {"title": "A l"}),
        (list[Draft], '[{"title": "A"}, {"lines": ["x', [{"title": "A"}, {"lines": ["x"]}]),
        (Tree, '[["a"], ["b', [["a"], ["b"]]),
        (object, '{"a": ["b', {"a": ["b"]}),
        (Any, '{"a": [1, 2', {"a": [1]}),
        (Annotated[str, AfterValidator(str.upper)], '"abc', "ABC"),
        (str, "5", None),
        (str, '["a"', None),
        (list[str], '"a', None),
        (type(print), '"a"', None),
    ],
)
def test_what_is_shown_of_a_beginning_depends_on_the_type(
    annotation: Any, beginning: str, expected: object
) -> None:
    assert shown(annotation, beginning) == expected


def test_variables_the_block_does_not_set_and_nulls_are_not_shown() -> None:
    text = '{"kind": "pass", "bindings": {"other": 1, "a": null, "b": 2}}'
    assert heard({"a": object, "b": int}, [text]).values == [{"b": 2}]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"kind": "return", "bindings": {"a": 1}, "return_value": ["x", "y', {"a": 1, "return": ["x", "y"]}),
        (
            '{"result": {"kind": "return", "bindings": {"a": 1}, "return_value": ["x"',
            {"a": 1, "return": ["x"]},
        ),
        ('{"kind": "return", "return_value": null}', None),
        ('{"kind": "pass", "bindings": {"a": 1}, "return_value": ["x"]}', {"a": 1}),
        ('{"return_value": ["x"], "kind": "retu', None),
        ('{"kind": "pass", "bindings": "a", "x": {"bindings": {"a": 1}}}', None),
        ('{"kind": "pass", "bindings": {"a": 1}, "bindings": {"a": 2, "a": [', None),
        ('[{"kind": "pass", "bindings": {"a": 1}}]', None),
        ("I set a to 1.", None),
        ("", None),
    ],
)
def test_the_answer_is_an_object_with_bindings_and_a_return_value(
    text: str, values: dict[str, object] | None
) -> None:
    told = heard({"a": int}, [text], returns=list[str]).values
    assert told[-1:] == ([] if values is None else [values])


def test_a_call_is_read_and_the_text_before_it_is_not() -> None:
    listeners = Heard()
    answer = PartialAnswer(context({"a": str}), listeners)
    arguments = '{"kind": "pass", "bindings": {"a": "yes"}}'
    answer.feed(nh.models.TextDelta(text='{"bindings": {"a": "text'))
    answer.feed(nh.models.ToolCallStarted(index=0, id="1", name="nh_eval"))
    answer.feed(nh.models.ToolCallArgumentsDelta(index=0, fragment='{"bindings": {"a": "wrong'))
    answer.feed(nh.models.ToolCallStarted(index=1, id="2", name="nh_outcome"))
    answer.feed(nh.models.ToolCallArgumentsDelta(index=0, fragment='"}}'))
    answer.feed(nh.models.ToolCallArgumentsDelta(index=1, fragment=arguments[:38]))
    answer.feed(nh.models.ToolCallArgumentsDelta(index=1, fragment=arguments[38:]))
    call = nh.models.ToolCall(id="2", name="nh_outcome", arguments=arguments)
    answer.feed(nh.models.ToolCallCompleted(index=1, call=call))
    assert listeners.told == [(1, {"a": "text"}), (2, {"a": "ye"}), (2, {"a": "yes"})]


def test_a_call_that_arrives_whole_is_shown_once() -> None:
    listeners = Heard()
    answer = PartialAnswer(context({"a": str}), listeners)
    call = nh.models.ToolCall(
        id="2", name="nh_outcome", arguments='{"kind": "pass", "bindings": {"a": "yes"}}'
    )
    answer.feed(nh.models.ToolCallStarted(index=0, id="2", name="nh_outcome"))
    answer.feed(nh.models.ToolCallCompleted(index=0, call=call))
    assert listeners.values == [{"a": "yes"}]


def test_nothing_is_decoded_while_nobody_wants_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_answer, "from_json", pytest.fail)
    listeners = Heard()
    listeners.are_wanted = False
    answer = PartialAnswer(context({"a": str}), listeners)
    for character in '{"kind": "pass", "bindings": {"a": "yes"}}':
        answer.feed(nh.models.TextDelta(text=character))
    answer.feed(nh.models.ResponseFinished(reason="stop"))
    assert listeners.told == []


@pytest.mark.parametrize("length", [100, 5_000, 50_000])
@pytest.mark.parametrize("annotation", [str, list[int]])
def test_the_work_grows_like_the_length_of_the_answer(
    length: int, annotation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = 0
    decode = partial_answer.from_json

    def counted(text: str, **options: Any) -> object:
        nonlocal decoded
        decoded += len(text)
        return decode(text, **options)

    monkeypatch.setattr(partial_answer, "from_json", counted)
    value = "x" * length if annotation is str else [1] * (length // 3)
    text = json.dumps({"kind": "pass", "bindings": {"a": value}})
    told = heard({"a": annotation}, pieces(text, 5), is_over=True).values
    assert told[-1] == {"a": value}
    assert decoded <= 34 * len(text)


def test_whole_items_are_validated_in_proportion_to_the_length_too() -> None:
    validated = 0

    def count(name: str) -> str:
        nonlocal validated
        validated += 1
        return name

    class Counted(BaseModel):
        name: Annotated[str, AfterValidator(count)]

    items = [{"name": str(number)} for number in range(500)]
    text = json.dumps({"kind": "pass", "bindings": {"a": items, "b": 1}})
    told = heard({"a": list[Counted], "b": int}, pieces(text, 5), is_over=True).values
    assert len(told) > 50
    assert validated <= 34 * len(items)


DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def is_beginning(part: object, whole: object) -> bool:
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        *rest, last = part or [None]
        return not part or (
            rest == whole[: len(rest)] and len(part) <= len(whole) and is_beginning(last, whole[len(rest)])
        )
    if isinstance(part, dict) and isinstance(whole, dict):
        names = [*part]
        return names == [*whole][: len(names)] and all(
            part[name] == whole[name] if name != names[-1] else is_beginning(part[name], whole[name])
            for name in names
        )
    return type(part) is type(whole) and part == whole


@st.composite
def split(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=30)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(st.data(), st.lists(DATA, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_values_only_grow_however_the_text_is_split(
    data: st.DataObject, values: list[Any], is_wrapped: bool, is_ascii: bool
) -> None:
    named = {f"v{number}": value for number, value in enumerate(values)}
    answer: dict[str, Any] = {"kind": "return", "bindings": named, "return_value": values}
    text = json.dumps({"result": answer} if is_wrapped else answer, ensure_ascii=is_ascii)
    told = heard(dict.fromkeys(named, object), data.draw(split(text)), is_over=True).values
    expected = {name: value for name, value in named.items() if value is not None} | {"return": values}
    assert told[-1] == expected
    for before, after in pairwise(told):
        assert before.keys() <= after.keys()
        assert all(is_beginning(value, after[name]) for name, value in before.items())


@given(st.data(), st.lists(st.sampled_from([*Level]), max_size=4), st.lists(st.text(max_size=6), max_size=4))
def test_typed_values_are_whole_members_and_instances_however_the_text_is_split(
    data: st.DataObject, levels: list[Level], names: list[str]
) -> None:
    items = [Item(name=name, count=len(name)) for name in names]
    bindings = {"levels": [level.value for level in levels], "items": [item.model_dump() for item in items]}
    text = json.dumps({"kind": "pass", "bindings": bindings})
    told = heard({"levels": list[Level], "items": list[Item]}, data.draw(split(text)), is_over=True).values
    assert told[-1] == {"levels": levels, "items": items}
    for values in told:
        assert is_beginning(values.get("levels", []), levels)
        assert is_beginning(values.get("items", []), items)


@given(st.data(), st.text('{}[]",:\\u0129n ab', max_size=60))
def test_broken_text_is_read_without_an_error(data: st.DataObject, text: str) -> None:
    text = '{"kind": "return", "bindings": {"a": ' + text
    heard({"a": list[Item]}, data.draw(split(text)), returns=dict[str, Level])
