"""Batches of the Gemini API: `:batchGenerateContent` with the requests in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import ModelProviderError
from ..types.json import is_json_list, is_json_object
from ..wire.json_text import as_object
from ..wire.provider_errors import provider_message
from .batch_protocol import (
    BatchItem,
    BatchStatus,
    Found,
    ItemResult,
    SentBatch,
    failed_item,
    unprocessed_item,
)
from .endpoint_calls import EndpointCalls, objects_of, text_of

_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"})
_UNPROCESSED: Mapping[str, str] = {
    "CANCELLED": "the batch was cancelled before the provider got to the request",
    "EXPIRED": "the batch expired before the provider got to the request",
}
_PAGE = 100

# The HTTP statuses of the codes of google.rpc.Status; the Gemini API writes one or the other.
_STATUSES: Mapping[int, int] = {
    1: 499,
    2: 500,
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    15: 500,
    16: 401,
}


class GoogleBatches:
    """See `batch_protocol.BatchProtocol`."""

    max_requests = 10_000
    max_bytes = 19_000_000

    async def submit(
        self,
        calls: EndpointCalls,
        batch: SentBatch,
        items: Sequence[BatchItem],
        headers: Mapping[str, str],
    ) -> str:
        """Submit a batch; see `batch_protocol.BatchProtocol`."""
        requests = [{"request": Raw(item.body), "metadata": {"key": item.id}} for item in items]
        body = {
            "batch": {"displayName": batch.key, "inputConfig": {"requests": {"requests": requests}}},
        }
        path = f"{batch.path.removesuffix(':generateContent')}:batchGenerateContent"
        answer = await calls.call("POST", path, body=msgspec.json.encode(body), is_repeatable=False)
        return text_of(answer.json(), "name")

    async def status(self, calls: EndpointCalls, batch_id: str) -> BatchStatus:
        """Return the state of a batch; see `batch_protocol.BatchProtocol`."""
        # The results may be part of the answer.
        answer = (await calls.call("GET", f"/{batch_id}", max_bytes=self.max_bytes * 20)).json()
        state = _state(answer)
        failure = None
        if state == "FAILED":
            reported = provider_message({"error": answer.get("error") or _metadata(answer).get("error")})
            failure = ModelProviderError.in_kind(reported.kind)(
                f"the provider refused the batch: {reported.message}",
                error_type=reported.error_type,
                is_transient=reported.is_transient,
            )
        return BatchStatus(is_ended=state in _ENDED, failure=failure, answer=answer)

    async def results(
        self, calls: EndpointCalls, batch_id: str, batch: SentBatch, status: BatchStatus
    ) -> dict[str, ItemResult]:
        """Return the results of a batch; see `batch_protocol.BatchProtocol`."""
        found: dict[str, ItemResult] = {}
        for position, each in enumerate(_inlined(status.answer)):
            metadata = as_object(each.get("metadata"))
            # The metadata do not always come back; the responses are in the order of the requests.
            found[str(metadata.get("key") or batch.item_id(position))] = _item_result(each)
        state = _state(status.answer)
        if state in _UNPROCESSED:
            for position in range(batch.count):
                unprocessed = unprocessed_item(_UNPROCESSED[state], state.lower())
                found.setdefault(batch.item_id(position), unprocessed)
        return found

    async def cancel(self, calls: EndpointCalls, batch_id: str) -> None:
        """Cancel a batch; see `batch_protocol.BatchProtocol`."""
        await calls.call("POST", f"/{batch_id}:cancel", body=b"{}")

    async def find(self, calls: EndpointCalls, batch: SentBatch) -> Found:
        """Look for a batch by its name; see `batch_protocol.BatchProtocol`."""
        token = ""
        while True:
            path = f"/batches?pageSize={_PAGE}{token}"
            page = (await calls.call("GET", path, max_bytes=self.max_bytes * 20)).json()
            for each in objects_of(page.get("operations")):
                if _metadata(each).get("displayName") == batch.key:
                    return text_of(each, "name")
            following = page.get("nextPageToken")
            if not isinstance(following, str) or not following:
                return "none"
            token = f"&pageToken={following}"


def _metadata(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_object(answer.get("metadata"))


def _state(answer: Mapping[str, Any]) -> str:
    """The state without its prefix, which is `BATCH_STATE_` or `JOB_STATE_`."""
    return str(_metadata(answer).get("state")).rpartition("STATE_")[2]


def _inlined(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    for place in (_metadata(answer).get("output"), answer.get("response")):
        responses: object = as_object(place).get("inlinedResponses")
        if is_json_object(responses):
            responses = responses.get("inlinedResponses")
        if is_json_list(responses):
            return objects_of(responses)
    return []


def _item_result(answer: Mapping[str, Any]) -> ItemResult:
    error = answer.get("error")
    if error:
        code = as_object(error).get("code")
        number = code if isinstance(code, int) else 500
        return failed_item(_STATUSES.get(number, number), msgspec.json.encode({"error": error}))
    return ItemResult(body=msgspec.json.encode(answer.get("response") or {}))
