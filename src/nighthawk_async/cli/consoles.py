"""Consoles for tables."""

import os

from rich.console import Console

__all__ = ["wide_console"]

_WIDTH_OF_PIPES = 100


def wide_console() -> Console:
    """The terminal on standard output; where nobody sees a terminal's width, lines have room."""
    console = Console(highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, width=_WIDTH_OF_PIPES)
