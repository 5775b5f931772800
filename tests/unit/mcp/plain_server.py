"""A server of the Model Context Protocol in plain Python, which starts in an instant; run as a script.

Its one argument is a folder, in which it keeps what it was asked. Each call runs in a thread of its own.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
OPTIONS = set(sys.argv[2:])
TEXT = {"type": "string"}
PAGE = 4


def object_schema(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


class Server:
    def __init__(self) -> None:
        self.writing = threading.Lock()
        self.answers: dict[object, Any] = {}
        self.answered = threading.Condition()
        self.extra: list[dict[str, Any]] = []
        self.asked = 0

    def send(self, **message: object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        with self.writing:
            sys.stdout.write(line)
            sys.stdout.flush()

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Send a request to the client, and wait for its answer."""
        with self.answered:
            self.asked += 1
            number = f"ask-{self.asked}"
        self.send(id=number, method=method, params=params)
        with self.answered:
            self.answered.wait_for(lambda: number in self.answers)
            return self.answers.pop(number)

    def serve(self) -> None:
        note("started")
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                with self.answered:
                    self.answers[message["id"]] = message.get("result", message.get("error"))
                    self.answered.notify_all()
            elif "id" in message:
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()
            elif message["method"] == "notifications/cancelled":
                note("cancelled")
        note("end_of_input", time.monotonic())

    def handle(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        handler = getattr(self, "on_" + method.replace("/", "_"), None)
        if handler is None:
            self.send(id=message["id"], error={"code": -32601, "message": f"no method {method}"})
            return
        try:
            result = handler(params)
        except RefusedError as refused:
            self.send(id=message["id"], error=refused.error)
        else:
            self.send(id=message["id"], result=result)

    def on_initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        note("initialized", sorted(params["capabilities"]))
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "plain", "version": "1"},
            "instructions": "A server for tests.",
        }

    def on_tools_list(self, params: dict[str, Any]) -> dict[str, Any]:
        tools = [*TOOLS.values(), *self.extra]
        begin = int(params.get("cursor", "0"))
        page: dict[str, Any] = {"tools": [each["definition"] for each in tools[begin : begin + PAGE]]}
        if begin + PAGE < len(tools):
            page["nextCursor"] = str(begin + PAGE)
        return page

    def on_tools_call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params["name"]
        note(name, params.get("arguments"))
        token = params.get("_meta", {}).get("progressToken")
        arguments = params.get("arguments") or {}
        known = {each["definition"]["name"]: each for each in [*TOOLS.values(), *self.extra]}
        if name not in known:
            raise RefusedError(-32602, f"there is no tool {name}")
        content = known[name]["function"](self, arguments, token)
        if isinstance(content, dict):
            return content
        return {"content": [{"type": "text", "text": content}]}

    def on_resources_list(self, params: dict[str, Any]) -> dict[str, Any]:
        begin = int(params.get("cursor", "0"))
        page: dict[str, Any] = {"resources": [{"uri": f"plain://{begin}", "name": f"number {begin}"}]}
        return page if begin == 2 else {**page, "nextCursor": str(begin + 1)}

    def on_resources_templates_list(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"resourceTemplates": [{"uriTemplate": "plain://{number}", "name": "numbers"}]}

    def on_resources_read(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["uri"] != "plain://1":
            raise RefusedError(-32602, f"there is no resource {params['uri']}")
        return {
            "contents": [
                {"uri": "plain://1", "mimeType": "text/plain", "text": "one"},
                {"uri": "plain://1", "blob": "AAEC"},
            ]
        }

    def on_prompts_list(self, params: dict[str, Any]) -> dict[str, Any]:
        arguments = [{"name": "subject", "required": True}, {"name": "style"}]
        return {"prompts": [{"name": "poem", "description": "Writes a poem.", "arguments": arguments}]}

    def on_prompts_get(self, params: dict[str, Any]) -> dict[str, Any]:
        text = f"Write a poem about {params['arguments']['subject']}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


class RefusedError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


def note(what: str, detail: object = None) -> None:
    """Add a line to the record of what the server was asked."""
    with (FOLDER / "record.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([what, detail]) + "\n")


TOOLS: dict[str, dict[str, Any]] = {}


def tool(
    schema: dict[str, Any], *, hints: dict[str, bool] | None = None, output: dict[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.replace("_", "-")
        definition: dict[str, Any] = {
            "name": name,
            "description": function.__doc__ or "",
            "inputSchema": schema,
        }
        if hints:
            definition["annotations"] = hints
        if output:
            definition["outputSchema"] = output
        TOOLS[name] = {"definition": definition, "function": function}
        return function

    return add


READ_ONLY = {"readOnlyHint": True}
NOTHING: dict[str, Any] = {"type": "object"}


@tool(object_schema(text={**TEXT, "description": "Some text."}), hints=READ_ONLY)
def echo(server: Server, given: dict[str, Any], token: object) -> str:
    """Return the text."""
    return str(given["text"])


@tool(
    {
        "type": "object",
        "properties": {
            "class": TEXT,
            "items": {"type": "array", "items": object_schema(name=TEXT)},
            "count": {"type": "integer", "default": 3},
            "owner": {"type": ["string", "null"]},
            "kind": {"enum": ["a", "b"]},
        },
        "required": ["class", "items"],
    },
    hints=READ_ONLY,
)
def show_arguments(server: Server, given: dict[str, Any], token: object) -> str:
    """Return the arguments as JSON."""
    return json.dumps(given, sort_keys=True)


@tool(
    object_schema(a={"type": "integer"}, b={"type": "integer"}),
    hints=READ_ONLY,
    output=object_schema(result={"type": "integer"}),
)
def add(server: Server, given: dict[str, Any], token: object) -> dict[str, Any]:
    """Add two numbers."""
    total = given["a"] + given["b"]
    if given["a"] == 13:
        return {"content": [], "structuredContent": {"result": "thirteen"}}
    return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}


@tool(object_schema(line=TEXT))
def append(server: Server, given: dict[str, Any], token: object) -> str:
    """Append a line to a file, in a way that loses lines when two calls run at the same time."""
    file = FOLDER / "lines.txt"
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    time.sleep(0.002)
    file.write_text(f"{before}{given['line']}\n", encoding="utf-8")
    return "done"


@tool(object_schema(text=TEXT), hints={"idempotentHint": True})
def store(server: Server, given: dict[str, Any], token: object) -> str:
    """Store a text; the first time, the server dies instead."""
    if not (FOLDER / "died").exists():
        (FOLDER / "died").touch()
        os._exit(1)
    return f"stored {given['text']}"


@tool(NOTHING)
def die(server: Server, given: dict[str, Any], token: object) -> str:
    """End the server."""
    os._exit(1)


@tool(NOTHING, hints=READ_ONLY)
def hang(server: Server, given: dict[str, Any], token: object) -> str:
    """Never answer."""
    note("hanging")
    time.sleep(600)
    return ""


@tool(NOTHING, hints=READ_ONLY)
def meet(server: Server, given: dict[str, Any], token: object) -> str:
    """Wait until another call is here too."""
    MEETING.wait(timeout=20)
    return "met"


MEETING = threading.Barrier(2)


@tool(object_schema(steps={"type": "integer"}), hints=READ_ONLY)
def work(server: Server, given: dict[str, Any], token: object) -> str:
    """Report progress."""
    for step in range(given["steps"]):
        params = {
            "progressToken": token,
            "progress": step + 1,
            "total": given["steps"],
            "message": f"step {step + 1}",
        }
        server.send(method="notifications/progress", params=params)
        time.sleep(0.05)
    return "worked"


@tool(object_schema(kind=TEXT), hints=READ_ONLY)
def fail(server: Server, given: dict[str, Any], token: object) -> dict[str, Any]:
    """Fail."""
    if given["kind"] == "protocol":
        raise RefusedError(-32602, "no such thing")
    if given["kind"] == "internal":
        raise RefusedError(-32603, "out of order")
    return {"content": [{"type": "text", "text": given["kind"]}], "isError": True}


@tool(object_schema(message=TEXT))
def ask(server: Server, given: dict[str, Any], token: object) -> str:
    """Ask a person."""
    schema = {
        "type": "object",
        "properties": {
            "name": {**TEXT, "minLength": 2},
            "age": {"type": "integer", "minimum": 0},
            "size": {"enum": ["S", "L"]},
        },
        "required": ["name"],
    }
    return json.dumps(server.ask("elicitation/create", message=given["message"], requestedSchema=schema))


@tool(NOTHING)
def visit(server: Server, given: dict[str, Any], token: object) -> str:
    """Ask a person to open an address."""
    answer = server.ask(
        "elicitation/create", mode="url", message="Sign in.", url="https://login.example/", elicitationId="1"
    )
    return json.dumps(answer)


@tool(NOTHING)
def sign_in_first(server: Server, given: dict[str, Any], token: object) -> str:
    """Refuse until a person has opened an address."""
    if not (FOLDER / "asked").exists():
        (FOLDER / "asked").touch()
        asked = {
            "mode": "url",
            "message": "Sign in.",
            "url": "https://login.example/",
            "elicitationId": "1",
        }
        raise RefusedError(-32042, "sign in first", {"elicitations": [asked]})
    return "welcome"


@tool(object_schema(question=TEXT))
def sample(server: Server, given: dict[str, Any], token: object) -> str:
    """Ask the model of the client."""
    content = {"type": "text", "text": given["question"]}
    answer = server.ask(
        "sampling/createMessage",
        messages=[{"role": "user", "content": content}],
        systemPrompt="Be brief.",
        maxTokens=50,
    )
    return json.dumps(answer)


@tool(NOTHING, hints=READ_ONLY)
def roots(server: Server, given: dict[str, Any], token: object) -> str:
    """Return the folders of the client."""
    return json.dumps(server.ask("roots/list"))


@tool(object_schema(description=TEXT))
def change_tools(server: Server, given: dict[str, Any], token: object) -> str:
    """Offer one more tool, or change its description."""
    definition = {
        "name": "late",
        "description": given["description"],
        "inputSchema": object_schema(text=TEXT),
    }
    server.extra = [
        {"definition": definition, "function": lambda server, given, token: "late " + given["text"]}
    ]
    server.send(method="notifications/tools/list_changed")
    return "changed"


@tool(NOTHING, hints=READ_ONLY)
def contents(server: Server, given: dict[str, Any], token: object) -> dict[str, Any]:
    """Return everything that a result may hold."""
    return {
        "content": [
            {"type": "text", "text": "text"},
            {"type": "image", "data": "AAEC", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "plain://1", "name": "one"},
            {"type": "resource", "resource": {"uri": "plain://1", "text": "one"}},
        ]
    }


@tool(object_schema(kind=TEXT), hints=READ_ONLY)
def one_content(server: Server, given: dict[str, Any], token: object) -> dict[str, Any]:
    """Return one item, or none."""
    if given["kind"] == "none":
        return {"content": []}
    if given["kind"] == "json":
        return {"content": [{"type": "text", "text": '{"a": 1}'}]}
    return {"content": [{"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}]}


@tool(NOTHING, hints=READ_ONLY)
def log(server: Server, given: dict[str, Any], token: object) -> str:
    """Log."""
    server.send(method="notifications/message", params={"level": "warning", "data": "a message of the log"})
    print("a line on standard error", file=sys.stderr, flush=True)
    return "logged"


@tool(NOTHING, hints=READ_ONLY)
def environment(server: Server, given: dict[str, Any], token: object) -> str:
    """Return the environment."""
    return json.dumps([dict(os.environ), os.getcwd()])


@tool(NOTHING)
def leave_behind(server: Server, given: dict[str, Any], token: object) -> str:
    """Start a process that outlives the server."""
    import subprocess

    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    return str(child.pid)


@tool(NOTHING, hints=READ_ONLY)
def garbage(server: Server, given: dict[str, Any], token: object) -> str:
    """Write lines that are no messages."""
    with server.writing:
        sys.stdout.write("this is no message\n{}\n[1, 2\n\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\xfe\n")
        sys.stdout.buffer.flush()
    return "written"


if __name__ == "__main__":
    if "garbage" in OPTIONS:
        print("Welcome to the server!", flush=True)
        time.sleep(600)
    if "ends" in OPTIONS:
        print("cannot read its settings", file=sys.stderr, flush=True)
        sys.exit(3)
    if "dies_again" in OPTIONS and (FOLDER / "died").exists():
        sys.exit(4)
    if "hangs_first" in OPTIONS and not (FOLDER / "hung").exists():
        (FOLDER / "hung").touch()
        note("started")
        sys.stdin.read()
        sys.exit()
    if "collision" in OPTIONS:
        TOOLS["a_b"] = {"definition": {"name": "a_b", "inputSchema": NOTHING}, "function": echo}
        TOOLS["a.b"] = {"definition": {"name": "a.b", "inputSchema": NOTHING}, "function": echo}
    for option in OPTIONS:
        if option.startswith("odd_names="):
            properties = dict.fromkeys(json.loads(option.partition("=")[2]), TEXT)
            schema = {"type": "object", "properties": properties, "required": list(properties)}
            TOOLS["odd"] = {"definition": {"name": "odd", "inputSchema": schema}, "function": show_arguments}
    if "ignores_end" in OPTIONS:
        threading.Thread(target=lambda: time.sleep(600)).start()
    Server().serve()
