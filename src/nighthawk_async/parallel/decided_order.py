"""The order in which the results of calls count, kept so that a later life of the run repeats it.

Calls end in an order that depends on time. Where that order decides (the winner of a race, the votes that
count, the failure that ends the others, the order of a stream), a run with a journal keeps it. A later life
takes the results of the calls that counted in the order that was kept. The others do again what they had
recorded, which may have changed objects of the program, and begin nothing new.
"""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from .task_current import find_positions
from .task_node import Decisions, get_task_hooks


class EndOfRecords(BaseException):
    """Ends a call that did not count in an earlier life, where it would do something new at once."""


class DecidedOrder:
    """The order of the results of one group of calls.

    Args:
        place: The place of the group.
        keeps_each: Whether each result is a decision, as those of a stream are. Otherwise the decision is
            made once, when the calls are decided.
        drives: Whether calls that did not count do again what they had recorded: they may have changed
            objects of the program. Not where they ran in other processes.
    """

    __slots__ = (
        "_changed",
        "_current",
        "_decisions",
        "_driven",
        "_has_ended",
        "_is_decided",
        "_keeps_each",
        "_kept",
        "_place",
        "_taken",
        "_total",
    )

    def __init__(self, decisions: Decisions, place: str, *, keeps_each: bool, drives: bool = True) -> None:
        self._decisions = decisions
        self._place = place
        self._keeps_each = keeps_each
        self._kept = self._find_each() if keeps_each else decisions.find(place)
        self._is_decided = self._kept is not None
        self._driven: frozenset[int] = frozenset()
        if not keeps_each and self._kept is not None:
            if drives:
                self._driven = decisions.items_in(place) - set(self._kept)
            decisions.begins_only(place, (*self._kept, *self._driven))
        self._has_ended = False
        self._taken: list[int] = []
        self._total: int | None = None
        self._current: int | None = None
        self._changed = anyio.Event()

    def _find_each(self) -> tuple[int, ...]:
        kept: list[int] = []
        while (found := self._decisions.find(self._place_of(len(kept)))) is not None:
            kept.extend(found)
        return tuple(kept)

    def _place_of(self, number: int) -> str:
        return f"{self._place}/taken[{number}]"

    def begins(self, index: int) -> bool:
        """Whether a call is begun: all of them, unless an earlier life has decided which ones count."""
        if self._keeps_each or self._kept is None or index in self._kept or index in self._driven:
            return True
        self._decisions.close(f"{self._place}/item[{index}]")
        return False

    def drives(self, index: int) -> bool:
        """Whether a call only does again what it had recorded; from now on nothing new begins in it."""
        if index not in self._driven:
            return False
        self._decisions.drive(f"{self._place}/item[{index}]")
        return True

    def end_driven(self, index: int) -> None:
        """Note that a call that does not count has ended."""
        self._decisions.close(f"{self._place}/item[{index}]")

    def has_later(self, index: int) -> bool:
        """Whether a call after this one may be begun."""
        if self._keeps_each or self._kept is None:
            return True
        return index < max((*self._kept, *self._driven), default=-1)

    @contextmanager
    def in_progress(self, index: int) -> Generator[None, None, None]:
        """Let the run know, during the `with` statement, that a call is in progress."""
        place = f"{self._place}/item[{index}]"
        self._decisions.enter(place)
        try:
            yield
        finally:
            self._decisions.exit(place)

    def end_source(self, total: int) -> None:
        """Note how many calls there are.

        Raises:
            Exception: Another call counted in an earlier life, and the others would wait for its turn.
        """
        self._total = total
        self._skip_missing()

    def _skip_missing(self) -> None:
        """Take the turns of calls that are not there."""
        if self._total is None or self._kept is None:
            return
        while (number := len(self._taken)) < len(self._kept) and self._kept[number] >= self._total:
            self._decisions.miss(f"{self._place}/item[{self._kept[number]}]")
            self._taken.append(self._kept[number])
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_turn(self, index: int) -> None:
        """Wait until the result of a call is the next one that counts."""
        while self.is_too_early(index):
            await self._changed.wait()
        number, kept = len(self._taken), self._kept or ()
        if self._keeps_each and number < len(kept):
            await self._decisions.deliver_decision(self._place_of(number))
        elif not self._keeps_each and number + 1 == len(kept):  # the one that decides
            await self._decisions.deliver_decision(self._place)

    def is_too_early(self, index: int) -> bool:
        """Whether another result counts before that of a call."""
        kept, number = self._kept, len(self._taken)
        return kept is not None and number < len(kept) and kept[number] != index

    def begin_taking(self, index: int) -> None:
        """Take the result of a call: `decide` is about this one until `end_taking`."""
        self._current = index
        if self._keeps_each and len(self._taken) >= len(self._kept or ()):
            self._decisions.keep(self._place_of(len(self._taken)), (index,))

    def end_taking(self, index: int) -> None:
        """Let the next result count."""
        self._current = None
        self._taken.append(index)
        self._wake()
        self._skip_missing()

    def decide(self, *, is_failure: bool) -> None:
        """Keep the results that counted, the present one last.

        Args:
            is_failure: Whether that one is an error, which ends the calls.
        """
        self._has_ended = True
        if self._current is None or self._is_decided or self._keeps_each:
            return
        self._is_decided = True  # also when it cannot be kept, or when another call fails at the same moment
        self._decisions.keep(self._place, (*self._taken, self._current), is_failure=is_failure)

    def note_success(self, index: int) -> None:
        """Note that a call has succeeded."""
        self._decisions.ended(f"{self._place}/item[{index}]")

    def note_failure(self, index: int, error: Exception) -> None:
        """Note that a call has failed."""
        self._decisions.failed(f"{self._place}/item[{index}]", error)

    def close(self) -> None:
        """Note that no call is in flight any more."""
        self._decisions.close(self._place)

    def note_end(self) -> None:
        """Note that the calls have ended regularly.

        Raises:
            Exception: An earlier life had decided to end them, and this one has not.
        """
        if self._kept is not None and not self._keeps_each and not self._has_ended:
            self._decisions.refuse(self._place)
        if self._has_ended:
            self._decisions.close(self._place)  # calls that it left out need not have begun
        self._decisions.all_ended(self._place)


def note_regular_end(place: str) -> None:
    """Note that a task has ended regularly, where decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    if decisions is not None:
        decisions.ended(place)


def note_block_left(place: str) -> None:
    """Note that an error has left a block of tasks, in which no task is left, where decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    if decisions is not None:
        decisions.close(place)


def note_failure(place: str, error: Exception) -> None:
    """Note that a task has failed, where decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    if decisions is not None:
        decisions.failed(place, error)


def note_block_end(place: str) -> None:
    """Note that a block of tasks has ended regularly, as have all tasks in it, where decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    if decisions is not None:
        decisions.all_ended(place)


def note_raised(place: str) -> None:
    """Note that the error of a task is raised in the task of the caller, where decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    if decisions is not None:
        decisions.raised(place, find_positions().owned_path())


def find_decided_order(place: str, *, keeps_each: bool, drives: bool) -> DecidedOrder | None:
    """The order of a group of calls; None where no decisions are kept."""
    decisions = get_task_hooks().find_decisions()
    return None if decisions is None else DecidedOrder(decisions, place, keeps_each=keeps_each, drives=drives)
