"""Whatever a graph of objects looks like, each is shown once, within the limit, always in the same way."""

import re
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.configuration import JsonRendererStyle, StepContextLimits
from nighthawk_async.prompt.previews import render_preview
from nighthawk_async.prompt.sections import render_section
from nighthawk_async.prompt.tokens import TokenCounter

_COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")
_MARKER = re.compile(r"m\d+!")


class Thing:
    """An object with a text of its own, a label that others may have too, and links of any kind."""

    def __init__(self, marker: str, label: object) -> None:
        self.marker = marker
        self.name = label
        self.links: Any = None

    def __repr__(self) -> str:
        return "m0! m1!"


class Slotted:
    """The same, in slots."""

    __slots__ = ("id", "links", "marker")

    def __init__(self, marker: str, label: object) -> None:
        self.marker = marker
        self.id = label
        self.links: Any = None


_LABELS = st.one_of(st.none(), st.sampled_from(["a", "b", "<<<NH:", 'x"y', "\ufdd2", 7]), st.text(max_size=4))


@st.composite
def _graphs(draw: st.DrawFn) -> list[Any]:
    count = draw(st.integers(1, 8))
    things = [
        draw(st.sampled_from([Thing, Slotted]))(f"m{marker}!", draw(_LABELS)) for marker in range(count)
    ]
    for thing in things:
        links = [things[index] for index in draw(st.lists(st.integers(0, count - 1), max_size=4))]
        kind = draw(st.sampled_from(["list", "tuple", "dict", "object", "nested", "none"]))
        if kind == "list":
            thing.links = links
        elif kind == "tuple":
            thing.links = tuple(links)
        elif kind == "dict":
            thing.links = {(index, "k"): each for index, each in enumerate(links)}
        elif kind == "object":
            thing.links = links[0] if links else None
        elif kind == "nested":
            thing.links = [{"deep": links}, links]
    return things


_STYLES: st.SearchStrategy[JsonRendererStyle] = st.sampled_from(["strict", "default", "detailed"])


def _reachable(start: list[Any]) -> set[str]:
    found: dict[int, Any] = {}
    waiting: list[Any] = [start]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Thing | Slotted):
            if id(value) in found:
                continue
            found[id(value)] = value
            waiting.append(value.links)
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
    return {thing.marker for thing in found.values()}


def _markers(text: str) -> list[str]:
    return sorted(_MARKER.findall(text))


@given(graph=_graphs(), roots=st.integers(1, 3), style=_STYLES)
def test_each_object_of_a_graph_is_shown_once(graph: list[Any], roots: int, style: JsonRendererStyle) -> None:
    value = graph[:roots]
    text = render_preview(value, max_tokens=20_000, style=style, counter=_COUNTER)
    assert _markers(text) == sorted(_reachable(value))
    assert text == render_preview(value, max_tokens=20_000, style=style, counter=_COUNTER)


@given(graph=_graphs(), max_tokens=st.integers(1, 200), style=_STYLES)
def test_preview_of_a_graph_keeps_its_limit_and_shows_nothing_twice(
    graph: list[Any], max_tokens: int, style: JsonRendererStyle
) -> None:
    text = render_preview(graph, max_tokens=max_tokens, style=style, counter=_COUNTER)
    assert _COUNTER.count(text) <= max_tokens
    assert "<<<NH:" not in text
    assert "\ufdd2" not in text
    markers = _markers(text)
    assert len(markers) == len(set(markers))
    assert text == render_preview(graph, max_tokens=max_tokens, style=style, counter=_COUNTER)


@given(graph=_graphs(), style=_STYLES)
def test_section_shows_each_object_once_however_many_variables_lead_to_it(
    graph: list[Any], style: JsonRendererStyle
) -> None:
    entries = {"all": graph, "first": graph[0], "last": graph[-1], "more": {"list": graph}, "one": [graph[0]]}

    def text() -> str:
        section = render_section(
            entries,
            section="locals",
            limits=StepContextLimits(),
            references=(),
            style=style,
            counter=_COUNTER,
        )
        (shown,) = section.parts
        assert isinstance(shown, str)
        return shown

    shown = text()
    assert _markers(shown) == sorted(_reachable(graph))
    assert shown == text()
