"""What the live tree shows: which rows, what they say, and what has changed between two looks."""

import os
import pty
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.cli.live_tree import Tally
from nighthawk_async.cli.live_tree_picture import Figures, Picture, figures_line
from nighthawk_async.cli.live_tree_terminal import Screen
from nighthawk_async.observe import TaskTree
from nighthawk_async.observe.changes import Changes
from nighthawk_async.observe.node_words import (
    inputs_text,
    last_line_said,
    seconds_text,
    sent_and_received_text,
    tokens_text,
)
from nighthawk_async.observe.tree_rows import Digests, rows_that_fit
from nighthawk_async.types.usage import Usage, cost_text
from tests.unit.observe.recorded import begin, top_writer


def drawn(tree: TaskTree, *, height: int = 20, width: int = 60, is_ascii: bool = False) -> list[str]:
    """The lines of the tree a second after it began."""
    root = tree.snapshot()
    rows = rows_that_fit(root, Digests(), height)
    lines = Picture(width=width, is_ascii=is_ascii).draw(rows, root.began_at + 1)
    assert all(line.cell_len <= width for line in lines)
    return [line.plain.rstrip() for line in lines]


def test_everything_is_shown_while_there_is_room() -> None:
    tree = TaskTree()
    run = begin(tree)
    step = run.begin_child("function", "classify").begin_child("step", "app:1", inputs={"review": "fine"})
    step.begin_child("tool_call", "nh_eval").end("completed")
    step.write("text", "First.\nThen this")
    lines = drawn(tree, width=90)
    assert lines[0].startswith("● run main ")
    assert lines[1].startswith("└─ ● classify")
    assert lines[2].startswith('   └─ ● step app:1 review="fine"')
    assert lines[3].strip() == "Then this"
    assert lines[4].startswith("      └─ ✓ tool nh_eval")


def test_what_ended_well_is_folded_and_what_failed_stays_open_when_there_is_little_room() -> None:
    tree = TaskTree()
    run = begin(tree)
    for number in range(40):
        function = run.begin_child("function", f"f{number}")
        step = function.begin_child("step", f"app:{number}")
        if number == 7:
            step.end("failed", error=KeyError("seven"))
            function.end("failed", error=KeyError("seven"))
        elif number != 9:
            step.end("completed")
            function.end("completed")
    lines = drawn(tree, height=8)
    assert lines[1].startswith("├─ ✗ f7")
    assert "KeyError: 'seven'" in lines[2]
    assert lines[3].startswith("├─ ● f9")
    assert lines[4] == "└─ 38 done"
    assert len(lines) == 5


def test_of_many_that_go_on_some_are_shown_and_the_others_counted() -> None:
    tree = TaskTree()
    for number in range(500):
        begin(tree, "step", f"app:{number}")
    lines = drawn(tree, height=10)
    assert [line.split()[2] for line in lines[:8]] == [f"app:{number}" for number in range(8)]
    assert lines[8:] == ["492 more in progress"]


@given(
    shape=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["", "completed", "failed", "raised"])), max_size=60
    ),
    height=st.integers(1, 30),
    width=st.integers(20, 90),
    is_ascii=st.booleans(),
)
def test_a_tree_of_any_shape_fits(
    shape: list[tuple[int, str]], height: int, width: int, is_ascii: bool
) -> None:
    tree = TaskTree()
    writers = [top_writer(tree)]
    for parent, _ in shape:
        writer = writers[parent % len(writers)].begin_child("step", "ünï\x1bcode", inputs={"a": "漢字" * 40})
        writer.write("text", "line\nanother \x9b line")
        writers.append(writer)
    for writer, (_, end) in zip(writers[1:], shape, strict=True):
        if end:
            writer.end(end, error=None if end == "completed" else ValueError("\x1b]0;title\x07"))  # pyright: ignore[reportArgumentType]
    lines = drawn(tree, height=height, width=width, is_ascii=is_ascii)
    assert len(lines) <= height
    assert all(line.isprintable() for line in lines)
    assert not is_ascii or all(line.isascii() for line in lines)


def test_figures_have_columns_and_give_way_to_names_in_narrow_terminals() -> None:
    tree = TaskTree()
    step = begin(tree, "step", "app:1")
    step.set_usage(Usage(requests=1, input_tokens=1_200, output_tokens=34, cost=Decimal("0.0123")))
    assert drawn(tree, width=70)[0].endswith("1.0s   1,234 tok    $0.0123")
    assert drawn(tree, width=50)[0].endswith("1.0s   1,234 tok")
    assert drawn(tree, width=30)[0].endswith("1.0s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (9.96, "10.0s"), (59.94, "59.9s"), (59.99, "1m00s"), (125, "2m05s"), (7_260, "2h01m")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(requests=1, cost=Decimal("0.00001")), "<$0.0001"),
        (Usage(requests=1, cost=Decimal("0.00005")), "<$0.0001"),
        (Usage(requests=1, cost=Decimal("0.0001")), "$0.0001"),
        (Usage(requests=2, cost=Decimal("1.5"), unpriced_requests=1), "$1.5000+"),
        (Usage(requests=2, cost=Decimal("1.5"), is_complete=False), "~$1.5000"),
        (Usage(requests=2, cost=Decimal(1234)), "$1,234.00"),
    ],
)
def test_costs_are_never_like_nothing_and_say_when_they_are_not_exact_or_not_all(
    usage: Usage, text: str
) -> None:
    assert cost_text(usage) == text


def test_tokens_say_when_they_are_not_exact() -> None:
    usage = Usage(requests=2, input_tokens=1_400, output_tokens=13)
    inexact = replace(usage, is_complete=False)
    assert (tokens_text(usage), tokens_text(inexact)) == ("1,413 tok", "~1,413 tok")
    assert sent_and_received_text(usage) == "1,400 tokens in, 13 out"
    assert sent_and_received_text(inexact) == "~1,400 tokens in, ~13 out"
    nothing_told = Usage(requests=1, is_complete=False)
    assert (tokens_text(nothing_told), sent_and_received_text(nothing_told)) == ("", "")


def test_columns_stay_apart_however_large_their_figures_are() -> None:
    tree = TaskTree()
    step = begin(tree, "step", "app:1")
    usage = Usage(requests=1, input_tokens=1_234_567, cost=Decimal("12345678"), is_complete=False)
    step.set_usage(replace(usage, unpriced_requests=1))
    assert drawn(tree, width=70)[0].endswith(" 1.0s ~1,234,567 tok ~$12,345,678.00+")


def test_a_cancellation_that_says_nothing_more_needs_no_line() -> None:
    tree = TaskTree()
    run = begin(tree)
    run.begin_child("step", "app:1", inputs={"review": "fine"}).end("cancelled", error=ValueError())
    run.begin_child("step", "app:2").end("cancelled", error=ValueError("the customer has left"))
    run.begin_child("step", "app:3").end("failed", error=ValueError())
    lines = [line.strip() for line in drawn(tree, width=90)]
    assert lines[1].startswith('├─ ⊘ step app:1 review="fine"')
    assert lines[2].startswith("├─ ⊘ step app:2")
    assert lines[3] == "│    ValueError: the customer has left"
    assert lines[4].startswith("└─ ✗ step app:3")
    assert lines[5:] == ["ValueError"]


def test_figures_of_everything_leave_out_what_is_nothing() -> None:
    nothing = Figures(seconds=1, states={"completed": 0}, tokens="", cost="", retries=0)
    assert figures_line(nothing) == "1.0s  no steps"
    figures = Figures(
        seconds=61,
        states={"running": 1, "completed": 2},
        tokens="10 tokens in, 2 out",
        cost="$1.0000",
        retries=3,
    )
    assert (
        figures_line(figures, remark="so it is")
        == "1m01s  steps: 1 running, 2 completed  3 retries  10 tokens in, 2 out  $1.0000  so it is"
    )


def test_only_what_the_model_says_is_shown_of_a_transcript() -> None:
    tree = TaskTree()
    step = begin(tree, "step")
    step.write("text", "so\n\n  far \n\n")
    assert last_line_said(tree.snapshot("1")) == "far"
    step.write("tool_call", "{}", key="a")
    assert last_line_said(tree.snapshot("1")) == ""
    assert inputs_text({"a": "1\n2", "": "as it is"}) == "a=1 2, as it is"


def test_each_change_is_told_once() -> None:
    tree, changes = TaskTree(), Changes()
    run = begin(tree)
    step = run.begin_child("step", "app:1")
    first = changes.until(tree.snapshot())
    assert [(each.view.id, each.depth, each.before) for each in first] == [("1", 0, None), ("2", 1, None)]
    assert changes.until(tree.snapshot()) == []
    step.write("text", "more")
    (text,) = changes.until(tree.snapshot())
    assert (text.view.id, text.is_text_only, text.has_ended) == ("2", True, False)
    step.end("completed")
    (end,) = changes.until(tree.snapshot())
    assert (end.view.id, end.is_text_only, end.has_ended) == ("2", False, True)


def test_steps_are_counted_also_when_the_tree_no_longer_keeps_them() -> None:
    tree, changes, tally = TaskTree(max_nodes=10), Changes(), Tally()
    run = begin(tree)
    for number in range(100):
        run.begin_child("step", "app:1").end("failed" if number % 10 == 0 else "completed")
        root = tree.snapshot()
        tally.count(root, changes.until(root))
    run.begin_child("step", "app:1", state="waiting")
    root = tree.snapshot()
    tally.count(root, changes.until(root))
    assert tally.ended == {"completed": 90, "raised": 0, "failed": 10, "cancelled": 0}
    assert tally.open == {"waiting": 1}
    assert tally.steps == 101


@contextmanager
def terminal(columns: int = 40, lines: int = 10) -> Iterator[tuple[Screen, Callable[[], str]]]:
    """A screen on a terminal, and what was written to it since the last look."""
    own, other = pty.openpty()
    attributes = termios.tcgetattr(other)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(other, termios.TCSANOW, attributes)
    termios.tcsetwinsize(other, (lines, columns))
    os.set_blocking(own, False)

    def written() -> str:
        data = b""
        while True:
            try:
                data += os.read(own, 65_536)
            except BlockingIOError:
                return data.decode().replace("\x1b[?2026h", "").replace("\x1b[?2026l", "")

    try:
        yield Screen(other), written
    finally:
        os.close(own)
        os.close(other)


def test_a_frame_takes_the_place_of_the_one_before_and_the_same_one_is_not_drawn_again() -> None:
    with terminal() as (screen, written):
        screen.draw(["one", "two"], [3, 3])
        assert written() == "one\ntwo\n"
        screen.draw(["one", "two"], [3, 3])
        assert written() == ""
        screen.draw(["three"], [5])
        assert written() == "\x1b[2A\r\x1b[Jthree\n"


def test_a_terminal_that_was_made_narrower_is_cleared_of_all_wrapped_lines() -> None:
    with terminal(columns=40) as (screen, written):
        screen.draw(["x" * 30, "y"], [30, 1])
        written()
        termios.tcsetwinsize(screen._descriptor, (10, 15))  # pyright: ignore[reportPrivateUsage]
        screen.draw(["z"], [1])
        assert written() == "\x1b[3A\r\x1b[Jz\n"


def test_what_is_printed_stands_above_and_an_unfinished_line_is_kept() -> None:
    with terminal() as (screen, written):
        screen.draw(["frame"], [5])
        screen.print("é".encode()[:1])
        screen.draw(["frame"], [5])
        written()
        screen.print("é".encode()[1:] + b" and\nmore")
        assert written() == "\x1b[2A\r\x1b[Jé and\n"
        screen.draw(["frame"], [5])
        assert written() == "more\nframe\n"
        screen.close(["last"])
        assert written() == "\x1b[2A\r\x1b[Jmore\nlast\n"
        screen.print(b"afterwards")
        screen.draw(["never"], [5])
        screen.close(["never"])
        assert written() == "afterwards"


def test_an_unfinished_line_with_control_sequences_is_shown_without_them() -> None:
    """A progress line begins with the erasure of what stood there."""
    with terminal() as (screen, written):
        screen.print(b"\r\x1b[Kparallel.map  1/3 done")
        screen.draw(["frame"], [5])
        assert written() == "parallel.map  1/3 done\nframe\n"
        screen.print(b"\r\x1b[Kparallel.map  \x1b[1;32m2/3\x1b[0m done")
        screen.draw(["frame"], [5])
        assert written().endswith("parallel.map  2/3 done\nframe\n")


def test_while_it_is_paused_the_terminal_belongs_to_the_program() -> None:
    with terminal() as (screen, written):
        screen.draw(["frame"], [5])
        screen.print(b"name? ")
        written()
        screen.pause()
        screen.pause()
        screen.draw(["other"], [5])
        screen.print(b"really? ")
        assert written() == "\x1b[1A\r\x1b[Jname? really? "
        screen.resume()
        screen.draw(["other"], [5])
        assert written() == ""
        screen.resume()
        screen.draw(["other"], [5])
        assert written() == "other\n"


def test_an_endless_line_is_not_kept_for_ever(tmp_path: Path) -> None:
    with open(tmp_path / "terminal", "wb", buffering=0) as file:
        screen = Screen(file.fileno())
        for _ in range(17):
            screen.print(b"x" * 4_000)
            screen.draw(["frame"], [5])
    assert b"x" * 17 * 4_000 + b"\n" in (tmp_path / "terminal").read_bytes()
