"""In which order a pool takes what waits in its queue. Floor 1.

Plain synchronous state: it knows neither how many wait at most nor what happens then (`pool_queue`). Every
operation takes constant time, or the logarithm of the length where items have priorities.
"""

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

__all__ = ["OrderedQueue", "QueueOrder", "Queueable", "make_queue"]

QueueOrder: TypeAlias = Literal["fifo", "lifo", "priority", "fair_round_robin"]
"""Which queued job runs next.

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
    """Items that wait. Each is in it once."""

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
        """Take the item that is next. There must be one."""

    def remove(self, item: Item) -> None:
        """Take an item out, wherever it stands."""
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
    """A heap. What was taken out from the middle stays in it until it comes up, or until it is half of it."""

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
    """The key whose turn it is comes first; after its turn, or when it is new, a key goes to the end."""

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
    """An empty queue.

    Raises:
        ValueError: There is no such order.
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
