"""Patches: as `git apply` and `patch` apply them, byte for byte, or refused."""

import itertools
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from nighthawk_async.library import PatchError
from nighthawk_async.library.patch_forms import read_patch
from nighthawk_async.library.patches import patched_files
from tests.seeds import seed_of

PAIRS = 60 if settings().max_examples <= 100 else 1_500
LINES = (
    *("a", "b", "  b", "c", "", "\tx", "d ", "e\r", "-- f", "++ g", "@@ h", "\\ i", "f\x0cg", "h\u2028i"),
    *("é", "if x:", "    return", "}", "{"),
)
"""Lines that patches have trouble with: signs of their own form, ends of lines that are none, whitespace."""


def patched(patch: str, content: str, path: str = "f") -> str | None:
    return patched_files(read_patch(patch), {path: content}.get)[path]


def begun(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


class Oracle:
    """Applies patches with the tools of the system, in a folder.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def diff(self, chance: random.Random, old: str, new: str) -> str:
        """The patch from one text to another."""
        for name, text in (("a", old), ("b", new)):
            (self._folder / name).mkdir(exist_ok=True)
            (self._folder / name / "f").write_bytes(text.encode())
        context = f"-U{chance.choice([1, 2, 3, 3, 3, 5])}"
        git = ["git", "diff", "--no-index", "--no-renames", "--no-prefix", "--text", context, "a/f", "b/f"]
        command = git if chance.random() < 0.5 else ["diff", "-a", context, "a/f", "b/f"]
        return subprocess.run(command, cwd=self._folder, capture_output=True).stdout.decode()

    def apply(self, name: str, command: Sequence[str], patch: str, content: str) -> str | None:
        """The text that a tool makes of another one; None when it refuses."""
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        file = folder / "f"
        file.write_bytes(content.encode())
        (folder / "p").write_bytes(patch.encode())
        if subprocess.run(command, cwd=folder, capture_output=True).returncode:
            return None
        return file.read_bytes().decode() if file.exists() else ""


def made_text(chance: random.Random) -> str:
    text = "\n".join(chance.choice(LINES) for _ in range(chance.choice([0, 1, 2, 5, 12, 30, 60])))
    return f"{text}\n" if text and chance.random() < 0.8 else text


def changed(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(lines) + 1)
        action = chance.random()
        if action < 0.4 or not lines:
            lines.insert(at, chance.choice(LINES))
        elif action < 0.8:
            lines.pop(at % len(lines))
        else:
            lines[at % len(lines)] = chance.choice(LINES)
    return "\n".join(lines)


@pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("patch")), reason="git and patch are the oracles"
)
def test_random_patches_agree_with_git_and_patch_or_are_refused(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(seed_of(request, "NIGHTHAWK_PATCH_SEED"))
    oracle = Oracle(tmp_path)
    applied = 0
    for _ in range(PAIRS):
        old = made_text(chance)
        new = changed(chance, old)
        if old == new:
            continue
        patch = oracle.diff(chance, old, new)
        assert patched(patch, old) == new, patch
        base = changed(chance, old)
        try:
            result = patched(patch, base)
        except PatchError:
            continue
        applied += 1
        others = {
            "git": oracle.apply("git", ["git", "apply", "-p1", "p"], patch, base),
            "patch": oracle.apply(
                "patch", ["patch", "-p1", "--binary", "-F0", "-s", "-f", "-i", "p"], patch, base
            ),
        }
        assert set(others.values()) <= {result, None}, (patch, base)
    assert applied


def test_a_hunk_that_moved_is_applied_at_its_only_place() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n"
    assert patched(patch, "new\nx\ny\nz\n") == "new\nx\nY\nz\n"


def test_a_hunk_with_two_places_is_refused_with_their_lines() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -9,3 +9,3 @@\n x\n-y\n+Y\n z\n"
    with pytest.raises(PatchError, match=r"lines 1, 4"):
        patched(patch, "x\ny\nz\nx\ny\nz\n")


@pytest.mark.parametrize("form", ["unified", "begun"])
def test_the_error_names_the_first_line_that_differs(form: str) -> None:
    hunk = [" one", " two", "-three", "+THREE", " four"]
    patch = (
        "\n".join(["--- a/f", "+++ b/f", "@@ -1,4 +1,4 @@", *hunk, ""])
        if form == "unified"
        else begun("*** Update File: f", "@@", *hunk)
    )
    with pytest.raises(PatchError, match=r"line 3 of the file is 'tree', and the patch expects 'three'"):
        patched(patch, "one\ntwo\ntree\nfour\n")


def test_indentation_is_never_guessed() -> None:
    patch = begun("*** Update File: f", " def f():", "-  return 1", "+  return 2")
    with pytest.raises(PatchError, match="indentation differs"):
        patched(patch, "def f():\n    return 1\n")


def test_whitespace_at_the_ends_of_lines_may_differ_and_stays_in_context() -> None:
    patch = begun("*** Update File: f", " one", "-two", "+TWO", " three")
    assert patched(patch, "one  \ntwo\t\nthree \n") == "one  \nTWO\nthree \n"


def test_lines_that_are_added_end_as_those_of_the_file() -> None:
    patch = begun("*** Update File: f", " one", "-two", "+TWO", "+2")
    assert patched(patch, "one\r\ntwo\r\nthree\r\n") == "one\r\nTWO\r\n2\r\nthree\r\n"
    written_elsewhere = patch.replace("\n", "\r\n")
    assert patched(written_elsewhere, "one\ntwo\nthree\n") == "one\nTWO\n2\nthree\n"


def test_a_missing_line_feed_at_the_end_of_a_file_stays_missing() -> None:
    assert patched(begun("*** Update File: f", " one", "-two", "+TWO"), "one\ntwo") == "one\nTWO"
    assert patched(begun("*** Update File: f", " one", "+two"), "one") == "one\ntwo"


def test_a_landmark_shows_which_of_several_places() -> None:
    content = "class A:\n    x = 1\nclass B:\n    x = 1\n"
    patch = begun("*** Update File: f", "@@ class B:", "-    x = 1", "+    x = 2")
    assert patched(patch, content) == "class A:\n    x = 1\nclass B:\n    x = 2\n"
    with pytest.raises(PatchError, match="lines 2, 4"):
        patched(begun("*** Update File: f", "-    x = 1", "+    x = 2"), content)
    with pytest.raises(PatchError, match="no line after line 0 is 'class C:'"):
        patched(begun("*** Update File: f", "@@ class C:", "-    x = 1", "+    x = 2"), content)


def test_the_end_of_a_file_shows_which_of_several_places() -> None:
    content = "x\ny\nx\n"
    assert patched(begun("*** Update File: f", "-x", "+X", "*** End of File"), content) == "x\ny\nX\n"
    assert patched(begun("*** Update File: f", "+z", "*** End of File"), content) == "x\ny\nx\nz\n"


def test_several_files_are_made_changed_renamed_and_removed() -> None:
    patch = begun(
        *("*** Add File: new.txt", "+one", "+two"),
        *("*** Update File: old.py", "*** Move to: moved.py", "@@", "-x", "+y"),
        *("*** Delete File: gone.txt",),
    )
    files = {"old.py": "x\n", "gone.txt": "anything"}
    assert patched_files(read_patch(patch), files.get) == {
        "new.txt": "one\ntwo\n",
        "old.py": None,
        "moved.py": "y\n",
        "gone.txt": None,
    }


def test_a_patch_of_git_makes_renames_and_removes_files() -> None:
    patch = (
        "From 1234 Mon Sep 17\nSubject: a mail\n\n---\n f | 1 +\n"
        "diff --git a/new file b/new file\nnew file mode 100644\nindex 0000000..257cc56\n"
        "--- /dev/null\n+++ b/new file\n@@ -0,0 +1 @@\n+one\n"
        'diff --git "a/\\303\\244" "b/\\303\\244"\ndeleted file mode 100644\nindex 257cc56..0000000\n'
        '--- "a/\\303\\244"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n'
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/p b/q\nsimilarity index 100%\nrename from p\nrename to q\n-- \n2.39.5\n"
    )
    files = {"ä": "x\n", "p": "content"}
    assert patched_files(read_patch(patch), files.get) == {
        "new file": "one\n",
        "ä": None,
        "empty": "",
        "p": None,
        "q": "content",
    }


def hunk(header: str, *lines: str) -> str:
    return "\n".join(["--- a/f", "+++ b/f", header, *lines, ""])


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ("nothing", "this is no patch"),
        ("--- a/f\n+++ b/f\nnothing\n", "no hunk"),
        ("@@ -1 +1 @@\n-x\n+y\n", "without '--- path'"),
        (hunk("@@ -1,2 +1,2 @@", "-x", "+X"), "announces 2 old and 2 new lines, and it has 1 and 1"),
        (hunk("@@ -1,1 +1,1 @@", "-x", "+X", " y"), "more lines than the 1 old"),
        (hunk("@@ -1,1 +1,1 @@", "-x", "+X", "+Y"), "more lines"),
        (hunk("@@ -2,0 +3 @@", "+z"), "nothing shows where"),
        (hunk("@@ -1,1 +1,1 @@", "-x", "\\ No newline at end of file", "+X"), "does not match"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "f exists"),
        ("--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", "g: there is no such file"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "lines that the patch does not remove"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "modes"),
        ("diff --git a/f b/f\nnew file mode 120000\n", "regular files"),
        ("diff --git a/f b/f\nindex 1..2\nGIT binary patch\n", "binary"),
        ("diff --git a/f b/g\nsimilarity index 90%\ncopy from f\ncopy to g\n", "copies"),
        ("--- old/f\n+++ new/f\n@@ -1 +1 @@\n-x\n+y\n", "different files"),
        (begun("*** Update File: f"), "nothing follows"),
        (begun("*** Update File: f", " x"), "changes nothing"),
        (begun("*** Update File: f", "+x"), "nothing shows where"),
        (begun("*** Update File: f", "x"), r"begins with ' ', '-' or '\+'"),
        (begun("*** Add File: f", "+x"), "f exists"),
        (begun("*** Add File: g", "x"), r"begins with '\+'"),
        (begun("*** Delete File: g"), "no such file"),
        (begun("something else"), "is not one of"),
        ("*** Begin Patch\n*** Update File: f\n-x\n+y\n", "has no '\\*\\*\\* End Patch'"),
    ],
)
def test_bad_patches_are_refused(patch: str, error: str) -> None:
    with pytest.raises(PatchError, match=error):
        patched(patch, "x\ny\n")


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_hunks_are_applied_in_any_order(order: tuple[int, ...]) -> None:
    before = "".join(f"{number}\n" for number in range(1, 31))
    after = (
        before.replace("3\n4\n", "3\nthree\n4\n", 1).replace("\n15\n", "\n").replace("28\n", "twenty-eight\n")
    )
    numbered = [
        ("@@ -3,2 +3,3 @@", " 3", "+three", " 4"),
        ("@@ -14,3 +15,2 @@", " 14", "-15", " 16"),
        ("@@ -28,1 +28,1 @@", "-28", "+twenty-eight"),
    ]
    plain = [("@@", " 3", "+three", " 4"), ("@@ 14", "-15"), ("@@", "-28", "+twenty-eight")]
    assert patched(hunk(*(line for number in order for line in numbered[number])), before) == after
    lines = [line for number in order for line in plain[number]]
    assert patched(begun("*** Update File: f", *lines), before) == after


def test_hunks_that_change_the_same_lines_are_refused() -> None:
    with pytest.raises(PatchError, match="another hunk changes line 1, too"):
        patched(begun("*** Update File: f", "@@", " x", "-y", "@@", "-x", " y"), "x\ny\nz\n")


def test_a_patch_with_thousands_of_landmarks_and_hunks_takes_one_way_through_the_file() -> None:
    lines = [f"line {number}\n" for number in range(40_000)]
    changed = range(0, 40_000, 10)
    landmarks = [f"@@ line {number}" for number in changed]
    with pytest.raises(PatchError, match="expects 'zz'"):
        patched(begun("*** Update File: f", *landmarks, "-zz", "+x"), "".join(lines))
    hunks = [line for number in changed for line in ("@@", f"-line {number}", f"+changed {number}")]
    expected = [f"changed {at}\n" if at % 10 == 0 else line for at, line in enumerate(lines)]
    assert patched(begun("*** Update File: f", *hunks), "".join(lines)) == "".join(expected)
    numbered = [line for at in changed for line in (f"@@ -{at + 1} +{at + 1} @@", *hunks[1:3])]
    with pytest.raises(PatchError, match="hunk 2"):
        patched(hunk(*numbered), "".join(lines))


def test_a_patch_that_would_take_long_is_refused() -> None:
    with pytest.raises(PatchError, match="takes too long"):
        patched(begun(*["*** Update File: f", "@@", "-y", "+y"] * 5_000), "x\n" * 200_000 + "y\n")
    with pytest.raises(PatchError, match="the most is 2,000,000"):
        patched(begun("*** Update File: f", "@@", "-y", "+" + "y" * 2_000_000), "y\n")
