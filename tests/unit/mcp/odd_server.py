"""A server that says whatever it is told to, over standard input and output or HTTP, in both eras.

As a script, its one argument is the configuration in JSON: the lists by method, the results by tool, and the
tools that are listed after a call of the tool `change`.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

GOOD = {"name": "good", "inputSchema": {"type": "object"}}
CHANGE = {"name": "change", "inputSchema": {"type": "object"}}
FINE = {"content": [{"type": "text", "text": "fine"}]}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
KEYS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
PAGE = 3


class OddServer:
    """Answers requests.

    Args:
        configuration: The lists by key, `results`, `late`, whether the server is `modern`, what it says of
            itself in its `greeting`, and what its pages have `beside` their lists.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._given = configuration
        self._is_changed = False

    def answers(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages that answer one."""
        if "id" not in message or "method" not in message:
            return []
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            error = {"code": -32601, "message": "no such method"}
            return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
        if self._given.get("modern"):
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        is_change = message["method"] == "tools/call" and message["params"]["name"] == "change"
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return [note, answer] if is_change else [answer]

    def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        if method == "initialize" and not self._given.get("modern"):
            info = {"name": "odd", "version": "1"}
            said = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
            said |= self._given.get("greeting", {})
            return {key: value for key, value in said.items() if value != "<none>"}
        if method == "server/discover" and self._given.get("modern"):
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if method in KEYS:
            return self._page(KEYS[method], int(params.get("cursor", 0)))
        if method == "prompts/get":
            return {"messages": self._given["messages"]}
        if method == "tools/call":
            self._is_changed = self._is_changed or params["name"] == "change"
            result = self._given.get("results", {}).get(params["name"], FINE)
            if result == "<arguments>":
                text = " ".join(f"{name}={value}" for name, value in params["arguments"].items())
                return {"content": [{"type": "text", "text": text}]}
            return result
        return None

    def _page(self, key: str, begin: int) -> dict[str, Any]:
        entries = list(self._given.get(key, []))
        if key == "tools":
            entries = [GOOD, CHANGE, *entries, *(self._given.get("late", []) if self._is_changed else [])]
        more = {"nextCursor": str(begin + PAGE)} if begin + PAGE < len(entries) else {}
        return {key: entries[begin : begin + PAGE], **more, **self._given.get("beside", {})}


def written(answer: object) -> str:
    """An answer as it is sent: the command line takes no long text, and Python writes no long number."""
    return json.dumps(answer).replace("<huge>", "a" * 300_000).replace('"<digits>"', "9" * 5_000)


def application(configuration: Mapping[str, Any]) -> Any:
    """The server as an ASGI application, without sessions."""
    server = OddServer(configuration)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (event := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{event['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", scope["method"] == "POST"
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        answers = [each for each in server.answers(json.loads(body)) if "id" in each] if body else []
        status = 405 if scope["method"] != "POST" else 200 if answers else 202
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": written(answers[0]).encode() if answers else b""})

    return app


if __name__ == "__main__":
    odd = OddServer(json.loads(sys.argv[1]))
    for line in sys.stdin:
        for each in odd.answers(json.loads(line)):
            sys.stdout.write(written(each) + "\n")
            sys.stdout.flush()
