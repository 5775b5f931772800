"""The TYPES section of a prompt: stubs of what a block makes and meets, within a budget.

The text of a section is kept and given again for the same types, written in the same way, so equal types mean
equal bytes and nothing of a type is inspected a second time.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ..plain_text import break_delimiters, clean_text
from ..tokens import TokenCounter
from ..type_names import TypeNames
from .stub import stub_lines

__all__ = ["TypesSection", "types_section"]

HEADING = "TYPES: give instances, or plain data that validates."

_MAX_TYPES = 256
"""Types that are looked at for one section; far above what a budget shows."""

_MAX_SECTIONS = 512
_MAX_NAMES_LEFT_OUT = 20


class _Stub(Struct, frozen=True):
    """A stub and the name of its type."""

    name: str
    lines: tuple[str, ...]


class TypesSection:
    """The stubs of a block's types, those to be produced first; fitted into budgets.

    Args:
        stubs: The stubs in order.
        written: Every type that was looked at, how it is written, and whether the block reaches it.
    """

    def __init__(self, stubs: list[_Stub], written: Sequence[tuple[object, str, bool]]) -> None:
        self._stubs = stubs
        self._written = written
        self._whole = _text(["\n".join(stub.lines) for stub in stubs]) if stubs else ""
        self._bytes = len(self._whole.encode("utf-8", "replace"))
        self._fitted: dict[tuple[int, TokenCounter], str] = {}

    def is_written_with(self, names: TypeNames) -> bool:
        """Whether the types are still written in the same way.

        Args:
            names: The names by which the block writes types.
        """
        return all(names.leads_to(text, named) is is_reachable for named, text, is_reachable in self._written)

    def needs_counting(self, max_tokens: int, counter: TokenCounter) -> bool:
        """Whether it takes the tokenizer to find out what fits.

        Args:
            max_tokens: The budget.
            counter: Counts tokens.
        """
        is_known = (max_tokens, counter) in self._fitted
        return 0 < max_tokens < self._bytes and not is_known

    def text(self, max_tokens: int, counter: TokenCounter) -> str:
        """The section within a budget; empty when there is nothing to show.

        Args:
            max_tokens: The number of tokens that it may have; 0 for no section.
            counter: Counts tokens.
        """
        if max_tokens == 0 or self._bytes <= max_tokens:
            return self._whole if max_tokens else ""
        key = (max_tokens, counter)
        if key not in self._fitted:
            self._fitted[key] = self._fitting(max_tokens, counter)
        return self._fitted[key]

    def _fitting(self, max_tokens: int, counter: TokenCounter) -> str:
        """As many stubs as fit, the nearest first; only the first of all is cut when it alone is too long."""
        shown: list[_Stub] = []
        for stub in self._stubs:
            if not counter.exceeds(_shown_text([*shown, stub], []), max_tokens):
                shown.append(stub)
        while shown and counter.exceeds(_shown_text(shown, self._others(shown)), max_tokens):
            shown.pop()
        if shown[:1] != self._stubs[:1]:
            shown = _cut(self._stubs, max_tokens, counter)
        return _shown_text(shown, self._others(shown)) if shown else ""

    def _others(self, shown: Sequence[_Stub]) -> list[_Stub]:
        names = {stub.name for stub in shown}
        return [stub for stub in self._stubs if stub.name not in names]


_sections: dict[tuple[object, ...], TypesSection] = {}


def types_section(names: TypeNames) -> TypesSection:
    """The section of a block whose types were mentioned and met.

    Args:
        names: The names by which the block writes types, with the notes of what was written and met.
    """
    key = (*names.mentioned, None, *names.met, None, *names.described)
    section = _sections.get(key)
    if section is None or not section.is_written_with(names):
        section = _made_section(names)
        if len(_sections) >= _MAX_SECTIONS:
            _sections.pop(next(iter(_sections)), None)
        _sections[key] = section  # holds the types, so their identities are theirs for as long
    return section


def _made_section(names: TypeNames) -> TypesSection:
    """Stubs of what is mentioned, each type once, and then of the classes of values that are not among these.

    So values of types that are mentioned change nothing.
    """
    found: dict[int, object] = {}
    stubs = [
        stub for roots in (names.mentioned, names.met) for stub in _stubs_from(roots.values(), found, names)
    ]
    written = [(each, names.text_of(each), names.is_reachable(each)) for each in found.values()]
    return TypesSection(stubs, written)


def _stubs_from(roots: Iterable[object], found: dict[int, object], names: TypeNames) -> Iterator[_Stub]:
    """Stubs of types and then of what these mention, breadth first, of those that were not found before."""
    waiting = deque[object]()
    for named in roots:
        if id(named) not in found:
            found[id(named)] = named
            waiting.append(named)
    while waiting:
        named = waiting.popleft()
        noted = names.apart()
        lines = stub_lines(named, noted, is_described=id(named) in names.described)
        if lines:
            yield _Stub(names.text_of(named), tuple(lines))
        for key, each in noted.mentioned.items():
            if lines and key not in found and len(found) < _MAX_TYPES:
                found[key] = each
                waiting.append(each)


def _cut(stubs: Sequence[_Stub], max_tokens: int, counter: TokenCounter) -> list[_Stub]:
    """The first stub with as many of its lines as fit; none when not even one line does."""
    first, *others = stubs
    for count in range(len(first.lines) - 1, 0, -1):
        cut = _Stub(first.name, (*first.lines[:count], "    ..."))
        if not counter.exceeds(_shown_text([cut], others), max_tokens):
            return [cut]
    return []


def _shown_text(shown: Sequence[_Stub], left_out: Sequence[_Stub]) -> str:
    pieces = ["\n".join(stub.lines) for stub in shown]
    if left_out:
        named = ", ".join(stub.name for stub in left_out[:_MAX_NAMES_LEFT_OUT])
        more = len(left_out) - _MAX_NAMES_LEFT_OUT
        pieces.append(f"# not shown: {named}" + (f" and {more} more" if more > 0 else ""))
    return _text(pieces)


def _text(pieces: Sequence[str]) -> str:
    return break_delimiters(clean_text("\n".join((HEADING, *pieces))))
