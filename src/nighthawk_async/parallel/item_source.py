"""Items of calls, from an iterable or an async iterable, one at a time."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Sized
from enum import Enum
from typing import Final, Generic, TypeVar, cast

import anyio

Item = TypeVar("Item")

_CLOSE_SECONDS = 10.0


class End(Enum):
    """Marker after the last item."""

    END = "end"


END: Final = End.END


class ItemSource(Generic[Item]):
    """Yields items one at a time, no earlier than they are requested, to a single task.

    A synchronous iterable is advanced on the event loop, so it should not block.

    Args:
        items: An iterable or an async iterable. An object that is both counts as async.

    Attributes:
        total: The number of items; None when it is unknown.
        iterator: Where the items are synchronous, what yields them; None where they are not.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, items: Iterable[Item] | AsyncIterable[Item]) -> None:
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self._async: AsyncIterator[Item] | None = None
        self.iterator: Iterator[Item] | None = None
        if isinstance(items, AsyncIterable):
            self._async = aiter(cast("AsyncIterable[Item]", items))
        else:
            self.iterator = self._watched(iter(items))

    def _watched(self, iterator: Iterator[Item]) -> Iterator[Item]:
        """The iterator itself, or one that looks at its items."""
        return iterator

    async def next(self) -> Item | End:
        """Return the next item, or `END`.

        Raises:
            Exception: Any exception raised by the iterable.
        """
        if self.iterator is not None:
            return next(self.iterator, END)
        assert self._async is not None, "one of the two is there"
        return await anext(self._async, END)

    async def close(self) -> None:
        """Close an async generator, since no other code can do it in time. Other iterables are left alone."""
        items = cast("object", self._async)
        if isinstance(items, AsyncGenerator):
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await cast("AsyncGenerator[Item, None]", items).aclose()


class KeptItems(ItemSource[Item]):
    """A source that keeps the items that it has yielded.

    Args:
        items: The items; see `ItemSource`.
    """

    def __init__(self, items: Iterable[Item] | AsyncIterable[Item]) -> None:
        self._kept: list[Item] = []
        super().__init__(items)
        self._whole = items if isinstance(items, Sized) and isinstance(items, Iterable) else None

    def _watched(self, iterator: Iterator[Item]) -> Iterator[Item]:
        for item in iterator:
            self._kept.append(item)
            yield item

    async def next(self) -> Item | End:
        """Return the next item, or `END`; see `ItemSource.next`."""
        item = await super().next()
        if self.iterator is None and item is not END:
            self._kept.append(item)
        return item

    def known(self) -> list[Item]:
        """Return all items of a collection, and those so far of another iterable."""
        whole = self._whole
        is_synchronous = self.iterator is not None and isinstance(whole, Iterable)
        return list(cast("Iterable[Item]", whole)) if is_synchronous else self._kept
