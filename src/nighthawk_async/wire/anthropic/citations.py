"""Citations in the text blocks of Anthropic Messages answers.

Source: `citation_char_location.py` and its neighbours of the official SDK.
"""

from collections.abc import Mapping
from typing import Any

from ...types.messages import Citation

_RANGES = {
    "char_location": ("characters", "start_char_index", "end_char_index"),
    "page_location": ("pages", "start_page_number", "end_page_number"),
    "content_block_location": ("blocks", "start_block_index", "end_block_index"),
    "search_result_location": ("blocks", "start_block_index", "end_block_index"),
}
"""The words for places in a source, and the fields of their bounds, by the type of a citation."""


def citation_of(form: Mapping[str, Any], *, text: str, start: int) -> Citation:
    """A citation of a text block.

    Args:
        form: The citation as the endpoint wrote it.
        text: The text of the block, which the source supports.
        start: The place of the block in the text of the answer.
    """
    unit, first, last = _RANGES.get(str(form.get("type")), ("", "", ""))
    number = form.get("document_index")
    return Citation(
        url=_text(form, "url") or _text(form, "source"),
        title=_text(form, "title") or _text(form, "document_title"),
        cited_text=_text(form, "cited_text"),
        text=text,
        start=start,
        end=start + len(text),
        location=f"{unit} {form[first]} to {form[last]}" if first in form and last in form else "",
        document_index=number if isinstance(number, int) else None,
        file_id=_text(form, "file_id"),
    )


def _text(form: Mapping[str, Any], name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""
