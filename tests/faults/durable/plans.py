"""The moments at which the killed program is killed."""

import random
from collections.abc import Iterator, Sequence

from nighthawk_async.journal.records import Record
from nighthawk_async.testing.killing import KillPoint

MOST_SECONDS = 0.06
"""About the time of a life: kills by time are somewhere in it."""

SURE_PART = 0.8
"""The part of the records of one run that another run has too: races and votes end after more or fewer."""


class KillPlans:
    """Plans for one shape: each is the kills of one run, one for each life.

    Args:
        records: The records of a run that nobody killed.
        chance: Chooses.
    """

    def __init__(self, records: Sequence[Record], chance: random.Random) -> None:
        self._records = len(records)
        self._effects = sum(record.kind == "intent" for record in records)
        self._questions = sum(record.kind == "question" for record in records)
        self._chance = chance

    def first_kills(self) -> Iterator[KillPoint]:
        """Every moment of a first life that has a name.

        At each record: before it is durable, when its transaction is not committed yet, and after it is
        durable. At each effect: before the service has it, and after. At each question. After the claim.
        """
        yield KillPoint(mark="claimed")
        for number in range(1, self._records + 1):
            yield KillPoint(record=number, when="before")
            yield KillPoint(mark="appended", nth=number)
            yield KillPoint(record=number, when="after")
        for number in range(1, self._effects + 1):
            yield KillPoint(mark="booking", nth=number)
            yield KillPoint(mark="booked", nth=number)
        for number in range(1, self._questions + 1):
            yield KillPoint(mark="asking", nth=number)

    def recovery_kill(self) -> KillPoint:
        """A moment of a later life: at a record that it reads or adds, before its first one, at an effect."""
        chance = self._chance
        return chance.choice(
            (
                KillPoint(mark="read", nth=chance.randint(1, self._records)),
                KillPoint(mark="claimed"),
                KillPoint(mark="appended"),
                KillPoint(record=chance.randint(2, self._records + 2), when="before"),
                KillPoint(record=chance.randint(2, self._records + 2), when="after"),
                KillPoint(mark="reconciling"),
                KillPoint(mark="booked", nth=chance.randint(1, max(1, self._effects))),
                KillPoint(seconds=chance.uniform(0.0, MOST_SECONDS)),
            )
        )

    def every_plan(self) -> Iterator[list[KillPoint]]:
        """A kill at every moment of the first life, and each time one or two kills in recovery."""
        for first in self.first_kills():
            yield [first, *(self.recovery_kill() for _ in range(self._chance.randint(1, 2)))]

    def some_plans(self) -> list[list[KillPoint]]:
        """A kill at a record that every run has, and one at any moment; each time another one in recovery."""
        last = max(1, int(self._records * SURE_PART))
        when = self._chance.choice(("before", "after"))
        sure = KillPoint(record=self._chance.randint(1, last), when=when)
        by_time = KillPoint(seconds=self._chance.uniform(0.0, MOST_SECONDS))
        any_of_all = self._chance.choice([*self.first_kills(), by_time])
        return [[first, self.recovery_kill()] for first in (sure, any_of_all)]
