"""The lives of one generated program, and the oracle: what must be true of them.

Life n returns what a run that nobody kills returns with the same recorded decisions, or raises before
anything new happened. The outside has written down each effect and each request of each life, and answers by
what was really asked. So beside what is checked of every killed program (see `durable.lives`), there is

- another's answer: a call got what belongs to another call.
- contradicted: what order had decided, and an effect had made known, was decided otherwise.
- late: a life raised that it is not the same program after it had made a new effect. A request may be new,
  and so may an effect of one more task that is started by hand: where a recorded call never comes, nothing
  holds them up for ever. Where what never comes is a call of such a task, effects of other functions may be
  new, too.
- false alarm: the program was the same, and kept its orders in a supported way, and a life raised.
- stuck: a life is in doubt about a call that had not begun, or the program does not go on after it was
  changed and, when that raised and had made no effect, changed back.

A life that says that nothing tells calls apart keeps what it had recorded until then. What its places are
in the next program nobody can say, so such a program is not judged by what comes afterwards.
"""

import collections
import functools
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nighthawk_async.journal.frames import effect_of_intent
from nighthawk_async.testing.killing import KillPoint, Life, ProgramKiller
from tests.faults.durable import lives as durable_lives
from tests.faults.durable.lives import Lives
from tests.faults.durable.service import lines_of

from .calls import DOUBTS, WRONG
from .programs import Program, calls_of, dumped, is_added_by_hand, is_only_by_hand, is_supported, wanted

_MISSING = (
    re.compile(r"recorded (?P<place>\S+), which this life has not reached"),
    re.compile(r"journal has (?P<place>\S+) there too, which a task that was started by hand"),
    re.compile(r"an earlier life served (?P<place>\S+) before, which has not come"),
)

KINDS = (*durable_lives.KINDS, "another's answer", "contradicted", "late", "false alarm", "stuck")
DOUBT = "CallInDoubtError"
AMBIGUOUS = "AmbiguousPlaceError"


class GeneratedLives(Lives):
    """The lives of one generated program.

    Args:
        killer: Runs them.
        folder: The folder of the program's files.
        backend: The event loop.
        program: The program.
        address: The address of the store; None for a file in the folder.
        options: More arguments of the killed program, such as `without`.
    """

    def __init__(
        self,
        killer: ProgramKiller,
        folder: Path,
        backend: str,
        program: Program,
        address: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(killer, folder, backend, [], address, **options)
        self._first = program
        self._program = program
        self._programs: list[Program] = []  # what it has been in all lives
        self.raised: list[str] = []  # the errors of the journal in all lives, with their texts
        self._late: list[str] = []
        self._stuck: list[str] = []
        self._was_killed = False
        self._has_left_effects = False  # a life that raised had made some, which another program may not want
        self.was_changed = False
        self.become(program)

    def become(self, program: Program) -> None:
        """Change the program for the next lives."""
        self.was_changed = self.was_changed or program.root != self._first.root
        self._program = program
        self._programs.append(program)
        self._arguments["generated"] = dumped(program)

    def changed_back(self) -> dict[str, list[str]]:
        """The findings when the program is what it was in its first life again."""
        self.become(self._first)
        life = self.live()
        findings = self.findings(life)
        is_clean = not self._has_left_effects and is_supported(self._first.root)
        if is_clean and (life.result is None or "ended" not in life.result):
            findings.setdefault("stuck", []).append(self.raised[-1])
        return findings

    def live(
        self, kill_at: KillPoint | None = None, *, killer: ProgramKiller | None = None, **accidents: Any
    ) -> Life:
        """Live once, and look whether anything new happened in a life that raised."""
        effects = len(self.bookings)
        life = super().live(kill_at, killer=killer, **accidents)
        if life.result is not None and "raised" in life.result:
            names, text = life.result["raised"], life.result["text"]
            self.raised.append(f"{self.lives}: {names} {text}")
            self._has_left_effects |= self.lives > 1 and len(self.bookings) > effects
            new = self._not_added(self.bookings[effects:])
            if self.lives > 1 and new and not self._are_beside_missing(text) and not self._is_gone_by_hand():
                self._late.append(f"{names} {text}, after {new}")
            if DOUBT in names and not self._was_killed:
                self._stuck.append(text)
        self._was_killed = life.was_killed
        return life

    def _not_added(self, bookings: Sequence[str]) -> list[str]:
        """The new effects, without one more of a task started by hand, which only a second is waited for."""
        is_known = is_added_by_hand(self._program.root)
        return [each for each in bookings if not (is_known and each.endswith(" text new"))]

    def _is_gone_by_hand(self) -> bool:
        """Whether what the program does not call any more were requests of tasks started by hand alone."""
        left = {each.number for each in calls_of(self._program.root)}
        gone = {each.number for each in calls_of(self._first.root)} - left
        return bool(gone) and is_only_by_hand(self._first.root, gone)

    def _are_beside_missing(self, text: str) -> bool:
        """Whether the new effects are of other functions than a missing call of a task started by hand.

        The task that the call had been in is not known, nor whether it has ended.
        """
        found = next(filter(None, (pattern.search(text) for pattern in _MISSING)), None)
        missing = "" if found is None else found["place"]
        parent = missing.partition("~")[0].rpartition("/")[0]
        return "~" in missing and all(
            _function_of(effect) != _function_of(missing)
            and (effect.rpartition("/")[0] != parent or "~" in effect.rpartition("/")[2])
            for effect in self._new_effects()
        )

    def _new_effects(self) -> list[str]:
        """The places of the effects that were new in the last life."""
        life = self.records[-1].epoch
        intents = (each for each in self.records if each.kind == "intent" and each.epoch == life)
        return [effect_of_intent(each.place) for each in intents]

    def findings(self, life: Life) -> dict[str, list[str]]:
        """What is not as it should be after a life that ended; by kind, empty lists left out."""
        found = {
            "wrong": self._wrong_records(life),
            "asked again": self._asked_again(),
            "another's answer": lines_of(self.folder, WRONG),
            "repeated": self._repeated(),
            "contradicted": self._contradicted(),
            "late": self._late,
            "stuck": self._stuck,
            "false alarm": self._false_alarms(),
            "lost": self._lost(life),
        }
        return {kind: each for kind, each in found.items() if each}

    def _wrong_records(self, life: Life) -> list[str]:
        found = [life.error] if life.error else []
        for earlier, later in zip(self._before, [*self._before[1:], self.records], strict=True):
            if later[: len(earlier)] != earlier:
                found.append("a record has changed")
        return found

    def _asked_again(self) -> list[str]:
        if not self.was_changed:
            return self.asked_again()
        return [
            line
            for line in self.asked_again()
            if any(
                record.kind == "response" and line.split(" ", 1)[1] == record.place for record in self.records
            )
        ]

    def _made(self) -> collections.Counter[str]:
        """How often each effect was made, without what order had decided."""
        items = (line.split(" ", 1)[1].partition("#")[0] for line in self.bookings)
        return collections.Counter(item for item in items if not item.startswith("seal"))

    def _repeated(self) -> list[str]:
        most = functools.reduce(operator.or_, (wanted(each.root).items for each in self._programs))
        too_often = self._made() - most
        return [
            *self.repeated_calls(),
            *(f"{item}, {number} too often" for item, number in too_often.items()),
        ]

    def _contradicted(self) -> list[str]:
        seats: dict[str, list[str]] = collections.defaultdict(list)
        for line in self.bookings:
            item = line.split(" ", 1)[1]
            if item.startswith(("seat ", "arrivals ", "seal")):
                name, _, decided = item.partition("#")
                table = name.partition(".")[0]
                seats[f"{table}#{decided}" if name.startswith("seat ") else table].append(item)
        return [f"{items}" for items in seats.values() if len(items) > 1]

    def _false_alarms(self) -> list[str]:
        if self.was_changed or not is_supported(self._program.root):
            return []
        return [each for each in self.raised if not each.startswith("1:")]

    def _lost(self, life: Life) -> list[str]:
        if life.result is None or "ended" not in life.result:
            return []
        needed = wanted(self._program.root)
        is_other = self.was_changed and self._has_left_effects  # a life of another program made some
        if not needed.is_exact or is_other or self._is_gone_by_hand():
            return []
        made = self._made()
        doubted = collections.Counter(lines_of(self.folder, DOUBTS))  # the program takes them for made
        missing = [f"{item} is missing" for item in (needed.items - made - doubted)]
        return [*missing, *(f"{item} is not wanted" for item in (made - needed.items))]


def run_lives(
    lives: GeneratedLives, kills: Sequence[KillPoint], change: Program | None = None
) -> dict[str, list[str]]:
    """Kill a run at each of some points, let it end, and enter it once more.

    Args:
        lives: Its lives.
        kills: The moments, one for each life.
        change: The program from the second life on; None for the same one.

    Returns:
        The findings, by kind.
    """
    try:
        for number, kill_at in enumerate((*kills, None)):
            if number == 1 and change is not None:
                lives.become(change)
            life = lives.live(kill_at)
            if not life.was_killed and number:
                break
        findings = lives.findings(life)
        if change is not None and any(AMBIGUOUS in each for each in lives.raised):
            return findings
        if life.result is None or "ended" not in life.result:
            return findings or (lives.changed_back() if change is not None else {})
        if findings:
            return findings
        again = lives.live()
        findings = lives.findings(again)
        if again.result != life.result and "raised" not in (again.result or ()):
            findings.setdefault("contradicted", []).append(f"{again.result} after {life.result}")
        return findings
    except TimeoutError as error:
        return {"hangs": [str(error)]}


def _function_of(place: str) -> str:
    """The name of the innermost function that a place is in; empty for none."""
    names = [frame.partition("(")[0] for frame in place.split("/") if "()" in frame]
    return names[-1] if names else ""
