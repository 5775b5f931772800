"""The database of a store, as the tables need it: what differs between SQLite and PostgreSQL."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from .audit import Audit
from .encryption import BodyCodec


class Database(ABC):
    """A connection to a database, used by the thread of its store alone.

    Statements have `?` for each parameter. What differs in the statements is an attribute here.
    """

    NOW: ClassVar[str]
    """The time of the database's clock, in seconds since 1970, as an expression."""
    FOR_UPDATE: ClassVar[str]
    """The end of a query whose rows nobody else may change before the transaction ends."""
    FOR_UPDATE_OF_FREE: ClassVar[str]
    """The same, for a query that leaves out the rows that somebody else is about to change."""
    SCHEMA_WORDS: ClassVar[Mapping[str, str]]
    """The words of the migrations in `tables`."""

    def __init__(self) -> None:
        self.codec = BodyCodec()
        """Writes and reads bodies; `blob_table.store_body` and `load_body` use it."""
        self.audit = Audit()
        """Chains the records."""

    @abstractmethod
    def query(self, statement: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def change(self, statement: str, *parameters: object) -> int:
        """Carry a statement out, and return the number of rows that it changed."""

    @abstractmethod
    def change_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Carry a statement out for each row of parameters."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make the `with` statement one transaction, which is durable at its end."""

    @abstractmethod
    def note_commits(self) -> None:
        """Note outside of the database, where it can lose them, that its transactions are durable."""

    @abstractmethod
    def limit_transactions(self, seconds: float) -> None:
        """Have the server end the connection when this process does nothing in a transaction for so long."""

    @abstractmethod
    def lock(self, table: str) -> None:
        """Let nobody else change a table before the transaction ends."""

    @abstractmethod
    def release_space(self) -> bool:
        """Give some unused space back to the disk. Return whether there is more of it."""

    @abstractmethod
    def purge(self, tables: Sequence[str]) -> bool:
        """Leave nothing of deleted rows behind, outside of a transaction. Blocks while tables are rewritten.

        Args:
            tables: The tables that had them.

        Returns:
            Whether that was possible: others may keep an old state in use.
        """

    @property
    @abstractmethod
    def releases_space(self) -> bool:
        """Whether deleted rows make the database smaller, and not only leave room for others."""

    @abstractmethod
    def read_schema_version(self) -> int:
        """Return the version of the schema, 0 for none. Processes that migrate wait for each other here."""

    @abstractmethod
    def write_schema_version(self, version: int) -> None:
        """Set the version of the schema."""

    @property
    @abstractmethod
    def is_broken(self) -> bool:
        """Whether the connection cannot be used any more."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""
