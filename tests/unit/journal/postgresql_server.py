"""A PostgreSQL server in a temporary folder, on a socket there: no port is open."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

USER = "nighthawk"
SCHEMA = "nighthawk_async"
"""The schema of the tables of a store."""


class PostgresqlServer:
    """A running server.

    Args:
        programs: The folder of the server's programs.
        folder: Its folder.
        owner: The user of the machine that it runs as; None for the one of this process.
    """

    def __init__(self, programs: Path, folder: Path, owner: str | None) -> None:
        self._programs = programs
        self._folder = folder
        self._owner = owner
        self._databases: dict[Path, str] = {}
        self._unused: list[str] = []
        self._made = 0

    def address_of(self, folder: Path) -> str:
        """The address of the database that belongs to a folder; it is empty at the first call."""
        if folder not in self._databases:
            self._databases[folder] = self._unused.pop() if self._unused else self._make_database()
        return f"postgresql://{USER}@/{self._databases[folder]}?host={quote(str(self._folder), safe='')}"

    def clear(self) -> None:
        """Empty all databases, and give them to folders of later tests: a new one takes 300 files."""
        while self._databases:
            _, name = self._databases.popitem()
            self._carry_out(
                name,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE datname = '{name}' AND pid <> pg_backend_pid()",
            )
            self._carry_out(
                name,
                f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; "
                "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
            )
            self._unused.append(name)

    def _make_database(self) -> str:
        self._made += 1
        name = f"test_{self._made}"
        self._carry_out("postgres", f"CREATE DATABASE {name}")
        return name

    def carry_out(self, folder: Path, statements: str) -> None:
        """Carry out statements in the database of a folder."""
        self._carry_out(self.address_of(folder), statements)

    def _carry_out(self, database: str, statements: str) -> None:
        import psycopg

        where = {} if "://" in database else {"host": str(self._folder), "user": USER, "dbname": database}
        conninfo = database if "://" in database else ""
        with psycopg.connect(conninfo, autocommit=True, **where) as connection:
            connection.execute(statements.encode())

    def start(self) -> None:
        """Make its folder, and start it."""
        self._run(
            *("initdb", "-D", "data", "-U", USER, "-A", "trust", "-E", "UTF8"),
            *("--locale=C", "--no-sync", "--no-instructions"),
        )
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            file.write(
                f"listen_addresses = ''\nunix_socket_directories = '{self._folder}'\n"
                "fsync = off\nshared_buffers = 16MB\nmax_connections = 60\nautovacuum = off\n"
            )
        self._run("pg_ctl", "start", "-D", "data", "-l", "log", "-w")

    def restart(self, *, crashes: bool = False) -> None:
        """Restart it: all connections end.

        Args:
            crashes: Whether it ends without closing its files, and recovers from its own log.
        """
        how = "immediate" if crashes else "fast"
        self._run("pg_ctl", "restart", "-D", "data", "-l", "log", "-w", "-m", how)

    def stop(self) -> None:
        """Stop it."""
        self._run("pg_ctl", "stop", "-D", "data", "-w", "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        other = {} if self._owner is None else {"user": self._owner, "group": _group(self._owner)}
        with (self._folder / "out").open("ab") as output:  # no pipe, which the server would keep open
            subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
                timeout=120,
                extra_groups=None if self._owner is None else [],
                **other,
            )


def _group(owner: str) -> int:
    return pwd.getpwnam(owner).pw_gid


@contextmanager
def running_server() -> Iterator[PostgresqlServer]:
    """A server for the tests of this process; the test is skipped where there is none."""
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    programs = _find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    owner = None
    if os.geteuid() == 0:  # the server refuses to run as root
        known = {each.pw_name for each in pwd.getpwall()}
        owner = next((each for each in ("postgres", "nobody") if each in known), None)
        if owner is None:
            pytest.skip("the tests run as root, and there is no user that PostgreSQL could run as")
    # Not in the folder of pytest: others may not enter it, and the path of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="nighthawk-"))
    try:
        if owner is not None:
            shutil.chown(folder, owner, _group(owner))
        server = PostgresqlServer(programs, folder, owner)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _find_programs() -> Path | None:
    found = shutil.which("pg_ctl")
    folders = [
        *([Path(found).resolve().parent] if found else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
    ]
    return next((each for each in folders if (each / "initdb").exists() and (each / "pg_ctl").exists()), None)
