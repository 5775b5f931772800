"""The table of the keys that a store is encrypted with: their ids, and a proof to recognize each by."""

from .database import Database
from .errors import JournalKeyError

MIGRATION = ("CREATE TABLE encryption_keys (key_id TEXT PRIMARY KEY, proof {bytes} NOT NULL){table_options}",)
"""The statements that make the table; see `tables.migrate`."""


def check_keys(database: Database) -> None:
    """Check the keys, within a transaction that begins to write bodies, and note the active one.

    Raises:
        JournalKeyError: A key is not the one that the store was written with, or none is given.
    """
    codec = database.codec
    known = dict(database.query("SELECT key_id, proof FROM encryption_keys ORDER BY key_id"))
    if known and not codec.active_key:
        names = ", ".join(map(repr, known))
        raise JournalKeyError(
            f"the journal is encrypted with the key {names}: open it with keys=.", key_id=next(iter(known))
        )
    for key_id in known:
        if key_id not in codec.key_ids:
            raise JournalKeyError(
                f"the journal has contents of the key {key_id!r}, which is missing: open it with "
                f"keys={{{key_id!r}: …}} too, or have JournalStore.reencrypt write them anew before.",
                key_id=key_id,
            )
    for key_id, proof in codec.proofs.items():
        if known.get(key_id, proof) != proof:
            raise JournalKeyError(
                f"the key {key_id!r} is not the one that the journal is encrypted with.", key_id=key_id
            )
    if codec.active_key and codec.active_key not in known:
        database.change(
            "INSERT INTO encryption_keys (key_id, proof) VALUES (?, ?) ON CONFLICT DO NOTHING",
            *(codec.active_key, codec.proofs[codec.active_key]),
        )


def forget_other_keys(database: Database) -> None:
    """Forget all keys but the active one, within a transaction of the caller: nothing needs them any more."""
    database.change("DELETE FROM encryption_keys WHERE key_id <> ?", database.codec.active_key)
