"""The tags and texts of HTML, in time that grows with its length only. Pure.

Python's `html.parser` takes minutes for a small page that is made for it, and holds all other threads up.
"""

import html as standard_html
import re
from collections.abc import Iterator
from typing import NamedTuple

# After `=`, a quoted value may contain `>`. No part of a pattern is matched twice, so none takes long.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)>""")
_ATTRIBUTE = re.compile(
    r"""(?<![^\s/"'])([^\s"'>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""", re.ASCII
)
_MOST_ATTRIBUTE_CHARACTERS = 20_000
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "iframe", "noscript")
}


_LONG_REFERENCE = re.compile(r"&#(?:0*+([0-9]{8,}+)|0++([0-9]{1,7}+));?")
"""Numbers of characters that are none, or have so many zeros before them that Python does not read them."""


def unescape(text: str) -> str:
    """Text with its character references replaced."""
    return standard_html.unescape(_LONG_REFERENCE.sub(_shortened, text) if "&#" in text else text)


def _shortened(match: re.Match[str]) -> str:
    return "\ufffd" if match[1] else f"&#{match[2]};"


class Text(NamedTuple):
    """A text between tags."""

    text: str


class Tag(NamedTuple):
    """A tag.

    Args:
        name: Its name, in lower case.
        is_end: Whether it ends an element.
        is_empty: Whether it ends in a slash.
        attributes: Its attributes that have values; names in lower case.
    """

    name: str
    is_end: bool
    is_empty: bool
    attributes: dict[str, str]


def tokens_of(html: str) -> Iterator[Text | Tag]:
    """The tags and texts of a page. What follows a tag or comment without an end is dropped, as in browsers.

    Args:
        html: The page.
    """
    at = 0
    while (begin := html.find("<", at)) >= 0:
        if begin > at:
            yield Text(unescape(html[at:begin]))
        follows = html[begin + 1 : begin + 3]
        if _begins_name(follows[:1]) or (follows[:1] == "/" and _begins_name(follows[1:])):
            match = _TAG.match(html, begin)
            if match is None:
                return
            tag = _tag(match)
            yield tag
            at = match.end()
            if tag.name in _RAW and not tag.is_end:
                end = _RAW[tag.name].search(html, at)
                if end is None:
                    return
                at = end.start()
        elif follows[:1] in ("!", "?", "/"):
            at = _after_comment(html, begin)
            if at == 0:
                return
        else:
            yield Text("<")
            at = begin + 1
    if at < len(html):
        yield Text(unescape(html[at:]))


def _begins_name(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _tag(match: re.Match[str]) -> Tag:
    slash, name, rest = match.groups()
    values: dict[str, str] = {}
    for each in _ATTRIBUTE.finditer(rest[:_MOST_ATTRIBUTE_CHARACTERS]):
        value = next((text for text in each.groups()[1:] if text is not None), "")
        values.setdefault(each[1].lower(), unescape(value))
    return Tag(name.lower(), bool(slash), rest.endswith("/"), values)


def _after_comment(html: str, begin: int) -> int:
    """The position after a comment or declaration; 0 if it has no end."""
    if html.startswith("<!--", begin):
        end = html.find("-->", begin + 2)
        return 0 if end < 0 else end + 3
    return html.find(">", begin) + 1
