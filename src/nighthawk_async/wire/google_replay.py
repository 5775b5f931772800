"""Keeps a Gemini response as it came, for the request in which it goes back.

A signature belongs to its part, and the endpoint refuses a conversation in which it stands elsewhere. So a
response that holds one goes back part by part, in order. Texts without a signature that follow one another
come as many small parts and go back as one.
"""

from typing import Any, cast

import msgspec

from ..types.messages import ProviderContent
from .google_chunks import Part
from .google_contents import PROTOCOL

__all__ = ["PartRecord"]

_TEXT_FIELDS = ({"text"}, {"text", "thought"})


class PartRecord:
    """The parts of one response."""

    def __init__(self) -> None:
        self._parts: list[msgspec.Raw] = []
        self._is_signed = False

    def add(self, raw: msgspec.Raw, part: Part) -> None:
        """Take in the next part.

        Args:
            raw: The part as it came.
            part: The same part, decoded.
        """
        self._parts.append(raw)
        self._is_signed = self._is_signed or bool(part.thought_signature)

    def provider_content(self) -> ProviderContent | None:
        """The response in the provider's own form; None when no part is signed."""
        if not self._is_signed:
            return None
        items: list[dict[str, Any]] = []
        texts: list[str] = []  # of the last item, where it is a text and goes on
        for raw in self._parts:
            part = cast("dict[str, Any]", msgspec.json.decode(raw))
            if items and _is_more_text(items[-1], part):
                texts = texts or [items[-1]["text"]]
                texts.append(part["text"])
                continue
            _join(items, texts)
            texts = []
            items.append(part)
        _join(items, texts)
        return ProviderContent(protocol=PROTOCOL, items=tuple(items))


def _join(items: list[dict[str, Any]], texts: list[str]) -> None:
    if texts:
        items[-1]["text"] = "".join(texts)


def _is_more_text(former: dict[str, Any], part: dict[str, Any]) -> bool:
    return (
        part.keys() in _TEXT_FIELDS
        and former.keys() == part.keys()
        and former.get("thought") == part.get("thought")
        and isinstance(former["text"], str)
        and isinstance(part["text"], str)
    )
