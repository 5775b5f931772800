"""Code of a step in a sandbox: values by copy, calls of the program, errors, names that are kept."""

import enum
import math
import os
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import anyio.lowlevel
import anyio.to_thread
import pytest
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.errors import ExecutionError

from .sandboxed import KINDS, Written, answers

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS)]


@dataclass
class Point:
    x: int
    labels: list[str]

    def norm(self) -> int:
        return abs(self.x)


class Stars(BaseModel):
    count: int = Field(ge=0, le=5)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    one: int
    two: str


class Mailer:
    """Sends mail."""

    host = "mail.example"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._key = "secret"

    def send(self, to: str) -> str:
        self.sent.append(to)
        return f"sent to {to}"

    async def send_later(self, to: str) -> str:
        await anyio.lowlevel.checkpoint()
        return self.send(to)


class OddError(Exception):
    """An error of the program's own."""


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def double(number: int) -> int:
    """Double."""
    await anyio.lowlevel.checkpoint()
    return 2 * number


def fail(kind: str) -> None:
    """Fail."""
    raise {"key": KeyError, "value": ValueError, "odd": OddError}[kind](f"no {kind}")


@nh.natural_function
async def act(xs: list[int], point: Point, mailer: Mailer) -> list[int]:
    """Act."""
    out: list[int] = []
    """natural
    Use <xs>, <point>, <mailer>, <add>, <double>, <fail>, <Point>; set <:out>.
    """
    return out


def acting(mailer: Mailer | None = None) -> Any:
    return lambda: act([1, 2], Point(1, ["a"]), mailer or Mailer())


async def test_calls_values_and_names_are_those_of_a_cell(kind: Any) -> None:
    cases: list[tuple[str, object]] = [
        ("1 + 1", 2),
        ("add(1)", 2),
        ("[add(1), add(2, b=3)]", [2, 5]),
        ("await double(3)", 6),
        ("import asyncio\nawait asyncio.gather(double(1), double(2))", [2, 4]),
        ("[double(4), double(5)]", [8, 10]),
        ("later = double(7)", {"changed": ["later"]}),
        ("later", 14),
        ("{'a': double(1)}", {"a": 2}),
        ("print('hi', 3)", {"printed": "hi 3\n"}),
        ("mailer.send('ada')", "sent to ada"),
        ("await mailer.send_later('bob')", "sent to bob"),
        ("mailer.host", "mail.example"),
        ("mailer.sent", ["ada", "bob"]),
        ("point.norm()", 1),
        ("point.labels", ["a"]),
        ("new = Point(7, ['b'])\nnew.x", 7),
        ("new.norm() + add(new.x)", 15),
        ("def helper(n):\n    return add(n) + 1", {"changed": []}),
        ("helper(1)", 3),
        ("[helper(n) for n in range(3)]", [2, 3, 4]),
        ("'<function odd>'", "<function odd>"),
        ("10**30", 10**30),
        ("text = 'ü'; text * 2  # ✓", "üü"),
    ]
    said = await answers(nh.Sandbox(kind=kind), acting(), [code for code, _ in cases])
    found = [each["value"] if isinstance(each, dict) and "value" in each else each for each in said]
    assert dict(zip([code for code, _ in cases], found, strict=True)) == dict(cases)


async def test_errors_name_the_line_and_the_step_goes_on(kind: Any) -> None:
    cases = [
        ("1 / 0", "line 1 (1 / 0): ZeroDivisionError: division by zero"),
        ("a = 1\nb = a / 0", "line 2 (b = a / 0): ZeroDivisionError: division by zero"),
        ("nothing", "line 1 (nothing): NameError: name 'nothing' is not defined"),
        ("fail('key')", "KeyError: 'no key'"),
        ("fail('odd')", "OddError: no odd"),
        ("add('a')", "TypeError: can only concatenate"),
        ("mailer._key", "line 1 (mailer._key): AttributeError"),
        ("mailer.nothing", "line 1 (mailer.nothing): AttributeError"),
        ("().__class__.__mro__[1].__subclasses__()", ""),
        ("xs[9]", "line 1 (xs[9]): IndexError"),
        ("add(lambda: 1)", "cannot leave the sandbox"),
    ]
    caught = (
        "for kind in ['key', 'value', 'odd']:\n    try:\n        fail(kind)\n"
        "    except (KeyError, ValueError, Exception) as error:\n        print(type(error).__name__)"
    )
    codes = [*(code for code, _ in cases), caught, "a"]
    said = await answers(nh.Sandbox(kind=kind), acting(), codes)
    for (code, expected), got in zip(cases, said, strict=False):
        assert expected in str(got), code
    assert said[-2] == {"printed": "KeyError\nValueError\nRuntimeError\n"} or "Exception" in str(said[-2])
    assert said[-1] == 1, "what was bound before an error is kept"


async def test_changes_of_copies_are_told_and_reach_nothing(kind: Any) -> None:
    xs, point = [1, 2], Point(1, ["a"])
    written = Written(
        "xs.append(3)\nlen(xs)", "point.x = 5\npoint.labels.append('b')", "xs, point.x", "xs[0]"
    )
    async with written.run(nh.Sandbox(kind=kind)):
        await act(xs, point, Mailer())
    notes = [written.answer(position)["value"] for position in (0, 1)]
    assert [each["changed"] for each in notes] == [["xs"], ["point"]]
    assert all("not kept when the block ends" in each["note"] for each in notes)
    assert (written.said(2), written.said(3)) == ([[1, 2, 3], 5], 1)
    assert (xs, point) == ([1, 2], Point(1, ["a"]))


async def test_every_way_of_code_runs_in_the_sandbox(kind: Any) -> None:
    written = Written(
        ("nh_eval", {"expression": "[add(n) for n in xs]"}),
        ("nh_assign", {"target_path": "out", "expression": "[add(n) for n in xs]"}),
        "out = out + [await double(3)]",
        ("nh_assign", {"target_path": "mailer.host", "expression": "'x'"}),
        ("nh_eval", {"expression": "open('/etc/hostname').read()"}),
        ("nh_eval", {"expression": "__import__('os').getpid()"}),
    )
    async with written.run(nh.Sandbox(kind=kind)):
        assert await act([1, 2], Point(1, []), Mailer()) == [2, 3, 6]
    assert written.said(0) == [2, 3]
    assert "cannot be set" in str(written.said(3))
    assert "Error" in str(written.said(4))
    assert written.said(5) != os.getpid()


@nh.natural_function
async def rate(text: str) -> Stars:
    """natural
    Return the stars in <text>, a <Stars>; or raise <ValueError>. Use <add>.
    """
    raise AssertionError


async def test_return_and_raise_expressions_are_evaluated_there_and_validated(kind: Any) -> None:
    for expression, expected in [("Stars(count=len(text))", 3), ("add(1)", None), ("Stars(count=9)", None)]:
        written = Written("text", kind="return", return_expression=expression)
        async with written.run(nh.Sandbox(kind=kind)):
            if expected is None:
                with pytest.raises(ExecutionError):
                    await rate("abc")
            else:
                assert await rate("abc") == Stars(count=expected)
    written = Written("text", kind="raise", raise_message="none", raise_error_type="ValueError")
    async with written.run(nh.Sandbox(kind=kind)):
        with pytest.raises(ValueError, match="none"):
            await rate("abc")


async def test_data_comes_back_equal_in_type_and_value(kind: Any) -> None:
    values: dict[str, object] = {
        "none": None,
        "int": 3,
        "big": -(10**40),
        "float": 0.1,
        "infinite": math.inf,
        "complex": 1 + 2j,
        "bytes": b"\x00\xff",
        "text": "<a> ü 🙂 nighthawk:1:x",
        "tuple": (1, (2, "x")),
        "set": {1, 2},
        "frozen": frozenset({"a"}),
        "dict": {"a": [1], 2: None, (1, 2): "t"},
        "date": date(2026, 1, 2),
        "time": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "zone": datetime(2026, 1, 2, tzinfo=ZoneInfo("Europe/London")),
        "span": timedelta(days=3, microseconds=1),
        "decimal": Decimal("1.50"),
        "path": PurePosixPath("/a/b"),
        "enum": Color.RED,
        "pair": Pair(1, "x"),
        "point": Point(1, ["a"]),
        "stars": Stars(count=2),
        "uuid": uuid.UUID(int=7),
        "ordered": OrderedDict(a=1),
        "counter": Counter("aab"),
        "default": defaultdict(list, a=[1]),
        "deque": deque([1, 2], maxlen=5),
        "file": Path("/x"),
        "class": Point,
        "function": add,
        "exception": ValueError,
        "ellipsis": ...,
        "nested": [{"p": Point(2, []), "f": [add]}],
    }

    @nh.natural_function
    async def give(values: dict[str, Any]) -> Any:
        given: Any = None
        """natural
        Set <:given> to the items of <values>. Use <add>.
        """
        return given

    async with Written("given = [values[name] for name in values]").run(nh.Sandbox(kind=kind)):
        back = dict(zip(values, await give(values), strict=True))
    plainer = {"ordered": dict, "counter": dict, "default": dict, "deque": list, "file": PurePosixPath}
    for name, value in values.items():
        expected: Any = plainer.get(name, lambda each: each)
        assert back[name] == expected(value), name
        if name not in plainer:
            assert type(back[name]) is type(value), name


async def test_containers_keep_their_kinds_when_they_are_changed(kind: Any) -> None:
    @nh.natural_function
    async def change(counts: Counter[str], recent: deque[int], groups: Any, stars: Stars) -> Any:
        """natural
        Change <:counts>, <:recent>, <:groups> and <:stars>. Use <add>.
        """
        return counts, recent, groups, stars

    code = "counts['b'] = 5\nrecent.append(3)\ngroups['x'] = [1]\nstars.count = 4"
    async with Written(code).run(nh.Sandbox(kind=kind)):
        counts, recent, groups, stars = await change(
            Counter("a"), deque([1], maxlen=2), defaultdict(list), Stars(count=1)
        )
    assert (type(counts), counts["b"]) == (Counter, 5)
    assert (type(recent), recent) == (deque, deque([1, 3], maxlen=2))
    assert (type(groups), groups.default_factory) == (defaultdict, list)
    assert stars == Stars(count=4)


async def test_a_changed_record_is_validated_by_its_class(kind: Any) -> None:
    @nh.natural_function
    async def change(stars: Stars) -> Stars:
        """natural
        Change <:stars>. Use <add>.
        """
        return stars

    written = Written("stars.count = 9")
    async with written.run(nh.Sandbox(kind=kind)):
        assert await change(Stars(count=1)) == Stars(count=1)
    assert "stars cannot leave the sandbox" in str(written.said(0))


async def test_limits_are_tool_errors_and_the_step_goes_on(kind: Any) -> None:
    def deep(n: int) -> str:
        return f"def deep(n):\n    return deep(n + 1)\ndeep({n})"

    codes = [
        "kept = add(4)\ndef helper():\n    return 1",
        "while True:\n    pass",
        "kept",
        "'a' * 10**11",
        deep(0),
        "[0] * 10**11",
        "kept + add(1)",
        "10**10**8 if False else add(1)",
    ]
    said = await answers(nh.Sandbox(kind=kind, seconds=0.3), acting(), codes)
    assert "stopped after 0.3 seconds" in str(said[1])
    assert said[2] == 5
    assert "bytes of memory" in str(said[3])
    assert "RecursionError" in str(said[4])
    assert "bytes of memory" in str(said[5])
    assert said[6:] == [7, 2]


async def test_what_cannot_cross_is_told_before_and_when_it_is_used(kind: Any) -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)

    @nh.natural_function
    async def use(mailer: Mailer, loop: Any, lines: Any) -> None:
        """natural
        Use <mailer>, <loop>, <lines>, <add>.
        """

    written = Written("len(loop)", "lines.nothing", "mailer + 1")
    async with written.run(nh.Sandbox(kind=kind)):
        await use(Mailer(), cyclic, (each for each in [1]))
    assert "methods and attributes only: lines, mailer" in written.prompts[0]
    assert "it contains itself" in str(written.said(0))
    assert "AttributeError" in str(written.said(1))
    assert "TypeError" in str(written.said(2))


async def test_synchronous_functions_have_it_too(kind: Any) -> None:
    @nh.natural_function
    def compute(xs: list[int]) -> int:
        total = 0
        """natural
        Set <:total> with <add> and <xs>.
        """
        return total

    async with Written("total = sum([add(n) for n in xs])").run(nh.Sandbox(kind=kind)):
        assert await anyio.to_thread.run_sync(compute, [1, 2, 3]) == 9
