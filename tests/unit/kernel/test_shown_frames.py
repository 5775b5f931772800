"""Tracebacks that a program prints: its own frames in order; those of the library too when debugging.

The program runs in a process of its own, because pytest has its own way to hide frames.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "raising_program.py"

EXPECTED: Mapping[str, Sequence[str]] = {
    "block_raises": ("helper", "count"),
    "library_raises": ("helper", "count"),
    "is_watched": ("helper", "count"),
    "executor_raises": ("outer", "answer", "helper", "count", "answer"),
    "mapped": ("helper", "count"),
    "started_in_run": ("helper", "count"),
    "step_fails": (),
    "step_raises": (),
    "generates": ("words",),
    "in_scope": ("helper", "count"),
    "synchronous_step": ("call_step_with", "call_step"),
    "synchronous": ("checked",),
    "enters_twice": (),
}
"""The functions of the program below the case, by the name of the case."""

FRAME = re.compile(r'File "(.+)", line \d+, in (\S+)')


@cache
def shown_by_program(*arguments: str, options: Sequence[str] = ()) -> Mapping[str, str]:
    """The traceback that each case of the program prints."""
    ended = subprocess.run(
        [sys.executable, *options, str(PROGRAM), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDEVMODE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(ended.stdout)


def frames_of(shown: str, case: str) -> list[tuple[str, str]]:
    """The files and functions below the case, in the last traceback of those that are printed."""
    printed = shown.rpartition("Traceback (most recent call last)")[2]
    frames = FRAME.findall(printed)
    (start,) = [place for place, (_, function) in enumerate(frames) if function == case]
    return frames[start + 1 :]


def is_of_library(file: str) -> bool:
    return f"{os.sep}nighthawk_async{os.sep}" in file


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("case", EXPECTED)
def test_the_frames_of_the_program_are_shown_in_order(case: str, backend: str) -> None:
    frames = frames_of(shown_by_program(backend)[case], case)
    assert [function for file, function in frames if not is_of_library(file)] == [*EXPECTED[case]]
    assert sum(is_of_library(file) for file, _ in frames) <= 1


def test_the_last_frame_of_an_error_of_the_library_stays() -> None:
    (*_, (file, _)) = frames_of(shown_by_program("trio")["library_raises"], "library_raises")
    assert is_of_library(file)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_the_errors_of_groups_and_causes_lose_their_frames_too(backend: str) -> None:
    shown = shown_by_program(backend)
    for case in ("grouped", "has_a_cause"):
        files = [file for file, _ in FRAME.findall(shown[case])]
        assert shown[case].count("in helper\n") == 2
        assert shown[case].count("a note of the program") == 2
        assert sum(map(is_of_library, files)) == 2
    assert "direct cause" in shown["has_a_cause"]


def test_the_traceback_objects_of_others_are_not_changed() -> None:
    assert shown_by_program("trio")["changes"] == ""


DEBUGGING: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "development mode": lambda: shown_by_program("trio", options=("-X", "dev")),
    "log": lambda: shown_by_program("trio", "--debug"),
}


@pytest.mark.parametrize("shown", DEBUGGING.values(), ids=DEBUGGING)
def test_all_frames_are_shown_when_debugging(shown: Callable[[], Mapping[str, str]]) -> None:
    frames = frames_of(shown()["library_raises"], "library_raises")
    assert sum(is_of_library(file) for file, _ in frames) > 10
    assert [function for file, function in frames if file == str(PROGRAM)] == ["helper", "count"]
