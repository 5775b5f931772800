"""The command line, `nighthawk-async`.

Only the console script and `python -m nighthawk_async` import this package: it imports typer and rich.
"""

import sys

__all__ = ["main"]

_EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from .application import run_command_line  # here, because Ctrl-C may come meanwhile
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(run_command_line(sys.argv[1:]))
