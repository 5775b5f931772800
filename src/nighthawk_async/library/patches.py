"""Applying patches: exactly, or not at all.

A hunk is applied where its old lines are: at its line number, or at the only other place that has them. Lines
may differ in trailing whitespace, never in indentation. Everything else is refused, with the first line that
differs, so that its author can fix it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import itemgetter

from .errors import PatchError
from .patch_forms import FilePatch, Hunk
from .places import LinesWithPlaces, Work
from .texts import lines_of, most_similar, shown_line

_MOST_PLACES = 5


def patched_files(patches: Iterable[FilePatch], read: Callable[[str], str | None]) -> dict[str, str | None]:
    """Apply a patch to texts, and return what has to be written. Pure but for `read`.

    Args:
        patches: The changes of files, in order; see `patch_forms.read_patch`.
        read: Returns the text of a file, with its line ends as they are; None if there is no such file.

    Returns:
        The new text of each file, by path; None for files that are removed.

    Raises:
        PatchError: One does not fit; with the first line that differs. Or it takes too long to find out.
    """
    work = Work()
    files: dict[str, str | None] = {}
    for patch in patches:
        content = files[patch.path] if patch.path in files else read(patch.path)
        files[patch.path] = _patched(patch, content, work)
        if patch.new_path is not None and patch.new_path != patch.path:
            target = files[patch.new_path] if patch.new_path in files else read(patch.new_path)
            if target is not None:
                raise PatchError(f"{patch.path} cannot be renamed: {patch.new_path} exists")
            files[patch.new_path], files[patch.path] = files[patch.path], None
    return files


def _patched(patch: FilePatch, content: str | None, work: Work) -> str | None:
    if patch.kind == "create":
        if content is not None:
            raise PatchError(f"{patch.path} exists; a patch that makes it cannot be applied")
        return apply_hunks("", patch.hunks, work)
    if content is None:
        raise PatchError(f"{patch.path}: there is no such file")
    if patch.kind == "update":
        return apply_hunks(content, patch.hunks, work)
    if patch.hunks and apply_hunks(content, patch.hunks, work):
        raise PatchError(f"{patch.path} has lines that the patch does not remove, so it is not deleted")
    return None


def apply_hunks(content: str, hunks: Sequence[Hunk], work: Work) -> str:
    """Apply hunks to a text.

    Args:
        content: The text.
        hunks: The hunks, in any order.
        work: The work that the patch may still take.

    Raises:
        PatchError: One does not fit, or two change the same lines.
    """
    work.spend_on(content)
    lines = lines_of(content)
    result: list[str] = []
    done = 0
    for at, hunk in _placed(hunks, LinesWithPlaces(lines, [hunk.old for hunk in hunks], work)):
        if at < done:
            raise PatchError(f"{hunk.title}: another hunk changes line {at + 1}, too; make one of them")
        result += lines[done:at]
        result += _new_lines(hunk, lines, at)
        done = at + len(hunk.old)
    result += lines[done:]
    has_marks = all(hunk.has_marks for hunk in hunks)
    return _joined(result, keeps_missing_end=not has_marks and bool(lines) and not lines[-1].endswith("\n"))


def _placed(hunks: Sequence[Hunk], lines: LinesWithPlaces) -> list[tuple[int, Hunk]]:
    """The hunks with their places, in the order of the text, which need not be that of the patch."""
    placed: list[tuple[int, Hunk]] = []
    done = 0
    for hunk in hunks:
        at = _find_place(hunk, lines, done)
        if at is None and done:
            at = _find_place(hunk, lines, 0)
        if at is None:
            raise _does_not_match(hunk, lines, done)
        placed.append((at, hunk))
        done = max(done, at + len(hunk.old))
    return sorted(placed, key=itemgetter(0))


def _joined(lines: list[str], *, keeps_missing_end: bool) -> str:
    """Join lines. A form without marks keeps a missing line feed at the end of the file as it was."""
    ended = [line if line.endswith("\n") else f"{line}\n" for line in lines[:-1]]
    last = lines[-1] if lines else ""
    return "".join([*ended, last.removesuffix("\n") if keeps_missing_end else last])


def _new_lines(hunk: Hunk, lines: Sequence[str], at: int) -> list[str]:
    """The lines that replace the old ones. Context stays as it is in the file."""
    there = lines[at : at + len(hunk.old)]
    is_exact = there == hunk.old
    end = _line_end([*there, *lines[:1]])
    new: list[str] = []
    position = 0
    for line in hunk.lines:
        if line.tag == "+":
            new.append(line.text if is_exact else _with_end(line.text, end))
            continue
        if line.tag == " ":
            new.append(there[position])
        position += 1
    return new


def _line_end(lines: Sequence[str]) -> str:
    ended = [line for line in lines if line.endswith("\n")]
    return "\r\n" if ended and all(line.endswith("\r\n") for line in ended) else "\n"


def _with_end(text: str, end: str) -> str:
    if not text.endswith("\n"):
        return text
    return text.removesuffix("\n").removesuffix("\r") + end


def _find_place(hunk: Hunk, lines: LinesWithPlaces, done: int) -> int | None:
    """Find the place of a hunk after some lines: the number of lines before it; None if there is none.

    Raises:
        PatchError: There is more than one.
    """
    old = hunk.old
    after = _after_landmarks(hunk, lines, done)
    if after is None:
        return None
    if not old:
        return _place_of_insertion(hunk, lines.lines)
    start = hunk.start
    last = len(lines.lines) - len(old)
    if hunk.is_at_end or any(not line.text.endswith("\n") for line in hunk.lines):  # it ends the file
        after = max(after, last)
    for key in (str, str.rstrip):
        if start is not None and start >= after and lines.has(old, start, key):
            if hunk.lines[-1].tag != " " and start != last and lines.has(old, last, key):
                raise _ambiguous(hunk, [start, last])
            return start
        places = list(islice(lines.places_of(old, after, key), _MOST_PLACES + 1))
        if hunk.landmarks and places:
            return places[0]
        if len(places) > 1:
            raise _ambiguous(hunk, places)
        if places:
            return _checked_move(hunk, places[0], len(lines.lines))
    return None


def _checked_move(hunk: Hunk, at: int, count: int) -> int:
    """Refuse the only place of a hunk whose context says that it begins or ends the file."""
    if hunk.start is None:
        return at
    begins = hunk.start == 0 and hunk.lines[0].tag != " "
    ends = hunk.lines[-1].tag != " "
    if (begins and at != 0) or (ends and at + len(hunk.old) != count):
        raise PatchError(
            f"{hunk.title}: its lines are at line {at + 1}, not where its header says, and it has no context "
            f"at its {'beginning' if begins and at != 0 else 'end'} that shows where it belongs; add lines"
        )
    return at


def _place_of_insertion(hunk: Hunk, lines: Sequence[str]) -> int:
    if not lines or hunk.is_at_end:
        return len(lines)
    raise PatchError(
        f"{hunk.title}: it only adds lines, and nothing shows where they belong; add lines of context that "
        "are in the file"
    )


def _after_landmarks(hunk: Hunk, lines: LinesWithPlaces, done: int) -> int | None:
    """The number of lines up to the last of the landmarks; None if one is not there after some lines."""
    after = done
    for landmark in hunk.landmarks:
        places = lines.places_of_landmark(landmark, after, _MOST_PLACES + 1)
        if not places:
            return None
        if len(places) > 1:
            raise PatchError(
                f"{hunk.title}: {landmark!r} is at {_shown_places(places)}; name a line that is there once"
            )
        after = places[0] + 1
    return after


def _is_equal_but_for_trailing_whitespace(one: str, other: str) -> bool:
    return one.rstrip() == other.rstrip()


def _ambiguous(hunk: Hunk, places: Sequence[int]) -> PatchError:
    return PatchError(
        f"{hunk.title}: its old lines are at {_shown_places(places)}; add lines of context until they are "
        "there once"
    )


def _shown_places(places: Sequence[int]) -> str:
    shown = ", ".join(str(at + 1) for at in places[:_MOST_PLACES])
    return f"lines {shown}{' and more' if len(places) > _MOST_PLACES else ''}"


def _does_not_match(hunk: Hunk, text: LinesWithPlaces, done: int) -> PatchError:
    """Name the landmark that is missing, or the first line that differs where most lines are the same."""
    after = done
    for landmark in hunk.landmarks:
        found = text.places_of_landmark(landmark, after, 1)
        if not found:
            return PatchError(f"{hunk.title}: no line after line {after} is {landmark!r}")
        after = found[0] + 1
    old, lines = hunk.old, text.lines
    places = range(after, len(lines)) if hunk.start is None else [hunk.start, *range(after, len(lines))]
    best, same = most_similar(old, lines, places or [after], _is_equal_but_for_trailing_whitespace)
    expected = shown_line(old[same]) if same < len(old) else ""
    number = best + same + 1
    if number > len(lines):
        return PatchError(
            f"{hunk.title} does not match: the file has {len(lines)} lines, and the patch expects {expected} "
            f"at line {number}"
        )
    if same == len(old):
        return PatchError(f"{hunk.title} does not match: it must end the file, and line {number} follows")
    return PatchError(
        f"{hunk.title} does not match: line {number} of the file is {shown_line(lines[number - 1])}, and the "
        f"patch expects {expected}{_indentation_hint(old[same], lines[number - 1])}"
    )


def _indentation_hint(expected: str, found: str) -> str:
    return " (its indentation differs)" if expected.strip() == found.strip() != "" else ""
