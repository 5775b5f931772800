"""Media that a model made, out of its answer, and back in the provider's own form.

A provider may want its answer back unchanged, media included. Their bytes are kept once, as content of the
message; in the provider's form a number stands for them.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ModelProtocolError
from ..types.json import is_json_list, is_json_mapping, is_json_object
from ..types.messages import AssistantMessage, AudioUrl, BinaryContent, FileUrl, ImageUrl, VideoUrl
from ..types.model_output import MediaCompleted
from .media import describe_media

_HELD = "nighthawk_async.media"

MEDIA_TYPES_OF_FORMATS: Mapping[str, str] = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "pcm": "audio/pcm",
    "pcm16": "audio/pcm",
    "png": "image/png",
    "wav": "audio/wav",
    "webp": "image/webp",
}
"""The media types of formats, by the words of OpenAI's protocols."""

_BEGINNINGS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


def media_type_of(data: bytes, otherwise: str) -> str:
    """The media type of bytes by their beginning.

    Args:
        data: The bytes.
        otherwise: The type of those that have no known beginning.
    """
    if data[:4] == b"RIFF" and data[8:12] in (b"WAVE", b"WEBP"):
        return "audio/wav" if data[8:12] == b"WAVE" else "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), otherwise)


def url_class_of(media_type: str | None) -> type[FileUrl]:
    """The class of an address by the type of what it leads to.

    Args:
        media_type: The media type; None when it is unknown.
    """
    kinds = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
    return kinds.get((media_type or "").partition("/")[0], FileUrl)


class HeldMedia:
    """The media of one response, in the order in which they came."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def has_any(self) -> bool:
        """Whether there are any."""
        return self._count > 0

    def take(
        self, text: str, media_type: str | None, *, otherwise: str = "application/octet-stream"
    ) -> tuple[MediaCompleted, Any]:
        """Take a medium out of an answer.

        Args:
            text: Its bytes as base64.
            media_type: Its type; None to find it out by its beginning.
            otherwise: The type if that cannot be found out.

        Returns:
            Its event, and what stands for the text in the provider's form.

        Raises:
            ModelProtocolError: The text is no base64.
        """
        data = decoded_media(text)
        content = BinaryContent(data=data, media_type=media_type or media_type_of(data, otherwise))
        # A provider may have signed what it wrote, so text that would come back in another form is kept.
        is_same = base64.b64encode(data).decode() == text
        return self._completed(content), {_HELD: self._count - 1} if is_same else text

    def take_url(self, url: str, kind: type[FileUrl] = ImageUrl) -> tuple[MediaCompleted, Any]:
        """Take a medium that an answer gives by its address, which may be a `data:` URL.

        Args:
            url: The address.
            kind: The class of the address.

        Raises:
            ModelProtocolError: It is a `data:` URL, and holds no base64.
        """
        if not url.startswith("data:"):
            return self._completed(kind(url=url)), url
        head, _, text = url.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0]
        otherwise = "audio/wav" if kind is AudioUrl else "image/png"
        event, held = self.take(text, media_type or None, otherwise=otherwise)
        return event, {**held, "head": f"{head},"} if is_json_object(held) else url

    def _completed(self, content: BinaryContent | FileUrl) -> MediaCompleted:
        self._count += 1
        return MediaCompleted(content=content)


def decoded_media(text: str) -> bytes:
    """The bytes of base64, which may have line breaks, the alphabet of URLs, or no padding.

    Args:
        text: The text.

    Raises:
        ModelProtocolError: It is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ModelProtocolError("The response holds a medium that is not base64.") from error


def with_media(value: Any, media: Sequence[BinaryContent | FileUrl]) -> Any:
    """Return a part of the provider's form with the media that numbers stand for.

    Args:
        value: JSON data.
        media: The media of the message.
    """
    if not media:
        return value
    if is_json_mapping(value):
        if _HELD not in value:
            return {name: with_media(each, media) for name, each in value.items()}
        number = value[_HELD]
        found = media[number] if isinstance(number, int) and 0 <= number < len(media) else None
        data = base64.b64encode(found.data).decode() if isinstance(found, BinaryContent) else ""
        return f"{value.get('head', '')}{data}"
    return [with_media(each, media) for each in value] if is_json_list(value) else value


def text_with_media(message: AssistantMessage, media: Sequence[BinaryContent | FileUrl] | None = None) -> str:
    """The text of a message, with descriptions of the media that a provider takes back from no model.

    Args:
        message: The message.
        media: The media to describe; None for all of them.
    """
    described = message.media if media is None else media
    notes = [f"[you made this {describe_media(each)}; it cannot be shown again]" for each in described]
    return "\n".join(filter(None, (message.text, *notes)))
