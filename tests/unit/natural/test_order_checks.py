"""Shapes of durable programs whose results depend on time or chance."""

from textwrap import dedent

import pytest

from nighthawk_async.natural.checking import check_source

HEAD = """
import asyncio, os, random, time, uuid
from datetime import datetime
import anyio
import nighthawk_async as nh

@nh.once
async def book(seat): ...
"""


def found(body: str, head: str = HEAD) -> list[str]:
    return [each.code for each in check_source(head + dedent(body), "page.py")]


@pytest.mark.parametrize(
    "body",
    [
        "async def f(tasks):\n    for each in asyncio.as_completed(tasks): print(await each)",
        "async def f(t): await asyncio.wait(t, return_when=asyncio.FIRST_COMPLETED)",
        "from asyncio import as_completed as done\ndef f(t): return done(t)",
    ],
)
def test_arrivals_are_found(body: str) -> None:
    assert found(body) == ["NH009"]


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ("await book(1); out.append(name)", "await nh.parallel.map(one, 'ab')"),
        ("out.append(await book(1))", "await nh.parallel.map(one, 'ab')"),
        ("await book(1)\n        nonlocal last\n        last = name", "group.start_soon(one, 'a')"),
        ("async for _ in name:\n            out.append(1)", "asyncio.create_task(one('a'))"),
    ],
)
def test_changes_in_the_order_of_arrival_are_found(change: str, start: str) -> None:
    text = f"""
async def main(group):
    out, last = [], None
    async def one(name):
        {change}
    {start}
"""
    assert found(text) == ["NH010"]


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ("found[name] = await book(1)", "await nh.parallel.map(one, 'ab')"),
        ("mine = []; mine.append(await book(1))", "await nh.parallel.map(one, 'ab')"),
        ("out.append(name); await book(1)", "await nh.parallel.map(one, 'ab')"),
        ("out.append(await book(1))", "await one('a')"),
        (
            "async with nh.actors.mutex('m'):\n            out.append(await book(1))",
            "group.start_soon(one, 'a')",
        ),
        ("await book(1); seen.add(name)", "group.start_soon(one, 'a')"),
    ],
)
def test_changes_that_have_no_order_are_not_found(change: str, start: str) -> None:
    text = f"""
async def main(group):
    out, found, seen = [], {{}}, set()
    async def one(name):
        {change}
    {start}
"""
    assert found(text) == []


def test_a_race_by_hand_is_found() -> None:
    text = """
async def main():
    async with anyio.create_task_group() as group:
        async def one(name):
            {}
            group.cancel_scope.cancel()
        group.start_soon(one, "a")
"""
    assert found(text.format("await book(1)")) == ["NH011"]
    assert found(text.format("pass")) == []


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("uuid.uuid4().hex", True),
        ("time.time()", True),
        ("random.random()", True),
        ("datetime.now()", True),
        ("seat=str(random.choice('ab'))", True),
        ("nh.journal.random()", False),
        ("nh.journal.now()", False),
        ("self.random.random()", False),
        ("time.monotonic", False),
    ],
)
def test_the_clock_and_chance_are_found_in_effects(value: str, is_found: bool) -> None:
    assert found(f"async def f(self): await book({value})") == ["NH012"] * is_found
    assert found(f"async def f(self): print({value})") == []


def test_the_clock_is_found_in_natural_functions() -> None:
    text = """
@nh.natural_function
async def f():
    now = time.time()
    '''natural
    Use <now>.
    '''
"""
    assert found(text) == ["NH012"]


@pytest.mark.parametrize(
    ("items", "is_found"),
    [
        ("{1, 2}", True),
        ("set(names)", True),
        ("os.listdir('.')", True),
        ("path.iterdir()", True),
        ("sorted(set(names))", False),
        ("sorted(os.listdir('.'))", False),
        ("[1, 2]", False),
        ("names", False),
    ],
)
def test_loops_without_an_order_are_found(items: str, is_found: bool) -> None:
    assert (
        found(f"async def f(names, path):\n    for each in {items}: await book(each)") == ["NH013"] * is_found
    )
    assert found(f"def f(names, path):\n    for each in {items}: print(each)") == []


def test_modules_without_anything_durable_are_left_alone() -> None:
    head = "import asyncio, time\nimport nighthawk_async as nh\n"
    assert found("def f(t): return asyncio.as_completed(t)", head) == []
    assert found("def f(t): nh.run(journal=t); return asyncio.as_completed(t)", head) == ["NH009"]
    assert found("def f(t): return asyncio.as_completed(t)  # noqa: NH009", HEAD) == []
