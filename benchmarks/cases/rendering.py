"""What it costs to show Python values to a model: large ones, many, deep ones, and texts near the budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.prompt.sections import RenderedSection, render_section
from nighthawk_async.prompt.tokens import TokenCounter

from ..measure import Benchmark
from ..stopwatch import Stopwatch
from ..streams.events import PROSE

__all__ = ["BENCHMARKS", "VALUES"]

LIMITS = StepContextLimits(locals_max_items=110)
"""The usual limits, but with room for a hundred and some variables."""


@dataclass
class Node:
    """One link of a chain of objects."""

    name: str
    tags: list[str]
    following: "Node | None" = None


def hundred_locals() -> dict[str, object]:
    """A hundred variables of the kinds that functions have."""
    kinds: tuple[Callable[[int], object], ...] = (
        lambda number: number,
        lambda number: number / 7,
        lambda number: f"value number {number}, and some words about it",
        lambda number: [number, number + 1, number + 2],
        lambda number: {"id": number, "name": f"name {number}", "tags": ["a", "b"], "score": number / 3},
        lambda number: Node(name=f"node {number}", tags=["x", "y"]),
        lambda number: None,
        lambda number: print,
        lambda number: (number, str(number)),
        lambda number: as_prose,
    )
    return {f"variable_{number}": kinds[number % len(kinds)](number) for number in range(100)}


@cache
def million_rows() -> dict[str, object]:
    """A table as a list of dictionaries."""
    rows = [{"id": number, "name": f"row {number}", "amount": number / 100} for number in range(1_000)]
    return {"rows": [rows[number % 1_000] for number in range(1_000_000)]}


def deep_object() -> dict[str, object]:
    """A chain of two hundred objects, and dictionaries as deep."""
    node, mapping = Node(name="last", tags=[]), dict[str, Any]()
    for number in range(200):
        node = Node(name=f"node {number}", tags=["x", "y"], following=node)
        mapping = {"number": number, "inner": mapping, "words": ["some", "words"]}
    return {"node": node, "mapping": mapping}


def as_prose(tokens: int) -> str:
    """Prose that is shown in exactly so many tokens, or as many as no further character leaves room for."""
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    text = counter.truncate((PROSE.replace("\n", " ").replace('"', "'") * (tokens // 50 + 1)).strip(), tokens)
    while counter.exceeds(f'"{text}"', tokens):
        text = text[:-1]
    return text


@cache
def text_at_the_budget() -> dict[str, object]:
    """A text that just fits."""
    return {"text": as_prose(LIMITS.locals_max_tokens - 6)}


@cache
def long_text() -> dict[str, object]:
    """A text of a megabyte, of which the beginning is shown."""
    return {"text": PROSE * (1_000_000 // len(PROSE))}


@cache
def crowded_section() -> dict[str, object]:
    """Texts, tables and objects, many of them small and some larger than the section."""
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(5_000)]
    large = {
        "article": PROSE * 50,
        "rows": rows,
        "letters": [PROSE] * 40,
        "node": Node(PROSE * 20, ["x"] * 9_000),
    }
    return {**hundred_locals(), **large}


def render(make_values: Callable[[], Mapping[str, object]], sections: int) -> Mapping[str, float]:
    """Render a section of a prompt again and again."""
    values = make_values()
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    counter.load()
    stopwatch = Stopwatch()
    for _ in range(sections):
        assert render_once(values, counter).parts
    return stopwatch.figures(sections)


def render_once(values: Mapping[str, object], counter: TokenCounter) -> RenderedSection:
    """The section of a prompt that shows local variables."""
    return render_section(
        values, section="locals", limits=LIMITS, references=(), style="default", counter=counter
    )


VALUES: tuple[tuple[str, str, Callable[[], Mapping[str, object]]], ...] = (
    ("hundred-locals", "a hundred local variables", hundred_locals),
    ("million-rows", "a list of a million rows", million_rows),
    ("deep-object", "objects and dictionaries two hundred deep", deep_object),
    ("text-at-budget", "a text that just fits its budget", text_at_the_budget),
    ("crowded-section", "a section with values that are cut", crowded_section),
    ("long-text", "a text of a megabyte", long_text),
)

BENCHMARKS = tuple(
    Benchmark(
        name=f"render-{name}",
        what=f"showing {what} in a prompt",
        run=partial(render, make_values),
        operations=50,
        quick_operations=2,
    )
    for name, what, make_values in VALUES
)
