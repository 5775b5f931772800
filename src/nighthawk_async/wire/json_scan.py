"""Finds where a JSON object ends while its text is still arriving.

It counts brackets outside strings and validates nothing: a text that ends here may still be malformed JSON.
Every character is looked at once, however the text was cut.
"""

import re

__all__ = ["JsonObjectScanner"]

_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class JsonObjectScanner:
    """Takes in fragments of one JSON text and tells when the object they spell is closed."""

    __slots__ = ("_depth", "_has_begun", "_is_in_string", "_is_object", "_skips_one", "is_complete")

    def __init__(self) -> None:
        self._depth = 0
        self._has_begun = False
        self._is_in_string = False
        self._is_object = False
        self._skips_one = False
        self.is_complete = False
        """Whether the object is closed."""

    def feed(self, fragment: str) -> int:
        """Take in the next fragment.

        Args:
            fragment: The next characters of the text.

        Returns:
            How many characters of the fragment belong to the object: all of them until it closes, and none
            after.
        """
        if self.is_complete:
            return 0
        if not self._has_begun and (first := _NOT_SPACE.search(fragment)) is not None:
            self._has_begun = True
            self._is_object = first[0] == "{"
        if not self._is_object:
            return len(fragment)
        position = 0
        if self._skips_one and fragment:
            self._skips_one = False
            position = 1
        while (match := self._next_mark(fragment, position)) is not None:
            position = self._take(match[0], match.end(), len(fragment))
            if self.is_complete:
                return position
        return len(fragment)

    def _next_mark(self, fragment: str, position: int) -> re.Match[str] | None:
        return (_IN_STRING if self._is_in_string else _STRUCTURE).search(fragment, position)

    def _take(self, character: str, position: int, length: int) -> int:
        if character == '"':
            self._is_in_string = not self._is_in_string
        elif character == "\\":
            self._skips_one = position == length
            return position + 1
        elif character in "{[":
            self._depth += 1
        else:
            self._depth -= 1
            self.is_complete = self._depth == 0
        return position
