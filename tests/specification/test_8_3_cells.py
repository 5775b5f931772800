"""Section 8.3 and this library's `nh_exec`: a notebook cell with values, prints and awaited calls."""

import gc
import pprint
import sys
from typing import Any

import anyio
import pytest
import trio

import nighthawk_async as nh
from nighthawk_async.testing import tool_call
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

STARTED: list[int] = []
IN_FLIGHT: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_started() -> None:
    STARTED.clear()
    IN_FLIGHT.clear()


async def slow(number: int) -> int:
    """A call that notes how many are in flight."""
    STARTED.append(number)
    IN_FLIGHT.append((IN_FLIGHT[-1] if IN_FLIGHT else 0) + 1)
    await anyio.wait_all_tasks_blocked()
    IN_FLIGHT.append(IN_FLIGHT[-1] - 1)
    return number * 10


def most_in_flight() -> int:
    return max(IN_FLIGHT, default=0)


async def failing(number: int) -> int:
    raise LookupError(f"no {number}")


@nh.natural_function
async def work(items: list[Any], value: int = 1) -> object:
    """natural
    Work on <items> with <value>, <slow> and <failing>.
    """


@nh.natural_function
async def fill(items: list[int]) -> int:
    total: int = 0
    """natural
    Set <:total> from <items> with <slow>.
    """
    return total


@nh.natural_function
async def shorten(text: str) -> str:
    """natural
    Shorten <:text>.
    """
    return text


async def values_of(*calls: nh.models.ToolCall, **configuration: Any) -> list[Any]:
    steps = ScriptedSteps(calls, returning("None"), **configuration)
    async with nh.run(steps.executor):
        await work([1, 2])
    return [each["value"] if each["error"] is None else each["error"] for each in steps.envelopes]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1 + 1", 2),
        ("x = 2\nx * 3", 6),
        ("print('a', 'b', sep='-')", {"printed": "a-b\n"}),
        ("print('a')\n'b'", {"printed": "a\n", "value": "b"}),
        ("x = 5", {"changed": ["x"]}),
        ("for each in items:\n    print(each)", {"printed": "1\n2\n"}),
        ("items.append(3)\nitems", [1, 2, 3]),
        ("None", None),
        ("def twice(x):\n    print(x)\n    return x * 2\ntwice(4)", {"printed": "4\n", "value": 8}),
        (
            "import sys\nprint('err', file=sys.stderr)\nprint('out', file=sys.stdout)",
            {"printed": "err\nout\n"},
        ),
        (
            "import contextlib, io\nkept = io.StringIO()\nwith contextlib.redirect_stdout(kept):\n"
            "    print('kept')\nkept.getvalue()",
            "kept\n",
        ),
        ("list(map(print, items))", {"printed": "1\n2\n", "value": [None, None]}),
        ("'a'; 'b'", "b"),
        ("# nothing", {"changed": []}),
    ],
)
async def test_8_3_what_a_cell_prints_and_the_value_of_its_last_line_come_back(
    cell: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await values_of(executing(cell)) == [value]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("cell", "value", "together"),
    [
        ("[slow(each) for each in range(8)]", [each * 10 for each in range(8)], 8),
        ("found = [slow(each) for each in range(3)]\nfound", [0, 10, 20], 3),
        ("(slow(1), slow(2))", [10, 20], 2),
        ("{'a': slow(1), 'b': [slow(2), {'c': slow(3)}]}", {"a": 10, "b": [20, {"c": 30}]}, 3),
        ("slow(1)", 10, 1),
        ("await slow(1)", 10, 1),
        ("x = slow(1)\ny = await slow(2)\n(x, y)", [10, 20], 1),
        ("one = slow(1)\n[one, one]", [10, 10], 1),
        ("found = [slow(each) for each in (1, 2)]", {"changed": ["found"]}, 2),
        (
            "import anyio\nasync with anyio.create_task_group() as group:\n    group.start_soon(slow, 1)\n"
            "    group.start_soon(slow, 2)\n2",
            2,
            2,
        ),
        ("import nighthawk_async\nawait nighthawk_async.parallel.gather(slow(1), slow(2))", [10, 20], 2),
    ],
)
async def test_8_3_awaitables_of_a_cell_are_awaited_together(cell: str, value: object, together: int) -> None:
    assert await values_of(executing(cell)) == [value]
    assert most_in_flight() == together


async def test_8_3_names_that_a_cell_binds_to_calls_have_their_results_in_the_next_cell() -> None:
    found = await values_of(
        executing("found = {'all': [slow(each) for each in items]}\nsame = found"),
        executing("found['all'] + [found is same]"),
    )
    assert found == [{"changed": ["found", "same"]}, [10, 20, True]]


async def test_8_3_a_call_that_stands_alone_is_awaited_before_the_next_line() -> None:
    cell = "slow(1)\nslow(2)\nitems.append(3)\nitems"
    assert await values_of(executing(cell)) == [[1, 2, 3]]
    assert STARTED == [1, 2]
    assert most_in_flight() == 1


async def test_8_3_the_first_failure_of_calls_that_are_awaited_together_is_shown() -> None:
    (error,) = await values_of(executing("[slow(1), failing(2)]"))
    assert "LookupError: no 2" in error["message"]
    gc.collect()  # no coroutine was forgotten


async def test_8_3_expressions_of_nh_eval_and_nh_assign_are_awaited_together_too() -> None:
    steps = ScriptedSteps(
        (evaluating("[slow(1), slow(2)]"), assigning("items", "[slow(3)]")), returning("[*items, slow(4)]")
    )
    async with nh.run(steps.executor):
        assert await work([]) == [30, 40]
    assert steps.envelopes[0]["value"] == [10, 20]


async def test_8_3_a_binding_is_set_by_assignment() -> None:
    for cell in ("total: int = 5", "(total := 5)", "for total in (4, 5): pass", "total = 4\ntotal += 1"):
        steps = ScriptedSteps((executing(cell), PASS))
        async with nh.run(steps.executor):
            assert await fill([1]) == 5
    steps = ScriptedSteps((executing("total = slow(1)"), PASS))
    async with nh.run(steps.executor):
        assert await fill([1]) == 10


async def test_8_3_cells_that_run_at_the_same_time_keep_their_prints_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cell = "print('begin {0}')\nawait slow({0})\nprint('end {0}')"
    found = await values_of(*(executing(cell.format(each)) for each in range(3)))
    assert found == [{"printed": f"begin {each}\nend {each}\n"} for each in range(3)]
    assert most_in_flight() == 3
    assert capsys.readouterr().out == ""


async def test_8_3_prints_of_functions_that_a_block_returns_do_not_reach_the_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = ScriptedSteps(returning("lambda: print('late')"))
    async with nh.run(steps.executor):
        late: Any = await work([])
    late()
    assert capsys.readouterr().out == ""


async def test_8_3_prints_of_the_program_reach_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    def report(*_: object) -> str:
        print("from the program")
        pprint.pprint(1)
        sys.stderr.write("error")
        return ""

    class Shown:
        __repr__ = report

    cells = "items[0]()", "items[0]()\nprint(1)", "import pprint\npprint.pprint(items[1])"
    for cell in cells:
        steps = ScriptedSteps((executing(cell),), returning("None"))
        async with nh.run(steps.executor):
            await work([report, Shown()])
        out, error = capsys.readouterr()
        assert set(out.splitlines()) == {"from the program", "1"}, cell
        assert set(error) == set("error")


WRITING = {
    "import sys\nsys.stdout.write('a\\n')": ("a\n", 2),
    "import sys as system\nsystem.stderr.write('a')\nNone": ("a", None),
    "from sys import stdout as out, stderr\nout.writelines(['a', 'b'])\nprint('c', file=stderr)": (
        "abc\n",
        None,
    ),
    "import sys\nout = sys.stdout\nprint('a', file=out)\nout.flush()": ("a\n", None),
    "import sys\nsys.__stdout__.write('a')\nsys.stdout.buffer.write(b'b')\nsys.stdout.isatty()": (
        "ab",
        False,
    ),
    "import json, sys\njson.dump([1], sys.stdout)": ("[1]", None),
    "import csv, sys\ncsv.writer(sys.stderr).writerow([1, 2])\n0": ("1,2\r\n", 0),
    "import pprint\npprint.pprint({'a': 1})\npprint.pp([1])": ("{'a': 1}\n[1]\n", None),
    "from pprint import pprint as p\np(items)": ("[1, 2]\n", None),
    "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc(limit=0)": (
        "ZeroDivisionError: division by zero\n",
        None,
    ),
    "import sys\ndef tell(x):\n    sys.stdout.write(x)\n    return 1\ntell('a')": ("a", 1),
    "import sys, pprint\nasync def tell(x):\n    await slow(x)\n    sys.stdout.write('a')\n"
    "    pprint.pprint(x)\n    return x\n[tell(5)]": ("a5\n", [5]),
    "import sys\nawait slow(1)\nsys.stdout.write('a')": ("a", 1),
    "async def tell(x):\n    print(x)\ntold = {'a': tell(1)}\n0": ("1\n", 0),
    "async def tell(x):\n    print(x)\ntell(1)": ("1\n", None),
    "async def tell(x):\n    await slow(x)\n    print(x)\ntell(1)\ntell(2)\n0": ("1\n2\n", 0),
    "import sys\n[sys.stdout.write(each) for each in 'ab']": ("ab", [1, 1]),
    "import contextlib, io, sys\nwith contextlib.redirect_stdout(io.StringIO()) as kept:\n"
    "    sys.stdout.write('kept')\nprint(kept.getvalue())": ("kept\n", None),
    "import contextlib, io, pprint\nwith contextlib.redirect_stdout(io.StringIO()) as kept:\n"
    "    pprint.pprint('kept')\nprint(kept.getvalue())": ("'kept'\n\n", None),
    "import sys\nclass A:\n    def __init__(self):\n        sys.stdout.write('made')\nA()\n0": ("made", 0),
    "from sys import *\nstdout.write('a')": ("a", 1),
    "import builtins\nbuiltins.print('a')": ("a\n", None),
    "import subprocess\nsubprocess.CompletedProcess([], 0, stdout='a').stdout": ("", "a"),
}


async def test_8_3_what_a_cell_writes_to_the_output_comes_back_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for permissions in (None, nh.permissions(default="allow")):
        for cell, (printed, value) in WRITING.items():
            steps = ScriptedSteps((executing(cell),), returning("None"))
            async with nh.run(steps.executor), nh.scope(permissions=permissions):
                await work([1, 2])
            (found,) = (each["value"] if each["error"] is None else each for each in steps.envelopes)
            if not printed:
                assert found == value, cell
            elif value is None:
                assert found == {"printed": printed}, cell
            else:
                assert found == {"printed": printed, "value": value}, cell
            assert capsys.readouterr() == ("", ""), cell


async def test_8_3_cells_that_write_at_the_same_time_keep_their_outputs_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cell = "import sys, pprint\nsys.stdout.write('{0}')\nawait slow({0})\n"
    cell += "pprint.pprint({0})\nsys.stderr.write('{0}')"
    found = await values_of(*(executing(cell.format(each)) for each in range(3)))
    assert found == [{"printed": f"{each}{each}\n{each}", "value": 1} for each in range(3)]
    assert capsys.readouterr() == ("", "")


async def test_8_3_a_cell_sees_a_raw_text_beside_its_statements() -> None:
    raw = "He said: \"no\\n\"\n\tand 'left' \\d+"
    found = await values_of(
        tool_call("nh_exec", statements="kept = text\nlen(text)", text=raw),
        executing("kept"),
        executing("text"),
    )
    assert found[:2] == [len(raw), raw]
    assert "NameError" in found[2]["message"]


async def test_8_3_the_raw_text_hides_a_variable_of_the_same_name_for_one_cell() -> None:
    for cell, text in (("len(text)", "whole"), ("text = text.upper()", "GIVEN"), ("1 / 0", "whole")):
        steps = ScriptedSteps((tool_call("nh_exec", statements=cell, text="given"),), PASS)
        async with nh.run(steps.executor):
            assert await shorten("whole") == text


async def test_8_3_functions_of_the_other_event_loop_are_refused_before_anything_runs() -> None:
    on_trio = trio.lowlevel.in_trio_run()
    cell = (
        "import asyncio\nitems.append(3)\nawait asyncio.gather(slow(1), slow(2))"
        if on_trio
        else "import trio\nitems.append(3)\nawait trio.sleep(1)"
    )
    error, items = await values_of(executing(cell), executing("items"))
    assert "[f(1), f(2)]" in error["guidance"]
    assert "anyio.sleep" in error["guidance"]
    assert items == [1, 2]
    assert STARTED == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_8_3_asyncio_works_on_its_own_loop() -> None:
    cell = "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.gather(slow(1), slow(2))"
    assert await values_of(executing(cell)) == [[10, 20]]
    assert await values_of(executing("import asyncio\nasyncio.gather(slow(1), slow(2))")) == [[10, 20]]


async def test_8_3_expressions_in_cells_run_at_the_same_time_as_those_of_nh_eval_do() -> None:
    cells = [executing(f"slow(items[0] + {each})") for each in range(4)]
    assert await values_of(*cells) == [10, 20, 30, 40]
    assert most_in_flight() == 4
