"""The children of a supervisor, by name and by phase: nobody has to go through all of them. Floor 1."""

from collections.abc import Iterator
from itertools import count
from typing import get_args

from .supervisor_child import ChildPhase, ChildRecord

__all__ = ["ChildTable"]


class ChildTable:
    """The children, in the order in which they were first started."""

    def __init__(self) -> None:
        self._children: dict[str, ChildRecord] = {}
        self._by_phase: dict[ChildPhase, dict[str, ChildRecord]] = {
            phase: {} for phase in get_args(ChildPhase)
        }
        self._positions = count()

    def __iter__(self) -> Iterator[ChildRecord]:
        return iter(self._children.values())

    def __getitem__(self, name: str) -> ChildRecord:
        return self._children[name]

    def find(self, name: str) -> ChildRecord | None:
        """The child of that name, if there is one."""
        return self._children.get(name)

    def add(self, child: ChildRecord) -> None:
        """Add a child after the others. There is none of its name."""
        child.position = next(self._positions)
        self._children[child.name] = self._by_phase[child.phase][child.name] = child

    def remove(self, child: ChildRecord) -> None:
        """Forget a child."""
        del self._children[child.name], self._by_phase[child.phase][child.name]

    def move(self, child: ChildRecord, phase: ChildPhase) -> None:
        """A child is in another phase from now on."""
        del self._by_phase[child.phase][child.name]
        child.phase = phase
        self._by_phase[phase][child.name] = child

    def are_any(self, *phases: ChildPhase) -> bool:
        """Whether a child is in one of these phases."""
        return any(self._by_phase[phase] for phase in phases)

    def in_phase(self, phase: ChildPhase) -> tuple[ChildRecord, ...]:
        """The children in a phase, the one that entered it first at the front."""
        return tuple(self._by_phase[phase].values())
