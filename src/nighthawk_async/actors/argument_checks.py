"""Checks of numbers that callers pass: invalid ones raise at once, with the same messages for all actors."""


def check_whole_number(name: str, number: object, *, least: int, or_none: bool = False) -> None:
    """Raise unless the object is a whole number and large enough.

    Args:
        name: The name of the number in the error: usually that of the argument.
        number: The given number.
        least: The smallest number that is accepted.
        or_none: Whether None is accepted, too.

    Raises:
        ValueError: The number is invalid. True and False do not count as numbers.
    """
    if number is None and or_none:
        return
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}{_or_none(or_none)}, not {number!r}"
        )


def check_seconds(name: str, seconds: object, *, or_none: bool = False) -> None:
    """Raise unless the object is a non-negative number of seconds. Infinity is accepted.

    Args:
        name: The name of the number in the error: usually that of the argument.
        seconds: The given number.
        or_none: Whether None is accepted, too.

    Raises:
        ValueError: The number is invalid. True and False do not count as numbers.
    """
    if seconds is None and or_none:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # not even NaN
        raise ValueError(
            f"{name} must be a number of seconds of at least 0{_or_none(or_none)}, not {seconds!r}"
        )


def _or_none(or_none: bool) -> str:
    return " or None" if or_none else ""
