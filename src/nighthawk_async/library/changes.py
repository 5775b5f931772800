"""Changes in the files of a workspace: the lines of one change, and the difference that a step has made."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from msgspec import Struct

from ..executions import Execution, find_execution_in_progress
from ..prompt.plain_text import ShownAsText
from .texts import lines_of

_CONTEXT = 3
_NO_FILE = "/dev/null"
_NEEDS_QUOTES = re.compile(r'[\x00-\x1f"\\]')
_MOST_COMPARED = 4_000_000
_MOST_PAIRS = 100_000  # of equal lines, each of which is looked at again and again
_NO_LINE_END = "\\ No newline at end of file\n"


class ChangedLines(ShownAsText, Struct, frozen=True):
    """Lines of a file that a change has made. As text, `path:line: text` for each of them.

    Args:
        path: The file.
        first: The number of the first of them, from 1; that of the line after them where lines were removed.
        lines: The lines, without their ends; none where lines were only removed.
        removed: The number of lines that were there before.
    """

    path: str
    first: int
    lines: tuple[str, ...]
    removed: int

    def __str__(self) -> str:
        if not self.lines:
            what = "1 line was" if self.removed == 1 else f"{self.removed} lines were"
            return f"{self.path}:{self.first}: ({what} removed)"
        return "\n".join(
            f"{self.path}:{number}: {line}" for number, line in enumerate(self.lines, self.first)
        )


class Changes(list[str], ShownAsText):
    """The paths of the files that were changed, made and removed. As text, their changed lines.

    Args:
        changes: The old and the new text of each file by path; None for no file.

    Attributes:
        lines: The changed lines, by file and number. Of files that were removed, and of those that a rename
            alone has made, there are none.
    """

    def __init__(self, changes: Mapping[str, tuple[str | None, str | None]] = {}) -> None:
        super().__init__(changes)
        self.lines: tuple[ChangedLines, ...] = tuple(
            changed for path, (old, new) in changes.items() for changed in _changed_lines(path, old, new)
        )

    def __str__(self) -> str:
        shown: dict[str, list[str]] = {path: [] for path in self}
        for each in self.lines:
            shown.setdefault(each.path, []).append(str(each))
        return "\n".join(line for path, lines in shown.items() for line in lines or [f"{path}"])


def _changed_lines(path: str, old: str | None, new: str | None) -> Iterator[ChangedLines]:
    if new is None:
        return
    before, after = lines_of(old or ""), lines_of(new)
    for begin, end, new_begin, new_end in _differences(before, after):
        lines = tuple(line.rstrip("\r\n") for line in after[new_begin:new_end])
        yield ChangedLines(path, new_begin + 1, lines, end - begin)


_Difference: TypeAlias = tuple[int, int, int, int]
"""The first line and the end of what was there, and of what is there now; lines count from 0."""


def _differences(before: Sequence[str], after: Sequence[str]) -> list[_Difference]:
    """Find what differs in lines. What would take long is one difference."""
    most = min(len(before), len(after))
    same = next((at for at in range(most) if before[at] != after[at]), most)
    rest = most - same
    same_end = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    old, new = before[same : len(before) - same_end], after[same : len(after) - same_end]
    counts = Counter(new)
    if len(old) * len(new) > _MOST_COMPARED or sum(map(counts.__getitem__, old)) > _MOST_PAIRS:
        return [(same, same + len(old), same, same + len(new))]
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(same + a, same + b, same + c, same + d) for tag, a, b, c, d in codes if tag != "equal"]


def unified(path: str, old: str | None, new: str | None) -> str:
    """The difference of two texts of a file, as a patch; empty for equal ones.

    Args:
        path: The file.
        old: The old text; None for no file.
        new: The new one.
    """
    before, after = lines_of(old or ""), lines_of(new or "")
    hunks = "".join(_hunk(before, after, each) for each in _near(_differences(before, after)))
    if not hunks and (old is None) == (new is None):
        return ""
    sides = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    header = f"diff --git {sides[0]} {sides[1]}\n"
    if old is None or new is None:
        header += f"{'new' if old is None else 'deleted'} file mode 100644\n"
    names = _NO_FILE if old is None else sides[0], _NO_FILE if new is None else sides[1]
    return header + (f"--- {names[0]}\n+++ {names[1]}\n{hunks}" if hunks else "")


def _quoted(name: str) -> str:
    """A name in quotes where it has characters that end or change a name."""
    if not _NEEDS_QUOTES.search(name):
        return name
    return '"' + _NEEDS_QUOTES.sub(lambda found: f"\\{ord(found[0]):03o}", name) + '"'


def _near(differences: Iterable[_Difference]) -> Iterator[list[_Difference]]:
    """Yield groups of differences whose lines of context touch each other."""
    group: list[_Difference] = []
    for each in differences:
        if group and each[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _hunk(before: Sequence[str], after: Sequence[str], group: Sequence[_Difference]) -> str:
    first = max(0, group[0][0] - _CONTEXT)
    end = min(len(before), group[-1][1] + _CONTEXT)
    shift = group[0][2] - group[0][0]
    new_count = (group[-1][3] - group[-1][1] + end) - (first + shift)
    lines: list[str] = []
    at = first
    for begin, old_end, new_begin, new_end in group:
        lines += [f" {line}" for line in before[at:begin]]
        lines += [f"-{line}" for line in before[begin:old_end]]
        lines += [f"+{line}" for line in after[new_begin:new_end]]
        at = old_end
    lines += [f" {line}" for line in before[at:end]]
    header = f"@@ -{_extent(first, end - first)} +{_extent(first + shift, new_count)} @@\n"
    return header + "".join(line if line.endswith("\n") else f"{line}\n{_NO_LINE_END}" for line in lines)


def _extent(first: int, count: int) -> str:
    return f"{first + (count > 0)},{count}"


class ChangeLog:
    """The contents of files before the first change of each step, and of the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_program: dict[str, bytes | None] = {}
        self._of_steps: dict[str, tuple[Execution, dict[str, bytes | None]]] = {}

    def note(self, before: Mapping[str, bytes | None]) -> None:
        """Note that files are changed by the step of the caller, and by those around it.

        Args:
            before: The contents of the files; None where there was none.
        """
        with self._lock:
            for id_ in [id_ for id_, (execution, _) in self._of_steps.items() if execution.has_ended]:
                del self._of_steps[id_]
            execution = find_execution_in_progress()
            known = [self._of_program]
            while execution is not None:
                known.append(self._of_steps.setdefault(execution.id, (execution, {}))[1])
                execution = execution.parent
            for contents in known:
                for path, content in before.items():
                    contents.setdefault(path, content)

    def contents_before(self) -> Mapping[str, bytes | None]:
        """The contents of files before the step of the caller; before the program outside of steps."""
        execution = find_execution_in_progress()
        with self._lock:
            if execution is None:
                return dict(self._of_program)
            _, contents = self._of_steps.get(execution.id, (execution, {}))
            return dict(contents)

    def __reduce__(self) -> tuple[Callable[[], "ChangeLog"], tuple[()]]:
        return ChangeLog, ()  # in another process, nothing has changed yet
