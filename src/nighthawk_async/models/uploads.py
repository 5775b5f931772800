"""Uploads of large media: each content once per run and endpoint, and deleted at the end of the run.

Only the request as it is sent refers to the uploaded file. Records in journals and cassettes, and everything
else above the model, hold the content.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Self, TypeAlias

import anyio
from msgspec import Struct

from ..catalog.providers import PROVIDERS, RetryRules
from ..configuration import parse_model_id
from ..errors import ConfigurationError, ModelError
from ..kernel.environment import shared_in_run
from ..kernel.reports import waiting_state
from ..ports import ForwardedStream
from ..types.messages import (
    BinaryContent,
    Message,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ..types.model import ModelEvent, ModelRequest
from ..wire.codec import Codec
from ..wire.media import describe_media
from .endpoint import name_error
from .endpoint_calls import EndpointCalls, copied_error
from .file_endpoints import FileEndpoint
from .http_pool import HttpPool
from .prepared_settings import PreparedSettings
from .protocols import create_files
from .response_body import in_thread

_UploadItem: TypeAlias = Callable[[UserContent], Awaitable[UserContent]]

IsNeeded: TypeAlias = Callable[[], bool]

_LOGGER = logging.getLogger("nighthawk")
_DELETE_SECONDS = 6.0
_DELETED_AT_ONCE = 20
_MOST_BYTES_ON_THE_LOOP = 1024 * 1024


def file_endpoint(model_id: str) -> FileEndpoint:
    """The endpoint for files of a model's provider.

    Args:
        model_id: The id of the model.

    Raises:
        ConfigurationError: None is known.
    """
    facts = PROVIDERS.get(parse_model_id(model_id).provider)
    if facts is None or not facts.has_files:
        known = ", ".join(sorted(name for name, each in PROVIDERS.items() if each.has_files))
        raise ConfigurationError(
            f"{model_id}: no endpoint for files of this provider is known, so the model setting "
            f"upload_media_above_bytes cannot be kept; there are those of {known}."
        )
    return create_files(facts.protocol)


class UploadTerms(Struct, frozen=True, kw_only=True):
    """The terms of the uploads for a request.

    Args:
        codec: Speaks the protocol of the model.
        settings: The settings of the request.
        retry_rules: The provider's rules of retries.
        pool_source: Provides the pool of connections.
    """

    codec: Codec
    settings: PreparedSettings
    retry_rules: RetryRules
    pool_source: Callable[[], AbstractAsyncContextManager[HttpPool]]

    @property
    def model_id(self) -> str:
        """The id of the model."""
        return self.settings.endpoint.model_id


class _OwnedFile(Struct, frozen=True, kw_only=True, eq=False):
    """A file that is deleted at the end of the run."""

    endpoint: FileEndpoint
    calls: EndpointCalls
    name: str
    file_id: str


class _Flight:
    """One upload, in progress or ended."""

    __slots__ = ("done", "error", "file")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.file: UploadedFile | None = None
        self.error: Exception | None = None


class Uploads:
    """The uploads of one run on one event loop. Made by `open_uploads`.

    Args:
        pool: The pool of connections.
    """

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool
        self._flights: dict[Hashable, _Flight] = {}
        self._owned: list[_OwnedFile] = []
        self._kept: list[tuple[set[str], IsNeeded]] = []

    async def replace_in(self, request: ModelRequest, terms: UploadTerms) -> ModelRequest:
        """The request with references to uploaded files in place of large media.

        Args:
            request: The request.
            terms: The terms of its uploads.

        Raises:
            ModelError: An upload failed.
            ConfigurationError: The provider has no endpoint for files.
        """
        endpoint = file_endpoint(terms.model_id)

        async def upload(item: UserContent) -> UserContent:
            return await self._item(endpoint, terms, item)

        messages = [await _in_message(message, upload) for message in request.messages]
        if all(old is new for old, new in zip(request.messages, messages, strict=True)):
            return request
        return replace(request, messages=tuple(messages))

    async def _item(self, endpoint: FileEndpoint, terms: UploadTerms, item: UserContent) -> UserContent:
        above = terms.settings.transport.upload_media_above_bytes
        if not isinstance(item, BinaryContent) or above is None or len(item.data) <= above:
            return item
        if not _may_be_file(item, terms.codec, endpoint.provider_name):
            return item
        data = item.data
        is_long = len(data) > _MOST_BYTES_ON_THE_LOOP
        digest = await in_thread(_digest, data) if is_long else _digest(data)
        key = (endpoint.provider_name, terms.settings.pacing_key, item.media_type, digest)
        return await self._once(key, endpoint, terms, item)

    async def _once(
        self, key: Hashable, endpoint: FileEndpoint, terms: UploadTerms, item: BinaryContent
    ) -> UploadedFile:
        """Upload a content, or wait for its upload. If that is cancelled, another one that waits does it."""
        while (flight := self._flights.get(key)) is not None:
            await flight.done.wait()
            if flight.file is not None:
                return flight.file
            if flight.error is not None:
                raise copied_error(flight.error)
        flight = self._flights[key] = _Flight()
        try:
            flight.file = await self._upload(endpoint, terms, item)
            return flight.file
        except ModelError as error:
            if not error.message.startswith(f"{terms.model_id}: "):
                name_error(error, terms.settings.endpoint)
            error.add_note(f"This was the upload of {describe_media(item)}.")
            flight.error = error
            raise
        finally:
            if flight.file is None:
                del self._flights[key]  # the next request tries again
            flight.done.set()

    async def _upload(self, endpoint: FileEndpoint, terms: UploadTerms, item: BinaryContent) -> UploadedFile:
        transport = terms.settings.transport
        calls = EndpointCalls(terms.settings.endpoint, transport, terms.retry_rules, self._pool)
        expires_after = transport.uploads_expire_after_seconds
        name, file = await endpoint.upload(calls, item, expires_after)
        if expires_after is None:
            self._owned.append(_OwnedFile(endpoint=endpoint, calls=calls, name=name, file_id=file.file_id))
        return file

    def keep(self, request: ModelRequest, is_needed: IsNeeded) -> None:
        """Keep the files of a request beyond the end of the run, if they are needed then.

        Args:
            request: The request, with references to files.
            is_needed: Whether the provider may still work on it.
        """
        contents: list[tuple[UserContent, ...]] = []
        for message in request.messages:
            if isinstance(message, UserMessage):
                contents.append(message.content)
            elif isinstance(message, ToolResultsMessage):
                contents += (each.content for each in message.results)
        files = {item.file_id for content in contents for item in content if isinstance(item, UploadedFile)}
        self._kept.append((files, is_needed))

    async def delete_all(self) -> None:
        """Delete the files that are not to be kept; shielded from cancellation, and bounded."""
        needed = {file for files, is_needed in self._kept if is_needed() for file in files}
        owned = [each for each in self._owned if each.file_id not in needed]
        kept = [each.name for each in self._owned if each.file_id in needed]
        self._owned = []
        if kept:
            _LOGGER.warning("uploaded files are kept for batches that go on: %s", ", ".join(sorted(kept)))
        if not owned:
            return
        limiter = anyio.CapacityLimiter(_DELETED_AT_ONCE)
        left = {each.name for each in owned}

        async def delete(file: _OwnedFile) -> None:
            async with limiter:
                with suppress(ModelError):
                    await file.endpoint.delete(file.calls, file.name)
                    left.discard(file.name)

        with anyio.move_on_after(_DELETE_SECONDS, shield=True):
            async with anyio.create_task_group() as task_group:
                for each in owned:
                    task_group.start_soon(delete, each)
        if left:
            _LOGGER.warning("uploaded files could not be deleted: %s", ", ".join(sorted(left)))


@asynccontextmanager
async def open_uploads(pool: AbstractAsyncContextManager[HttpPool]) -> AsyncGenerator[Uploads, None]:
    """The uploads of a run; leaving them deletes the files.

    Args:
        pool: Provides the pool of connections.
    """
    async with pool as connections:
        uploads = Uploads(connections)
        try:
            yield uploads
        finally:
            await uploads.delete_all()


def uploads_of_run(terms: UploadTerms) -> AbstractAsyncContextManager[Uploads]:
    """The uploads of the active run; without a run, those of the block.

    Args:
        terms: The terms of the uploads.
    """
    return shared_in_run("uploads", lambda: open_uploads(terms.pool_source()))


class UploadingResponse(ForwardedStream):
    """The response to a request whose large media are uploaded first.

    Args:
        request: The request.
        terms: The terms of its uploads.
        send: Sends the request with references to files.
    """

    def __init__(
        self,
        request: ModelRequest,
        terms: UploadTerms,
        send: Callable[[ModelRequest], AbstractAsyncContextManager[AsyncIterator[ModelEvent]]],
    ) -> None:
        self._request = request
        self._terms = terms
        self._send = send
        self._uploads: AbstractAsyncContextManager[Uploads] | None = None

    @property
    def may_have_consumed(self) -> bool:
        """Whether the provider may have worked on the request."""
        return self.source is not None and super().may_have_consumed

    async def __aenter__(self) -> Self:
        shared = uploads_of_run(self._terms)
        uploads = await shared.__aenter__()
        try:
            with waiting_state():
                request = await uploads.replace_in(self._request, self._terms)
            await self.enter_source(self._send(request))
        except BaseException as error:
            await shared.__aexit__(type(error), error, error.__traceback__)
            raise
        self._uploads = shared
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        shared, self._uploads = self._uploads, None
        try:
            return await super().__aexit__(exception_type, exception, traceback)
        finally:
            if shared is not None:
                await shared.__aexit__(exception_type, exception, traceback)


def _may_be_file(item: BinaryContent, codec: Codec, provider_name: str) -> bool:
    """Whether the protocol carries a content both inline, in which form users give it, and as a file."""
    file = UploadedFile(file_id="file", provider_name=provider_name, media_type=item.media_type)
    return codec.find_refusal(item) is None and codec.find_refusal(file) is None


async def _in_message(message: Message, upload: _UploadItem) -> Message:
    if isinstance(message, UserMessage):
        content = await _in_content(message.content, upload)
        return message if content is message.content else replace(message, content=content)
    if isinstance(message, ToolResultsMessage):
        results = [replace(each, content=await _in_content(each.content, upload)) for each in message.results]
        are_same = all(old.content is new.content for old, new in zip(message.results, results, strict=True))
        return message if are_same else replace(message, results=tuple(results))
    return message


async def _in_content(content: tuple[UserContent, ...], upload: _UploadItem) -> tuple[UserContent, ...]:
    if not any(isinstance(item, BinaryContent) for item in content):
        return content
    replaced = [await upload(item) for item in content]
    are_same = all(old is new for old, new in zip(content, replaced, strict=True))
    return content if are_same else tuple(replaced)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
