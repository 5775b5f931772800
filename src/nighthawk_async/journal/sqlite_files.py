"""Files for SQLite: on a disk of this machine, and with a write-ahead log.

Network file systems have no locks and no shared memory that it could rely on.
"""

import sqlite3
import time
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")  # only Linux has it

_PAUSE_SECONDS = 0.01

_NETWORK_TYPES = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.curlftpfs", "fuse.davfs2"),
        *("fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.sshfs", "fuse.sshfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs"),
        *("pvfs2", "smb2", "smb3", "smbfs"),
    }
)


def network_type(path: Path) -> str | None:
    """The type of the network file system that a file is on; None for a disk, and where that is not known.

    Args:
        path: The file, which need not be there.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    types: dict[str, str] = {}
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:
            types[_unescaped(fields[1])] = fields[2]  # a later mount lies over an earlier one
    folder = path.resolve().parent
    found = next((types[str(each)] for each in (folder, *folder.parents) if str(each) in types), None)
    return found if found in _NETWORK_TYPES else None


def begin_log(connection: sqlite3.Connection, patience_seconds: float) -> str:
    """Give a file a write-ahead log, and return the journal mode that it has then.

    SQLite does not wait here for others that open a new file at the same moment: they may wait for this one.

    Args:
        connection: The connection to the file.
        patience_seconds: How long to wait for others.

    Raises:
        sqlite3.OperationalError: Others have kept the file for longer.
    """
    given_up_at = time.monotonic() + patience_seconds
    while True:
        try:
            return connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > given_up_at:
                raise
        time.sleep(_PAUSE_SECONDS)


def _unescaped(text: str) -> str:
    for number, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{number}", character)
    return text
