"""The order in which the tasks of a run use mailboxes, locks, channels and pools; see `actors.ordering`.

Each operation belongs to a lane, such as the messages sent to one mailbox, and to a claimant: the task that
calls it, by its place. What a lane is remembered by is the list of its operations, in the order in which they
took effect, each with the claimant, the number of the claimant's operation in that lane, and the outcome.

Operations have no records of their own. Those that ended since the last record are written with the next one
that the run writes, before it: an operation counts only if something recorded came after it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from weakref import ReferenceType, WeakKeyDictionary, ref

import anyio
import msgspec
from msgspec import Struct

from ..actors.ordering import DONE, note_orders
from ..parallel.event_loop import LoopEvent
from ..parallel.task_current import find_task
from .claimants import find_claimant
from .errors import JournalDivergenceError
from .records import Record, RecordIndex, RecordKind

PATIENCE_SECONDS = 10.0
"""The time beyond that of the earlier life in which an operation is expected to come to its turn."""

_LOOK_SECONDS = 0.5
"""The time after which an operation that waits looks again how long it may."""

_MOST_PENDING = 10_000
"""The greatest number of entries that wait for the next record."""

Key = tuple[str, int]
"""A claimant, and the number of its operation in a lane."""


class OrderRecord(Struct, frozen=True, kw_only=True):
    """The body of the record of an order.

    Args:
        claimants: The claimants.
        lanes: The operations by lane, in order: the index of the claimant, the number of its first operation,
            the number of such operations in a row, and their outcome.
    """

    claimants: list[str]
    lanes: dict[str, list[tuple[int, int, int, int]]]


class _Recorded(Struct, frozen=True):
    """An operation of an earlier life.

    Args:
        outcome: Its outcome.
        expected_seconds: The time from the beginning of that life until its record.
        is_optional: Whether the life was ending, so that it need not come again.
    """

    outcome: int
    expected_seconds: float
    is_optional: bool


class _Lane:
    """The operations of one lane."""

    __slots__ = ("by_claimant", "counts", "name", "recorded", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        self.recorded: OrderedDict[Key, _Recorded] = OrderedDict()
        self.by_claimant: dict[str, dict[int, None]] = {}
        self.waiting: dict[Key, LaneTurn] = {}

    def expect(self, key: Key, recorded: _Recorded) -> None:
        """Expect an operation of an earlier life after those that are expected already."""
        if key not in self.recorded:
            self.recorded[key] = recorded
            self.by_claimant.setdefault(key[0], {})[key[1]] = None

    def drop(self, key: Key) -> None:
        """Expect an operation no more."""
        if self.recorded.pop(key, None) is None:
            return
        numbers = self.by_claimant[key[0]]
        del numbers[key[1]]
        if not numbers:
            del self.by_claimant[key[0]]

    def head(self) -> Key | None:
        """The operation that comes next; None where the order is free."""
        return next(iter(self.recorded), None)

    def is_due(self, key: Key) -> bool:
        """Whether an operation may begin."""
        if key in self.recorded:
            return self.head() == key
        # One of a claimant that comes later again was cancelled in the earlier life.
        return not self.recorded

    def wake(self) -> list["LaneTurn"]:
        """Return the turns that are due now, and that wait for it."""
        if not self.waiting:
            return []
        head = self.head()
        keys = list(self.waiting) if head is None else [head] if head in self.waiting else []
        return [self.waiting.pop(key) for key in keys]


class LaneTurn:
    """The turn of one operation; see `actors.ordering.Turn`."""

    __slots__ = ("_event", "_function", "_is_over", "_key", "_lane", "_orders", "_recorded")

    def __init__(self, orders: "RunOrders", lane: _Lane, key: Key) -> None:
        self._orders = orders
        self._lane = lane
        self._key = key
        self._recorded = lane.recorded.get(key)
        self._is_over = False
        self._event: LoopEvent | None = None
        self._function: Callable[[], object] | None = None

    @property
    def recorded(self) -> int | None:
        """The outcome in an earlier life; see `Turn`."""
        return None if self._recorded is None else self._recorded.outcome

    @property
    def is_due(self) -> bool:
        """Whether it may begin; see `Turn`."""
        is_new = self._recorded is None
        return self._lane.is_due(self._key) and not (is_new and self._orders.is_driven(self._key[0]))

    async def wait(self) -> None:
        """Wait until it is due; see `Turn`."""
        if self._recorded is None and self._orders.is_driven(self._key[0]):
            await anyio.sleep_forever()  # a call that does not count does nothing new; it is cancelled
        while not self.is_due:
            blocking = self._lane.head()
            assert blocking is not None, "the order is free"
            if not await self._wait_for(blocking):
                self._orders.give_up(self._lane, self._key, blocking)

    async def _wait_for(self, blocking: Key) -> bool:
        """Wait until it is due, or until an operation before it should have come; return False then."""
        seconds = self._orders.seconds_left(self._lane.recorded[blocking])
        until = time.monotonic() + seconds
        while not self.is_due and self._lane.head() == blocking:
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._event = event = LoopEvent()
            self._lane.waiting[self._key] = self
            try:
                with self._orders.looking_again(event):
                    await event.wait()
            finally:
                self._lane.waiting.pop(self._key, None)
        return True

    def end(self, outcome: int) -> None:
        """Note the outcome; see `Turn`."""
        if not self._is_over:
            self._is_over = True
            self._orders.end(self._lane, self._key, outcome)

    def leave(self) -> None:
        """Note that it is over; see `Turn`."""
        if not self._is_over:
            self._is_over = True
            self._orders.drop(self._lane, self._key)

    def call_when_due(self, function: Callable[[], object]) -> None:
        """Call a function when it is due; see `Turn`."""
        self._function = function
        if self.is_due:
            self.be_due()
        else:
            self._lane.waiting[self._key] = self

    def be_due(self) -> None:
        """Let the operation begin."""
        if self._event is not None:
            self._event.set()
        if self._function is not None:
            function, self._function = self._function, None
            function()
            self.end(DONE)

    def divergence(self, what: str) -> JournalDivergenceError:
        """Return the error for another outcome; see `Turn`."""
        return self._orders.divergence(f"{self._lane.name}: {what} for {self._key[0]}", self._key[0])


class RunOrders:
    """The orders of one run, or of a part of it, in one life; see `actors.ordering.Orders`.

    Args:
        index: The records of earlier lives.
        place: The place of the run or of its part.
        relative: Returns a place relative to the run.
        skips: Whether operations that do not come are skipped; otherwise they are a divergence.
    """

    def __init__(
        self, index: RecordIndex, place: str, relative: Callable[[str], str], *, skips: bool
    ) -> None:
        self.place = place
        self._relative = relative
        self._skips = skips
        self._begun_at = time.monotonic()
        self._lock = threading.RLock()  # records are written in threads, too
        self._lanes: dict[str, _Lane] = {}
        self._expected_in: dict[str, set[str]] = {}  # the claimants that are expected at or in a place
        self._names: dict[str, int] = {}
        self._pending: dict[str, list[list[object]]] = {}
        self._pending_entries = self._written = 0
        self._task_names: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self._looking: dict[LoopEvent, None] = {}
        self._timer: threading.Timer | None = None
        self._nameless: dict[str, ReferenceType[object]] = {}  # by frame: the first task without a name
        self._lanes_of: dict[str, dict[str, None]] = {}  # in which a claimant is expected
        self.on_full: Callable[[], object] = lambda: None
        self.on_divergence: Callable[[str], object] = lambda _: None
        self.is_driven: Callable[[str], bool] = lambda place: False
        note_orders()
        for record in index.orders:
            if record.place.rpartition("/")[0] == place:
                self._expect(record, index)

    def _expect(self, record: Record, index: RecordIndex) -> None:
        body = msgspec.msgpack.decode(record.body, type=OrderRecord)
        seconds, is_optional = index.seconds_until(record), index.is_after_end(record)
        for claimant in body.claimants:
            for place in _places_above(claimant):
                self._expected_in.setdefault(place, set()).add(claimant)
        for name, operations in body.lanes.items():
            lane = self._lanes.setdefault(name, _Lane(name))
            for number_of, first, count, outcome in operations:
                recorded = _Recorded(outcome, seconds, is_optional)
                for number in range(first, first + count):
                    lane.expect((body.claimants[number_of], number), recorded)
                self._lanes_of.setdefault(body.claimants[number_of], {})[name] = None

    # ---- for operations

    def name(self, kind: str) -> str | None:
        """Return a name for an object; see `Orders`."""
        claimant = self.find_claimant()
        if claimant is None:
            return None
        with self._lock:
            made = f"{claimant}/{kind}"
            number = self._names.get(made, 0)
            self._names[made] = number + 1
        return f"{made}[{number}]"

    def find_claimant(self) -> str | None:
        """Return the name of the caller's task; see `Orders`."""
        if self._task_names and (name := self._task_names.get(find_task())) is not None:
            return name
        place = find_claimant()
        return None if place is None else self._relative(place)

    def begin(self, lane: str, claimant: str | None = None) -> LaneTurn | None:
        """Begin an operation; see `Orders`."""
        claimant = self.find_claimant() if claimant is None else claimant
        if claimant is None:
            return None
        found = self._lanes.get(lane)
        if found is None:
            found = self._lanes[lane] = _Lane(lane)
        number = found.counts.get(claimant, 0)
        found.counts[claimant] = number + 1
        return LaneTurn(self, found, (claimant, number))

    async def wait_free(self, lane: str, claimant: str) -> None:
        """Wait until no operation of an earlier life is expected any more; see `Orders`."""
        found = self._lanes.get(lane)
        if found is not None and found.recorded:
            await LaneTurn(self, found, (claimant, -1)).wait()

    def enter_task(self, name: str) -> None:
        """Give the caller's task a name; see `Orders`."""
        self._task_names[find_task()] = name

    def end_task(self, name: str) -> None:
        """Note that a task has ended; see `Orders`."""
        self._close(tuple(self._expected_in.pop(name, ())))

    def is_alone(self, frame: str, task: object) -> bool:
        """Whether no other task without a name has taken places of a frame.

        Args:
            frame: The frame, and the place that it is in.
            task: The task.
        """
        first = self._nameless.setdefault(frame, ref(task))
        return first() is task

    # ---- for the recorder

    def leave(self, place: str) -> None:
        """Note that a function, an item or a task has ended: nothing in it comes to a turn any more.

        A task that was started by hand goes on after a function that it is named by.
        """
        if place in self._expected_in:
            frame = place.rpartition("/")[2].rpartition("[")[0]
            is_function = frame.partition("~")[0].endswith("()")
            self._close(
                tuple(each for each in self._expected_in[place] if not (is_function and each == place))
            )

    def keep_items(self, place: str, items: Iterable[int]) -> None:
        """Note that of the items of a combinator only some are begun in this life.

        Args:
            place: The place of the combinator.
            items: The numbers of its items that are begun.
        """
        kept = {f"{place}/item[{item}]" for item in items}
        inside = self._expected_in.get(place, ())
        begun = {each for each in inside if any(each == one or each.startswith(f"{one}/") for one in kept)}
        self._close(tuple(each for each in inside if each not in begun))

    def take_pending(self, life: str) -> tuple[str, RecordKind, bytes] | None:
        """Take what is to be written before the next record; None for nothing.

        Args:
            life: The name of the life.

        Returns:
            The place, the kind and the content of the record.
        """
        if not self._pending:
            return None
        with self._lock:
            pending, self._pending, self._pending_entries = self._pending, {}, 0
        numbers: dict[str, int] = {}
        lanes = {
            name: [
                (numbers.setdefault(str(claimant), len(numbers)), first, count, outcome)
                for claimant, first, count, outcome in entries
            ]
            for name, entries in pending.items()
        }
        body = msgspec.msgpack.encode({"claimants": list(numbers), "lanes": lanes})
        self._written += 1
        return f"{self.place}/order[{life}.{self._written}]", "order", body

    # ---- for turns

    @contextmanager
    def looking_again(self, event: LoopEvent) -> Generator[None, None, None]:
        """Set an event at least once a second during the `with` statement.

        The clock of an event loop may jump, in tests, so a thread measures the time.
        """
        with self._lock:
            self._looking[event] = None
            if self._timer is None:
                self._start_timer()
        try:
            yield
        finally:
            with self._lock:
                self._looking.pop(event, None)

    def _start_timer(self) -> None:
        self._timer = threading.Timer(_LOOK_SECONDS, self._look)
        self._timer.daemon = True
        self._timer.start()

    def _look(self) -> None:
        with self._lock:
            looking, self._looking, self._timer = tuple(self._looking), {}, None
        for event in looking:
            event.set()

    def end(self, lane: _Lane, key: Key, outcome: int) -> None:
        """Note the outcome of an operation."""
        if key in lane.recorded:
            self.drop(lane, key)
            return
        claimant, number = key
        with self._lock:
            entries = self._pending.setdefault(lane.name, [])
            last = entries[-1] if entries else None
            if last is not None and last[0] == claimant and last[3] == outcome:
                first, count = last[1], last[2]
                assert isinstance(first, int)
                assert isinstance(count, int)
                if first + count == number:
                    last[2] = count + 1
                    return
            entries.append([claimant, number, 1, outcome])
            self._pending_entries += 1
        if self._pending_entries >= _MOST_PENDING:
            self.on_full()

    def drop(self, lane: _Lane, key: Key) -> None:
        """Expect an operation no more, and let the next one begin."""
        with self._lock:
            lane.drop(key)
            due = lane.wake()
        for turn in due:
            turn.be_due()

    def seconds_left(self, recorded: _Recorded) -> float:
        """The time to wait for an operation of an earlier life."""
        if recorded.is_optional:
            return PATIENCE_SECONDS
        elapsed = time.monotonic() - self._begun_at
        return max(0.0, recorded.expected_seconds - elapsed) + PATIENCE_SECONDS

    def give_up(self, lane: _Lane, key: Key, blocking: Key) -> None:
        """Skip an operation that did not come.

        Raises:
            JournalDivergenceError: It should have come.
        """
        if self._skips or lane.recorded[blocking].is_optional:
            self.drop(lane, blocking)
            return
        raise self.divergence(
            f"{key[0]} waits for its turn at {lane.name}, where an earlier life served {blocking[0]} before, "
            "which has not come",
            key[0],
        )

    def divergence(self, text: str, place: str) -> JournalDivergenceError:
        """Return the error for an order that cannot be repeated."""
        error = JournalDivergenceError(
            f"{text}. The program has changed since, or depends on something else that is not the same in "
            'each life of the run. Open the journal with changes="insert" to go on without it.',
            place=place,
        )
        self.on_divergence(str(error))
        return error

    def _close(self, claimants: Iterable[str]) -> None:
        for claimant in claimants:
            for place in _places_above(claimant):
                if (inside := self._expected_in.get(place)) is not None:
                    inside.discard(claimant)
            for name in self._lanes_of.pop(claimant, ()):
                lane = self._lanes[name]
                for number in tuple(lane.by_claimant.get(claimant, ())):
                    self.drop(lane, (claimant, number))


def _places_above(place: str) -> Iterable[str]:
    """A place, and all that it is in."""
    while place:
        yield place
        place = place.rpartition("/")[0]
