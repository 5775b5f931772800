"""Batch endpoints of a `ModelServer`: Anthropic's, OpenAI's and Google's.

A batch ends after a number of questions about its state; its requests are then answered like single ones.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal, TypeAlias

import anyio

from .model_reply import ModelReply, RecordedRequest, ReplyProtocol, to_json
from .model_server_files import ServedFiles

BatchEnding: TypeAlias = Literal["completed", "expired", "failed"]
"""The end of a batch: its requests are answered, or it expires before that, or it is refused as a whole."""

AnswerItem: TypeAlias = Callable[[RecordedRequest], Awaitable[tuple[ModelReply, ReplyProtocol]]]

_EXPIRED = "expired"
_CANCELLED = "cancelled"


@dataclass(slots=True, kw_only=True, eq=False)
class ServedBatch:
    """A batch that a server has.

    Args:
        id: Its id.
        name: The name that the client gave it; empty for none.
        requests: Its requests, by the ids of its items.
        ending: The end that it will have.
        polls: The number of questions about its state so far.
        state: Its state.
    """

    id: str
    name: str = ""
    requests: dict[str, RecordedRequest] = field(repr=False)
    ending: BatchEnding = "completed"
    polls: int = 0
    state: Literal["working", "completed", "expired", "failed", "cancelled"] = "working"
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    results: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]], repr=False)
    output_file: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether it has ended."""
        return self.state != "working"


class ServedBatches:
    """The batches of a server.

    Attributes:
        polls_until_end: The number of questions about the state of a batch until it ends; None for never.
        endings: The ends of the next batches; later ones are completed.
        loses: The number of the next submissions that are carried out and not answered.
        refusals: The HTTP statuses of the next submissions, which are refused.
        ends_when_listed: Whether batches end when they are listed, as if they had been asked about.
    """

    def __init__(self, files: ServedFiles, answer: AnswerItem) -> None:
        self.polls_until_end: int | None = 1
        self.endings: list[BatchEnding] = []
        self.loses = 0
        self.refusals: list[int] = []
        self.ends_when_listed = False
        self._files = files
        self._answer = answer
        self._batches: dict[str, ServedBatch] = {}
        self._numbers = count(1)
        self._changed: anyio.Event  # belongs to an event loop: replaced when the server is entered

    def begin(self) -> None:
        """Note that the server has been entered on the current event loop."""
        self._changed = anyio.Event()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; it is looked at after each request about a batch.

        Args:
            condition: The condition.
        """
        while not condition():
            await self._changed.wait()

    @property
    def all(self) -> list[ServedBatch]:
        """The batches so far, in the order of their submission."""
        return list(self._batches.values())

    async def serve(self, request: RecordedRequest) -> ModelReply | None:
        """Return the reply to a request about batches; None for another one."""
        reply = await self._serve(request)
        self._changed.set()
        self._changed = anyio.Event()
        return reply

    async def _serve(self, request: RecordedRequest) -> ModelReply | None:
        path = request.path.partition("?")[0]
        is_submission = path.endswith(("/batches", ":batchGenerateContent")) and request.method == "POST"
        if is_submission and self.refusals:
            return ModelReply(status=self.refusals.pop(0), body=to_json({"error": {"message": "refused"}}))
        if self.ends_when_listed and path.endswith("/batches") and not is_submission:
            for batch_id in self._batches:
                await self._poll(batch_id)
        if "/messages/batches" in path:
            return await self._serve_anthropic(request, path.partition("/messages/batches")[2].strip("/"))
        if path.endswith(":batchGenerateContent"):
            return self._submit_google(request, path)
        if "/v1/batches" in path:
            return await self._serve_openai(request, path.partition("/batches")[2].strip("/"))
        if "/v1beta/batches" in path or "/batches/google-" in path:
            return await self._serve_google(request, path.partition("/batches")[2].strip("/"))
        return None

    def _add(self, prefix: str, name: str, requests: dict[str, RecordedRequest]) -> ServedBatch:
        ending = self.endings.pop(0) if self.endings else "completed"
        batch_id = f"{prefix}{next(self._numbers)}"
        batch = ServedBatch(id=batch_id, name=name, requests=requests, ending=ending)
        self._batches[batch_id] = batch
        return batch

    def _submitted(self, answer: Mapping[str, Any]) -> ModelReply:
        if self.loses > 0:
            self.loses -= 1
            return ModelReply(body=b"", ending="close", ending_after="request")
        return _json(answer)

    async def _poll(self, batch_id: str) -> ServedBatch | None:
        batch = self._batches.get(batch_id)
        if batch is None:
            return None
        batch.polls += 1
        if not batch.is_ended and self.polls_until_end is not None and batch.polls >= self.polls_until_end:
            if batch.ending == "completed":
                for item_id, request in batch.requests.items():
                    reply, protocol = await self._answer(request)
                    body = protocol.whole(reply, request) if reply.status == 200 else protocol.error(reply)
                    batch.results[item_id] = reply.status, body if reply.body is None else reply.body
            batch.state = batch.ending
        return batch

    def _cancel(self, batch_id: str) -> ServedBatch | None:
        batch = self._batches.get(batch_id)
        if batch is not None and not batch.is_ended:
            batch.state = "cancelled"
        return batch

    async def _serve_anthropic(self, request: RecordedRequest, rest: str) -> ModelReply:
        if request.method == "POST" and not rest:
            path = request.path.partition("/batches")[0]
            requests = {
                str(each["custom_id"]): _item(request, path, each["params"])
                for each in request.body["requests"]
            }
            return self._submitted(_anthropic(self._add("msgbatch_", "", requests)))
        if not rest:
            listed = [_anthropic(each) for each in reversed(self.all) if each.id.startswith("msgbatch_")]
            return _json({"data": listed, "has_more": False})
        batch_id, _, action = rest.partition("/")
        if action == "results":
            batch = self._batches.get(batch_id)
            return _missing(batch_id) if batch is None else ModelReply(body=_anthropic_results(batch))
        batch = self._cancel(batch_id) if action == "cancel" else await self._poll(batch_id)
        return _missing(batch_id) if batch is None else _json(_anthropic(batch))

    async def _serve_openai(self, request: RecordedRequest, rest: str) -> ModelReply:
        if request.method == "POST" and not rest:
            content = self._files.contents.get(str(request.body["input_file_id"]), b"")
            lines = [json.loads(line) for line in content.split(b"\n") if line]
            requests = {line["custom_id"]: _item(request, line["url"], line["body"]) for line in lines}
            name = next(iter(request.body.get("metadata", {}).values()), "")
            return self._submitted(self._openai(self._add("batch_", name, requests)))
        if not rest:
            listed = [self._openai(each) for each in reversed(self.all) if each.id.startswith("batch_")]
            return _json({"data": listed, "has_more": False})
        batch_id, _, action = rest.partition("/")
        batch = self._cancel(batch_id) if action == "cancel" else await self._poll(batch_id)
        return _missing(batch_id) if batch is None else _json(self._openai(batch))

    def _openai(self, batch: ServedBatch) -> dict[str, Any]:
        if batch.is_ended and not batch.output_file and batch.state != "failed":
            batch.output_file = self._files.add(_openai_results(batch))
        states = {"working": "in_progress"}
        errors = [{"code": "invalid_batch", "message": "the batch is refused", "line": 1}]
        return {
            "id": batch.id,
            "object": "batch",
            "status": states.get(batch.state, batch.state),
            "created_at": int(batch.created_at.timestamp()),
            "metadata": {"nighthawk_batch": batch.name},
            "output_file_id": batch.output_file or None,
            "error_file_id": None,
            "errors": {"data": errors} if batch.state == "failed" else None,
        }

    def _submit_google(self, request: RecordedRequest, path: str) -> ModelReply:
        described = request.body["batch"]
        single = f"{path.removesuffix(':batchGenerateContent')}:generateContent"
        inlined = described["inputConfig"]["requests"]["requests"]
        requests = {each["metadata"]["key"]: _item(request, single, each["request"]) for each in inlined}
        return self._submitted(_google(self._add("google-", described["displayName"], requests)))

    async def _serve_google(self, request: RecordedRequest, rest: str) -> ModelReply:
        if not rest:
            listed = [_google(each) for each in self.all if each.id.startswith("google-")]
            return _json({"operations": listed})
        batch_id, _, action = rest.partition(":")
        batch = self._cancel(batch_id) if action == "cancel" else await self._poll(batch_id)
        return _missing(batch_id) if batch is None else _json(_google(batch))


def _item(request: RecordedRequest, path: str, body: dict[str, Any]) -> RecordedRequest:
    return replace(request, method="POST", path=path, content=to_json(body), body=body)


def _json(value: Mapping[str, Any]) -> ModelReply:
    return ModelReply(body=to_json(value))


def _missing(name: str) -> ModelReply:
    return ModelReply(status=404, body=to_json({"error": {"message": f"there is no {name}"}}))


def _anthropic(batch: ServedBatch) -> dict[str, Any]:
    kind = {"working": "processing", "completed": "succeeded", "cancelled": "canceled", "failed": "errored"}
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if batch.is_ended else "in_progress",
        "request_counts": {kind.get(batch.state, batch.state): len(batch.requests)},
        "created_at": batch.created_at.isoformat().replace("+00:00", "Z"),
    }


def _anthropic_results(batch: ServedBatch) -> bytes:
    lines: list[dict[str, Any]] = []
    for item_id in reversed(batch.requests):  # in any order
        status, body = batch.results.get(item_id, (0, b"{}"))
        if batch.state == "completed" and status == 200:
            result: dict[str, Any] = {"type": "succeeded", "message": json.loads(body)}
        elif batch.state == "completed":
            result = {"type": "errored", "error": json.loads(body)}
        else:
            result = {"type": "canceled" if batch.state == "cancelled" else "expired"}
        lines.append({"custom_id": item_id, "result": result})
    return b"\n".join(map(to_json, lines))


def _openai_results(batch: ServedBatch) -> bytes:
    lines: list[dict[str, Any]] = []
    for item_id in reversed(batch.requests):
        line: dict[str, Any] = {
            "id": f"line-{item_id}",
            "custom_id": item_id,
            "response": None,
            "error": None,
        }
        if item_id in batch.results:
            status, body = batch.results[item_id]
            line["response"] = {"status_code": status, "body": json.loads(body)}
        else:
            line["error"] = {"code": f"batch_{batch.state}", "message": "the request was not executed"}
        lines.append(line)
    return b"\n".join(map(to_json, lines))


def _google(batch: ServedBatch) -> dict[str, Any]:
    state = {"working": "RUNNING", "completed": "SUCCEEDED"}.get(batch.state, batch.state.upper())
    answer: dict[str, Any] = {
        "name": f"batches/{batch.id}",
        "metadata": {"displayName": batch.name, "state": f"BATCH_STATE_{state}"},
        "done": batch.is_ended,
    }
    if batch.state == "failed":
        answer["error"] = {"code": 3, "message": "the batch is refused", "status": "INVALID_ARGUMENT"}
    elif batch.results:
        answer["response"] = {
            "inlinedResponses": {
                "inlinedResponses": [
                    _google_result(item_id, *batch.results[item_id]) for item_id in batch.requests
                ]
            }
        }
    return answer


def _google_result(item_id: str, status: int, body: bytes) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(body)
    result = {"response": content} if status == 200 else {"error": content.get("error", content)}
    return {"metadata": {"key": item_id}, **result}
