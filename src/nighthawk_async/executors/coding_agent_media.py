"""Media that a coding agent cannot be sent: files, which it may read with tools of its own."""

import logging
import mimetypes
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import anyio

from ..errors import UnsupportedContentError
from ..types.messages import BinaryContent, MultimodalContent, UploadedFile, UserContent
from ..wire.media import bare_media_type, describe_media

_LOGGER = logging.getLogger("nighthawk.coding_agents")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARACTERS = 60


class StagedMedia:
    """The files of one step, in a folder for this user alone. The folder is made for the first one.

    A context manager; the files are removed at its end.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._files: list[tuple[BinaryContent, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def fit(
        self, content: Iterable[UserContent], is_sent: Callable[[MultimodalContent], bool]
    ) -> tuple[UserContent, ...]:
        """Return content with texts in place of media that are not sent: their descriptions and files.

        Args:
            content: The content.
            is_sent: Whether a medium can be sent as it is.
        """
        items: list[UserContent] = []
        for item in content:
            if not isinstance(item, str) and not is_sent(item):
                item = await self._text_of(item)
            items.append(item)
        return tuple(items)

    async def _text_of(self, item: MultimodalContent) -> str:
        description = describe_media(item)
        if not isinstance(item, BinaryContent):
            return f"[{description}]"
        path = next((path for kept, path in self._files if kept is item), None)
        try:
            if path is None:
                path = self._new_path(item)
                await anyio.Path(path).write_bytes(item.data)
        except OSError as error:
            _LOGGER.warning("%s could not be written to a file: %s", description, error)
            return f"[{description}]"
        return f"[{description}, in the file {path}]"

    def _new_path(self, item: BinaryContent) -> str:
        self._folder = self._folder or tempfile.mkdtemp(prefix="nighthawk-media-")
        path = os.path.join(self._folder, f"{len(self._files) + 1}-{_file_name(item)}")
        self._files.append((item, path))
        return path


def refuse_uploaded_files(title: str, prompt: Iterable[UserContent]) -> None:
    """Refuse files that were uploaded to a provider: agents do not get at them.

    Args:
        title: The name of the agent.
        prompt: The prompt of a step.

    Raises:
        UnsupportedContentError: The prompt holds one.
    """
    for item in prompt:
        if isinstance(item, UploadedFile):
            raise UnsupportedContentError(
                f"{title} cannot be sent {describe_media(item)}; give the step the content itself or its URL."
            )


def _file_name(item: BinaryContent) -> str:
    """A name that is fit for every file system, with the ending of the media type."""
    given = _UNFIT.sub("_", item.identifier or "")[-_MAX_NAME_CHARACTERS:].lstrip(".")
    if "." in given:
        return given
    media_type = bare_media_type(item.media_type)
    subtype = media_type.rpartition("/")[2]
    ending = mimetypes.guess_extension(media_type) or (f".{subtype}" if subtype.isalnum() else ".bin")
    return (given or "media") + ending
