"""Facts that an answer needs, and looking for them in the first request of a block.

A fact may be written in several ways: a type as a stub of Python or as JSON Schema, a text plain or escaped.
What counts is that a reader can find it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Fact", "Shown", "bounds", "fields", "members", "said", "signature"]

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_SPACE = re.compile(r"\s+")
_MODULE = re.compile(r"\b(?:[a-z_][a-z_0-9]*\.)+(?=[A-Z])")


class Shown:
    """What the first request shows: its texts and the JSON of its tools.

    Args:
        text: All of it as one text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        unescaped = _ESCAPE.sub(_unescape, text)
        self._forms = (_flat(text), _flat(unescaped))

    def has(self, text: str) -> bool:
        """Whether it holds a text, plain or escaped, however its lines are broken."""
        wanted = _flat(text)
        return any(wanted in form for form in self._forms)

    def matches(self, pattern: str) -> bool:
        """Whether a pattern is found in it, with its line breaks and without the modules of types."""
        return re.search(pattern, _MODULE.sub("", self.text)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that has to be known to answer.

    Args:
        what: The fact in a few words, for the report.
        is_in: Whether it is among what is shown.
    """

    what: str
    is_in: Callable[[Shown], bool]


def said(*texts: str, what: str | None = None) -> Fact:
    """Texts that must all be shown, such as values or the parts of a long text that matter."""
    return Fact(
        what=what or f"the text {_shortened(texts[0])!r}" + (" and others" if texts[1:] else ""),
        is_in=lambda shown: all(map(shown.has, texts)),
    )


def members(of: str, *values: str | int) -> Fact:
    """The values of an enum or a literal, as Python or JSON writes them."""

    def is_in(shown: Shown) -> bool:
        return all(shown.matches(_value_pattern(value)) for value in values)

    return Fact(what=f"the values of {of}", is_in=is_in)


def fields(of: str, **types: str) -> Fact:
    """The fields of a type, each with the word that says its type, as a stub has them or a JSON Schema."""

    def is_in(shown: Shown) -> bool:
        return all(
            shown.matches(rf"(?m)\b{name}\"?: ?[^\n]*?\b{re.escape(type_)}")
            or shown.matches(rf'"{name}": ?\{{')
            for name, type_ in types.items()
        )

    return Fact(what=f"the fields of {of}", is_in=is_in)


def bounds(of: str, least: int, most: int) -> Fact:
    """The bounds of a number, as annotated-types, a comment or JSON Schema write them."""
    patterns = (
        rf"ge={least}\b.*\ble={most}\b",
        rf">= ?{least}\b.*<= ?{most}\b",
        rf'"minimum": ?{least}\b',
        rf"\b{least} ?(?:<=|\.\.|to|-) ?.*{most}\b",
    )
    return Fact(what=f"the bounds of {of}", is_in=lambda shown: any(map(shown.matches, patterns)))


def signature(name: str, *parameters: str, result: str) -> Fact:
    """A function's parameters (with their types) and the type of its result."""
    inner = r"[^)\n]*".join(map(re.escape, parameters))
    pattern = rf"\b{name}\b:? ?\(.*?{inner}.*?\) -> [^\n]*{re.escape(result)}"
    return Fact(what=f"the signature of {name}", is_in=lambda shown: shown.matches(pattern))


def _value_pattern(value: str | int) -> str:
    return rf"[\"']{re.escape(value)}[\"']" if isinstance(value, str) else rf"(?<!\d){value}(?!\d)"


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[2])


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
