"""Endpoints for files of a `ModelServer`: Anthropic's, OpenAI's and Google's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from itertools import count
from typing import Any

import anyio

from .model_reply import ModelReply, RecordedRequest, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """A file that a client has uploaded.

    Args:
        id: Its id.
        content: Its content.
        media_type: Its media type.
        fields: The other fields of the upload.
    """

    id: str
    content: bytes = field(repr=False)
    media_type: str
    fields: Mapping[str, str]


class ServedFiles:
    """The files of a server.

    Attributes:
        failures: The HTTP statuses of the next uploads, which fail.
        pause: What uploads wait for before they are carried out; None for nothing.
    """

    def __init__(self) -> None:
        self.failures: list[int] = []
        self.pause: anyio.Event | None = None
        self._paused: anyio.Event  # belongs to an event loop: made when the server is entered
        self.contents: dict[str, bytes] = {}
        self._uploaded: dict[str, ServedFile] = {}
        self._deleted: list[str] = []
        self._numbers = count(1)
        self._started: dict[str, str] = {}  # media types of Google's uploads, by the number of each

    @property
    def uploaded(self) -> list[ServedFile]:
        """The files that were uploaded so far, those with the requests of batches excepted."""
        return [each for each in self._uploaded.values() if each.fields.get("purpose") != "batch"]

    @property
    def deleted(self) -> list[str]:
        """The ids of the files that were deleted, in order."""
        return list(self._deleted)

    def add(self, content: bytes) -> str:
        """Keep a file of the server's own, and return its id."""
        file_id = f"file-{next(self._numbers)}"
        self.contents[file_id] = content
        return file_id

    def begin(self) -> None:
        """Note that the server has been entered on the current event loop."""
        self._paused = anyio.Event()

    async def wait_until_paused(self) -> None:
        """Wait until an upload waits; see `pause`."""
        await self._paused.wait()

    async def serve(self, request: RecordedRequest, origin: str) -> ModelReply | None:
        """Return the reply to a request about files; None for another one.

        Args:
            request: The request.
            origin: The URL of the server.
        """
        path = request.path.partition("?")[0]
        head, separator, rest = path.rpartition("/files")
        if not separator:
            return None
        name = rest.strip("/")
        if self.pause is not None and request.method == "POST":
            self._paused.set()
            await self.pause.wait()
        if "/upload/" in path:
            return self._serve_google_upload(request, origin)
        if request.method == "POST" and not name:
            return self._upload(request)
        file_id, _, action = name.partition("/")
        file_id = f"files/{file_id}" if f"files/{file_id}" in self._uploaded else file_id
        if file_id not in self.contents:
            return ModelReply(status=404, body=to_json({"error": {"message": f"there is no {file_id}"}}))
        if request.method == "DELETE":
            del self.contents[file_id]
            self._deleted.append(file_id)
            return ModelReply(body=to_json({"id": file_id, "deleted": True}))
        if action == "content":
            return ModelReply(body=self.contents[file_id])
        return ModelReply(body=to_json(_google_file(file_id, head)))

    def _upload(self, request: RecordedRequest) -> ModelReply:
        if self.failures:
            status = self.failures.pop(0)
            return ModelReply(status=status, body=to_json({"error": {"message": "the upload is refused"}}))
        head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
        fields: dict[str, str] = {}
        content, media_type = b"", ""
        for part in BytesParser(policy=HTTP).parsebytes(head + request.content).iter_parts():
            payload: Any = part.get_payload(decode=True)
            name = str(part.get_param("name", header="content-disposition"))
            if name == "file":
                content, media_type = payload, part.get_content_type()
            else:
                fields[name] = payload.decode()
        file_id = self._keep("file-", content, media_type, fields)
        return ModelReply(body=to_json({"id": file_id, "filename": "uploaded", "object": "file"}))

    def _serve_google_upload(self, request: RecordedRequest, origin: str) -> ModelReply:
        if self.failures:
            status = self.failures.pop(0)
            return ModelReply(status=status, body=to_json({"error": {"message": "the upload is refused"}}))
        _, _, number = request.path.partition("upload_id=")
        if not number:
            number = str(next(self._numbers))
            self._started[number] = request.headers.get("x-goog-upload-header-content-type", "")
            url = f"{origin}/upload/v1beta/files?upload_id={number}"
            return ModelReply(body=b"{}", headers={"x-goog-upload-url": url})
        media_type = self._started.pop(number, "")
        file_id = self._keep("files/", request.content, media_type, {})
        file = _google_file(file_id, f"{origin}/v1beta")
        return ModelReply(body=to_json({"file": file}), headers={"x-goog-upload-status": "final"})

    def _keep(self, prefix: str, content: bytes, media_type: str, fields: Mapping[str, str]) -> str:
        file_id = f"{prefix}{next(self._numbers)}"
        self.contents[file_id] = content
        file = ServedFile(id=file_id, content=content, media_type=media_type, fields=fields)
        self._uploaded[file_id] = file
        return file_id


def _google_file(file_id: str, base: str) -> dict[str, Any]:
    return {"name": file_id, "uri": f"{base}/{file_id}", "state": "ACTIVE"}
