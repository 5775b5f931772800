"""An HTTP server on the loopback that hands out tokens, as token endpoints and metadata servers do."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class TokenServer:
    """The requests so far, and the address."""

    url: str = ""
    requests: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)


@contextmanager
def token_server(answer: Callable[[int], tuple[int, Any]]) -> Generator[TokenServer, None, None]:
    """Answer the nth request, from 1, with a status and JSON."""
    served = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            served.requests.append((self.command, self.path, dict(self.headers.items()), body))
            status, content = answer(len(served.requests))
            encoded = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *args: object) -> None:
            pass

    for method in ("GET", "POST"):
        setattr(Handler, f"do_{method}", Handler.answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
