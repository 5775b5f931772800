"""Objects of a graph, each shown once and named everywhere else (specification 8.2.2)."""

import dataclasses
from collections import deque
from typing import Any, NamedTuple

import pytest

from nighthawk_async.configuration import JsonRendererStyle, StepContextLimits
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import render_section
from nighthawk_async.prompt.tokens import TokenCounter
from tests.cases import every


class _Node:
    def __init__(self, name: object, *links: object) -> None:
        self.name = name
        self.links = list(links)

    def __repr__(self) -> str:
        raise AssertionError("user code ran")


class _Box:
    def __init__(self, inner: object) -> None:
        self.inner = inner


@dataclasses.dataclass
class _Vec:
    x: float
    y: float


@dataclasses.dataclass
class _Employee:
    name: str
    boss: "_Employee | None"
    reports: list["_Employee"]


class _Pair(NamedTuple):
    first: object
    second: object


class _CodedError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _lines(counter: TokenCounter, /, **entries: Any) -> list[str]:
    section = render_section(
        entries, section="locals", limits=StepContextLimits(), references=(), style="default", counter=counter
    )
    (text,) = section.parts
    assert isinstance(text, str)
    return text.splitlines()


def _preview(value: object, counter: TokenCounter, style: JsonRendererStyle = "default") -> str:
    return render_preview(value, max_tokens=500, style=style, counter=counter)


@every(
    "value, text",
    [
        ([_Vec(0.0, 0)], "[_Vec(x=0.0, y=0)]"),
        ({"a": _Vec(1, 2)}, '{"a": _Vec(x=1, y=2)}'),
        ({(0, 1): _Vec(1, 2)}, "{(0, 1): _Vec(x=1, y=2)}"),
        ((_Pair(1, "b"),), '[_Pair(first=1, second="b")]'),
        (deque([_Box(_Vec(1, 2))]), "[_Box(inner=_Vec(x=1, y=2))]"),
        ([ValueError("x", 1)], '[ValueError("x", 1)]'),
        ([_CodedError(3, "t")], '[_CodedError("t", code=3)]'),
        ([ValueError()], "[ValueError()]"),
        ([type("a b(", (), {})], '["<class a b(>"]'),
        ([type("a b(", (_Vec,), {})(1, 2)], "[<'a b('>(x=1, y=2)]"),
        (_Vec(1, 2), '{"x": 1, "y": 2}'),
    ],
)
def test_objects_in_containers_are_shown_as_what_they_are(
    value: object, text: str, counter: TokenCounter
) -> None:
    assert _preview(value, counter) == text
    assert _preview(value, counter, "detailed") == text


def test_strict_style_stays_json(counter: TokenCounter) -> None:
    node = _Node("a", _Vec(1, 2))
    node.links.append(node)
    assert _preview([node], counter, "strict") == (
        '[{"name": "a", "links": [{"x": 1, "y": 2}, "<_Node \\"a\\">"]}]'
    )


def test_graph_of_nodes_is_a_table_whose_links_are_names(counter: TokenCounter) -> None:
    nodes = [_Node(name) for name in "abcdef"]
    for index, node in enumerate(nodes):
        node.links = [nodes[(index + step) % 6] for step in (1, 2, 3)]
    (line,) = _lines(counter, nodes=nodes)
    assert line.startswith(
        'nodes: list = [table 6 x 2 of _Node: "name", "links"; "a", [<_Node "b">, <_Node "c">, <_Node "d">]; '
    )
    assert counter.count(line) < 260


def test_employees_with_boss_and_reports_are_shown_once_each(counter: TokenCounter) -> None:
    boss = _Employee("E0", None, [])
    employees = [boss] + [_Employee(f"E{index}", boss, []) for index in range(1, 13)]
    boss.reports = employees[1:]
    (line,) = _lines(counter, employees=employees)
    assert 'table 13 x 3 of _Employee: "name", "boss", "reports"; "E0", null, [<_Employee "E1">, ' in line
    assert line.endswith('"E12", <_Employee "E0">, []]')


def test_object_without_a_label_is_named_by_its_place(counter: TokenCounter) -> None:
    inner = _Box(1)
    assert _lines(counter, boxes={"k": [_Box(inner)], 7: inner, "last": inner}) == [
        'boxes: dict = {"k": [_Box(inner=<_Box boxes[7]>)], 7: _Box(inner=1), "last": <_Box boxes[7]>}'
    ]
    assert _preview([{"a": _Box({"b": inner})}, _Pair(inner, {"c": inner})], counter) == (
        '[{"a": _Box(inner={"b": _Box(inner=1)})}, '
        '_Pair(first=<_Box value[0]["a"].inner["b"]>, second={"c": <_Box value[0]["a"].inner["b"]>})]'
    )


@every("label", ["", "x" * 33, "a\nb", 1.5, True, ["a"], None, 2**70])
def test_label_is_a_short_text_or_number(label: object, counter: TokenCounter) -> None:
    node = _Node(label)
    assert _preview([node, node], counter).endswith(", <_Node value[0]>]")
    node.name = 5
    assert _preview([node, node], counter).endswith(", <_Node name=5>]")


def test_label_that_two_objects_have_names_neither(counter: TokenCounter) -> None:
    one, two, other = _Node("same"), _Node("same"), _Node("other")
    assert _preview([one, two, other, {"links": [one, two, other]}], counter).endswith(
        '{"links": [<_Node value[0]>, <_Node value[1]>, <_Node "other">]}]'
    )


def test_label_is_no_property_and_no_secret(counter: TokenCounter) -> None:
    class Loud:
        def __init__(self) -> None:
            self.__dict__["name"] = "stored"
            self.kept = 1

        @property
        def name(self) -> str:
            raise AssertionError("user code ran")

    loud = Loud()
    assert _preview([loud, loud], counter) == "[Loud(kept=1), <Loud value[0]>]"
    hidden = _Node("n")
    shown = _preview({"password": hidden, "a": [hidden]}, counter)
    assert shown == '{"password": "<hidden>", "a": [_Node(name="n", links=[])]}'


def test_label_and_path_cannot_forge_structure(counter: TokenCounter) -> None:
    node = _Node("<<<NH:X>>>")
    assert "<<<NH" not in _preview([node, node], counter)
    deep: Any = _Box(None)
    value: Any = {"shared": [{"<<<NH:" + "k" * 200: deep}], "also": deep}
    shown = _preview(value, counter)
    assert "<<<NH" not in shown
    assert len(shown) < 400


def test_variables_are_named_by_themselves_wherever_they_occur(counter: TokenCounter) -> None:
    boss = _Employee("Ada", None, [])
    staff = [_Employee(name, boss, []) for name in ("Bo", "Cy", "Di", "Ed")]
    boss.reports = staff
    lines = _lines(counter, boss=boss, others=[*staff, boss])
    assert 'boss.name: str = "Ada"' in lines
    assert any("boss=<_Employee boss>" in line or ", <_Employee boss>, " in line for line in lines)
    assert lines[-1] == (
        'others: list = [<_Employee "Bo">, <_Employee "Cy">, <_Employee "Di">, <_Employee "Ed">, '
        "<_Employee boss>]"
    )


def test_row_of_a_table_that_is_shown_elsewhere_is_its_name(counter: TokenCounter) -> None:
    rows = [_Employee(f"E{index}", None, []) for index in range(6)]
    lines = _lines(counter, first=rows[0], rows=rows)
    assert lines[-1].startswith(
        'rows: list = [table 6 x 3 of _Employee: "name", "boss", "reports"; <_Employee first>; "E1", null, '
    )


def test_object_in_two_variables_is_shown_with_the_first(counter: TokenCounter) -> None:
    node = _Node("n")
    assert _lines(counter, a=[node], b={"again": node}) == [
        'a: list = [_Node(name="n", links=[])]',
        'b: dict = {"again": <_Node "n">}',
    ]


def test_second_variable_of_an_object_names_the_first(counter: TokenCounter) -> None:
    node = _Node("n")
    lines = _lines(counter, again=node, node=node)
    assert lines == [
        "again: object = _Node",
        "again.links: list = []",
        'again.name: str = "n"',
        "node: object = <_Node again>",
    ]


def test_containers_are_shown_again_unless_they_contain_themselves(counter: TokenCounter) -> None:
    shared = {"a": [1]}
    assert _preview([shared, shared], counter) == '[{"a": [1]}, {"a": [1]}]'
    round_trip: dict[str, Any] = {"a": [1]}
    round_trip["a"].append(round_trip["a"])
    round_trip["b"] = {"c": round_trip}
    assert _preview(round_trip, counter) == '{"a": [1, <list value["a"]>], "b": {"c": <dict value>}}'


def test_siblings_are_shown_in_their_place_and_not_below_each_other(counter: TokenCounter) -> None:
    last = _Node("last")
    first = _Node("first", _Node("between", last))
    assert _preview([first, last], counter) == (
        '[_Node(name="first", links=[_Node(name="between", links=[<_Node "last">])]), '
        '_Node(name="last", links=[])]'
    )


@pytest.mark.parametrize("length", [10, 3_000])
def test_long_chain_of_objects_ends(length: int, counter: TokenCounter) -> None:
    first = node = _Node(0)
    for number in range(1, length):
        node.links.append(_Node(number))
        node = node.links[0]
    node.links.append(first)
    text = _preview([first], counter)
    assert counter.count(text) <= 500
    assert ("<_Node name=0>" in text) == (length == 10)
    while first.links and first.links[0] is not first:
        first.links = first.links[0].links if len(first.links[0].links) else []
