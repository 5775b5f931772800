"""Batches of OpenAI's protocols: a file with the requests, and `/batches`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..errors import ModelProviderError
from ..wire.json_text import as_object
from ..wire.provider_errors import provider_message
from .batch_protocol import (
    METADATA_KEY,
    BatchItem,
    BatchStatus,
    Found,
    ItemResult,
    SentBatch,
    failed_item,
    json_lines,
    missing_item,
    unprocessed_item,
)
from .endpoint_calls import JSON, EndpointCalls, objects_of, text_of
from .multipart import multipart

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_PAGE = 100
_SHOWN_ERRORS = 3


class _Response(Struct):
    status_code: int = 0
    body: Raw = Raw()


class _Error(Struct):
    code: str | None = None
    message: str | None = None


class _Line(Struct):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


class _Request(Struct):
    custom_id: str
    method: str
    url: str
    body: Raw


class OpenAIBatches:
    """See `batch_protocol.BatchProtocol`."""

    max_requests = 50_000
    max_bytes = 190_000_000

    async def submit(
        self,
        calls: EndpointCalls,
        batch: SentBatch,
        items: Sequence[BatchItem],
        headers: Mapping[str, str],
    ) -> str:
        """Submit a batch; see `batch_protocol.BatchProtocol`."""
        path = f"/v1{batch.path}"
        encoder = msgspec.json.Encoder()
        lines = b"\n".join(
            encoder.encode(_Request(custom_id=item.id, method="POST", url=path, body=Raw(item.body)))
            for item in items
        )
        form = multipart({"purpose": "batch"}, f"{batch.key}.jsonl", "application/jsonl", lines)
        file = (await calls.call("POST", "/files", headers=form.headers, body=form.body)).json()
        body: dict[str, Any] = {
            "input_file_id": text_of(file, "id"),
            "endpoint": path,
            "completion_window": "24h",
            "metadata": {METADATA_KEY: batch.key},
        }
        answer = await calls.call("POST", "/batches", body=msgspec.json.encode(body), is_repeatable=False)
        return text_of(answer.json(), "id")

    async def status(self, calls: EndpointCalls, batch_id: str) -> BatchStatus:
        """Return the state of a batch; see `batch_protocol.BatchProtocol`."""
        answer = (await calls.call("GET", f"/batches/{batch_id}")).json()
        status = text_of(answer, "status")
        failure = _failure(answer) if status == "failed" else None
        return BatchStatus(is_ended=status in _ENDED, failure=failure, answer=answer)

    async def results(
        self, calls: EndpointCalls, batch_id: str, batch: SentBatch, status: BatchStatus
    ) -> dict[str, ItemResult]:
        """Return the results of a batch; see `batch_protocol.BatchProtocol`."""
        found: dict[str, ItemResult] = {}
        for name in ("output_file_id", "error_file_id"):
            file_id = status.answer.get(name)
            if isinstance(file_id, str) and file_id:
                content = await calls.results(f"/files/{file_id}/content", batch.count)
                found.update((line.custom_id, _item_result(line)) for line in json_lines(content, _Line))
        return found

    async def cancel(self, calls: EndpointCalls, batch_id: str) -> None:
        """Cancel a batch; see `batch_protocol.BatchProtocol`."""
        await calls.call("POST", f"/batches/{batch_id}/cancel", headers=JSON)

    async def find(self, calls: EndpointCalls, batch: SentBatch) -> Found:
        """Look for a batch by its metadata; see `batch_protocol.BatchProtocol`."""
        after = ""
        while True:
            page = (await calls.call("GET", f"/batches?limit={_PAGE}{after}")).json()
            listed = objects_of(page.get("data"))
            for each in listed:
                metadata = as_object(each.get("metadata"))
                if metadata.get(METADATA_KEY) == batch.key:
                    return text_of(each, "id")
            created_at = listed[-1].get("created_at") if listed else None
            is_past = isinstance(created_at, int | float) and not (
                created_at >= batch.sent_at or batch.may_have_begun_at(created_at)
            )
            if not page.get("has_more") or is_past or not listed:
                return "none"
            after = f"&after={listed[-1].get('id')}"


def _item_result(line: _Line) -> ItemResult:
    if line.error is not None and (line.error.code or line.error.message):
        reason = line.error.message or f"the provider did not get to the request: {line.error.code}"
        return unprocessed_item(reason, line.error.code or "batch_error")
    if line.response is None:
        return missing_item()
    if line.response.status_code != 200:
        return failed_item(line.response.status_code, bytes(line.response.body))
    return ItemResult(body=bytes(line.response.body))


def _failure(answer: Mapping[str, Any]) -> ModelProviderError:
    listed = objects_of(as_object(answer.get("errors")).get("data"))
    messages = [provider_message(each) for each in listed[:_SHOWN_ERRORS]]
    texts = "; ".join(each.message for each in messages) or "no reason was given"
    return ModelProviderError.in_kind(messages[0].kind if messages else None)(
        f"the provider refused the batch: {texts}",
        error_type=messages[0].error_type if messages else None,
        is_transient=bool(messages) and all(each.is_transient for each in messages),
    )
