"""Sources that a Gemini answer cites: its grounding, and the origins of words that it repeats.

Source: `GroundingMetadata` and `CitationMetadata` in `types.py` of the official SDK.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from ...types.messages import Citation
from ...types.model_output import CitationAdded
from ..json_text import NOT_JSON, is_something


class Source(msgspec.Struct, rename="camel"):
    """A page, a document of the caller's store, or a place on a map."""

    uri: str | None = None
    title: str | None = None
    text: str | None = None


class GroundingChunk(msgspec.Struct, rename="camel"):
    """A source; one of the fields is set."""

    web: Source | None = None
    retrieved_context: Source | None = None
    maps: Source | None = None

    @property
    def source(self) -> Source:
        """The source; empty for one of another kind."""
        return self.web or self.retrieved_context or self.maps or Source()


class Segment(msgspec.Struct, rename="camel"):
    """Words of the answer; the indices count bytes of UTF-8."""

    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None


class GroundingSupport(msgspec.Struct, rename="camel"):
    """Words of the answer, and the numbers of the sources that support them."""

    segment: Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class GroundingMetadata(msgspec.Struct, rename="camel"):
    """The sources of an answer, and the searches that found them."""

    web_search_queries: list[str] | None = None
    grounding_chunks: msgspec.Raw = msgspec.Raw()
    grounding_supports: msgspec.Raw = msgspec.Raw()


class CitationSource(msgspec.Struct, rename="camel"):
    """The origin of words that the answer repeats; the indices count bytes of UTF-8."""

    start_index: int | None = None
    end_index: int | None = None
    uri: str | None = None
    title: str | None = None


class CitationMetadata(msgspec.Struct, rename="camel"):
    """The origins of words that the answer repeats; SDKs and endpoints name the list differently."""

    citation_sources: list[CitationSource] | None = None
    citations: list[CitationSource] | None = None


class Citations:
    """The sources of one response; later chunks of a stream replace what earlier ones said."""

    def __init__(self) -> None:
        self._chunks: list[GroundingChunk] = []
        self._supports: list[GroundingSupport] = []
        self._origins: list[CitationSource] = []

    def ground(self, metadata: GroundingMetadata) -> None:
        """Take the grounding of an answer.

        Args:
            metadata: The grounding.
        """
        self._chunks = _read(metadata.grounding_chunks, list[GroundingChunk]) or self._chunks
        self._supports = _read(metadata.grounding_supports, list[GroundingSupport]) or self._supports

    def attribute(self, metadata: msgspec.Raw) -> None:
        """Take the origins of words.

        Args:
            metadata: The origins, as the provider sent them.
        """
        origins = _read(metadata, CitationMetadata) or CitationMetadata()
        self._origins = origins.citation_sources or origins.citations or self._origins

    def events(self, text: str) -> list[CitationAdded]:
        """The citations: those of words, in their order, and then the sources that no words refer to.

        Args:
            text: The text of the answer.
        """
        if not self._chunks and not self._origins:
            return []
        return [CitationAdded(citation=each) for each in (*self._grounded(text), *self._attributed(text))]

    def _grounded(self, text: str) -> Iterator[Citation]:
        used: set[int] = set()
        for support in self._supports:
            segment = support.segment or Segment()
            place = _place(text, segment.start_index, segment.end_index, segment.text)
            for number in support.grounding_chunk_indices or ():
                if 0 <= number < len(self._chunks):
                    used.add(number)
                    yield _citation(self._chunks[number].source, place, segment.text or "")
        for number, chunk in enumerate(self._chunks):
            if number not in used:
                yield _citation(chunk.source, None, "")

    def _attributed(self, text: str) -> Iterator[Citation]:
        for origin in self._origins:
            place = _place(text, origin.start_index, origin.end_index, None)
            yield _citation(Source(uri=origin.uri, title=origin.title), place, "")


_Shape = TypeVar("_Shape")


def _read(raw: msgspec.Raw, shape: type[_Shape]) -> _Shape | None:
    """A part of the sources; None when it is missing or has another form, since no answer is bad for that."""
    try:
        return msgspec.json.decode(raw, type=shape) if is_something(raw) else None
    except NOT_JSON:
        return None


def _citation(source: Source, place: tuple[int, int, str] | None, words: str) -> Citation:
    start, end, words = place or (None, None, words)
    return Citation(
        url=source.uri or "",
        title=source.title or "",
        cited_text=source.text or "",
        text=words,
        start=start,
        end=end,
    )


def _place(text: str, first: int | None, last: int | None, words: str | None) -> tuple[int, int, str] | None:
    """The place of words in the text, in characters; None when they are not there."""
    if last is not None:
        data = text.encode(errors="surrogatepass")
        start = len(data[: max(first or 0, 0)].decode(errors="ignore"))
        end = len(data[: max(last, 0)].decode(errors="ignore"))
        if words is None or text[start:end] == words:
            return (start, end, text[start:end]) if start < end else None
    start = text.find(words) if words else -1  # the indices may count the part of a longer answer
    return (start, start + len(words), words) if words and start >= 0 else None
