"""Servers on loopback that answer as vLLM and Ollama do, in the shapes that those have in November 2026."""

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

CHAT = "/v1/chat/completions"
Seen: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""A request: its method, its path, and its JSON."""


@dataclass(kw_only=True)
class Answer:
    """An answer to a chat completion.

    Args:
        text: Its text.
        reasoning: Its reasoning.
        calls: Its tool calls, names with arguments.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


class RefusedError(Exception):
    """An HTTP error with a body."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(kw_only=True)
class FakeServer:
    """A server's endpoints.

    Args:
        pages: The JSON that paths answer with.
        chat: Answers a chat completion.
        key: The key that requests below `/v1` must carry; empty for none.
        never: Paths that are answered when the server ends.
        seen: All requests.
        closing: Set when the server ends.
    """

    pages: dict[str, Any]
    chat: Callable[[Mapping[str, Any]], Answer]
    key: str = ""
    never: frozenset[str] = frozenset()
    seen: list[Seen] = field(default_factory=list[Seen])
    closing: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Generator[str]:
        """Serve; gives the URL without a path."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            self.closing.set()
            server.shutdown()
            thread.join()
            server.server_close()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        """The JSON of a page, or an `Answer`."""
        data: Mapping[str, Any] = json.loads(body) if body else {}
        self.seen.append((method, path, data))
        if path in self.never:
            self.closing.wait(240)
        if self.key and path.startswith("/v1") and headers.get("authorization") != f"Bearer {self.key}":
            raise RefusedError(401, {"error": "Unauthorized"})
        if path == CHAT and method == "POST":
            return self.chat(data)
        page = self.pages.get(path)
        if page is None:
            raise RefusedError(404, {"detail": "Not Found"})
        return page(data) if callable(page) else page

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def _answer(self, method: str) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, kind = 200, "application/json"
                try:
                    found = fake.respond(method, self.path, self.headers, body)  # type: ignore[arg-type]
                    if isinstance(found, Answer):
                        kind, sent = "text/event-stream", b"".join(streamed(found))
                    else:
                        sent = found if isinstance(found, bytes) else json.dumps(found).encode()
                except RefusedError as error:
                    status, sent = error.status, json.dumps(error.body).encode()
                if fake.closing.is_set():
                    return
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def streamed(answer: Answer) -> Iterator[bytes]:
    """A chat completion as server-sent events."""
    calls = [
        {
            "index": i,
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": n, "arguments": json.dumps(a)},
        }
        for i, (n, a) in enumerate(answer.calls)
    ]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": answer.reasoning}] if answer.reasoning else []
    deltas += [{"content": answer.text}] if answer.text else []
    deltas += [{"tool_calls": calls}] if calls else []
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for delta in deltas:
        yield _event({**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = "tool_calls" if calls else "stop"
    yield _event({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield _event({**about, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def question_of(body: Mapping[str, Any]) -> str:
    """The text of the last message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def has_image(body: Mapping[str, Any]) -> bool:
    """Whether the last message holds an image."""
    content = body["messages"][-1]["content"]
    return not isinstance(content, str) and any(part["type"] == "image_url" for part in content)


def capable(body: Mapping[str, Any]) -> Answer:
    """The answer of a model that does everything it is asked for."""
    if "response_format" in body:
        return Answer(text='{"code": "m3"}')
    if has_image(body):
        return Answer(text="Red.")
    if body.get("reasoning_effort") == "high":
        return Answer(reasoning="s-t-r-a-w…", text="10")
    if body.get("tools"):
        count = 2 if "twice" in question_of(body) else 1
        return Answer(calls=(("say_word", {"word": "ready"}),) * count)
    return Answer(text="ready")


def vllm(chat: Callable[[Mapping[str, Any]], Answer] = capable, **options: Any) -> FakeServer:
    """A vLLM server of one model."""
    name = "Qwen/Qwen3-8B"

    def answer(body: Mapping[str, Any]) -> Answer:
        if body["model"] != name:
            message = f"The model `{body['model']}` does not exist."
            error = {"message": message, "type": "NotFoundError", "param": "model", "code": 404}
            raise RefusedError(404, {"error": error})
        return chat(body)

    model = {
        "id": name,
        "object": "model",
        "created": 1_794_000_000,
        "owned_by": "vllm",
        "root": name,
        "parent": None,
        "max_model_len": 32_768,
        "permission": [{"id": "modelperm-1", "object": "model_permission", "allow_sampling": True}],
    }
    pages = {"/v1/models": {"object": "list", "data": [model]}, "/version": {"version": "0.24.0"}}
    return FakeServer(pages=pages, chat=answer, **options)


def refused_by_vllm(message: str) -> RefusedError:
    """An error in vLLM's shape."""
    return RefusedError(
        400, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}
    )


def ollama(
    *,
    capabilities: tuple[str, ...] = ("completion", "tools", "thinking", "vision"),
    chat: Callable[[Mapping[str, Any]], Answer] = capable,
    loaded: Mapping[str, Any] | None = None,
    **shown: Any,
) -> FakeServer:
    """An Ollama server of one model, `house-model:8b`."""
    name = "house-model:8b"
    details = {
        "parent_model": "",
        "format": "gguf",
        "family": "qwen3vl",
        "families": ["qwen3vl"],
        "parameter_size": "8.8B",
        "quantization_level": "Q4_K_M",
    }
    page = {
        "modelfile": "FROM …",
        "parameters": "temperature                    1\ntop_k                          20",
        "template": "{{ .Prompt }}",
        "details": details,
        "model_info": {"general.architecture": "qwen3vl", "qwen3vl.context_length": 262_144},
        "capabilities": list(capabilities),
        "modified_at": "2026-10-01T10:00:00.000000000Z",
        **shown,
    }

    def show(body: Mapping[str, Any]) -> Any:
        if body.get("model") != name:
            raise RefusedError(404, {"error": f"model '{body.get('model')}' not found"})
        return page

    def answer(body: Mapping[str, Any]) -> Answer:
        if body["model"] != name:
            message = f"model '{body['model']}' not found"
            error = {"message": message, "type": "not_found_error", "param": None, "code": None}
            raise RefusedError(404, {"error": error})
        return chat(body)

    model = {"id": name, "object": "model", "created": 1_794_000_000, "owned_by": "library"}
    running = [] if loaded is None else [{"name": name, "model": name, "size": 1, **loaded}]
    pages = {
        "/v1/models": {"object": "list", "data": [model]},
        "/api/version": {"version": "0.40.12"},
        "/api/show": show,
        "/api/ps": {"models": running},
    }
    return FakeServer(pages=pages, chat=answer)
