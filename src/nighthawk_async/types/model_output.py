"""Parts of an answer beside text and calls: media that the model made, citations, reasons of refusals."""

from dataclasses import dataclass

from .messages import BinaryContent, Citation, FileUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason that a provider gives for a refused answer.

    Args:
        category: The provider's word for the kind of content; None when it gives none.
        explanation: The provider's, or the model's, words about it; None when it gives none.
    """

    category: str | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaCompleted:
    """The model made an image or a sound, and it is complete.

    Args:
        content: The medium, or its address where the provider keeps it.
    """

    content: BinaryContent | FileUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationAdded:
    """The model cites a source for a part of its answer."""

    citation: Citation
