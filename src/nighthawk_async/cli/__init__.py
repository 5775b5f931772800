"""The command line, `nighthawk-async`. Floor 5.

Only the console script and `python -m nighthawk_async` import this package: it brings typer and rich along.
"""

from .application import main

__all__ = ["main"]
