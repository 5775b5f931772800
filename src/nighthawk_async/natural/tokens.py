r"""Bindings and references in the text of a natural program.

Recognizes `<name>`, `<name.field>`, `<:name>` and an escaped `\<name>` (specification sections 7 and 8.2.3).
It does not know the values of the names.
"""

import keyword
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

_TOKEN = re.compile(
    r"""
    (?P<escape>\\)?  # one backslash makes the token plain text
    <(?: :(?P<write>[^<>\n]*)  # <:anything>, so that a bad name can be reported
       | (?P<read>[^\W\d]\w*(?:\.[^\W\d]\w*)*)  # <name> or <name.field>, of any alphabet
    )>
    """,
    re.VERBOSE,
)


class Token(Struct, frozen=True, kw_only=True):
    """A text in angle brackets that looks like a binding.

    Args:
        is_write: Whether it is `<:...>`.
        is_escaped: Whether a backslash makes it plain text.
        path: The path between the brackets, without the colon.
    """

    is_write: bool
    is_escaped: bool
    path: str

    @property
    def is_reference(self) -> bool:
        """Whether the token names a variable, or a field of one."""
        return not self.is_escaped and _is_path(self.path) and not (self.is_write and "." in self.path)


class Bindings(Struct, frozen=True, kw_only=True):
    """The names that the literal text of one block binds, each in order of first appearance.

    Args:
        read_names: Names of `<name>`.
        write_names: Names of `<:name>`.
        references: Names and dotted paths of every binding and reference.
    """

    read_names: tuple[str, ...]
    write_names: tuple[str, ...]
    references: tuple[str, ...]


def find_tokens(text: str) -> Iterator[Token]:
    """Find everything that looks like a binding or a reference, in time linear in the length of the text.

    Args:
        text: The text of a natural program.
    """
    for match in _TOKEN.finditer(text):
        write = match["write"]
        yield Token(
            is_write=write is not None,
            is_escaped=match["escape"] is not None,
            path=match["read"] if write is None else write,
        )


def find_mentions(text: str) -> tuple[str, ...]:
    """Find the paths that a text refers to (specification 8.2.3), in order, each as often as it is mentioned.

    A malformed binding is plain text: values that were interpolated into the text can hold anything.

    Args:
        text: The text of a natural program, escapes included.
    """
    return tuple(token.path for token in find_tokens(text) if token.is_reference)


def parse_bindings(texts: Iterable[str]) -> Bindings:
    """Find the bindings that the author of a block wrote (specification 7).

    Args:
        texts: The literal parts of the block. No binding extends from one part into the next.

    Raises:
        ValueError: A part holds a malformed binding; the message names it.
    """
    tokens = [token for text in texts for token in find_tokens(text) if not token.is_escaped]
    for token in tokens:
        _check(token)
    paths = [token for token in tokens if token.is_reference]
    return Bindings(
        read_names=_unique(token.path for token in paths if not token.is_write and "." not in token.path),
        write_names=_unique(token.path for token in paths if token.is_write),
        references=_unique(token.path for token in paths),
    )


def is_usable_name(name: object) -> bool:
    """Whether a block can read a variable of this name: an identifier that Python and the library leave free.

    Args:
        name: The name.
    """
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
    )


def unescape(text: str) -> str:
    r"""Remove the backslash of every escaped token: `\<name>` becomes `<name>`.

    Args:
        text: The text of a natural program.
    """
    return _TOKEN.sub(lambda match: match[0].removeprefix("\\"), text)


def root_name(path: str) -> str:
    """Return the variable that a dotted path starts from.

    Args:
        path: A name, or names joined with dots.
    """
    return path.partition(".")[0]


def _check(token: Token) -> None:
    """Raise `ValueError` when a token is a binding that cannot be meant as text and cannot be honoured."""
    if token.is_write:
        reason = _write_objection(token.path)
        if reason is not None:
            raise ValueError(
                f"the write binding <:{token.path}> is malformed: {reason}; escape it as \\<:{token.path}>"
            )
    elif not token.path.isascii() and all(segment.isidentifier() for segment in token.path.split(".")):
        raise ValueError(
            f"the read binding <{token.path}> is malformed: names must be ASCII; "
            f"escape it as \\<{token.path}>"
        )


def _write_objection(name: str) -> str | None:
    """Return the reason why a name cannot be the name of a write binding; None when it can."""
    if "." in name:
        return "a dotted path cannot be bound, only a simple name"
    if not name.isidentifier():
        return "it is not a Python identifier"
    if not name.isascii():
        return "names must be ASCII"
    if keyword.iskeyword(name):
        return "it is a Python keyword"
    if name.startswith("__"):
        return "names that start with two underscores are reserved"
    return None


def _is_path(path: str) -> bool:
    return path.isascii() and all(
        segment.isidentifier() and not keyword.iskeyword(segment) for segment in path.split(".")
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
