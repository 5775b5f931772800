"""The command line, `nighthawk-async`.

Only the console script and `python -m nighthawk_async` import this package. It needs typer and rich, which
the extra `cli` brings.
"""

import sys
from importlib.util import find_spec

__all__ = ["main"]

_EXIT_CONFIGURATION = 2
_EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit."""
    if missing := [name for name in ("rich", "typer") if find_spec(name) is None]:
        print(
            f"nighthawk-async: the command line needs {' and '.join(missing)}; install the extra 'cli': "
            "pip install 'nighthawk-async[cli]'",
            file=sys.stderr,
        )
        sys.exit(_EXIT_CONFIGURATION)
    try:
        from .application import run_command_line  # here, because Ctrl-C may come meanwhile
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(run_command_line(sys.argv[1:]))
