"""From a literal to a natural program.

A program is the text a model reads, and what can be known from that text alone (specification sections 6, 7,
8.2.3 and 8.4). Where the block stands, and which bindings its author wrote, is in `blocks`.
"""

import re
import textwrap

from msgspec import Struct

from ..errors import NaturalParseError
from ..types.outcomes import OutcomeKind
from .frontmatter import split_frontmatter
from .tokens import find_mentions, unescape

__all__ = ["SENTINEL", "NaturalProgram", "parse_program", "permitted_kinds", "program_body"]

SENTINEL = "natural\n"
"""What the literal of a natural block starts with, exactly (specification 6)."""

_WORD = re.compile(r"(?<![\w.])[^\W\d_]\w*+(?!\.\w)")  # no part of a dotted name: that means something else


class NaturalProgram(Struct, frozen=True, kw_only=True):
    """One natural program.

    Args:
        text: The program after sentinel removal, dedent, frontmatter stripping and unescaping.
        denied_kinds: The outcome kinds that its frontmatter denies.
        references: Names and dotted paths in unescaped angle brackets, names of write bindings included,
            unique, in order of first appearance.
        mentions: The same in order, each as often as the program mentions it.
        words: Identifiers in the text that start with an upper-case letter, so that they could name an
            exception type.
    """

    text: str
    denied_kinds: frozenset[OutcomeKind]
    references: tuple[str, ...]
    mentions: tuple[str, ...]
    words: frozenset[str]


def parse_program(literal: str, *, filename: str, line: int) -> NaturalProgram:
    """Parse the value of a natural literal.

    Malformed bindings are no errors here: in the rendered text of an f-string they may come from any value.
    Those that the author wrote were refused at decoration.

    Args:
        literal: The value of a string literal, or the rendered text of an f-string.
        filename: The source file of the block, for errors.
        line: The line of the block in that file, for errors.

    Raises:
        NaturalParseError: The sentinel is missing, or the frontmatter is malformed.
    """
    denied_kinds, body = _split(literal, filename=filename, line=line)
    text, mentions = unescape(body), find_mentions(body)
    return NaturalProgram(
        text=text,
        denied_kinds=denied_kinds,
        references=tuple(dict.fromkeys(mentions)),
        mentions=mentions,
        words=frozenset(word for word in _WORD.findall(text) if word[0].isupper()),
    )


def program_body(literal: str, *, filename: str, line: int) -> str:
    """Return the program of a natural literal without its frontmatter, but with its escapes.

    Args:
        literal: The value of a string literal.
        filename: The source file of the block, for errors.
        line: The line of the block in that file, for errors.

    Raises:
        NaturalParseError: The sentinel is missing, or the frontmatter is malformed.
    """
    return _split(literal, filename=filename, line=line)[1]


def permitted_kinds(
    syntactic_kinds: tuple[OutcomeKind, ...], program: NaturalProgram, *, filename: str, line: int
) -> tuple[OutcomeKind, ...]:
    """Subtract what the frontmatter denies from what the syntax allows (specification 8.4).

    Args:
        syntactic_kinds: The outcome kinds that the syntax around the block allows.
        program: The program of the block.
        filename: The source file of the block, for errors.
        line: The line of the block in that file, for errors.

    Returns:
        What is left, in the order of `syntactic_kinds`.

    Raises:
        NaturalParseError: Nothing is left, so the block could not end.
    """
    permitted: tuple[OutcomeKind, ...] = tuple(
        kind for kind in syntactic_kinds if kind not in program.denied_kinds
    )
    if not permitted:
        message = f"the frontmatter denies every outcome that is possible here: {', '.join(syntactic_kinds)}"
        raise NaturalParseError(message, filename=filename, line=line)
    return permitted


def _split(literal: str, *, filename: str, line: int) -> tuple[frozenset[OutcomeKind], str]:
    """Return what the frontmatter of a literal denies, and the dedented program behind it."""
    if not literal.startswith(SENTINEL):
        message = "a natural block must start with a line that is exactly 'natural'"
        raise NaturalParseError(message, filename=filename, line=line)
    try:
        return split_frontmatter(textwrap.dedent(literal.removeprefix(SENTINEL)))
    except ValueError as error:
        raise NaturalParseError(str(error), filename=filename, line=line) from error
