"""Providers' endpoints for files: uploading one, and deleting it."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio
import msgspec

from ..backoff import backoff_seconds
from ..errors import ModelProtocolError, ModelProviderError
from ..types.messages import BinaryContent, UploadedFile
from ..wire.json_text import as_object
from ..wire.media import bare_media_type, document_name
from ..wire.provider_errors import provider_message
from .endpoint_calls import EndpointCalls, text_of
from .multipart import multipart


class FileEndpoint(Protocol):
    """Speaks to the file endpoint of one provider. It holds no state."""

    @property
    def provider_name(self) -> str:
        """The provider's name in `UploadedFile.provider_name`."""
        ...

    async def upload(
        self, calls: EndpointCalls, item: BinaryContent, expires_after_seconds: int | None
    ) -> tuple[str, UploadedFile]:
        """Upload a file; returns its name for `delete`, and the reference for requests.

        Args:
            calls: Makes the calls.
            item: The content.
            expires_after_seconds: Seconds after which the provider deletes the file; None for no limit.

        Raises:
            ModelError: The upload failed.
        """
        ...

    async def delete(self, calls: EndpointCalls, name: str) -> None:
        """Delete a file.

        Raises:
            ModelError: It could not be deleted.
        """
        ...


class AnthropicFiles:
    """The endpoint `/files` of Anthropic. See `FileEndpoint`."""

    provider_name = "anthropic"
    _headers: Mapping[str, str] = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "files-api-2025-04-14",
    }

    async def upload(
        self, calls: EndpointCalls, item: BinaryContent, expires_after_seconds: int | None
    ) -> tuple[str, UploadedFile]:
        """Upload a file; see `FileEndpoint`."""
        fields = {} if expires_after_seconds is None else {"expires_in_seconds": str(expires_after_seconds)}
        return await _post(self.provider_name, calls, item, fields, self._headers)

    async def delete(self, calls: EndpointCalls, name: str) -> None:
        """Delete a file; see `FileEndpoint`."""
        await calls.call("DELETE", f"/files/{name}", headers=self._headers)


class OpenAIFiles:
    """The endpoint `/files` of OpenAI. See `FileEndpoint`."""

    provider_name = "openai"

    async def upload(
        self, calls: EndpointCalls, item: BinaryContent, expires_after_seconds: int | None
    ) -> tuple[str, UploadedFile]:
        """Upload a file; see `FileEndpoint`."""
        fields = {"purpose": "user_data"}
        if expires_after_seconds is not None:
            fields["expires_after[anchor]"] = "created_at"
            fields["expires_after[seconds]"] = str(expires_after_seconds)
        return await _post(self.provider_name, calls, item, fields, {})

    async def delete(self, calls: EndpointCalls, name: str) -> None:
        """Delete a file; see `FileEndpoint`."""
        await calls.call("DELETE", f"/files/{name}")


_GOOGLE_POLL_SECONDS = 0.5
_GOOGLE_LONGEST_POLL_SECONDS = 10.0


class GoogleFiles:
    """The resumable uploads of the Gemini API, which keeps every file for two days. See `FileEndpoint`."""

    provider_name = "google"

    async def upload(
        self, calls: EndpointCalls, item: BinaryContent, expires_after_seconds: int | None
    ) -> tuple[str, UploadedFile]:
        """Upload a file; see `FileEndpoint`."""
        media_type = bare_media_type(item.media_type)
        base_url = calls.endpoint.base_url
        version = base_url.path.rstrip("/").rpartition("/")
        at = base_url._replace(path=f"{version[0]}/upload/{version[2]}")
        started = await calls.call(
            "POST",
            "/files",
            headers={
                "content-type": "application/json",
                "x-goog-upload-protocol": "resumable",
                "x-goog-upload-command": "start",
                "x-goog-upload-header-content-length": str(len(item.data)),
                "x-goog-upload-header-content-type": media_type,
            },
            body=msgspec.json.encode({"file": {"displayName": document_name(item)}}),
            at=at,
        )
        to = urlsplit(started.headers.get("x-goog-upload-url", ""))
        if not to.netloc:
            raise ModelProtocolError("the endpoint began no upload: its answer names no URL for it")
        if (to.scheme, to.netloc) != (base_url.scheme, base_url.netloc):
            raise ModelProtocolError(f"the endpoint sends the upload elsewhere, to {to.netloc}")
        answer = await calls.call(
            "POST",
            f"?{to.query}" if to.query else "",
            headers={"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"},
            body=item.data,
            at=to._replace(query="", fragment=""),
        )
        file = as_object(answer.json().get("file"))
        name = text_of(file, "name")
        ready = await self._wait_until_ready(calls, name, file)
        uri = text_of(ready, "uri")
        return name, UploadedFile(file_id=uri, provider_name=self.provider_name, media_type=media_type)

    async def delete(self, calls: EndpointCalls, name: str) -> None:
        """Delete a file; see `FileEndpoint`."""
        await calls.call("DELETE", f"/{name}")

    async def _wait_until_ready(
        self, calls: EndpointCalls, name: str, file: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Wait until the provider has processed a file, which takes long for videos."""
        polls = 0
        while file.get("state") == "PROCESSING":
            longest = _GOOGLE_LONGEST_POLL_SECONDS
            await anyio.sleep(backoff_seconds(polls, first=_GOOGLE_POLL_SECONDS, longest=longest))
            polls += 1
            file = (await calls.call("GET", f"/{name}")).json()
        if file.get("state") == "FAILED":
            reported = provider_message({"error": file.get("error")})
            raise ModelProviderError(f"the provider cannot use the file: {reported.message}")
        return file


async def _post(
    provider_name: str,
    calls: EndpointCalls,
    item: BinaryContent,
    fields: Mapping[str, str],
    headers: Mapping[str, str],
) -> tuple[str, UploadedFile]:
    media_type = bare_media_type(item.media_type)
    form = multipart(fields, document_name(item), media_type, item.data)
    answer = await calls.call("POST", "/files", headers={**form.headers, **headers}, body=form.body)
    file_id = text_of(answer.json(), "id")
    return file_id, UploadedFile(file_id=file_id, provider_name=provider_name, media_type=media_type)
