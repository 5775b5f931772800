"""Admission of jobs to a pool: running jobs, waiting jobs, and the policy for a full queue.

Every method is synchronous: it changes plain state and returns the work to do (`pool` does it). Two
invariants hold:

- While an item is queued, no worker is free.
- While a submitter waits, no worker is free and the queue is full, so no submitter is overtaken.

So a caller that frees a worker or a slot must call `next_started` and `next_admitted` until they return None.
"""

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from .errors import check_whole_number

QueueOrder: TypeAlias = Literal["fifo", "lifo", "priority", "fair_round_robin"]
"""The order in which queued jobs run.

- `fifo`: the oldest.
- `lifo`: the newest.
- `priority`: the one with the highest priority; of equals the oldest.
- `fair_round_robin`: keys take turns, one job per turn; of the jobs of a key the oldest.
"""


class Queueable(Protocol):
    """An item that can wait in a queue."""

    @property
    def key(self) -> Hashable:
        """Fairness key; items of different keys alternate."""
        ...

    @property
    def priority(self) -> int:
        """Priority, in orders that have one."""
        ...


Item = TypeVar("Item", bound=Queueable)


class OrderedQueue(ABC, Generic[Item]):
    """Waiting items. Each is in it once."""

    def __init__(self) -> None:
        self._by_age: OrderedDict[Item, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_age)

    def __contains__(self, item: Item) -> bool:
        return item in self._by_age

    def __iter__(self) -> Iterator[Item]:
        """The items, the oldest first."""
        return iter(self._by_age)

    def push(self, item: Item) -> None:
        """Add an item; it is the newest."""
        self._by_age[item] = None

    @abstractmethod
    def pop(self) -> Item:
        """Take the next item. There must be one."""

    def remove(self, item: Item) -> None:
        """Take out an item at any position."""
        del self._by_age[item]

    def pop_oldest(self) -> Item:
        """Take the item that has waited longest, whatever the order. There must be one."""
        item = next(iter(self._by_age))
        self.remove(item)
        return item


class _OldestFirst(OrderedQueue[Item]):
    def pop(self) -> Item:
        return self._by_age.popitem(last=False)[0]


class _NewestFirst(OrderedQueue[Item]):
    def pop(self) -> Item:
        return self._by_age.popitem(last=True)[0]


class _HighestFirst(OrderedQueue[Item]):
    """A heap. Items removed from the middle stay in it until they reach the top or make up half of it."""

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, Item]] = []
        self._pushed = 0

    def push(self, item: Item) -> None:
        super().push(item)
        heapq.heappush(self._heap, (-item.priority, self._pushed, item))
        self._pushed += 1

    def pop(self) -> Item:
        while True:
            item = heapq.heappop(self._heap)[2]
            if item in self._by_age:
                del self._by_age[item]
                return item

    def remove(self, item: Item) -> None:
        super().remove(item)
        if len(self._heap) > 2 * len(self._by_age):
            self._heap = [entry for entry in self._heap if entry[2] in self._by_age]
            heapq.heapify(self._heap)


class _KeysInTurn(OrderedQueue[Item]):
    """Keys in turn: the first key is next; after its turn, or when it is new, a key goes to the end."""

    def __init__(self) -> None:
        super().__init__()
        self._turns: OrderedDict[Hashable, OrderedDict[Item, None]] = OrderedDict()

    def push(self, item: Item) -> None:
        super().push(item)
        self._turns.setdefault(item.key, OrderedDict())[item] = None

    def pop(self) -> Item:
        key, items = next(iter(self._turns.items()))
        item = next(iter(items))
        self.remove(item)
        if items:
            self._turns.move_to_end(key)
        return item

    def remove(self, item: Item) -> None:
        super().remove(item)
        items = self._turns[item.key]
        del items[item]
        if not items:
            del self._turns[item.key]


def make_queue(order: QueueOrder) -> OrderedQueue[Any]:
    """Make an empty queue.

    Raises:
        ValueError: The order is unknown.
    """
    match order:
        case "fifo":
            return _OldestFirst()
        case "lifo":
            return _NewestFirst()
        case "priority":
            return _HighestFirst()
        case "fair_round_robin":
            return _KeysInTurn()
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError(f"the queue must be fifo, lifo, priority or fair_round_robin, not {order!r}")


Backpressure: TypeAlias = Literal["block", "drop_oldest", "drop_newest", "fail", "fail_fast", "ring_buffer"]
"""The policy of a pool for a job that comes when no worker is free and the queue is full.

- `block`: the submitter waits for room, in the order of asking.
- `drop_oldest`: the job that has waited longest is rejected, and the new one takes its place.
- `drop_newest`: the new job is rejected.
- `fail`: submitting raises `PoolFullError`.
- `fail_fast`: the same, and there is no queue: it raises when no worker is free.
- `ring_buffer`: the queue always holds the newest jobs. Like `drop_oldest`, but it requires a size.
"""

Item = TypeVar("Item", bound=Queueable)


class QueuePosition(NamedTuple, Generic[Item]):
    """The result of placing an item.

    Args:
        where: `started`, `queued`, `rejected` (it was dropped), `refused` (the submitter gets an error) or
            `blocked` (it may wait).
        evicted: The item that was dropped from the queue for it.
    """

    where: Literal["started", "queued", "rejected", "refused", "blocked"]
    evicted: Item | None = None


class PoolQueue(Generic[Item]):
    """Workers, their queue, and the items that wait for a slot in the queue.

    Args:
        max_concurrent: The number of workers.
        order: The order of the queued items.
        backpressure: The policy for an item without a slot.
        max_queued: The greatest number of queued items; None for no limit. `fail_fast` queues nothing.

    Raises:
        ValueError: An argument has an invalid value.
    """

    def __init__(
        self, *, max_concurrent: int, order: QueueOrder, backpressure: Backpressure, max_queued: int | None
    ) -> None:
        _check(max_concurrent, backpressure, max_queued)
        self.max_concurrent = max_concurrent
        self.backpressure: Backpressure = backpressure
        self.max_queued = 0 if backpressure == "fail_fast" else max_queued
        self.running = 0
        self.greatest_queued = 0
        self._queued: OrderedQueue[Item] = make_queue(order)
        self._blocked: OrderedDict[Item, None] = OrderedDict()

    @property
    def queued(self) -> int:
        """The number of queued items."""
        return len(self._queued)

    @property
    def blocked(self) -> int:
        """The number of items that wait for a free slot in the queue."""
        return len(self._blocked)

    def place(self, item: Item) -> QueuePosition[Item]:
        """Give an item to a worker, or a slot in the queue, or neither."""
        if self.running < self.max_concurrent:
            self.running += 1
            return _STARTED
        if self._has_room():
            self._push(item)
            return _QUEUED
        match self.backpressure:
            case "block":
                return _BLOCKED
            case "drop_newest":
                return _REJECTED
            case "drop_oldest" | "ring_buffer":
                evicted = self._queued.pop_oldest()
                self._push(item)
                return QueuePosition("queued", evicted)
            case "fail" | "fail_fast":
                return _REFUSED

    def block(self, item: Item) -> None:
        """Let an item wait for a slot."""
        self._blocked[item] = None

    def withdraw(self, item: Item) -> bool:
        """Take out an item that is queued or blocked; return False when it is neither."""
        if item in self._queued:
            self._queued.remove(item)
            return True
        if item in self._blocked:
            del self._blocked[item]
            return True
        return False

    def free_worker(self) -> None:
        """Mark a worker as free."""
        self.running -= 1

    def next_started(self) -> Item | None:
        """Give the next queued item to a free worker; None when there is no such item or worker."""
        if not self._queued or self.running >= self.max_concurrent:
            return None
        self.running += 1
        return self._queued.pop()

    def next_admitted(self) -> Item | None:
        """Take the first blocked item out if there is a slot for it now; None when there is not."""
        if not self._blocked or not (self.running < self.max_concurrent or self._has_room()):
            return None
        return self._blocked.popitem(last=False)[0]

    def drain(self) -> list[Item]:
        """Take out all queued items, the oldest first."""
        items = list(self._queued)
        for item in items:
            self._queued.remove(item)
        return items

    def blocked_items(self) -> Iterator[Item]:
        """The items that wait for a free slot at this moment, in the order of arrival."""
        return iter(tuple(self._blocked))

    def _has_room(self) -> bool:
        return self.max_queued is None or len(self._queued) < self.max_queued

    def _push(self, item: Item) -> None:
        self._queued.push(item)
        self.greatest_queued = max(self.greatest_queued, len(self._queued))


_STARTED: QueuePosition[Any] = QueuePosition("started")
_QUEUED: QueuePosition[Any] = QueuePosition("queued")
_REJECTED: QueuePosition[Any] = QueuePosition("rejected")
_REFUSED: QueuePosition[Any] = QueuePosition("refused")
_BLOCKED: QueuePosition[Any] = QueuePosition("blocked")


def _check(max_concurrent: int, backpressure: Backpressure, max_queued: int | None) -> None:
    if backpressure not in get_args(Backpressure):
        raise ValueError(f"backpressure must be one of {get_args(Backpressure)}, not {backpressure!r}")
    check_whole_number("max_concurrent", max_concurrent, least=1)
    drops_queued = backpressure in ("drop_oldest", "ring_buffer")
    least = 1 if drops_queued else 0
    check_whole_number("max_queued", max_queued, least=least, or_none=backpressure != "ring_buffer")
