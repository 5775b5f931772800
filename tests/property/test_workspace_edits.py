"""Edits of a workspace: one place, exactly, or a refusal that leaves the file as it was."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.library import EditError, PatchError, Workspace
from nighthawk_async.library.patch_forms import read_patch
from nighthawk_async.library.patches import patched_files

LINES = st.lists(st.sampled_from(["", "a", "b", "  a", "a ", "\x0c", "\u2028", "ü"]), max_size=8)
TEXTS = LINES.map("\n".join)


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        yield Workspace(folder, writable=True)


def places(content: str, wanted: str) -> list[int]:
    return [at for at in range(len(content)) if content.startswith(wanted, at)]


def write(workspace: Workspace, content: str) -> Path:
    path = Path(repr(workspace).partition("'")[2].partition("'")[0]) / "file"
    path.write_bytes(content.encode())
    return path


@given(before=TEXTS, old=TEXTS, after=TEXTS, new=TEXTS)
def test_an_edit_changes_one_place_or_nothing(
    workspace: Workspace, before: str, old: str, after: str, new: str
) -> None:
    content = before + old + after
    path = write(workspace, content)
    found = places(content, old) if old else []
    if len(found) == 1 and old != new:
        workspace.edit("file", old, new)
        assert path.read_bytes().decode() == before + new + after
        return
    with pytest.raises(EditError) as caught:
        workspace.edit("file", old, new)
    assert path.read_bytes().decode() == content
    if len(found) > 1 and old != new:
        number = content.count("\n", 0, found[1]) + 1
        assert f", {number}" in str(caught.value)


@given(content=TEXTS, old=TEXTS)
def test_the_error_of_an_edit_names_a_line_that_differs(workspace: Workspace, content: str, old: str) -> None:
    if not old or old in content:
        return
    path = write(workspace, content)
    with pytest.raises(EditError) as caught:
        workspace.edit("file", old, "new")
    assert path.read_bytes().decode() == content
    _, is_compared, rest = str(caught.value).partition("but line ")
    if is_compared:
        number = int(rest.partition(" is ")[0])
        shown, wanted = rest.partition(" is ")[2].split(", and the text has ")
        assert shown == repr(content.split("\n")[number - 1])
        assert wanted != shown
        assert wanted in map(repr, old.split("\n"))


@given(lines=LINES, old=st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3), new=TEXTS)
def test_files_of_windows_stay_files_of_windows(
    workspace: Workspace, lines: list[str], old: list[str], new: str
) -> None:
    content = "\r\n".join([*lines, *old, "end"])
    path = write(workspace, content)
    try:
        workspace.edit("file", "\n".join(old), new)
    except EditError:
        assert path.read_bytes().decode() == content
        return
    changed = path.read_bytes().decode()
    assert changed.count("\n") == changed.count("\r\n") == changed.count("\r")


@given(lines=LINES, old=st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4))
def test_a_hunk_has_one_place_or_is_refused(lines: list[str], old: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines)
    hunk = "".join(f"-{line}\n" for line in old)
    patch = f"*** Begin Patch\n*** Update File: f\n@@\n{hunk}+new\n*** End Patch"
    exact = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    try:
        (changed,) = patched_files(read_patch(patch), lambda path: content).values()
    except PatchError:
        assert len(exact) != 1
        return
    stripped = [line.rstrip() for line in lines]
    (at,) = exact or [at for at in range(len(lines)) if stripped[at : at + len(old)] == old]
    assert changed == "".join(f"{line}\n" for line in [*lines[:at], "new", *lines[at + len(old) :]])
