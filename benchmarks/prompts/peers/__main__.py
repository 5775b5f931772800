"""Run every agent against a server of this process, and write down the bodies of its requests."""

import json
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from . import calling, changing, deciding, extracting, writing
from .asking import Called

ALL = {**extracting.ASKED, **deciding.ASKED, **changing.ASKED, **writing.ASKED, **calling.ASKED}


class Keeper(BaseHTTPRequestHandler):
    """Keeps the body of each request and answers with the calls that are due.

    The request after the last call is the one that is answered for good. It is refused, so that the agent
    ends; an answer would be followed by no further request.
    """

    bodies: "list[dict[str, Any]]" = []  # noqa: RUF012  # the server makes an object of this for each connection
    calls: Sequence[Sequence[Called]] = ()

    def do_POST(self) -> None:  # the name is the standard library's
        """Keep a body, and answer it."""
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        due = self.calls[len(self.bodies) - 1] if len(self.bodies) <= len(self.calls) else ()
        answer = json.dumps(_completion(due) if due else {}).encode()
        self.send_response(200 if due else 400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def _completion(calls: Sequence[Called]) -> dict[str, Any]:
    """A response of Chat Completions that makes calls."""
    made = [
        {"id": f"call_{at}", "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
        for at, each in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt-5.4-nano",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }


def main() -> None:
    """Write the bodies by the names of the blocks, and the package's version, to the file that is named."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    model = OpenAIChatModel("gpt-5.4-nano", provider=provider)
    bodies: dict[str, list[dict[str, Any]]] = {}
    for name, asked in ALL.items():
        Keeper.bodies.clear()
        Keeper.calls = asked.calls
        try:
            asked.agent.run_sync(asked.prompt, model=model, deps=asked.deps)
        except AgentRunError:
            bodies[name] = [*Keeper.bodies]
        if len(bodies.get(name, ())) != len(asked.calls) + 1:
            raise AssertionError(f"{name}: not every request was sent")
    server.shutdown()
    captured = {"version": version("pydantic-ai-slim"), "bodies": bodies}
    Path(sys.argv[1]).write_text(json.dumps(captured), encoding="utf-8")


if __name__ == "__main__":
    main()
