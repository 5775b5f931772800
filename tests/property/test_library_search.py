"""Searches and differences of the library: the quick way finds what the plain one does."""

import time

import regex
from hypothesis import given, strategies as st

from nighthawk_async.library.changes import unified
from nighthawk_async.library.patch_forms import read_patch
from nighthawk_async.library.patches import patched_files
from nighthawk_async.library.searching import matching_lines

_atoms = st.sampled_from(
    [
        *(
            "a",
            "b",
            ".",
            r"\s",
            r"\S",
            r"\w",
            r"\b",
            r"\B",
            r"\n",
            "[^a]",
            "[^a]*",
            r"[\s\S]*",
            "^",
            "$",
            " ",
        ),
        *(
            r"\A",
            r"\Z",
            "(?=a)",
            r"(?=\s)",
            "(?!a)",
            r"(?!\s)",
            "(?<=a)",
            r"(?<!\s)",
            "(?>a*)",
            "a*+",
            "(?i:A)",
        ),
        *("(a|b)", "(?P<x>a)", r"\K", r"[^b]{2}", "(?:ab){e<=1}", "(*PRUNE)"),
    ]
)
_patterns = st.lists(
    st.tuples(_atoms, st.sampled_from(["", "", "", "*", "+?", "?"])), min_size=1, max_size=4
).map(lambda parts: "".join(f"{atom}{count if atom[-1] not in '^$*+?' else ''}" for atom, count in parts))
_texts = st.text(alphabet="ab \n", max_size=40)


@given(pattern=_patterns, text=_texts)
def test_a_text_has_the_matches_of_its_lines(pattern: str, text: str) -> None:
    try:
        expression = regex.compile(pattern, regex.MULTILINE)
        wanted = [number for number, line in enumerate(text.split("\n")) if expression.search(line)]
    except (regex.error, MemoryError):  # it is invalid, or the library gives up
        return
    assert list(matching_lines(expression, text, time.monotonic() + 60)) == wanted


_files = st.none() | st.text(alphabet="abc\n\r", max_size=60)


@given(old=_files, new=_files)
def test_a_difference_is_a_patch(old: str | None, new: str | None) -> None:
    patch = unified("f", old, new)
    if old == new:
        assert patch == ""
    else:
        assert patched_files(read_patch(patch), lambda path: old) == {"f": new}


@given(st.text(alphabet='ab"\\\\\té ', min_size=1, max_size=10))
def test_a_difference_names_any_file(path: str) -> None:
    assert patched_files(read_patch(unified(path, "", "x\n")), lambda path: "") == {path: "x\n"}
