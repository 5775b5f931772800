"""An MCP server with one tool, for Codex."""

import json
import sys
from typing import Any

TOOL = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object", "properties": {}}}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "echo", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": f"you said {params['arguments']['text']}"}]}
        case _:
            return {}


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received:
        result = {"jsonrpc": "2.0", "id": received["id"], "result": answer(received)}
        print(json.dumps(result), flush=True)
