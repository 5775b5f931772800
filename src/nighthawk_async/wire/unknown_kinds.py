"""A log line for each kind of event that a protocol has got since this library was written."""

import logging
import threading

from .redaction import excerpt

_LOGGER = logging.getLogger("nighthawk")
_MAX_KINDS = 100
_MAX_CHARACTERS = 100
_lock = threading.Lock()
_reported: set[tuple[str, str]] = set()


def report_unknown(protocol: str, kind: str) -> None:
    """Log that events of a kind are ignored: once for each kind, and for few kinds, since servers name them.

    Args:
        protocol: The name of the protocol.
        kind: The kind of event, as the server wrote it.
    """
    with _lock:
        if (protocol, kind) in _reported or len(_reported) >= _MAX_KINDS:
            return
        _reported.add((protocol, kind))
    shown = excerpt(kind, limit=_MAX_CHARACTERS)
    _LOGGER.warning("%s: events of the unknown kind %r are ignored", protocol, shown)
