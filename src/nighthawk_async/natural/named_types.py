"""Types that the text of a block gives to variables, as in `save it as <:answer> as a <Category>`.

A name counts as the type of a variable only where the text leaves no other reading: the words between the
two, the verb before and the words behind are known ones, and no sentence sets the variable to something else.
A wrong type would be worse than none.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

from .program import Token, find_tokens

_TYPED = r"(?:an?|one)(?: new)?(?: (?:instance|member|object) of)?"
_MAKE = r"make|create|build|construct|instantiate"
_SET = r"set|initiali[sz]e|change|convert|turn"
_SAVE = f"{_MAKE}|{_SET}|save|store|assign|bind|classify|choose|pick|select|determine|compute|parse|extract"
_ITEM = r"(?:[-*•]|\d+[.)])?"


def _patterns(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((re.compile(one, re.IGNORECASE), re.compile(other, re.IGNORECASE)) for one, other in pairs)


_AS = _patterns(
    ("", r"of (?:type|class)"),
    ("", rf"\((?:{_TYPED})?"),
    (rf"^{_ITEM}$|\bset$", ":"),
    (rf"\b(?:{_SET})$|\b(?:{_SET})\b.*(?:,|\band)$", rf"to(?: be)? {_TYPED}"),
    (rf"^{_ITEM} ?(?:then)?(?:<:> as (?:an? )?<>(?:,? and|,) ?)*$|\b(?:{_SAVE})\b", rf"as(?: {_TYPED})?"),
)
"""The begin of a sentence up to a variable, and the words between the variable and its type."""

_INTO = _patterns(
    (rf"\b(?:{_MAKE}) {_TYPED}$", "as|in|called|named"),
    (rf"\b(?:save|store) {_TYPED}$", "as|in"),
    (rf"\b(?:choose|pick|select) {_TYPED}$", "as"),
)
"""The begin of a sentence up to a type, and the words between the type and its variable."""

_BEHIND = re.compile(
    rf",? ?(?:(?:of|for|from|that|which|who|with|whose|based|describing|matching|then)\b|\)|$"
    rf"|(?:and )?(?:then )?(?:<:>|(?:{_SAVE}|return|leave|keep)\b))",
    re.IGNORECASE,
)
"""The rest of a sentence behind a type: no word that makes another thing of it, such as `name`."""

_DOUBT = re.compile(
    r"\b(?:or|else|otherwise|not|never|cannot|but|instead|unless|rather|whether|without|each|every|per|json)\b"
    r"|n't\b",
    re.IGNORECASE,
)
"""Words in a sentence of another value, of many, or of none."""

_EXCEPTION = re.compile(r"(?:or|if|when|unless|in case|except)\b|.*\b(?:else|otherwise)\b", re.IGNORECASE)
_NO_VALUE = re.compile(r"<:>|\b(?:leave|keep|raise|fail|stop|None)\b")
"""The begin of the next sentence where it speaks of another value, and words of one that does not."""

_OTHER_BEFORE = re.compile(r"\b(?:as|in|into)$", re.IGNORECASE)
_OTHER_BEHIND = re.compile(r"(?:to|as|be|=) (?!None\b|it is\b|before\b)", re.IGNORECASE)
"""The text before or behind a variable that is set to something else."""

_SENTENCE_END = re.compile(r"[.;!?](?!\w)|\n[ \t]*(?=\n|[-*•]|\d+[.)])")
_MOST_BETWEEN, _MOST_READ = 80, 240
"""Characters between two names, and of a sentence before and behind them."""


def types_beside(texts: Iterable[str]) -> Mapping[str, str]:
    """The names that a block's text gives as types, by the names of the write bindings.

    Args:
        texts: The literal parts of the block.
    """
    found: dict[str, set[str]] = {}
    for text in texts:
        for sentence, following in pairwise([*_sentences(text), ""]):
            for variable, name in _values(sentence, _plain(following[:_MOST_READ])):
                found.setdefault(variable, set()).add(name)
    only = {variable: next(iter(names)) for variable, names in found.items() if len(names) == 1}
    return {variable: name for variable, name in only.items() if name}


def names_beside(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The write bindings of a block, each with a name beside it in the same sentence, whatever is between.

    Args:
        texts: The literal parts of the block.
    """
    for text in texts:
        for sentence in _sentences(text):
            for one, other, _ in _neighbors(sentence):
                yield (one.path, other.path) if one.is_write else (other.path, one.path)


def words_beside(texts: Iterable[str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """The write bindings of a block, each with one of these names that its sentence has as a plain word.

    Args:
        texts: The literal parts of the block.
        names: The names.
    """
    for text in texts:
        for sentence in _sentences(text):
            words = [word for word in re.findall(r"[^\W\d]\w*", sentence) if word in names]
            tokens = [each for each in find_tokens(sentence) if each.is_reference and each.is_write]
            if words:
                yield from ((token.path, words[0]) for token in tokens)


def _sentences(text: str) -> list[str]:
    return [each for each in _SENTENCE_END.split(text) if each.strip()]


def _values(sentence: str, following: str) -> Iterator[tuple[str, str]]:
    """The variables that a sentence sets, with the names of their types; an empty name for another value."""
    typed: set[int] = set()
    for one, other, words in _neighbors(sentence):
        variable, name = (one, other) if one.is_write else (other, one)
        known = [begin for begin, between in (_AS if one.is_write else _INTO) if between.fullmatch(words)]
        if not known:
            continue
        before, behind = _around(sentence, one.start, other.end)
        is_closed = behind.startswith(")") or not words.startswith("(")
        is_followed = not one.is_write or (is_closed and _BEHIND.match(behind))
        if is_followed and any(each.search(before) for each in known):
            typed.add(variable.start)
            is_doubtful = _is_doubtful(before, behind, following) or "." in name.path
            yield variable.path, "" if is_doubtful else name.path
    for each in find_tokens(sentence):
        if each.is_reference and each.is_write and each.start not in typed:
            before, behind = _around(sentence, each.start, each.end)
            if _OTHER_BEFORE.search(before) or _OTHER_BEHIND.match(behind):
                yield each.path, ""


def _is_doubtful(before: str, behind: str, following: str) -> bool:
    """Whether a sentence, or the one behind it, speaks of another value than one of the type."""
    if _DOUBT.search(before) or _DOUBT.search(behind):
        return True
    return bool(_EXCEPTION.match(following)) and not _NO_VALUE.search(following)


def _around(sentence: str, start: int, end: int) -> tuple[str, str]:
    before = sentence[max(0, start - _MOST_READ) : start]
    return _plain(before), _plain(sentence[end : end + _MOST_READ])


def _plain(text: str) -> str:
    """A text with short tokens, its spaces joined."""
    parts, at = list[str](), 0
    for token in find_tokens(text):
        if token.is_reference:
            parts += text[at : token.start], "<:>" if token.is_write else "<>"
            at = token.end
    return " ".join("".join((*parts, text[at:])).split())


def _neighbors(sentence: str) -> Iterator[tuple[Token, Token, str]]:
    """A variable to set and a name to read, in either order, with only words between, and the words."""
    for one, other in pairwise(token for token in find_tokens(sentence) if token.is_reference):
        between = sentence[one.end : other.start]
        if one.is_write is not other.is_write and len(between) <= _MOST_BETWEEN:
            yield one, other, " ".join(between.split())
