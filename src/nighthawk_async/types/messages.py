"""The messages of a conversation with a model, their content, and tools as a model sees them.

The names are those of specification 8.2.2 and 8.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..errors import NighthawkError
from .quick_init import quick_init

if TYPE_CHECKING:
    from mimetypes import MimeTypes

_MEDIA_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".flac": "audio/flac",
    ".heic": "image/heic",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mkv": "video/x-matroska",
    ".ogg": "audio/ogg",
    ".opus": "audio/opus",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rtf": "text/rtf",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".yaml": "application/yaml",
}
"""Media types that Python does not know in every version, or under other names than providers."""


def guess_media_type(name: str) -> str | None:
    """Return the media type of a file name or URL by its ending; None when it is unknown.

    The same on every machine: the operating system's tables are not read.

    Args:
        name: The file name or URL.
    """
    return _media_type_table().guess_type(name)[0]


@cache
def _media_type_table() -> "MimeTypes":
    from mimetypes import MimeTypes  # here, because few programs need it

    table = MimeTypes()
    for ending, media_type in _MEDIA_TYPES.items():
        table.add_type(media_type, ending)
    return table


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

    @classmethod
    def from_path(
        cls, path: str | PathLike[str], *, media_type: str | None = None, identifier: str | None = None
    ) -> "BinaryContent":
        """The content of a file.

        Reads the file at once: in async code, call it in a worker thread when the file may be large.

        Args:
            path: The path of the file.
            media_type: The media type; None guesses it from the end of the file name.
            identifier: A name by which a program may refer to the item.

        Raises:
            OSError: The file cannot be read.
            ValueError: The media type cannot be guessed.
        """
        file = Path(path)
        media_type = media_type or guess_media_type(file.name)
        if media_type is None:
            raise ValueError(
                f"The media type of {file.name!r} cannot be guessed; give it, as in media_type='image/png'."
            )
        return cls(data=file.read_bytes(), media_type=media_type, identifier=identifier)

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
        url: The address of the item.
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


def checked_steering(content: Sequence[object]) -> list[UserContent]:
    """Return what a step is steered with, empty texts left out.

    Raises:
        NighthawkError: An item is no content.
    """
    for item in content:
        if not isinstance(item, str | BinaryContent | FileUrl | UploadedFile):
            raise NighthawkError(f"A step is steered with texts and other content, not with {item!r}.")
    return [cast("UserContent", item) for item in content if item != ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool offered through the provider's tool-calling interface.

    Args:
        name: ASCII, matching `^[A-Za-z_][A-Za-z0-9_]*$`.
        description: The purpose of the tool, for the model.
        parameters: The JSON Schema of the arguments, an object schema.
        metadata: Data of the host; never sent to a model.
        is_deferred: Whether the model gets the tool only when the search of its provider has found it, which
            needs the capability `tool_search`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredTool:
    """A deferred tool, for a function that searches such tools.

    Args:
        name: The name that the model uses.
        description: The purpose of the tool.
        parameters: The names of its parameters.
    """

    name: str
    description: str
    parameters: tuple[str, ...] = ()


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    Args:
        id: The identifier that ties the result to the call.
        name: The name of the tool.
        arguments: The arguments as the JSON text the model wrote; not yet parsed, possibly invalid.
    """

    id: str
    name: str
    arguments: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call.

    Args:
        call_id: The `ToolCall.id` this answers.
        name: The name of the tool.
        content: The content that the model sees, in order.
        is_error: Whether the call failed.
    """

    call_id: str
    name: str
    content: tuple[UserContent, ...]
    is_error: bool = False


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message to the model, its items in order."""

    content: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContent:
    """A whole response in its provider's own form, to be sent back unchanged and in order.

    Reasoning items, thinking blocks and signatures are mixed with the text and the tool calls, and a provider
    may refuse a conversation in which one of them is missing or moved.

    Args:
        protocol: The wire protocol that understands the items.
        items: The items as JSON objects, in order.
    """

    protocol: str
    items: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A source that a model cites for a part of its answer. Fields that the provider leaves out are empty.

    Args:
        url: The address of the source.
        title: The title of the source.
        cited_text: The words of the source that are cited.
        text: The words of the answer that the source supports.
        start: The place in the text of the answer at which these words begin, in characters; None when the
            source supports the answer as a whole, or the provider does not say.
        end: The place at which they end, exclusive.
        location: The place in the source, in words such as `characters 0 to 20` or `pages 3 to 4`.
        document_index: The number of the document in the request, counted from 0; None when it is not one.
        file_id: The provider's identifier of a file.
    """

    url: str = ""
    title: str = ""
    cited_text: str = ""
    text: str = ""
    start: int | None = None
    end: int | None = None
    location: str = ""
    document_index: int | None = None
    file_id: str = ""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One response of the model.

    Args:
        text: The visible text; empty when there was none.
        reasoning: The reasoning text the provider showed; empty when there was none.
        tool_calls: The calls it asked for, in order.
        media: The images and sounds that it made, in order. Providers that take none of them back from a
            model get a description.
        citations: The sources that it cites, in order.
        provider_content: The same in the provider's own form, when the provider wants more back than text and
            tool calls. A request of the same protocol sends it instead of them; other protocols ignore it.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    media: tuple[BinaryContent | FileUrl, ...] = field(default=(), repr=False)
    citations: tuple[Citation, ...] = field(default=(), repr=False)
    provider_content: ProviderContent | None = None

    @property
    def content(self) -> tuple[UserContent, ...]:
        """The visible text, if any, and media that the model made; other messages have their items here."""
        return (self.text, *self.media) if self.text else self.media


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultsMessage:
    """The results of all calls of one response, in the order of the calls."""

    results: tuple[ToolResult, ...]

    @property
    def content(self) -> tuple[UserContent, ...]:
        """The contents of all results for the model, in order."""
        return tuple(item for result in self.results for item in result.content)


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultsMessage
"""One entry of a conversation; the system prompt is separate."""
