"""Budgets that processes share through a store, as the page shows them."""

from ...journal import JournalStore, JournalStoreError
from ...types.json import JsonableValue
from .request import RefusalError, store_is_away


async def read(store: JournalStore | None) -> list[JsonableValue]:
    """Return the present windows of all budgets, one for each limit.

    Args:
        store: The store; None for no budgets.

    Raises:
        RefusalError: The store cannot be read.
    """
    if store is None:
        return []
    try:
        rows = await store.read_budgets()
    except JournalStoreError as error:
        raise RefusalError(store_is_away(str(error))) from None
    return [
        {
            "name": row.name,
            "resource": window.resource,
            "limit": str(window.limit),
            "spent": str(window.spent),
            "reserved": str(window.reserved),
            "remaining": str(window.remaining),
            "window": window.window,
        }
        for row in rows
        for window in row.windows
    ]
