"""Telling of earlier errors on the one that is raised in the end."""

from collections.abc import Sequence

__all__ = ["note_earlier_errors"]

_MOST_ERRORS = 5
_MOST_CHARACTERS = 200


def note_earlier_errors(error: BaseException, title: str, earlier: Sequence[str]) -> None:
    """Add a note to an error.

    Args:
        error: The error.
        title: What happened.
        earlier: The errors before it, as texts; the last few are told, each on one line.
    """
    lines = [f"{title}; errors before this one:"]
    skipped = len(earlier) - _MOST_ERRORS
    if skipped > 0:
        lines.append(f"  ({skipped} more)")
    lines += [f"  {_short(text)}" for text in earlier[-_MOST_ERRORS:]]
    error.add_note("\n".join(lines))


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
