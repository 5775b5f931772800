"""The store that a worker appends to itself, in runs whose program has admitted it as a writer.

The address is the worker's own, of its environment: those of programs have passwords, and do not travel. So
it may be that of another store. The worker appends only where it finds its own name, which it has made up,
among the writers of the run; otherwise it sends its records to the program.
"""

import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from math import inf
from uuid import uuid4

import anyio.to_thread

from ..errors import ConfigurationError
from ..journal.acknowledgement import Acknowledgement
from ..journal.addresses import is_shared_address, read_address
from ..journal.database import Database
from ..journal.errors import JournalError
from ..journal.records import Record
from ..journal.store_thread import StoreThread
from ..journal.tables import LEASE_SECONDS
from ..journal.writer_table import finds_itself

VARIABLE = "NIGHTHAWK_JOURNAL"
"""The environment variable with the address of the store."""

_TRANSACTION_SECONDS = LEASE_SECONDS / 2
"""The seconds after which a worker that was stopped in a transaction no longer locks the row of the run.

The program can still renew its lease then, which it tries when two thirds of it are left.
"""

_PAUSE_SECONDS = 60.0
"""The seconds for which a store that could not be reached is not tried again; each try may take long."""

_MOST_LIVES = 64

_logger = logging.getLogger("nighthawk")

Life = tuple[str, int]
"""A run, and the number of its life."""


class WorkerStore:
    """The store of a worker. It is opened for the first call that may use it, for all of them.

    Args:
        url: Its address.

    Attributes:
        writer: The name of the worker as a writer.
    """

    def __init__(self, url: str) -> None:
        self.writer = uuid4().hex
        self._url = url
        self._thread: StoreThread | None = None
        self._reaches: OrderedDict[Life, bool] = OrderedDict()  # the last lives
        self._parts: Counter[Life] = Counter()  # that are appended to
        self._lock = anyio.Lock()
        self._tries_at = -inf

    async def begin(self, life: Life) -> bool:
        """Begin to append to a part of a run; call `end` afterwards.

        Returns:
            Whether this is the store of the run, and can be reached.
        """
        async with self._lock:
            if life not in self._reaches:
                self._reaches[life] = await self._find_run(life)
                if len(self._reaches) > _MOST_LIVES:
                    self._reaches.popitem(last=False)
        if self._reaches[life]:
            self._parts[life] += 1
        return self._reaches[life]

    def end(self, life: Life) -> None:
        """Note the end of a part that was appended to."""
        self._parts[life] -= 1
        if not self._parts[life]:
            del self._parts[life]
            self._opened().forget(*life)

    def append(self, life: Life, records: Sequence[Record]) -> Acknowledgement[None]:
        """Append records; see `StoreThread.append`."""
        return self._opened().append(*life, records)

    def is_held(self, life: Life) -> bool:
        """Whether the lease of a life cannot have ended yet."""
        return self._opened().is_held(*life)

    async def close(self) -> None:
        """Write what is waiting, and close the connection."""
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.close)

    async def _find_run(self, life: Life) -> bool:
        if anyio.current_time() < self._tries_at:
            return False
        try:
            thread = self._opened()
            found = await thread.perform(lambda: finds_itself(thread.opened(), *life, self.writer)).wait()
        except (ConfigurationError, JournalError) as error:
            reason = str(error)
            self._tries_at = anyio.current_time() + _PAUSE_SECONDS
        else:
            if found:
                return True
            reason = f"{thread.address} has not this run, or not this life of it"
        _logger.warning(
            "run %r: the worker cannot append to the store of %s itself (%s); the program does it",
            *(life[0], VARIABLE, reason),
        )
        return False

    def _opened(self) -> StoreThread:
        if self._thread is None:
            address, connect = read_address(self._url)

            def connect_briefly() -> Database:
                database = connect()
                database.limit_transactions(_TRANSACTION_SECONDS)
                return database

            self._thread = StoreThread(address, connect_briefly, writer=self.writer)
        return self._thread


def find_store() -> WorkerStore | None:
    """Return the store of this process's environment; None without an address of a server."""
    url = os.environ.get(VARIABLE, "")
    return WorkerStore(url) if is_shared_address(url) else None
