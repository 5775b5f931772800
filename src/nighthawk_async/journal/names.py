"""Names that reach a database: ids of runs, names of mailboxes, queues and schedules, places."""

from ..errors import NighthawkError
from .errors import JournalValueError


def check_text(text: str, name: str) -> None:
    """Refuse what not every database stores, before a statement fails for all that are in its transaction."""
    try:
        text.encode()
    except UnicodeEncodeError:
        is_storable = False
    else:
        is_storable = "\0" not in text
    if not is_storable:
        raise JournalValueError(
            f"{name} cannot be stored, because it has a NUL character or half of a surrogate pair: {text!r}",
            place=text,
        )


def check_name(name: object, kind: str) -> None:
    """Check a name before it reaches the thread of a store, where an error of the database ends all runs.

    Args:
        name: The name.
        kind: The words for it.

    Raises:
        NighthawkError: It is no text, or empty.
        JournalValueError: Not every database can store it.
    """
    if not isinstance(name, str) or not name:
        raise NighthawkError(f"{kind} is a text that is not empty, not {name!r}")
    check_text(name, kind)


def check_id(run_id: object) -> None:
    """Check the id of a run; see `check_name`."""
    check_name(run_id, "the id of a run")
