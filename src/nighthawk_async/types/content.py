"""Content that goes to a model: text, bytes and references to media.

The names are those of specification 8.2.2 and 8.3.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "AudioUrl",
    "BinaryContent",
    "DocumentUrl",
    "FileUrl",
    "ImageUrl",
    "MultimodalContent",
    "UploadedFile",
    "UserContent",
    "VideoUrl",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryContent:
    """Bytes of one media item.

    Args:
        data: The bytes themselves.
        media_type: The media type, for example `image/png`.
        identifier: A name by which a program may refer to the item.
    """

    data: bytes = field(repr=False)
    media_type: str
    identifier: str | None = None

    @property
    def is_image(self) -> bool:
        """Whether the media type is an image."""
        return self.media_type.startswith("image/")

    @property
    def is_audio(self) -> bool:
        """Whether the media type is audio."""
        return self.media_type.startswith("audio/")

    @property
    def is_video(self) -> bool:
        """Whether the media type is video."""
        return self.media_type.startswith("video/")

    @property
    def is_document(self) -> bool:
        """Whether the media type is neither image, audio nor video."""
        return not (self.is_image or self.is_audio or self.is_video)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUrl:
    """A reference to a media item by URL.

    Args:
        url: Where the item is.
        media_type: The media type, when known; a provider may need it.
    """

    url: str
    media_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUrl(FileUrl):
    """A reference to an image by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioUrl(FileUrl):
    """A reference to a sound by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoUrl(FileUrl):
    """A reference to a video by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUrl(FileUrl):
    """A reference to a document by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file that the provider already holds.

    Args:
        file_id: The provider's own identifier of the file.
        provider_name: The provider that holds the file, for example `openai`.
        media_type: The media type, when known.
    """

    file_id: str
    provider_name: str
    media_type: str | None = None


MultimodalContent: TypeAlias = BinaryContent | FileUrl | UploadedFile
"""Content that is not text."""

UserContent: TypeAlias = str | MultimodalContent
"""One item of a prompt or of a tool result."""
