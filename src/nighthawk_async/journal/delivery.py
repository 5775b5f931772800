"""The order in which a later life gets the recorded answers of earlier ones.

Recorded answers are there at once. Given at once, all that depends on their arrival would differ in each
life: the order of a list that tasks append to, the owner of a lock, the first of several tasks. So they
arrive one by one, in the order of their records, and each has its consequences before the next one. What can
no longer be reached is left out of the order. What is not reached for a while does not hold up the others.

Nothing new begins before all recorded answers have arrived.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from anyio import from_thread

from ..parallel.event_loop import LoopEvent, is_loop_thread, is_worker_thread
from ..parallel.patience import BEAT_SECONDS, PatientEvent, Watch
from ..parallel.settling import wait_settled
from .errors import JournalDivergenceError
from .frames import are_in_one_task, effect_of_intent, is_combinator, is_within, withdrawn_place
from .records import Record, RecordIndex, RecordKind

_PATIENCE_SECONDS = 0.25
"""The time without an arrival after which the next one is not waited for.

It is longer than what programs do between two arrivals, and short where something never arrives.
"""

_EFFECT_PATIENCE_SECONDS = 1.0
"""The same for what an effect waits for: what begins before it may show that the program has changed."""

_MOST_PATIENCES = 20
"""The number of such times in one life after which each of them is a single beat."""


class _Waiter:
    """A task or a thread that waits for its turn.

    Args:
        position: The position of what it waits for.
        event: Set when its turn has come.
    """

    __slots__ = ("_event", "is_waiting", "position", "set")

    def __init__(self, position: int, event: LoopEvent | threading.Event) -> None:
        self.position = position
        self._event = event
        self.set = event.set
        self.is_waiting = True

    async def wait(self) -> None:
        """Wait on an event loop."""
        assert isinstance(self._event, LoopEvent)
        await self._event.wait()

    def wait_in_thread(self) -> None:
        """Wait, and block the thread."""
        assert isinstance(self._event, threading.Event)
        self._event.wait()


_Make: TypeAlias = type[LoopEvent] | type[threading.Event]


class NotingDivergence:
    """See `Delivery.noting_divergence`; no generator, because each step comes here."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: "Delivery") -> None:
        self._delivery = delivery

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if isinstance(exc, JournalDivergenceError):
            self._delivery.diverge(str(exc))


class Delivery:
    """The order of the arrivals of one run, in one life of it. Thread-safe.

    Args:
        records: The records of earlier lives, in order.
        index: Their index.
    """

    def __init__(self, records: Sequence[Record], index: RecordIndex) -> None:
        self._index = index
        records = _reachable(records, index)
        self._arrivals = list(_find_arrivals(records, index))
        self._position_of = {record.seq: position for position, record in enumerate(self._arrivals)}
        self._has_passed = bytearray(len(self._arrivals))
        self._head = 0  # the position of the next arrival; all before it have passed, or are left out
        self._closed = set(index.dropped)
        self._doubts = dict.fromkeys(_find_doubts(records, index))  # calls that this life has not reached
        self._holds = 0  # the number of effects that are held; see `holding`
        self._held: list[PatientEvent] = []  # to be set when everything has arrived
        self._asleep: set[str] = set()  # the tasks, by the beginning of their places, that came too late
        self._divergence: str | None = None
        self.on_divergence: Callable[[], object] = lambda: None  # called once
        self._noting_divergence = NotingDivergence(self)
        self._lock = threading.Lock()
        self._numbers = count()
        self._waiters: list[tuple[int, int, _Waiter]] = []  # a heap, by position
        self._waiting: Counter[int] = Counter()  # by position: the waiters that are not cancelled
        self._watch: Watch | None = None
        self._beats = 0  # since the last move
        self._moves = self._seen_moves = 0
        self._patiences = 0
        self._gave_up_at = self._effects_gave_up_at = -1  # the moves when something new began before the end
        self._last: str | None = None  # the place of the last arrival
        self._is_settled = not self._arrivals  # whether the last one has had its consequences
        self._advance()

    @property
    def moves(self) -> int:
        """A number that grows with each arrival and with each place that ends."""
        return self._moves

    @property
    def is_over(self) -> bool:
        """Whether nothing recorded is still to arrive."""
        return self._head == len(self._arrivals)

    def may_begin_new(self, *, is_effect: bool = False) -> bool:
        """Whether nothing that earlier lives had begun is still to be reached, and no effect is held."""
        gave_up_at = self._effects_gave_up_at if is_effect else self._gave_up_at
        return gave_up_at == self._moves or (self.has_all and not self._holds)

    @property
    def has_all(self) -> bool:
        """Whether nothing that earlier lives had begun is still to be reached."""
        return self.is_over and not self._doubts

    def reach(self, place: str) -> None:
        """Note that a call is reached which is in doubt, and that it is the recorded one."""
        if place not in self._doubts:
            return
        with self._lock:
            self._doubts.pop(place, None)
            self._moves += 1
            woken = self._advance()
        _wake(woken)

    def noting_divergence(self) -> "NotingDivergence":
        """Let nothing new begin any more if an error says that the program is not the recorded one."""
        return self._noting_divergence

    def diverge(self, text: str) -> None:
        """Let nothing new begin any more, because of an error with this text; see `check_same`."""
        if self._divergence is None:
            self._divergence = text
            self.on_divergence()

    @property
    def divergence(self) -> str | None:
        """The text of the error that says that the program is not the recorded one; None while it may be."""
        return self._divergence

    def check_same(self, place: str, what: str = "nothing new begins in this life") -> None:
        """Check that the program is still the recorded one, before something new begins in a place.

        Raises:
            JournalDivergenceError: It is not, and has gone on nevertheless: it has handled the error, or
                other tasks do not know of it yet.
        """
        if self._divergence is not None:
            raise JournalDivergenceError(
                f"{place}: {what}, because the program has changed: {self._divergence}",
                place=place,
            )

    def begin_hold(self) -> None:
        """Let nothing new begin while an effect is held."""
        with self._lock:
            self._holds += 1
            self._moves += 1

    @contextmanager
    def waking(self, event: PatientEvent) -> Generator[None, None, None]:
        """Set an event at the moment, during the `with` statement, at which everything has arrived."""
        with self._lock:
            if not self.has_all:
                self._held.append(event)
        try:
            yield
        finally:
            with self._lock:
                if event in self._held:
                    self._held.remove(event)

    def end_hold(self, *, is_divergence: bool) -> None:
        """Let new work begin again; where the hold ends the run, not before that had time to cancel it."""
        with self._lock:
            self._holds -= 1
            self._moves += 1
            woken = [] if is_divergence else self._advance()
        _wake(woken)

    async def deliver(self, record: Record) -> None:
        """Wait until a recorded answer may be given.

        Args:
            record: Its record. There must be no checkpoint between the return and its use.
        """
        position = self._position_of.get(record.seq)
        if position is None or not self._is_awaited(position, record):
            return
        while (waiter := self._begin_wait(position, LoopEvent)) is not None:
            try:
                await waiter.wait()
            finally:
                self._end_wait(waiter)
        if self._must_settle(record.place):
            await wait_settled()
        self._pass(position)

    def deliver_in_thread(self, record: Record) -> None:
        """Wait as `deliver` does, and block the thread; on the thread of an event loop, do not wait."""
        position = self._position_of.get(record.seq)
        if position is None or not self._is_awaited(position, record):
            return
        if not is_loop_thread():
            while (waiter := self._begin_wait(position, threading.Event)) is not None:
                try:
                    waiter.wait_in_thread()
                finally:
                    self._end_wait(waiter)
            if self._must_settle(record.place) and is_worker_thread():
                from_thread.run(wait_settled)
        self._pass(position)

    async def wait_until_over(self, place: str, *, is_effect: bool = False) -> None:
        """Wait until everything recorded has arrived, before something new begins in a place."""
        if self._is_settled and self.may_begin_new(is_effect=is_effect):
            return
        while (waiter := self._begin_wait_for_end(place, LoopEvent, is_effect=is_effect)) is not None:
            try:
                await waiter.wait()
            finally:
                self._end_wait(waiter)
        if self._must_settle(place):
            await wait_settled()
        self._is_settled = True

    def wait_until_over_in_thread(self, place: str, *, is_effect: bool = False) -> None:
        """Wait as `wait_until_over` does, and block the thread; on that of an event loop, do not wait."""
        if self.may_begin_new(is_effect=is_effect) or is_loop_thread():
            return
        while (waiter := self._begin_wait_for_end(place, threading.Event, is_effect=is_effect)) is not None:
            try:
                waiter.wait_in_thread()
            finally:
                self._end_wait(waiter)

    def leave_out(self, record: Record) -> None:
        """Let the others go on without an answer that this life does not give."""
        if (position := self._position_of.get(record.seq)) is not None:
            self._pass(position)

    def close(self, place: str) -> None:
        """Note that nothing in a place is reached any more, or that nobody waits for it."""
        if not self._index.knows(place):
            return
        with self._lock:
            self._closed.add(place)
            doubts = [each for each in self._doubts if is_within(each, place)]
            for each in doubts:
                del self._doubts[each]
            if doubts or (not self.is_over and is_within(self._arrivals[self._head].place, place)):
                self._moves += 1
                woken = self._advance()
            else:
                woken = []
        _wake(woken)

    def is_closed(self, place: str) -> bool:
        """Whether a place has ended, or one that it is in."""
        closed = self._closed
        if not closed:
            return False
        while place not in closed:
            place = place.rpartition("/")[0]
            if not place:
                return False
        return True

    def _is_awaited(self, position: int, record: Record) -> bool:
        """Whether an arrival has its turn in the order; False where the order went on without it."""
        if position >= self._head and not self._has_passed[position]:
            return True
        if self._asleep:
            with self._lock:
                self._asleep.difference_update(_tasks_of(record.place))
        return False

    def _begin_wait(self, position: int, make: _Make) -> _Waiter | None:
        """Begin to wait for the turn of an arrival; None if it has come."""
        if position <= self._head:
            return None
        with self._lock:
            self._skip_passed_by(self._arrivals[position].place)
            woken = self._advance()
            waiter = self._add_waiter(position, make) if position > self._head else None
        _wake(woken)
        return waiter

    def _begin_wait_for_end(self, place: str, make: _Make, *, is_effect: bool) -> _Waiter | None:
        with self._lock:
            if self.may_begin_new(is_effect=is_effect):
                return None
            awaited = [*self._doubts] if self.is_over else [self._arrivals[self._head].place, *self._doubts]
            # What comes in the same task, or in the place itself, comes after what is about to begin.
            is_held = self._holds > 0 and not self._index.has_below(place)
            if is_held or not all(are_in_one_task(each, place) or is_within(each, place) for each in awaited):
                return self._add_waiter(len(self._arrivals) + is_effect, make)  # effects come last
            return None

    def _skip_passed_by(self, place: str) -> None:
        """Leave out what a task should have reached before a place, and has not: the program has changed."""
        while (
            not self._waiting[self._head]
            and not self.is_over
            and are_in_one_task(self._arrivals[self._head].place, place)
        ):
            self._has_passed[self._head] = True
            self._head += 1

    def _add_waiter(self, position: int, make: _Make) -> _Waiter:
        waiter = _Waiter(position, make())
        heappush(self._waiters, (position, next(self._numbers), waiter))
        self._waiting[position] += 1
        if self._watch is None:
            self._beats, self._seen_moves = 0, self._moves
            self._watch = Watch(self._beat)
        return waiter

    def _end_wait(self, waiter: _Waiter) -> None:
        """Forget a waiter that was cancelled. One that was woken is forgotten already."""
        with self._lock:
            self._forget(waiter)

    def _forget(self, waiter: _Waiter) -> None:
        if waiter.is_waiting:
            waiter.is_waiting = False
            self._waiting[waiter.position] -= 1
            if not self._waiting[waiter.position]:
                del self._waiting[waiter.position]

    def _pop_waiter(self) -> _Waiter:
        waiter = heappop(self._waiters)[2]
        self._forget(waiter)
        return waiter

    def _must_settle(self, place: str) -> bool:
        """Whether what came before may still have consequences for what comes in a place."""
        return self._last is None or not are_in_one_task(self._last, place)

    def _pass(self, position: int) -> None:
        """Let an arrival pass, and wake the next one."""
        record = self._arrivals[position]
        with self._lock:
            self._has_passed[position] = True
            self._last, self._is_settled = record.place, False
            self._moves += 1
            place = record.place.removesuffix(_failed_frame(record.place))
            if record.kind != "decision" and self._index.has_below(place):
                self._closed.add(place)  # it is answered as a whole
            woken = self._advance()
        _wake(woken)

    def _advance(self) -> list[_Waiter | PatientEvent]:
        """Go on to the next arrival that can be reached; return those whose turn has come."""
        while not self.is_over and (self._has_passed[self._head] or self._is_out(self._head)):
            self._has_passed[self._head] = True
            self._head += 1
        woken: list[_Waiter | PatientEvent] = []
        if self.has_all:  # once: effects that wait on wake no others
            woken += self._held
            self._held.clear()
        turn = self._head
        if self.is_over:
            turn += 1 if self.may_begin_new(is_effect=True) else 0 if self.may_begin_new() else -1
        while self._waiters and self._waiters[0][0] <= turn:
            woken.append(self._pop_waiter())
        return woken

    def _is_out(self, position: int) -> bool:
        place = self._arrivals[position].place
        if self.is_closed(place):
            return True
        if not self._asleep or self._waiting[position]:
            return False
        return not self._asleep.isdisjoint(_tasks_of(place))

    def _beat(self) -> bool:
        """Count a moment in which nothing has arrived; see `Watch`."""
        with self._lock:
            while self._waiters and not self._waiters[0][2].is_waiting:
                heappop(self._waiters)
            if not self._waiters:
                self._watch = None
                return False
            self._beats = self._beats + 1 if self._moves == self._seen_moves else 0
            self._seen_moves = self._moves
            is_held = self._holds > 0 and self._waiters[0][0] >= len(self._arrivals)
            if is_held or self._beats * BEAT_SECONDS < self._patience():
                return True
            self._patiences += 1
            woken = self._give_up()
        _wake(woken)
        return True

    def _patience(self) -> float:
        """The time for which the first waiter waits without an arrival."""
        if self._patiences >= _MOST_PATIENCES:
            return BEAT_SECONDS
        is_effect = self._waiters[0][0] > len(self._arrivals)
        return _EFFECT_PATIENCE_SECONDS if is_effect else _PATIENCE_SECONDS

    def _give_up(self) -> list[_Waiter | PatientEvent]:
        """Let the first waiter go on without what should have arrived before."""
        first = self._waiters[0][0]
        if first >= len(self._arrivals):
            self._gave_up_at = self._moves
            if first > len(self._arrivals):
                self._effects_gave_up_at = self._moves
            return [self._pop_waiter() for each in tuple(self._waiters) if each[0] == first]
        self._beats = 0
        place = self._arrivals[first].place
        while self._head < first:
            missing = self._arrivals[self._head].place
            if not self._has_passed[self._head] and not self._is_out(self._head):
                self._asleep.add(_task_beside(missing, place))
            self._has_passed[self._head] = True
            self._head += 1
        return self._advance()


def _wake(waiters: Iterable[_Waiter | PatientEvent]) -> None:
    for waiter in waiters:
        waiter.set()


def _task_beside(place: str, other: str) -> str:
    """The task of a place that runs beside another place; for tasks started by hand, all of that name."""
    found = ""
    for frame, other_frame in zip(place.split("/"), f"{other}/".split("/"), strict=False):
        if frame != other_frame:
            return f"{found}/{frame.partition('~')[0]}~" if "~" in frame else f"{found}/{frame}"
        found = f"{found}/{frame}" if found else frame
    return place


def _tasks_of(place: str) -> Iterator[str]:
    """The names that `_task_beside` may give to the tasks that a place is in."""
    found = ""
    for frame in place.split("/"):
        if "~" in frame:
            yield f"{found}/{frame.partition('~')[0]}~"
        found = f"{found}/{frame}" if found else frame
        yield found


def _find_doubts(records: Iterable[Record], index: RecordIndex) -> Iterator[str]:
    """The places of the calls and steps that had begun, and are not known to have ended."""
    for record in records:
        if record.kind == "step":
            is_open = _is_begun_only(record, index)
            place = record.place
        elif record.kind == "intent":
            place = effect_of_intent(record.place)
            is_open = not (
                index.has(place, "result")
                or index.has(withdrawn_place(record.place), "decision")
                or index.find_handled(place, "result") is not None
            )
        else:
            continue
        if is_open and not index.may_be_left_out(place):
            yield place


def _is_begun_only(step: Record, index: RecordIndex) -> bool:
    """Whether a step had asked, and nothing is recorded of the answer, in a life that went on."""
    if index.has_below(step.place) or index.has(step.place, "answer"):
        return False
    return index.find_handled(step.place, "answer") is None and not index.is_after_end(step)


def _reachable(records: Iterable[Record], index: RecordIndex) -> list[Record]:
    """The records without those inside of stages whose results are recorded: later lives skip them."""
    results = (record.place for record in records if record.kind == "result")
    whole = {place for place in results if not _failed_frame(place) and index.has_below(place)}
    return [record for record in records if not whole or not _is_inside(record.place, whole)]


def _is_inside(place: str, others: Collection[str]) -> bool:
    while place:
        place = place.rpartition("/")[0]
        if place in others:
            return True
    return False


def _find_arrivals(records: Iterable[Record], index: RecordIndex) -> Iterator[Record]:
    """The records that have ended a wait, and that later lives get."""
    for record in records:
        match record.kind:
            case "response" | "answer" | "message":
                yield record
            case "result" | "failure":
                if _counts(record, "result" if record.kind == "result" else "response", index):
                    yield record
            case "decision":
                group = record.place.removesuffix(_failed_frame(record.place))
                if _is_of_group(group) and _counts(record, "decision", index):
                    yield record
            case "value":
                parent, _, frame = record.place.rpartition("/")
                if index.has(parent if frame == "answer[0]" else record.place, "question"):
                    yield record
            case _:
                pass


def _failed_frame(place: str) -> str:
    frame = place.rpartition("/")[2]
    return f"/{frame}" if frame.startswith("failed[") else ""


def _counts(record: Record, kind: RecordKind, index: RecordIndex) -> bool:
    """Whether a record that may be one of several errors of a place is the one that later lives get."""
    failed = _failed_frame(record.place)
    if not failed:
        return True
    place = record.place.removesuffix(failed)
    return not index.has(place, kind) and index.find_handled(place, record.kind) is record


def _is_of_group(place: str) -> bool:
    """Whether the place of a decision is that of a group of calls, or of one of the results of a stream."""
    frame = place.rpartition("/")[2]
    return frame.startswith("taken[") or is_combinator(frame)
