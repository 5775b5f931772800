"""Send the first request of every agent to a server of this process, and write down its body."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from . import calling, changing, deciding, extracting, writing

ALL = {**extracting.ASKED, **deciding.ASKED, **changing.ASKED, **writing.ASKED, **calling.ASKED}


class Keeper(BaseHTTPRequestHandler):
    """Keeps the body of each request and refuses it, so that the agent ends."""

    bodies: "list[dict[str, Any]]" = []  # noqa: RUF012  # the server makes an object of this for each connection

    def do_POST(self) -> None:  # the name is the standard library's
        """Keep a body."""
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(400)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def main() -> None:
    """Write the bodies by the names of the blocks, and the package's version, to the file that is named."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    model = OpenAIChatModel("gpt-5.4-nano", provider=provider)
    bodies: dict[str, dict[str, Any]] = {}
    for name, asked in ALL.items():
        Keeper.bodies.clear()
        try:
            asked.agent.run_sync(asked.prompt, model=model, deps=asked.deps)
        except AgentRunError:
            (bodies[name],) = Keeper.bodies
        else:
            raise AssertionError(f"{name}: the request was not sent")
    server.shutdown()
    captured = {"version": version("pydantic-ai-slim"), "bodies": bodies}
    Path(sys.argv[1]).write_text(json.dumps(captured), encoding="utf-8")


if __name__ == "__main__":
    main()
