"""The text of a page: its encoding, and HTML as plain text with links. Pure."""

import codecs
import re
from collections.abc import Mapping
from urllib.parse import urljoin

from .html_tokens import Tag, Text, tokens_of

_META_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_META_BYTES = 1_024
# Slow, or no encodings of pages: they warn of escapes that Python does not know.
_OTHER_ENCODINGS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined"})
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_TEXT_TYPES = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml)|application/(?:javascript|ecmascript|x-ndjson|yaml|toml|sql)"
)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

_DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt"}
    | {
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "li",
        "main",
        "nav",
        "ol",
    }
    | {"option", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul"}
    | {"h1", "h2", "h3", "h4", "h5", "h6"}
)
_PARAGRAPHS = frozenset(
    {"blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "title", "ul"}
)
_MOST_ADDRESSES = 1_000_000
_LINE_START = re.compile(r"[ \n]*(?:- |#{1,6} )?")
_SPACES = re.compile(r"[ \t\n\r\f]+")


def is_html(media_type: str) -> bool:
    """Whether a media type is that of HTML."""
    return media_type in _HTML_TYPES


def is_text(media_type: str, content: bytes) -> bool:
    """Whether content is text. Content without a media type is if it has no NUL byte.

    Args:
        media_type: The media type, in lower case and without parameters; empty for none.
        content: The content.
    """
    if media_type and not is_html(media_type) and _TEXT_TYPES.fullmatch(media_type) is None:
        return False
    return b"\0" not in content or content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def decoded(content: bytes, charset: str | None) -> str:
    """Decode content; characters that are not in its encoding are replaced.

    Args:
        content: The content.
        charset: The encoding that its sender names; None for none: a byte order mark, or the first lines of
            HTML, may name it. UTF-8 is the default.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    declared = _META_CHARSET.search(content, 0, _META_BYTES)
    if charset is None and declared is not None:
        charset = declared[1].decode("ascii")
    try:
        encoding = codecs.lookup(charset or "utf-8").name
        return content.decode("utf-8" if encoding in _OTHER_ENCODINGS else encoding, "replace")
    except (LookupError, UnicodeError, ValueError):  # no such encoding, or none of text
        return content.decode("utf-8", "replace")


def html_as_text(html: str, url: str) -> str:
    """HTML as plain text: headings, lists and links as in Markdown, tables with a line for each row.

    Args:
        html: The HTML.
        url: Its address, which links are relative to.
    """
    reader = _Reader(url)
    for token in tokens_of(html):
        reader.read(token)
    return reader.text()


class _Reader:
    """Collects the text of a page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pieces: list[str] = []
        self._line_ends = 2
        """Line feeds at the end so far; 2 also at the beginning."""
        self._wanted_ends = 0
        self._has_space = False
        self._dropped: list[str] = []
        self._preformatted = 0
        self._link: tuple[str, int] | None = None
        """The target of the open link, and the number of pieces before it."""
        self._prefix = ""
        self._room = _MOST_ADDRESSES
        """The characters that addresses of links may still have."""

    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces).strip("\n") + "\n" if self._pieces else ""

    def read(self, token: Tag | Text) -> None:
        """Add what comes next."""
        if self._dropped:
            self._drop(token)
        elif isinstance(token, Text):
            self._add(token.text)
        elif token.name in _DROPPED:
            self._drop(token)
        elif token.is_end:
            self._end(token.name)
        else:
            self._begin(token.name, token.attributes)

    def _drop(self, token: Tag | Text) -> None:
        """Follow elements whose content is left out."""
        if isinstance(token, Text):
            return
        if token.is_end and self._dropped and token.name == self._dropped[-1]:
            self._dropped.pop()
        elif token.name in _DROPPED and not token.is_end and not token.is_empty:
            self._dropped.append(token.name)

    def _begin(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._break(tag)
        if tag == "br":
            self._wanted_ends = max(self._wanted_ends, 1)
        elif tag == "li":
            self._prefix = "- "
        elif len(tag) == 2 and tag[0] == "h" and tag in _PARAGRAPHS:
            self._prefix = "#" * int(tag[1]) + " "
        elif tag in ("td", "th") and not self._at_line_start():
            self._write(" | ")
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "a":
            self._link = (attributes.get("href", ""), len(self._pieces))
        elif tag == "base":
            self._url = _joined(self._url, attributes.get("href", "")) or self._url
        elif tag == "img" and (alternative := _SPACES.sub(" ", attributes.get("alt", "")).strip()):
            self._write(alternative)

    def _end(self, tag: str) -> None:
        if tag == "a" and self._link is not None:
            self._end_link(*self._link)
            self._link = None
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        self._break(tag)

    def _add(self, text: str) -> None:
        if self._preformatted:
            self._write(text)
            return
        words = _SPACES.sub(" ", text)
        if words.startswith(" "):
            self._has_space = True
        if body := words.strip(" "):
            self._write(body)
            self._has_space = words.endswith(" ")

    def _at_line_start(self) -> bool:
        return self._wanted_ends > 0 or self._line_ends > 0

    def _break(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._wanted_ends = max(self._wanted_ends, 2 if tag in _PARAGRAPHS else 1)

    def _write(self, text: str) -> None:
        missing = self._wanted_ends - self._line_ends
        if missing > 0:
            self._pieces.append("\n" * missing)
        elif self._has_space and not self._at_line_start() and not text.startswith(" "):
            self._pieces.append(" ")
        self._pieces.append(self._prefix + text)
        self._wanted_ends, self._has_space, self._prefix = 0, False, ""
        self._line_ends = min(2, len(text) - len(text.rstrip("\n")))

    def _end_link(self, target: str, begins_at: int) -> None:
        """Turn what was written since a link began into a link, unless it leads nowhere else."""
        label = "".join(self._pieces[begins_at:])
        start = _LINE_START.match(label)
        before = "" if start is None else start[0]
        bare = label[len(before) :].rstrip(" \n")
        if not bare or "\n" in bare or not target or target.startswith("#"):
            return
        if len(self._url) + len(target) > self._room:  # a page of short links may have a long base
            return
        address = _joined(self._url, target)
        self._room -= len(address)
        if address.startswith(("http://", "https://")):
            self._pieces[begins_at:] = [f"{before}[{bare}]({address})"]


def _joined(base: str, target: str) -> str:
    """The address of a link; empty for none."""
    try:
        return urljoin(base, target.strip())
    except ValueError:
        return ""
