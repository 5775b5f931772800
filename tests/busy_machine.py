"""What a busy machine makes true, and no test is about."""

import re

__all__ = ["without_held_loops"]

_HELD = re.compile(r" held the event loop for \d+ ms; ")


def without_held_loops(log: str) -> list[str]:
    """The lines of a log, but those that tell that something held the event loop: a busy machine is enough.

    Args:
        log: What a program has logged.
    """
    return [line for line in log.splitlines() if not _HELD.search(line)]
