"""The command line, `nighthawk-async`.

Only the console script and `python -m nighthawk_async` import this package: it brings typer and rich along.
"""

import sys

__all__ = ["main"]

_EXIT_INTERRUPTED = 130


def main() -> None:
    """Carry out the command line of this process and exit."""
    try:
        from .application import run_command_line  # here, because it takes a while in which Ctrl-C may come
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(run_command_line(sys.argv[1:]))
