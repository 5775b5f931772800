"""The store that a command works on, by its file or its address; keys come from the environment."""

import os
from pathlib import Path

from ..errors import ConfigurationError
from ..journal import JournalStore, open as open_journal
from ..journal.encryption import decode_key

KEYS_VARIABLE = "NIGHTHAWK_JOURNAL_KEYS"
"""The keys of the encryption: `ID=BASE64`, separated by spaces; the first is the active one."""

AUDIT_KEY_VARIABLE = "NIGHTHAWK_JOURNAL_AUDIT_KEY"
"""The key of the chains, in Base64."""


def open_store(store: str, *, may_be_new: bool = False) -> JournalStore:
    """Open a store.

    Args:
        store: The path of a SQLite file, or an address: `postgresql://…`, `sqlite:///…`.
        may_be_new: Whether the file need not exist.

    Raises:
        ConfigurationError: There is no such file, or the address or a key is none.
    """
    if "://" not in store and not may_be_new and not Path(store).is_file():
        raise ConfigurationError(f"{store}: No such file")
    keys: dict[str, bytes | str] = {}
    for entry in os.environ.get(KEYS_VARIABLE, "").split():
        key_id, separator, text = entry.partition("=")
        if not separator:
            raise ConfigurationError(f"{KEYS_VARIABLE} has ID=BASE64 for each key, separated by spaces")
        keys[key_id] = decode_key(text, f"{KEYS_VARIABLE}: the key {key_id!r}")
    audit_key = AUDIT_KEY_VARIABLE if os.environ.get(AUDIT_KEY_VARIABLE) else None
    return open_journal(store, keys=keys or None, active_key=next(iter(keys), None), audit_key=audit_key)
