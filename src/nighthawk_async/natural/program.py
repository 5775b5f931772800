"""From a literal to a natural program.

A program is the text a model reads, and the facts that follow from that text alone (specification sections 6,
7, 8.2.3 and 8.4): its frontmatter, its bindings and its references. The position of the block and the
bindings that its author wrote are in `blocks`.
"""

import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import cast

from msgspec import Struct

from ..errors import NaturalParseError
from ..types.json import is_list_of_texts
from ..types.outcomes import OUTCOME_KINDS, OutcomeKind

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
        start: The position of its first character.
        end: The position behind its last one.
    """

    is_write: bool
    is_escaped: bool
    path: str
    start: int
    end: int

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
            start=match.start(),
            end=match.end(),
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


def as_prose(text: str) -> str:
    r"""Return a program for other readers: `<name>` and `<:name>` become `name`, `\<name>` becomes `<name>`.

    Args:
        text: The text of a natural program, escapes included.
    """
    return _TOKEN.sub(_prose_of, text)


def _prose_of(match: re.Match[str]) -> str:
    if match["escape"] is not None:
        return match[0].removeprefix("\\")
    return match["read"] if match["write"] is None else match["write"]


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
            f"rename the variable, or escape it as \\<{token.path}>"
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
        return yaml.load(text, Loader=loader)  # a safe loader either way
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


def _strings(value: object) -> Sequence[str]:
    if not is_list_of_texts(value):
        raise ValueError("'deny' in the frontmatter must be a sequence of strings")
    return value


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


class NaturalProgram(Struct, frozen=True, kw_only=True, dict=True):
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

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The names that it references, in order; of a dotted path, the first part."""
        return tuple(dict.fromkeys(reference.partition(".")[0] for reference in self.references))

    @cached_property
    def possible_types(self) -> tuple[str, ...]:
        """The names that may be those of types, in alphabetical order, with or without angle brackets."""
        names = self.words.union(reference for reference in self.references if "." not in reference)
        return tuple(sorted(names))


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
