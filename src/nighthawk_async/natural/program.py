"""From a literal to a natural program.

A program is the text a model reads, and the facts that follow from that text alone (specification sections 6,
7, 8.2.3 and 8.4). The position of the block and the bindings that its author wrote are in `blocks`.
"""

import re
import textwrap
from typing import cast

from msgspec import Struct

from ..errors import NaturalParseError
from ..types.outcomes import OUTCOME_KINDS, OutcomeKind
from .tokens import find_mentions, unescape

_DELIMITER = "---"


def split_frontmatter(text: str) -> tuple[frozenset[OutcomeKind], str]:
    """Split the frontmatter, when there is one, from the program behind it.

    Args:
        text: The program after sentinel removal and dedent.

    Returns:
        The denied outcome kinds, and the text without frontmatter and without the blank lines before it.

    Raises:
        ValueError: There is frontmatter, and it is malformed; the message names the fault.
    """
    lines = text.split("\n")
    opening = next((index for index, line in enumerate(lines) if line.strip()), None)
    if opening is None or lines[opening] != _DELIMITER:
        return frozenset(), text
    try:
        closing = lines.index(_DELIMITER, opening + 1)
    except ValueError:
        raise ValueError("the frontmatter is not terminated: no second line that is exactly '---'") from None
    denied_kinds = _denied_kinds(_load_yaml("\n".join(lines[opening + 1 : closing])))
    return denied_kinds, "\n".join(lines[closing + 1 :])


def _load_yaml(text: str) -> object:
    # Most blocks have no frontmatter, so the library is loaded by the first block that does.
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return cast("object", yaml.load(text, Loader=loader))  # a safe loader either way
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        # PyYAML's constructors of scalars raise plain Python errors: `!!bool x`, `2001-99-99`.
        reason = " ".join(str(error).split())
        raise ValueError(f"the frontmatter is not valid YAML: {reason}") from error


def _denied_kinds(document: object) -> frozenset[OutcomeKind]:
    if not isinstance(document, dict):
        raise ValueError("the frontmatter must be a YAML mapping with the key 'deny'")
    mapping = cast("dict[object, object]", document)
    unknown_keys = [key for key in mapping if key != "deny"]
    if unknown_keys:
        raise ValueError(
            f"the frontmatter has unknown keys: {', '.join(map(repr, unknown_keys))}; it may hold 'deny'"
        )
    if "deny" not in mapping:
        raise ValueError("the frontmatter must have the key 'deny'")
    return frozenset(_outcome_kind(name) for name in _strings(mapping["deny"]))


def _strings(value: object) -> list[str]:
    names = cast("list[object]", value) if isinstance(value, list) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ValueError("'deny' in the frontmatter must be a sequence of strings")
    return cast("list[str]", names)


def _outcome_kind(name: str) -> OutcomeKind:
    for kind in OUTCOME_KINDS:
        if kind == name:
            return kind
    raise ValueError(
        f"the frontmatter denies {name!r}, which is no outcome; outcomes are {', '.join(OUTCOME_KINDS)}"
    )


SENTINEL = "natural\n"
"""The exact start of the literal of a natural block (specification 6)."""

_WORD = re.compile(r"(?<![\w.])[^\W\d_]\w*+(?!\.\w)")  # no part of a dotted name, which has another meaning


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
    """Subtract the kinds that the frontmatter denies from those that the syntax allows (specification 8.4).

    Args:
        syntactic_kinds: The outcome kinds that the syntax around the block allows.
        program: The program of the block.
        filename: The source file of the block, for errors.
        line: The line of the block in that file, for errors.

    Returns:
        The remaining kinds, in the order of `syntactic_kinds`.

    Raises:
        NaturalParseError: No kind remains, so the block could not end.
    """
    permitted: tuple[OutcomeKind, ...] = tuple(
        kind for kind in syntactic_kinds if kind not in program.denied_kinds
    )
    if not permitted:
        message = f"the frontmatter denies every outcome that is possible here: {', '.join(syntactic_kinds)}"
        raise NaturalParseError(message, filename=filename, line=line)
    return permitted


def _split(literal: str, *, filename: str, line: int) -> tuple[frozenset[OutcomeKind], str]:
    """Return the kinds that the frontmatter of a literal denies, and the dedented program after it."""
    if not literal.startswith(SENTINEL):
        message = "a natural block must start with a line that is exactly 'natural'"
        raise NaturalParseError(message, filename=filename, line=line)
    try:
        return split_frontmatter(textwrap.dedent(literal.removeprefix(SENTINEL)))
    except ValueError as error:
        raise NaturalParseError(str(error), filename=filename, line=line) from error
