"""Items, one at a time, from an iterable or an async iterable."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Sized
from enum import Enum
from typing import Final, Generic, TypeVar, cast

import anyio

__all__ = ["END", "End", "ItemSource"]

Item = TypeVar("Item")

_CLOSE_SECONDS = 10.0


class End(Enum):
    """Marks the end, after the last item."""

    END = "end"


END: Final = End.END


class ItemSource(Generic[Item]):
    """Gives items one at a time, no earlier than they are asked for. One task asks.

    A synchronous iterable is advanced on the event loop, so it should not block.

    Args:
        items: An iterable or an async iterable. What is both counts as async.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, items: Iterable[Item] | AsyncIterable[Item]) -> None:
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self._async: AsyncIterator[Item] | None = None
        self._sync: Iterator[Item] = iter(())
        if isinstance(items, AsyncIterable):
            self._async = aiter(cast("AsyncIterable[Item]", items))
        else:
            self._sync = iter(items)

    async def next(self) -> Item | End:
        """The next item, or `END`.

        Raises:
            Exception: Whatever the iterable raised.
        """
        if self._async is None:
            return next(self._sync, END)
        return await anext(self._async, END)

    async def close(self) -> None:
        """Close an async generator, since nobody else can do it in time. Everything else is left as it is."""
        items = cast("object", self._async)
        if isinstance(items, AsyncGenerator):
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await cast("AsyncGenerator[Item, None]", items).aclose()
