"""Types that the text of a block gives to variables, as in `save it as <:answer> as a <Category>`.

A name counts as the type of a variable only where the words between the two, and those behind, leave no other
reading: an article or `as` before it, no `or` behind it, the same name wherever the text says one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from .program import Token, find_tokens

_KIND = r"(?: new)?(?: (?:instance|member|object) of)?"
_AS = re.compile(
    rf"as|:|\(|of (?:type|class)|(?:as|is|to|to be|being|,|\() ?(?:an?|one){_KIND}", re.IGNORECASE
)
"""The words between a variable and its type, spaces joined."""

_INTO = re.compile(r"as|in|into|called|named", re.IGNORECASE)
"""The words between a type and its variable."""

_ARTICLE = re.compile(rf"(?<!of )(?<!or )\ban?{_KIND} ?$", re.IGNORECASE)
"""The end of the text before a type that comes before its variable, spaces joined."""

_BEHIND = re.compile(
    r"\s*(?:$|\.(?!\w)|[,;:!?)](?!\s*(?:or\b|and\b|(?:an?\s+)?<))|[ \t]*\n[ \t]*(?:\n|[-*])"
    r"|(?:of|for|from|in|that|which|who|with|whose|by|based|describing|matching)\b"
    r"|and\b(?!\s+(?:an?\s+)?<\w))",
    re.IGNORECASE,
)
"""The text behind a type: no word that makes another thing of it, such as `name`, and no alternative."""

_SENTENCE_END = re.compile(r"[.;!?](?!\w)")
_MOST_CHARACTERS = 80


def types_beside(texts: Iterable[str]) -> Mapping[str, str]:
    """The names that a block's text gives as types, by the names of the write bindings.

    Args:
        texts: The literal parts of the block.
    """
    found: dict[str, set[str]] = {}
    for text in texts:
        for variable, name in _pairs(text):
            found.setdefault(variable, set()).add(name)
    return {variable: next(iter(names)) for variable, names in found.items() if len(names) == 1}


def names_beside(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The write bindings of a block, each with a name beside it in the same sentence, whatever is between.

    Args:
        texts: The literal parts of the block.
    """
    for text in texts:
        for one, other, words in _neighbors(text):
            if not _SENTENCE_END.search(words):
                yield (one.path, other.path) if one.is_write else (other.path, one.path)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The variables in a text that have a type beside them, with its name."""
    for one, other, words in _neighbors(text):
        if one.is_write:
            if _AS.fullmatch(words) and _BEHIND.match(text, other.end) and _is_name(other):
                yield one.path, other.path
        elif _INTO.fullmatch(words) and _is_name(one):
            before = " ".join(text[max(0, one.start - _MOST_CHARACTERS) : one.start].split())
            if _ARTICLE.search(before):
                yield other.path, one.path


def _neighbors(text: str) -> Iterator[tuple[Token, Token, str]]:
    """A variable to set and a name to read, in either order, with only words between, and the words."""
    for one, other in pairwise(token for token in find_tokens(text) if token.is_reference):
        between = text[one.end : other.start]
        if one.is_write is not other.is_write and len(between) <= _MOST_CHARACTERS:
            yield one, other, " ".join(between.split())


def _is_name(token: Token) -> bool:
    return "." not in token.path
