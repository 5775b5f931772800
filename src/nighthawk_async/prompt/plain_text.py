"""Making text from values fit to stand in a prompt. Floor 1.

Data must never look like the library's own structure: a section delimiter inside a value is broken up, and
what belongs on one line stays on one line.
"""

import re

__all__ = ["break_delimiters", "single_line", "without_surrogates"]

_DELIMITER_START = "<<<NH:"
_BROKEN_DELIMITER_START = "\\u003c<<NH:"

_SURROGATES = re.compile("[\ud800-\udfff]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def break_delimiters(text: str) -> str:
    r"""Replace the beginning of every section delimiter by an equal JSON text, `\u003c<<NH:`.

    Args:
        text: Rendered values; inside a JSON string the replacement means the same characters.
    """
    return text.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot carry, by U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def single_line(text: str, max_characters: int) -> str:
    """Put a text on one line of bounded length, control characters as spaces.

    Args:
        text: The text; only its beginning is read.
        max_characters: Characters to keep; where something is left out, the last of them is an ellipsis.
    """
    shown = _UNPRINTABLE.sub(" ", str.__getitem__(text, slice(0, max_characters + 1)))
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"
