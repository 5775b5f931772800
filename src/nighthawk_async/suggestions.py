"""`Did you mean …?` for unknown names."""

from collections.abc import Iterable

_LIKENESS = 0.85


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that an unknown one was probably meant to be; None for none.

    A name that begins another one counts, as `timeout` begins `timeout`, when it begins only one.

    Args:
        name: The unknown name.
        known: The known names.
    """
    from difflib import get_close_matches  # here, because few programs misspell a name

    candidates = list(known)
    found = get_close_matches(name, candidates, n=1, cutoff=_LIKENESS)
    if not found:
        found = [each for each in candidates if each.startswith(f"{name}_")]
    return found[0] if len(found) == 1 else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?`, or nothing when no known name is close.

    Args:
        name: The unknown name.
        known: The known names.
    """
    found = closest(name, known)
    return "" if found is None else f" Did you mean {found!r}?"
