"""Checking limits before anything starts."""

from typing import cast

from .errors import InvalidLimitError

__all__ = ["checked_max_concurrent", "checked_seconds"]


def checked_max_concurrent(max_concurrent: object) -> int | None:
    """Return the number of calls that may be in flight at once; None for all.

    Raises:
        InvalidLimitError: It is neither None nor a positive integer.
    """
    if max_concurrent is None or (_is_number(max_concurrent, int) and cast("int", max_concurrent) > 0):
        return cast("int | None", max_concurrent)
    raise InvalidLimitError(f"max_concurrent is a positive integer or None, not {max_concurrent!r}")


def checked_seconds(seconds: object, *, what: str = "a deadline") -> float:
    """A time limit, in seconds; infinity is no limit.

    Args:
        seconds: The limit.
        what: What it limits, for the error message.

    Raises:
        InvalidLimitError: It is not a number, `nan`, or negative.
    """
    if _is_number(seconds, int | float):
        number = float(cast("float", seconds))
        if number >= 0:  # which `nan` is not
            return number
    raise InvalidLimitError(f"{what} is a number of seconds, at least 0, not {seconds!r}")


def _is_number(value: object, kind: type | object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)  # pyright: ignore[reportArgumentType]
