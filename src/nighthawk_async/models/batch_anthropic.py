"""Batches of Anthropic Messages: `/messages/batches`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..wire.json_text import as_object
from .batch_protocol import (
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

_VERSION: Mapping[str, str] = {**JSON, "anthropic-version": "2023-06-01"}
_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_PATH = "/messages/batches"
_PAGE = 100


class _Result(Struct):
    type: str
    message: Raw = Raw()
    error: Raw = Raw()


class _Line(Struct):
    custom_id: str
    result: _Result


class _Request(Struct):
    custom_id: str
    params: Raw


class AnthropicBatches:
    """See `batch_protocol.BatchProtocol`."""

    max_requests = 100_000
    max_bytes = 250_000_000

    async def submit(
        self,
        calls: EndpointCalls,
        batch: SentBatch,
        items: Sequence[BatchItem],
        headers: Mapping[str, str],
    ) -> str:
        """Submit a batch; see `batch_protocol.BatchProtocol`."""
        requests = [_Request(custom_id=item.id, params=Raw(item.body)) for item in items]
        body = msgspec.json.encode({"requests": requests})
        answer = await calls.call(
            "POST", _PATH, headers={**headers, **_VERSION}, body=body, is_repeatable=False
        )
        return text_of(answer.json(), "id")

    async def status(self, calls: EndpointCalls, batch_id: str) -> BatchStatus:
        """Return the state of a batch; see `batch_protocol.BatchProtocol`."""
        answer = (await calls.call("GET", f"{_PATH}/{batch_id}", headers=_VERSION)).json()
        return BatchStatus(is_ended=text_of(answer, "processing_status") == "ended", answer=answer)

    async def results(
        self, calls: EndpointCalls, batch_id: str, batch: SentBatch, status: BatchStatus
    ) -> dict[str, ItemResult]:
        """Return the results of a batch; see `batch_protocol.BatchProtocol`."""
        content = await calls.results(f"{_PATH}/{batch_id}/results", batch.count, headers=_VERSION)
        return {line.custom_id: _item_result(line.result) for line in json_lines(content, _Line)}

    async def cancel(self, calls: EndpointCalls, batch_id: str) -> None:
        """Cancel a batch; see `batch_protocol.BatchProtocol`."""
        await calls.call("POST", f"{_PATH}/{batch_id}/cancel", headers=_VERSION)

    async def find(self, calls: EndpointCalls, batch: SentBatch) -> Found:
        """Look for a batch; see `batch_protocol.BatchProtocol`.

        The provider keeps no name of a batch, and shows the ids of items only with the results. So those that
        began at the time and have as many items are waited for.
        """
        found: Found = "none"
        after = ""
        while True:
            page = (await calls.call("GET", f"{_PATH}?limit={_PAGE}{after}", headers=_VERSION)).json()
            listed = objects_of(page.get("data"))
            for each in listed:
                if not _may_be(each, batch):
                    continue
                if each.get("processing_status") != "ended":
                    found = "unclear"
                elif await self._has_results_of(calls, str(each.get("id")), batch):
                    return str(each.get("id"))
            last = listed[-1] if listed else {}
            # The latest come first.
            is_past = _created_at(last) is not None and not _may_come_after(last, batch)
            if not page.get("has_more") or is_past or not listed:
                return found
            after = f"&after_id={last.get('id')}"

    async def _has_results_of(self, calls: EndpointCalls, batch_id: str, batch: SentBatch) -> bool:
        content = await calls.results(f"{_PATH}/{batch_id}/results", batch.count, headers=_VERSION)
        return any(line.custom_id.startswith(f"{batch.key}-") for line in json_lines(content, _Line))


def _item_result(result: _Result) -> ItemResult:
    if result.type == "succeeded":
        return ItemResult(body=bytes(result.message))
    if result.type == "errored":
        kind = as_object(as_object(msgspec.json.decode(result.error or b"{}")).get("error")).get("type")
        return failed_item(_STATUSES.get(str(kind), 500), bytes(result.error))
    if result.type == "expired":
        return unprocessed_item("the batch expired before the provider got to the request", "expired")
    if result.type == "canceled":
        return unprocessed_item("the batch was cancelled before the provider got to the request", "canceled")
    return missing_item()


def _created_at(listed: Mapping[str, Any]) -> float | None:
    try:
        return datetime.fromisoformat(str(listed.get("created_at"))).timestamp()
    except ValueError:
        return None


def _may_be(listed: Mapping[str, Any], batch: SentBatch) -> bool:
    counts = as_object(listed.get("request_counts"))
    created_at = _created_at(listed)
    has_count = sum(each for each in counts.values() if isinstance(each, int)) == batch.count
    return created_at is not None and has_count and batch.may_have_begun_at(created_at)


def _may_come_after(listed: Mapping[str, Any], batch: SentBatch) -> bool:
    """Whether older batches than this one may have begun at the time of a batch."""
    created_at = _created_at(listed)
    return created_at is None or created_at >= batch.sent_at or batch.may_have_begun_at(created_at)
