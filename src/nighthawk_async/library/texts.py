"""Texts of files: bounded, matched against patterns, shown with what differs. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

import regex

from .errors import EditError, LibraryError

_SHOWN_CHARACTERS = 120
_MOST_SHOWN = 5
_MOST_COMPARED = 2_000_000


def most_similar(
    wanted: Sequence[str], lines: Sequence[str], places: Iterable[int], is_same: Callable[[str, str], bool]
) -> tuple[int, int]:
    """Find the place at which most lines in a row are the wanted ones.

    Args:
        wanted: The wanted lines.
        lines: The lines to look in.
        places: The places to try, each the number of lines before it; the first of equals counts.
        is_same: Whether two lines are the same.

    Returns:
        The place, and the number of lines that are the same there. The first place if none is. After two
        million comparisons, which long files of equal lines take, the best one so far.
    """
    best, most, compared = 0, -1, 0
    for at in places:
        if compared > _MOST_COMPARED:
            break
        count = 0
        while count < len(wanted) and at + count < len(lines) and is_same(wanted[count], lines[at + count]):
            count += 1
        compared += count + 1
        if count > most:
            best, most = at, count
    return best, max(0, most)


def shown_line(line: str) -> str:
    """A line in quotes, without its line feed, shortened to 120 characters."""
    text = line.removesuffix("\n")
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def check_most_characters(count: int) -> None:
    """Refuse a limit that limits nothing.

    Raises:
        LibraryError: It is negative.
    """
    if count < 0:
        raise LibraryError(f"the most characters are a number from 0 on, not {count!r}")


def bounded(text: str, most_characters: int) -> str:
    """A text with its beginning and its end, and a note on what is left out between them.

    Args:
        text: The text.
        most_characters: The most characters of it.
    """
    kept = BoundedText(most_characters)
    kept.add(text)
    return str(kept)


class BoundedText:
    """A text that grows, of which the beginning and the end are kept; see `bounded`.

    Args:
        most_characters: The most characters of it.
    """

    def __init__(self, most_characters: int) -> None:
        self._most_beginning = (most_characters + 1) // 2
        self._most_end = most_characters - self._most_beginning
        self._beginning = ""
        self._end = ""
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append a text."""
        room = self._most_beginning - len(self._beginning)
        self._beginning += text[:room]
        self._end += text[room:]
        if len(self._end) > 2 * self._most_end:  # not each time, which would copy it for every line
            self._shorten()

    def __str__(self) -> str:
        self._shorten()
        if not self._left_out:
            return self._beginning + self._end
        return f"{self._beginning}\n… {self._left_out:,} characters are left out here …\n{self._end}"

    def _shorten(self) -> None:
        excess = max(0, len(self._end) - self._most_end)
        self._left_out += excess
        self._end = self._end[excess:]


def lines_of(text: str) -> list[str]:
    """The lines of a text, which end at a line feed and nowhere else, and keep it."""
    lines = text.split("\n")
    whole = [f"{line}\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


_REPEATED = re.compile(r"(?:\*\*/){2,}")
_BRACES = {"{": "(?:", ",": "|", "}": ")"}
_RANGE = re.compile(r"\{[^{},]*\.\.[^{},]*\}")


@lru_cache(maxsize=256)
def compiled_glob(pattern: str) -> "regex.Pattern[str]":
    """The regular expression of a pattern for paths. A match may take long: give it a `timeout`.

    `*` and `?` match within a name, `**` any number of folders, `[…]` one character, and `{…,…}` one of some
    patterns. A pattern without a slash matches names in every folder, as in ripgrep and git.

    Args:
        pattern: The pattern.

    Raises:
        LibraryError: It is invalid, or its braces are those of a range, or do not match.
    """
    given, pattern = pattern, _REPEATED.sub("**/", pattern.removeprefix("./"))
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    parts: list[str] = []
    at = depth = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif (brace := _BRACES.get(pattern[at])) and (depth or brace != "|"):
            parts.append(brace)
            depth += (brace == "(?:") - (brace == ")")
            at += 1
        else:
            part, at = _glob_part(pattern, at)
            parts.append(part)
        if depth < 0:
            break
    if depth or _RANGE.search(pattern):
        what = "a range in braces" if depth == 0 else "a brace without its other one"
        raise LibraryError(
            f"the pattern {shown_line(given)} has {what}; write {{md,py}} for one of some endings, and [{{] "
            "for a brace itself"
        )
    return compiled_expression("".join(parts), "pattern", given, flags=regex.DOTALL)


def compiled_expression(
    expression: str, kind: str, given: str, *, ignore_case: bool = False, flags: int = 0
) -> "regex.Pattern[str]":
    """Compile a regular expression.

    Args:
        expression: The expression.
        kind: The word for what was given, for errors.
        given: The text that it was made of.
        ignore_case: Whether letters match in either case.
        flags: Further flags.

    Raises:
        LibraryError: It is invalid, ambiguous, too deep, or too large.
    """
    try:
        return regex.compile(expression, flags | (regex.IGNORECASE if ignore_case else 0))
    except RecursionError:
        reason = "its groups are too deep"
    except (OverflowError, MemoryError):
        reason = "it is too large"
    # The library lets out some errors of its own code, and warnings where they are errors.
    except (regex.error, ValueError, LookupError, TypeError, AttributeError, Warning) as error:
        reason = str(error) or type(error).__name__
    raise LibraryError(f"the {kind} {shown_line(given)} is invalid: {reason}")


def _glob_part(pattern: str, at: int) -> tuple[str, int]:
    character = pattern[at]
    if character == "*":
        return "[^/]*", at + 1
    if character == "?":
        return "[^/]", at + 1
    end = pattern.find("]", at + 2)
    if character == "[" and end > 0:
        inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        negated = inside.startswith("!")
        return f"(?!/)[{'^' if negated else ''}{inside[negated:]}]", end + 1
    return re.escape(character), at + 1


def replaced(content: str, old: str, new: str, path: str) -> str:
    """Replace a text that is there once.

    A text with plain line ends also matches in a file whose lines end in carriage return and line feed, and
    is replaced by such lines.

    Args:
        content: The content of the file.
        old: The text to replace.
        new: The text to put in its place.
        path: The file, for errors.

    Raises:
        EditError: The old text is empty, equal to the new one, not there, or there more than once.
    """
    if not old:
        raise EditError("the text to replace is empty")
    if "\r\n" in content and "\r" not in old:
        has_plain_ends = "\n" in content.replace("\r\n", "")
        if old not in content or not has_plain_ends:
            old = old.replace("\n", "\r\n")
            new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    if old == new:
        raise EditError(f"{path}: the new text is the old one")
    places = list(islice(_places(content, old), _MOST_SHOWN + 1))
    if not places:
        raise EditError(f"{path}: {_first_difference(content, old)}")
    if len(places) == 1:
        return content[: places[0]] + new + content[places[0] + len(old) :]
    numbers = [content.count("\n", 0, at) + 1 for at in places[:_MOST_SHOWN]]
    shown = ", ".join(map(str, numbers)) + (" and more" if len(places) > _MOST_SHOWN else "")
    raise EditError(
        f"{path}: the text to replace is there more than once, at lines {shown}; include more of it"
    )


def _places(text: str, wanted: str, start: int = 0) -> Iterator[int]:
    """All places of a text in another one, overlapping ones too."""
    at = text.find(wanted, start)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _first_difference(content: str, old: str) -> str:
    """Name the first line of a text that is not in the file, at the place where most lines are the same."""
    wanted, lines = old.split("\n"), content.split("\n")
    begins = [number for number, line in enumerate(lines, 1) if line.endswith(wanted[0])]  # or within it
    if not begins or len(wanted) == 1:
        hint = next(
            (number for number, line in enumerate(lines, 1) if line.strip() == wanted[0].strip() != ""), None
        )
        found = "" if hint is None else f"; line {hint} differs from its first line in whitespace only"
        return f"the text to replace is not there{found}"
    at, same = most_similar(wanted[1:], lines, begins, str.__eq__)
    if at + same >= len(lines):
        return (
            f"the text to replace is not there; it is like the file from line {at} on, which ends before it"
        )
    return (
        f"the text to replace is not there; it is like the file from line {at} on, but line "
        f"{at + same + 1} is {shown_line(lines[at + same])}, and the text has {shown_line(wanted[same + 1])}"
    )
