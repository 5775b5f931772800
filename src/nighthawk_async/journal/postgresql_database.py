"""Journals in a PostgreSQL database, in a schema of their own.

The connection is a synchronous one: it belongs to the thread of its store, and works the same on Trio and on
asyncio. The library for it, psycopg, is imported when the first such address is opened.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..errors import ConfigurationError
from . import tables
from .database import Database
from .errors import JournalStoreError

if TYPE_CHECKING:
    import psycopg

_SCHEMA = "nighthawk_async"
_MIGRATION_LOCK = 0x6E6967687468  # any number, the same in all versions

_DEFAULTS: Mapping[str, tuple[str, str]] = {
    "application_name": ("PGAPPNAME", "nighthawk-async journal"),
    "connect_timeout": ("PGCONNECT_TIMEOUT", "10"),
    "target_session_attrs": ("PGTARGETSESSIONATTRS", "read-write"),
    "keepalives_idle": ("", "10"),
    "keepalives_interval": ("", "5"),
    "keepalives_count": ("", "3"),
    "tcp_user_timeout": ("", "25000"),
}
"""Options that hold unless an address or a variable sets them: a lost server is noticed within the lease."""


class PostgresqlDatabase(Database):
    """A connection to a PostgreSQL database.

    Args:
        connection: The connection, in the mode in which each statement is a transaction.
    """

    NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
    FOR_UPDATE = " FOR UPDATE"
    FOR_UPDATE_OF_FREE = " FOR UPDATE SKIP LOCKED"
    # An entry of an index has at most 2,704 bytes, which a place in a deep recursion exceeds.
    SCHEMA_WORDS: ClassVar[Mapping[str, str]] = {
        "real": "DOUBLE PRECISION",
        "bytes": "BYTEA",
        "table_options": "",
        "blob_mark": r"'\xc102'::bytea",
        "place": "hashtextextended(place, 0), hashtextextended(place, 1)",
    }

    def __init__(self, connection: "psycopg.Connection") -> None:
        super().__init__()
        self._connection = connection

    def prepare(self, name: str) -> None:
        """Make commits durable, and bring the schema up to date.

        Args:
            name: The name of the database, for errors.

        Raises:
            JournalStoreError: The database has another encoding, or the schema is one of a newer version.
        """
        encoding = self._connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise JournalStoreError(f"{name} has the encoding {encoding}; a journal needs one with UTF8.")
        if self.query("SHOW synchronous_commit") != [("remote_apply",)]:  # which promises more
            self.change("SET synchronous_commit TO on")
        # A process that was stopped in a transaction would hold the run's row for ever.
        self.limit_transactions(tables.LEASE_SECONDS)
        self.change(f"SET search_path TO {_SCHEMA}")
        tables.migrate(self, name)

    def note_commits(self) -> None:
        """Nothing: no log of a server can be removed unnoticed."""

    def limit_transactions(self, seconds: float) -> None:
        """Have the server end a connection that does nothing in a transaction; see `Database`."""
        milliseconds = str(max(1, int(seconds * 1_000)))
        self.query("SELECT set_config('idle_in_transaction_session_timeout', ?, false)", milliseconds)

    def query(self, statement: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._connection.execute(_statement(statement), parameters, binary=True).fetchall()

    def change(self, statement: str, *parameters: object) -> int:
        """Carry a statement out; see `Database`."""
        return self._connection.execute(_statement(statement), parameters).rowcount

    def change_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Carry a statement out for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_statement(statement), rows)
        # The statements before are sent in one go, after which the server would not end an idle transaction.
        self._connection.execute(b"SELECT 1")

    @contextmanager
    def transaction(self) -> Generator[None, None, None]:
        """Make the `with` statement one transaction."""
        with self._connection.transaction():
            yield

    def lock(self, table: str) -> None:
        """Let nobody else change a table; see `Database`."""
        self.change(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    def release_space(self) -> bool:
        """False: the server does that by itself."""
        return False

    def purge(self, tables: Sequence[str]) -> bool:
        """Write tables anew; see `Database`. What the server archives is its own."""
        ((is_alone,),) = self.query(
            "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE backend_xmin IS NOT NULL "
            "AND pid <> pg_backend_pid() AND datname = current_database())"
        )
        for table in tables:
            self.change(f"VACUUM (FULL) {table}")
        return is_alone

    @property
    def releases_space(self) -> bool:
        """True, as far as the server can."""
        return True

    def read_schema_version(self) -> int:
        """Return the version of the schema; see `Database`."""
        self.query("SELECT pg_advisory_xact_lock(?)", _MIGRATION_LOCK)
        if self.query("SELECT to_regnamespace(?) IS NULL", _SCHEMA) == [(True,)]:
            self.change(f"CREATE SCHEMA {_SCHEMA}")
        if self.query("SELECT to_regclass(?) IS NULL", f"{_SCHEMA}.schema_version") == [(True,)]:
            self.change("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            self.change("INSERT INTO schema_version (version) VALUES (0)")
        ((version,),) = self.query("SELECT version FROM schema_version")
        return version

    def write_schema_version(self, version: int) -> None:
        """Set the version of the schema."""
        self.change("UPDATE schema_version SET version = ?", version)

    @property
    def is_broken(self) -> bool:
        """Whether the connection was closed, by whichever side."""
        return self._connection.closed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@lru_cache(maxsize=100)
def _statement(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class PostgresqlAddress:
    """The address of a PostgreSQL database, with a password that nothing shows.

    Args:
        url: The address, as libpq reads it: `postgresql://user:password@host:5432/database`.

    Raises:
        ConfigurationError: It is no such address, or psycopg is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise ConfigurationError(
                "A journal in PostgreSQL needs the extra 'postgresql'. Install it with: "
                f"pip install 'nighthawk-async[postgresql]' ({error})"
            ) from None
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        except psycopg.Error:  # its text may have parts of the password
            given = None
        if given is None or not _is_plausible(given):
            raise ConfigurationError(
                "The address of the journal cannot be read as one of PostgreSQL, "
                "postgresql://user:password@host:5432/database. Write special characters of a password by "
                "their numbers: %40 for @, %2F for /, %3A for :, %25 for %."
            )
        self._parameters = {
            **{
                name: default
                for name, (variable, default) in _DEFAULTS.items()
                if not os.environ.get(variable)
            },
            **given,
        }
        user, host, port = given.get("user", ""), given.get("host", ""), given.get("port", "")
        database = given.get("dbname", "")
        self._text = "".join(
            ["postgresql://", user and f"{user}@", host, port and f":{port}", database and f"/{database}"]
        )

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"PostgresqlAddress({self._text!r})"

    def open(self) -> PostgresqlDatabase:
        """Open the database, and create the tables if they are not there.

        Raises:
            JournalStoreError: It cannot be reached or used, or is one of a newer version.
        """
        import psycopg

        try:
            connection = psycopg.connect(autocommit=True, **cast("Any", self._parameters))
        except psycopg.Error as error:
            reason = str(error)
        else:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            database = PostgresqlDatabase(connection)
            try:
                database.prepare(self._text)
                return database
            except psycopg.Error as error:
                reason = str(error)
                database.close()
            except BaseException:
                database.close()
                raise
        # Outside of the handlers: the frames of the error hold the password.
        raise JournalStoreError(f"{self._text} cannot be opened as a journal: {reason}")


def _is_plausible(given: Mapping[str, str]) -> bool:
    """Whether no part of an address looks like one of a password that was written without its numbers."""
    ports = given.get("port", "").split(",")
    shown = (given.get(name, "") for name in ("host", "dbname"))
    return all(port.isdecimal() or not port for port in ports) and not any("@" in part for part in shown)
