"""Citations in the texts of Responses answers.

Source: `response_output_text.py` of the official SDK.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...types.json import is_json_list
from ...types.messages import Citation
from ...types.model import ModelEvent
from ...types.model_output import CitationAdded
from ..json_text import as_object
from .items import StreamedPart

CITATIONS = frozenset({"container_file_citation", "file_citation", "file_path", "url_citation"})
"""The types of annotations."""


def citations_of(annotations: object, part: StreamedPart) -> list[ModelEvent]:
    """The citations of a part of an answer.

    Args:
        annotations: A JSON value, usually a list of objects.
        part: The part.
    """
    return [CitationAdded(citation=each) for each in _citations(annotations, part)]


def _citations(annotations: object, part: StreamedPart) -> Iterator[Citation]:
    text = part.text
    for annotation in map(as_object, annotations if is_json_list(annotations) else ()):
        if annotation.get("type") not in CITATIONS:
            continue
        start, end = _index(annotation, "start_index"), _index(annotation, "end_index")
        is_placed = 0 <= start < end <= len(text)
        yield Citation(
            url=_text(annotation, "url"),
            title=_text(annotation, "title") or _text(annotation, "filename"),
            text=text[start:end] if is_placed else "",
            start=part.begins_at + start if is_placed else None,
            end=part.begins_at + end if is_placed else None,
            file_id=_text(annotation, "file_id"),
        )


def _index(form: Mapping[str, Any], name: str) -> int:
    value = form.get(name)
    return value if isinstance(value, int) else -1


def _text(form: Mapping[str, Any], name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""
