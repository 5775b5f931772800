"""What governs the steps of an extent, together in one frozen value. Floor 3.

Each policy's own module holds its type and its decisions; here stands only what is in force. A run begins
with what must hold in every run inside; a scope changes what it is told to.
"""

from dataclasses import dataclass

from .hooks import Hooks
from .human_handler import HumanHandler
from .oversight import Oversight

__all__ = ["NO_POLICIES", "Policies"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policies:
    """The policies in force.

    Args:
        oversight: What inspects tool calls and commits; None for nothing.
        hooks: What is called for events, those of outer scopes first.
        human: What asks people; None for nobody.
    """

    oversight: Oversight | None = None
    hooks: tuple[Hooks, ...] = ()
    human: HumanHandler | None = None


NO_POLICIES = Policies()
