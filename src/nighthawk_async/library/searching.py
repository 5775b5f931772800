"""Finding the lines of a text that a regular expression matches in.

A text is searched as a whole where that finds every line, because it is much faster than line by line. It is
not where an expression looks around itself, or keeps what it has taken: it may match a line, and not in the
text around it. Nor where a match would reach over many lines again and again.
"""

import re
import time
from collections.abc import Iterator

import regex

_NEEDS_LINES = re.compile(
    r"\\[AZzGK]|\(\*|[*+?}]\+|\(\?(?!:|=|P[<=]|i\)|i:)|\{[^{}]*[a-z<=][^{}]*\}", re.DOTALL
)
"""Anchors at the ends of the text, `\\K`, verbs, possessive repetitions, negative and backward assertions,
atomic groups, flags, and fuzzy matches."""
_TEXT_SECONDS = 0.5
"""The time for a text as a whole."""
_MOST_IN_VAIN = 20
"""The most matches that reach over the end of a line, in one text."""


def matching_lines(expression: "regex.Pattern[str]", text: str, ends_at: float) -> Iterator[int]:
    """Yield the numbers of the lines that an expression matches in, from 0.

    Args:
        expression: The expression, compiled with `regex.MULTILINE`.
        text: The text; its lines end at line feeds.
        ends_at: The end of the time for it, as `time.monotonic()` gives it.

    Raises:
        TimeoutError: It takes longer.
    """
    done = 0
    if not _NEEDS_LINES.search(str(expression.pattern)):
        try:
            for number, is_match in _lines_of_matches(expression, text, ends_at):
                done = number + 1
                if is_match:
                    yield number
        except _SlowError:
            pass
        else:
            return
    for number, line in enumerate(text.split("\n")):
        if number >= done and expression.search(line, timeout=_left(ends_at)):
            yield number


class _SlowError(Exception):
    """A text is better searched line by line."""


def _lines_of_matches(
    expression: "regex.Pattern[str]", text: str, ends_at: float
) -> Iterator[tuple[int, bool]]:
    """Yield the lines in which matches in a text begin, and whether these match on their own."""
    text_ends_at = min(ends_at, time.monotonic() + _TEXT_SECONDS)
    number = position = in_vain = 0
    while True:
        try:
            found = expression.search(text, position, timeout=_left(text_ends_at))
        except TimeoutError:
            raise _SlowError from None
        if found is None:
            return
        number += text.count("\n", position, found.start())
        begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.start())
        line = text[begin:] if end < 0 else text[begin:end]
        is_match = expression.search(line, timeout=_left(ends_at)) is not None
        yield number, is_match
        in_vain += not is_match
        if in_vain > _MOST_IN_VAIN:
            raise _SlowError
        if end < 0:
            return
        number, position = number + 1, end + 1


def _left(ends_at: float) -> float:
    return max(0.001, ends_at - time.monotonic())
