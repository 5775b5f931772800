"""What it costs to show Python values to a model: large ones, many, deep ones, and texts near the budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.configuration import StepContextLimits
from nighthawk_async.prompt.sections import RenderedSection, render_section
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

from ..measure import Benchmark
from ..silence import longest_silence
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


def numbers() -> dict[str, object]:
    """More integers than are shown."""
    return {"numbers": list(range(10_000))}


def thousand_rows() -> dict[str, object]:
    """Rows of which some are shown."""
    return {
        "rows": [{"id": n, "name": f"row {n}", "amount": n / 100, "paid": n % 3 == 0} for n in range(1_000)]
    }


class Line(BaseModel):
    """A line of an invoice."""

    sku: str
    quantity: int
    price: float


class Invoice(BaseModel):
    """An invoice."""

    number: str
    customer: str
    lines: list[Line]
    paid: bool


def invoices(count: int) -> dict[str, object]:
    """Invoices of five lines each."""
    return {
        "invoices": [
            Invoice(
                number=f"INV-{n:05}",
                customer=f"Customer {n}",
                lines=[Line(sku=f"S{n}-{line}", quantity=line, price=9.5 * line) for line in range(5)],
                paid=n % 2 == 0,
            )
            for n in range(count)
        ]
    }


def render(make_values: Callable[[], Mapping[str, object]], sections: int) -> Mapping[str, float]:
    """Render a section of a prompt again and again."""
    values = make_values()
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    counter.load()
    stopwatch = Stopwatch()
    characters = 0
    for _ in range(sections):
        characters = sum(len(part) for part in render_once(values, counter).parts if isinstance(part, str))
        assert characters
    figures = stopwatch.figures(sections)
    return {**figures, "cpu_per_kilobyte": figures["cpu"] * 1_000 / characters}


def render_once(values: Mapping[str, object], counter: TokenCounter) -> RenderedSection:
    """The section of a prompt that shows local variables."""
    return render_section(
        values, section="locals", limits=LIMITS, references=(), style="default", counter=counter
    )


@nh.natural_function
async def look(values: object) -> None:
    """Look at values."""
    """natural
    Look at <values>.
    """


async def listen(make_values: Callable[[], Mapping[str, object]], steps: int) -> Mapping[str, float]:
    """Carry out steps that show values beside a task that notes the longest time between its turns."""
    (values,) = make_values().values()
    model = ScriptedModel(lambda _: model_response(tool_call("nh_outcome", kind="pass")))

    async def carry_out() -> None:
        for _ in range(steps):
            await look(values)

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await look(values)  # what is imported and loaded for the first step counts for none
        return {"longest_silence": await longest_silence(carry_out)}


def _listen(
    make_values: Callable[[], Mapping[str, object]], backend: Literal["trio", "asyncio"], steps: int
) -> Mapping[str, float]:
    return anyio.run(partial(listen, make_values, steps), backend=backend)


LARGE_VALUES: Mapping[str, Callable[[], Mapping[str, object]]] = MappingProxyType(
    {"numbers": numbers, "rows": thousand_rows, "invoices": partial(invoices, 50)}
)
"""Values that hold the event loop when they are shown without care."""

VALUES: tuple[tuple[str, str, Callable[[], Mapping[str, object]]], ...] = (
    ("hundred-locals", "a hundred local variables", hundred_locals),
    ("million-rows", "a list of a million rows", million_rows),
    ("deep-object", "objects and dictionaries two hundred deep", deep_object),
    ("text-at-budget", "a text that just fits its budget", text_at_the_budget),
    ("crowded-section", "a section with values that are cut", crowded_section),
    ("long-text", "a text of a megabyte", long_text),
    ("numbers", "ten thousand integers", numbers),
    ("rows", "a thousand rows", thousand_rows),
    ("invoices-50", "fifty invoices, which fit", partial(invoices, 50)),
    ("invoices-500", "five hundred invoices, which do not fit", partial(invoices, 500)),
)

BENCHMARKS = (
    *(
        Benchmark(
            name=f"render-{name}",
            what=f"showing {what} in a prompt",
            run=partial(render, make_values),
            operations=50,
            quick_operations=2,
        )
        for name, what, make_values in VALUES
    ),
    *(
        Benchmark(
            name=f"loop-with-{name}-{backend}",
            what=f"steps that show large values: {name}",
            run=partial(_listen, make_values, backend),
            operations=20,
            quick_operations=1,
        )
        for name, make_values in LARGE_VALUES.items()
        for backend in ("trio", "asyncio")
    ),
)
