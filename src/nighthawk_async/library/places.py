"""Finding lines in a text again and again, in a time that grows with the text and the lines alone."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .errors import PatchError
from .stopping import stop_check

_MOST_STEPS = 10_000_000
_STEPS_BETWEEN_CHECKS = 50_000
_CHARACTERS_A_STEP = 64


class Work:
    """The steps that one patch may take, enough for a large patch of a large file."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS
        self._next_check = _MOST_STEPS
        self._check = stop_check()

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            PatchError: They are too many.
        """
        self._left -= steps
        if self._left < 0:
            raise PatchError(
                "the patch takes too long, because its lines are there too often or its files are too long; "
                "send it in parts, with lines that are there once"
            )
        if self._left < self._next_check:
            self._next_check = self._left - _STEPS_BETWEEN_CHECKS
            self._check()

    def spend_on(self, text: str) -> None:
        """Count the steps of copying a text.

        Raises:
            PatchError: They are too many.
        """
        self.spend(len(text) // _CHARACTERS_A_STEP)


class _Index(NamedTuple):
    """The lines of a text as characters, one for each line; NUL for lines that nobody looks for."""

    characters: dict[str, str]
    text: str
    places: dict[str, list[int]]


class LinesWithPlaces:
    """Lines of a text, with the places of those that are looked for.

    Args:
        lines: The lines.
        wanted: All lists of lines that will be looked for.
        work: The work that this may take.
    """

    def __init__(self, lines: Sequence[str], wanted: Sequence[Sequence[str]], work: Work) -> None:
        self.lines = lines
        self._wanted = wanted
        self._work = work
        self._indexes: dict[Callable[[str], str], _Index] = {}
        self._landmarks: dict[str, list[int]] | None = None
        work.spend(len(lines))

    def has(self, wanted: Sequence[str], at: int, key: Callable[[str], str]) -> bool:
        """Whether lines follow each other at a place.

        Args:
            wanted: The lines, at least one.
            at: The number of lines before the place.
            key: Returns the part of a line that has to be the same.
        """
        index = self._index(key)
        pattern = self._pattern(wanted, key, index)
        return at >= 0 and index.text.startswith(pattern, at)

    def places_of(self, wanted: Sequence[str], after: int, key: Callable[[str], str]) -> Iterator[int]:
        """Yield the places at which lines follow each other, overlapping ones too.

        Args:
            wanted: The lines, at least one.
            after: The number of lines to leave out.
            key: Returns the part of a line that has to be the same.
        """
        index = self._index(key)
        pattern = self._pattern(wanted, key, index)
        rarest = min(range(len(pattern)), key=lambda at: len(index.places.get(pattern[at], ())))
        candidates = index.places.get(pattern[rarest], [])
        for number in range(bisect_left(candidates, after + rarest), len(candidates)):
            self._work.spend(1 + len(pattern) // _CHARACTERS_A_STEP)
            at = candidates[number] - rarest
            if index.text.startswith(pattern, at):
                yield at

    def places_of_landmark(self, landmark: str, after: int, most: int) -> Sequence[int]:
        """The first places of a line without regard to whitespace around it.

        Args:
            landmark: The line, without whitespace around it.
            after: The number of lines to leave out.
            most: The most places.
        """
        if self._landmarks is None:
            self._work.spend(len(self.lines))
            self._landmarks = {}
            for at, line in enumerate(self.lines):
                self._landmarks.setdefault(line.strip(), []).append(at)
        places = self._landmarks.get(landmark, [])
        first = bisect_left(places, after)
        return places[first : first + most]

    def _pattern(self, wanted: Sequence[str], key: Callable[[str], str], index: _Index) -> str:
        self._work.spend(len(wanted))
        return "".join([index.characters[key(line)] for line in wanted])

    def _index(self, key: Callable[[str], str]) -> _Index:
        if key not in self._indexes:
            self._work.spend(len(self.lines))
            characters: dict[str, str] = {}
            for lines in self._wanted:
                for line in lines:
                    characters.setdefault(key(line), chr(len(characters) + 1))
            text = "".join([characters.get(key(line), "\0") for line in self.lines])
            places: dict[str, list[int]] = {}
            for at, character in enumerate(text):
                if character != "\0":
                    places.setdefault(character, []).append(at)
            self._indexes[key] = _Index(characters, text, places)
        return self._indexes[key]
