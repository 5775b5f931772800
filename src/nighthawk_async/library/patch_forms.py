"""The two forms of patches, read: unified diffs, and `*** Begin Patch`. Pure.

Lines end at a line feed and nowhere else, and keep it, as `git apply` and `patch` have it.

Sources: the unified format of GNU diffutils, the extended headers of `git diff`, and the grammar of
`apply_patch` in the prompt of OpenAI's coding models.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from .errors import PatchError
from .texts import lines_of, shown_line

_MOST_CHARACTERS = 2_000_000

Tag: TypeAlias = Literal[" ", "-", "+"]


class PatchLine(Struct, frozen=True):
    """One line of a hunk.

    Args:
        tag: A space for context, else whether it is removed or added.
        text: The line, with its line feed if it has one.
    """

    tag: Tag
    text: str


class Hunk(Struct, frozen=True, kw_only=True):
    """One change of a file.

    Args:
        title: Its header, for errors.
        lines: Its lines.
        start: The number of lines before the first one that it replaces, as its header has it; None for a
            hunk without numbers, or with numbers that contradict those before.
        landmarks: Lines after which it is, without regard to indentation.
        is_at_end: Whether it must end the file.
        has_marks: Whether its form can say that a line has no line feed.
    """

    title: str
    lines: tuple[PatchLine, ...]
    start: int | None = None
    landmarks: tuple[str, ...] = ()
    is_at_end: bool = False
    has_marks: bool = True

    @property
    def old(self) -> list[str]:
        """The lines that have to be there."""
        return [line.text for line in self.lines if line.tag != "+"]


class FilePatch(Struct, frozen=True, kw_only=True):
    """The changes of one file.

    Args:
        path: The file.
        kind: Whether it is changed, made or removed.
        new_path: The new path of a file that is renamed; None for the same.
        hunks: The changes, in order.
    """

    path: str
    kind: Literal["update", "create", "delete"]
    new_path: str | None = None
    hunks: tuple[Hunk, ...] = ()


def read_patch(text: str) -> list[FilePatch]:
    """Read a patch in either form.

    Args:
        text: The patch. Text before and after it is ignored.

    Raises:
        PatchError: It is in neither form, damaged, or has more than two million characters.
    """
    if len(text) > _MOST_CHARACTERS:
        raise PatchError(
            f"the patch has {len(text):,} characters; the most is {_MOST_CHARACTERS:,}: send it in parts"
        )
    lines = lines_of(text)
    begin = next((number for number, line in enumerate(lines) if line.strip() == _BEGIN), None)
    patches = _UnifiedReader(lines).read() if begin is None else _PlainReader(lines, begin + 1).read()
    if not patches:
        raise PatchError(
            "this is no patch: it has neither '--- path' and '+++ path' with hunks below, nor "
            "'*** Begin Patch'"
        )
    return patches


def paths_of(patches: Iterable[FilePatch]) -> list[str]:
    """The paths of the files that a patch reads, changes and makes; see `read_patch`."""
    return [path for patch in patches for path in (patch.path, patch.new_path) if path is not None]


_HUNK = re.compile(r"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_MOST_DIGITS = 12
_GIT = re.compile(r'diff --git ("?a/.*"?) ("?b/.*"?)$')
_REGULAR = ("100644", "100755")
_NO_FILE = "/dev/null"


class _Extent(NamedTuple):
    """The numbers in the header of a hunk."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


def _starts(extents: Sequence[_Extent]) -> list[int | None]:
    """The number of lines before each hunk; None where its numbers contradict those before it."""
    ordered = sorted(extents, key=attrgetter("old_start"))
    old_starts = [each.old_start for each in ordered]
    shifts = [0, *accumulate(each.new_count - each.old_count for each in ordered)]
    starts: list[int | None] = []
    for each in extents:
        before = each.old_start - (each.old_count > 0)
        shift = shifts[bisect_left(old_starts, each.old_start)]
        starts.append(before if before + shift == each.new_start - (each.new_count > 0) else None)
    return starts


class _UnifiedReader:
    """Reads unified diffs, also those of `git diff`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> list[FilePatch]:
        patches: list[FilePatch] = []
        while self._at < len(self._lines):
            line = self._line()
            if line.startswith("diff --git "):
                patches.append(self._read_git(line))
            elif line.startswith("--- ") and self._line(1).startswith("+++ "):
                patches.append(self._read_file(None, None))
            elif _HUNK.match(line):
                raise PatchError(f"line {self._at + 1}: a hunk without '--- path' and '+++ path' before it")
            else:
                self._at += 1
        return patches

    def _line(self, ahead: int = 0) -> str:
        """A line without its end; empty after the last one."""
        at = self._at + ahead
        return self._lines[at].rstrip("\r\n") if at < len(self._lines) else ""

    def _read_git(self, header: str) -> FilePatch:
        self._at += 1
        facts: dict[str, str] = {}
        while match := re.match(
            r"(old mode|new mode|new file mode|deleted file mode|similarity index|dissimilarity index"
            r"|rename from|rename to|copy from|copy to|index) (.*)$",
            self._line(),
        ):
            facts[match[1]] = match[2]
            self._at += 1
        _check_git_facts(header, facts, self._line())
        if ("rename from" in facts) != ("rename to" in facts):
            raise PatchError(f"{header}: 'rename from' and 'rename to' belong together")
        if self._line().startswith("--- ") and self._line(1).startswith("+++ "):
            return self._read_file(facts.get("rename from"), facts.get("rename to"))
        if "rename from" in facts:
            old, new = _unquoted(facts["rename from"]), _unquoted(facts["rename to"])
            return FilePatch(path=old, kind="update", new_path=new)
        path = _path_of_git_header(header)
        if "new file mode" in facts:
            return FilePatch(path=path, kind="create")
        if "deleted file mode" in facts:
            return FilePatch(path=path, kind="delete")
        raise PatchError(f"{header}: it changes nothing")

    def _read_file(self, renamed_from: str | None, renamed_to: str | None) -> FilePatch:
        old, new = _path_of(self._line()), _path_of(self._line(1))
        self._at += 2
        if (old == _NO_FILE or old.startswith("a/")) and (new == _NO_FILE or new.startswith("b/")):
            old, new = _without_prefix(old), _without_prefix(new)
        hunks = tuple(self._read_hunks(old if new == _NO_FILE else new))
        if renamed_from is not None and renamed_to is not None:
            return FilePatch(
                path=_unquoted(renamed_from), kind="update", new_path=_unquoted(renamed_to), hunks=hunks
            )
        if old == new == _NO_FILE:
            raise PatchError("a patch names no file: both sides are /dev/null")
        if old == _NO_FILE:
            return FilePatch(path=new, kind="create", hunks=hunks)
        if new == _NO_FILE:
            return FilePatch(path=old, kind="delete", hunks=hunks)
        if old != new:
            raise PatchError(
                f"{old} and {new} are different files; a patch that renames one says 'rename from' and "
                "'rename to'"
            )
        return FilePatch(path=old, kind="update", hunks=hunks)

    def _read_hunks(self, path: str) -> list[Hunk]:
        read: list[tuple[_Extent, Hunk]] = []
        while match := _HUNK.match(self._line()):
            title = f"{path}: hunk {len(read) + 1} ({match[0]})"
            if any(number is not None and len(number) > _MOST_DIGITS for number in match.groups()):
                shown = shown_line(match[0])
                raise PatchError(f"{path}: hunk {len(read) + 1} ({shown}): no file has so many lines")
            extent = _Extent(*(1 if number is None else int(number) for number in match.groups()))
            self._at += 1
            lines = self._read_lines(title, extent.old_count, extent.new_count)
            read.append((extent, Hunk(title=title, lines=lines)))
        if not read:
            raise PatchError(f"{path}: no hunk ('@@ -1,3 +1,4 @@') follows its header")
        starts = _starts([extent for extent, _ in read])
        return [replace(hunk, start=start) for start, (_, hunk) in zip(starts, read, strict=True)]

    def _read_lines(self, title: str, old_count: int, new_count: int) -> tuple[PatchLine, ...]:
        lines: list[PatchLine] = []
        olds = news = 0
        while olds < old_count or news < new_count:
            line = self._lines[self._at] if self._at < len(self._lines) else None
            tag = None if line is None else (line[:1] if line.rstrip("\r\n") else " ")
            if line is None or tag not in (" ", "-", "+"):
                if line is not None and tag == "\\" and lines:
                    self._take_mark(lines)
                    continue
                raise PatchError(
                    f"{title}: its header announces {old_count} old and {new_count} new lines, and it has "
                    f"{olds} and {news}"
                )
            text = line[1:] if line.rstrip("\r\n") else line
            lines.append(PatchLine(tag, text if text.endswith("\n") else f"{text}\n"))
            olds += tag != "+"
            news += tag != "-"
            if olds > old_count or news > new_count:
                raise PatchError(
                    f"{title}: it has more lines than the {old_count} old and {new_count} new ones of its "
                    "header"
                )
            self._at += 1
        if self._line().startswith("\\ "):
            self._take_mark(lines)
        if self._line()[:1] in (" ", "+") or (self._line()[:1] == "-" and not self._is_end()):
            raise PatchError(
                f"{title}: it has more lines than the {old_count} old and {new_count} new ones of its header"
            )
        return tuple(lines)

    def _is_end(self) -> bool:
        """Whether a line with a minus is the header of the next file, or the signature of a mail."""
        line = self._line()
        return (line.startswith("--- ") and self._line(1).startswith("+++ ")) or line in ("--", "-- ")

    def _take_mark(self, lines: list[PatchLine]) -> None:
        """Take the mark that says that the line before it has no line feed."""
        last = lines[-1]
        lines[-1] = PatchLine(last.tag, last.text.removesuffix("\n"))
        self._at += 1


def _check_git_facts(header: str, facts: dict[str, str], following: str) -> None:
    if following.startswith(("GIT binary patch", "Binary files ")):
        raise PatchError(f"{header}: patches of binary files cannot be applied")
    if "copy from" in facts:
        raise PatchError(f"{header}: copies cannot be applied; create the file instead")
    if facts.get("old mode") != facts.get("new mode"):
        raise PatchError(f"{header}: the modes of files cannot be changed")
    modes = (facts.get("new file mode", "100644"), facts.get("deleted file mode", "100644"))
    if modes[0] != "100644" or modes[1] not in _REGULAR:
        raise PatchError(f"{header}: only regular files, that cannot be executed, can be made")


def _path_of(header: str) -> str:
    """The path in a `---` or `+++` line."""
    path = header[4:]
    return _unquoted(path) if path.startswith('"') else path.partition("\t")[0]


def _path_of_git_header(header: str) -> str:
    """The path of a file that has no hunks: both sides are the same."""
    match = _GIT.match(header)
    if match is None:
        raise PatchError(f"{header}: its paths cannot be read")
    rest = header.removeprefix("diff --git ")
    if rest.startswith('"'):
        return _without_prefix(_unquoted(match[1]))
    half = (len(rest) - 1) // 2
    if rest[:half].removeprefix("a/") != rest[half + 1 :].removeprefix("b/"):
        raise PatchError(f"{header}: its paths differ, and it does not say 'rename from' and 'rename to'")
    return _without_prefix(rest[:half])


def _without_prefix(path: str) -> str:
    return path if path == _NO_FILE else path.partition("/")[2]


_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def _unquoted(path: str) -> str:
    """A path without the quotes and escapes of git."""
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path
    content = bytearray()
    for match in re.finditer(r'\\([0-7]{3})|\\([abtnvfr"\\])|([^\\])', path[1:-1]):
        octal, escape, plain = match.groups()
        if octal:
            content.append(int(octal, 8) & 0xFF)
        elif escape:
            content.append(_ESCAPES[escape])
        else:
            try:
                content += plain.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                raise PatchError(f"{shown_line(path)} is no path: it has half a character") from None
    return content.decode("utf-8", "surrogateescape")


_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)$")
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"


class _PlainReader:
    """Reads the form that begins with `*** Begin Patch`."""

    def __init__(self, lines: Sequence[str], at: int) -> None:
        self._lines = lines
        self._at = at

    def read(self) -> list[FilePatch]:
        patches: list[FilePatch] = []
        while (line := self._line()) != _END:
            match = _FILE.match(line)
            if match is None:
                if line or self._at < len(self._lines):
                    if not line:
                        self._at += 1
                        continue
                    raise PatchError(
                        f"line {self._at + 1}: {line!r} is not one of '*** Add File: ', '*** Update File: ', "
                        f"'*** Delete File: ' and '{_END}'"
                    )
                raise PatchError(f"the patch has no '{_END}'")
            self._at += 1
            patches.append(self._read_file(match[1], match[2].strip()))
        return patches

    def _line(self) -> str:
        return self._lines[self._at].rstrip() if self._at < len(self._lines) else ""

    def _raw(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _read_file(self, action: str, path: str) -> FilePatch:
        if action == "Delete":
            return FilePatch(path=path, kind="delete")
        if action == "Add":
            return FilePatch(path=path, kind="create", hunks=self._read_new(path))
        new_path = None
        if self._line().startswith(_MOVE):
            new_path = self._line().removeprefix(_MOVE).strip()
            self._at += 1
        hunks: list[Hunk] = []
        while (raw := self._raw()) is not None and not raw.startswith("*** "):
            hunks.append(self._read_hunk(path, len(hunks) + 1))
        if not hunks and new_path is None:
            raise PatchError(f"{path}: nothing follows '*** Update File: {path}'")
        return FilePatch(path=path, kind="update", new_path=new_path, hunks=tuple(hunks))

    def _read_new(self, path: str) -> tuple[Hunk, ...]:
        lines: list[PatchLine] = []
        while (raw := self._raw()) is not None and not raw.startswith("*** "):
            if not raw.startswith("+"):
                raise PatchError(f"line {self._at + 1}: each line of the new file {path} begins with '+'")
            lines.append(PatchLine("+", raw[1:] if raw.endswith("\n") else f"{raw[1:]}\n"))
            self._at += 1
        return (Hunk(title=path, lines=tuple(lines), start=0),) if lines else ()

    def _read_hunk(self, path: str, number: int) -> Hunk:
        landmarks: list[str] = []
        first = self._line()
        while self._line().startswith("@@"):
            landmark = self._line()[2:].strip()
            if landmark:
                landmarks.append(landmark)
            self._at += 1
        lines: list[PatchLine] = []
        while (raw := self._raw()) is not None and not raw.startswith(("*** ", "@@")):
            lines.append(self._read_line(path, raw))
            self._at += 1
        is_at_end = self._line() == _END_OF_FILE
        self._at += is_at_end
        title = f"{path}: hunk {number}" + (f" ({first})" if landmarks else "")
        if not any(line.tag != " " for line in lines):
            raise PatchError(f"{title} changes nothing: no line begins with '-' or '+'")
        return Hunk(
            title=title,
            lines=tuple(lines),
            landmarks=tuple(landmarks),
            is_at_end=is_at_end,
            has_marks=False,
        )

    def _read_line(self, path: str, raw: str) -> PatchLine:
        text = raw if raw.endswith("\n") else f"{raw}\n"
        match text[0]:
            case " ":
                return PatchLine(" ", text[1:])
            case "-":
                return PatchLine("-", text[1:])
            case "+":
                return PatchLine("+", text[1:])
            case _ if not text.strip():
                return PatchLine(" ", text)
            case _:
                raise PatchError(
                    f"line {self._at + 1}: each line of a hunk of {path} begins with ' ', '-' or '+', not "
                    f"{raw[:40]!r}"
                )
