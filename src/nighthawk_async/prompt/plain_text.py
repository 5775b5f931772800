"""Making text from values fit to stand in a prompt.

Data must never look like the library's own structure: a section delimiter inside a value is broken up, and
what belongs on one line stays on one line.
"""

import re

__all__ = ["break_delimiters", "clean_text", "single_line"]

_DELIMITER_START = "<<<NH:"
_BROKEN_DELIMITER_START = "\\u003c<<NH:"

_NO_TEXT = re.compile(r"[\ud800-\udfff\ufdd0-\ufdef]")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef]+")


def break_delimiters(text: str) -> str:
    r"""Replace the beginning of every section delimiter by an equal JSON text, `\u003c<<NH:`.

    Args:
        text: Rendered values; inside a JSON string the replacement means the same characters.
    """
    return text.replace(_DELIMITER_START, _BROKEN_DELIMITER_START)


def clean_text(text: str) -> str:
    """Replace what is no text by U+FFFD.

    That is lone surrogates, which UTF-8 cannot carry, and noncharacters, which Unicode leaves to programs for
    their own use and which previews use as marks.
    """
    return text if text.isascii() else _NO_TEXT.sub("\ufffd", text)


def single_line(text: str, max_characters: int) -> str:
    """Put a text on one line of bounded length, control characters as spaces.

    Args:
        text: The text; only its beginning is read.
        max_characters: Characters to keep; where something is left out, the last of them is an ellipsis.
    """
    shown = _UNPRINTABLE.sub(" ", str.__getitem__(text, slice(0, max_characters + 1)))
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"
