"""Words of texts, and the terms of the index: numbers from which nobody reads the words without the key."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
"""Characters of scripts without spaces, each of which is a word here."""
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_MARKS = re.compile("[\u0300-\u036f]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, its letters and digits, without case and accents."""
    if text.isascii():
        return _WORD.findall(text.lower())
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return _WORD.findall(unicodedata.normalize("NFC", plain).casefold())


def folded(text: str) -> str:
    """Return a text as keys and tags are compared: without case, and without space around it."""
    return unicodedata.normalize("NFC", text.strip()).casefold()


class Terms:
    """The terms of one store.

    Args:
        key: Its secret key.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def word(self, word: str) -> int:
        """The term of a word."""
        return self._number("word", word)

    def key(self, key: str) -> int:
        """The term of the key of a current record."""
        return self._number("key", folded(key))

    def version(self, key: str) -> int:
        """The term of the key of a record, whether it is current or not."""
        return self._number("version", key)

    def tag(self, tag: str) -> int:
        """The term of a tag."""
        return self._number("tag", folded(tag))

    def kind(self, kind: str) -> int:
        """The term of a kind."""
        return self._number("kind", kind)

    def content(self, text: str) -> bytes:
        """The digest of a text that has a vector."""
        return blake2b(text.encode(), digest_size=32, key=self._key, person=b"content").digest()

    def count(self, words: Iterable[str]) -> Counter[int]:
        """Return the number of times that each word is there, by term."""
        return Counter({self.word(word): count for word, count in Counter(words).items()})

    def _number(self, field: str, text: str) -> int:
        digest = blake2b(text.encode(), digest_size=8, key=self._key, person=field.encode()).digest()
        return int.from_bytes(digest, "big", signed=True)
