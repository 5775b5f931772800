"""A program that behaves like the command line of Claude Code, for tests where that is not installed.

It asks the same endpoint, and has one tool of its own, `Bash`. `FAKE_CLAUDE` makes it fail:

- `garbage`: it writes a line that is no message, after the first response.
- `crash`: it ends by itself with code 3, after the first response.
- `early`: it ends its turn without carrying out the calls of the first response.
- `long`: it writes a line that never ends, after the first response.
- `leaks`: it writes its key to its standard error and its last words.
- `lost`: it loses the connection to its model, after the first response.
- `silent`: it ends its turn with a result although nothing was answered.
- `vanish`: it ends with code 0 and no result.
- `stubborn`: it ignores SIGTERM, and leaves a process behind, whose id it writes to `FAKE_CLAUDE_FILE`.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any
from urllib.parse import urlsplit

VERSION = os.environ.get("FAKE_CLAUDE_VERSION", "2.1.330")
FAULT = os.environ.get("FAKE_CLAUDE", "")
PREFIX = "mcp__nighthawk__"


def write(message: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({**message, "session_id": "fake"}) + "\n")
    sys.stdout.flush()


class InterruptedTurnError(Exception):
    """The program that drives this one has ended the turn."""


class Claude:
    """One session."""

    def __init__(self) -> None:
        self.system = ""
        self.queued: list[Any] = []
        self.messages: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.hooks: set[str] = set()
        self.wants_tools = True
        self.usage = {"inputTokens": 0, "outputTokens": 0, "costUSD": 0.0}
        self.model = "claude-sonnet-5"
        if "--model" in sys.argv:
            self.model = f"claude-{sys.argv[sys.argv.index('--model') + 1]}-5"

    # What the driver writes

    def read(self) -> None:
        """Take one line; the end of the input ends the program."""
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        message = json.loads(line)
        if message["type"] == "user":
            self.queued.append(message["message"]["content"])
        elif message["type"] == "control_response":
            response = message["response"]
            self.answers[response["request_id"]] = response.get("response")
        elif message["type"] == "control_request":
            self.obey(message["request_id"], message["request"])

    def obey(self, request_id: str, request: dict[str, Any]) -> None:
        """Do what the driver asks for."""
        if request["subtype"] == "initialize":
            self.system = request.get("systemPrompt") or request.get("appendSystemPrompt") or ""
            self.hooks = set(request["hooks"])
        elif request["subtype"] == "mcp_set_servers":
            self.wants_tools = True
        response: dict[str, Any] = {"subtype": "success", "request_id": request_id, "response": {}}
        if request["subtype"] == "mcp_status":
            self.list_tools()
            tools = [{"name": tool["name"]} for tool in self.tools]
            response["response"] = {"mcpServers": [{"name": "nighthawk", "tools": tools}]}
        write({"type": "control_response", "response": response})
        if request["subtype"] == "interrupt":
            raise InterruptedTurnError

    def ask(self, request: dict[str, Any]) -> str:
        """Ask the driver; returns the id of the request."""
        request_id = str(uuid.uuid4())
        write({"type": "control_request", "request_id": request_id, "request": request})
        return request_id

    def answer_to(self, request_id: str) -> Any:
        """Wait for an answer of the driver."""
        while request_id not in self.answers:
            self.read()
        return self.answers.pop(request_id)

    def hook(self, event: str, **given: Any) -> dict[str, Any]:
        """Call a hook, and return its own output."""
        if event not in self.hooks:
            return {}
        given |= {"hook_event_name": event}
        asked = self.ask({"subtype": "hook_callback", "callback_id": event, "input": given})
        return self.answer_to(asked).get("hookSpecificOutput", {})

    def mcp(self, method: str, **params: Any) -> str:
        """Send a message to the tools of the step."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.ask({"subtype": "mcp_message", "server_name": "nighthawk", "message": message})

    # What the model writes

    def list_tools(self) -> None:
        """Ask for the tools of the step, where they have changed."""
        if self.wants_tools:
            self.wants_tools = False
            listed = self.answer_to(self.mcp("tools/list"))
            self.tools = listed["mcp_response"]["result"]["tools"]

    def respond(self) -> dict[str, Any]:
        """Ask the model, stream its response, and return it."""
        self.list_tools()
        tools = [{"name": PREFIX + tool["name"], "input_schema": tool["inputSchema"]} for tool in self.tools]
        body = {
            "model": self.model,
            "max_tokens": 1000,
            "stream": True,
            "system": self.system,
            "tools": tools,
            "messages": self.messages,
        }
        url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
        connection = http.client.HTTPConnection(url.netloc)
        connection.request(
            "POST",
            "/v1/messages",
            json.dumps(body),
            {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", "none"), "anthropic-version": "2023-06-01"},
        )
        response = connection.getresponse()
        if response.status != 200:
            self.fail(response.status, response.read().decode())
        blocks: dict[int, dict[str, Any]] = {}
        for line in response:
            if line.startswith(b"data:"):
                event = json.loads(line[5:])
                write({"type": "stream_event", "event": event, "parent_tool_use_id": None})
                self.collect(event, blocks)
        connection.close()
        for block in blocks.values():
            if block["type"] == "tool_use":
                block["input"] = json.loads(block.pop("json") or "{}")
        return {"role": "assistant", "content": list(blocks.values())}

    def collect(self, event: dict[str, Any], blocks: dict[int, dict[str, Any]]) -> None:
        """Take one event of the response."""
        if event["type"] == "content_block_start":
            block = dict(event["content_block"])
            blocks[event["index"]] = block | ({"json": ""} if block["type"] == "tool_use" else {})
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for name, field in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
                if name in delta:
                    block[field] = block.get(field, "") + delta[name]
            block["json"] = block.get("json", "") + delta.get("partial_json", "")
            if block["type"] != "tool_use":
                del block["json"]
        elif event["type"] == "message_delta":
            usage = event.get("usage", {})
            self.usage["inputTokens"] += usage.get("input_tokens", 0)
            self.usage["outputTokens"] += usage.get("output_tokens", 0)
            self.usage["costUSD"] += 0.001

    def fail(self, status: int, body: str) -> None:
        """End the turn with the failure of a request."""
        retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status}
        write({**retry, "error": "authentication_failed" if status == 401 else "server_error"})
        self.result("success", f"API Error: {status} {body}", is_error=True, api_error_status=status)
        raise InterruptedTurnError

    def result(self, subtype: str, text: str, **more: Any) -> None:
        """End the turn."""
        usage = {self.model: self.usage}
        fields = {"subtype": subtype, "result": text, "is_error": False, "modelUsage": usage, **more}
        write({"type": "result", **fields})

    # What its tools do

    def carry_out(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Carry out the calls of a response."""
        asked: dict[str, str] = {}
        for call in calls:
            if call["name"].startswith(PREFIX):
                name, meta = call["name"].removeprefix(PREFIX), {"claudecode/toolUseId": call["id"]}
                asked[call["id"]] = self.mcp("tools/call", name=name, arguments=call["input"], _meta=meta)
        results: list[dict[str, Any]] = []
        for call in calls:
            if call["id"] in asked:
                result = self.answer_to(asked[call["id"]])["mcp_response"]["result"]
                content, is_error = result["content"], result["isError"]
            else:
                content, is_error = self.carry_out_own(call)
            results.append(
                {"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": is_error}
            )
            write({"type": "user", "message": {"role": "user", "content": results[-1:]}})
        return results

    def carry_out_own(self, call: dict[str, Any]) -> tuple[str, bool]:
        """Carry out a call of a tool of its own."""
        about = {"tool_name": call["name"], "tool_use_id": call["id"]}
        decision = self.hook("PreToolUse", tool_input=call["input"], **about)
        if decision.get("permissionDecision") == "deny":
            return decision["permissionDecisionReason"], True
        given = decision.get("updatedInput", call["input"])
        asked = self.ask({"subtype": "can_use_tool", "input": given, **about})
        answer = self.answer_to(asked)
        if answer["behavior"] == "deny":
            return answer["message"], True
        command = ["sh", "-c", answer["updatedInput"]["command"]]
        done = subprocess.run(  # the real one has its shells in sessions of their own, too
            command, capture_output=True, text=True, check=False, start_new_session=True
        )
        if done.returncode:
            error = f"Exit code {done.returncode}\n{done.stderr}"
            self.hook("PostToolUseFailure", error=error, tool_input=given, **about)
            return error, True
        output = {"stdout": done.stdout, "stderr": done.stderr, "interrupted": False}
        changed = self.hook("PostToolUse", tool_response=output, tool_input=given, **about)
        return changed.get("updatedToolOutput", output)["stdout"] or "(no output)", False

    # Turns

    def run(self) -> None:
        """Serve until the input ends."""
        while True:
            try:
                while not self.queued:
                    self.read()
                self.messages.append({"role": "user", "content": self.queued.pop(0)})
                self.work()
            except InterruptedTurnError:
                self.result("error_during_execution", "interrupted", is_error=True)

    def work(self) -> None:
        """Work on a message of the user."""
        if FAULT == "leaks":
            key = os.environ["ANTHROPIC_API_KEY"]
            print(f"panic: bad key {key}", file=sys.stderr, flush=True)
            return self.result("error", f"bad key {key}", is_error=True)
        if FAULT == "silent":
            return self.result("success", "I have nothing to say")
        while True:
            response = self.respond()
            if FAULT == "early":
                return self.result("error_during_execution", "enough", is_error=True)
            self.break_down()
            self.messages.append(response)
            calls = [block for block in response["content"] if block["type"] == "tool_use"]
            if not calls:
                return self.result("success", "done")
            results = self.carry_out(calls)
            self.hook("PostToolBatch", tool_calls=[])
            self.messages.append({"role": "user", "content": results})
            while self.queued:
                self.messages[-1]["content"] += self.queued.pop(0)

    def break_down(self) -> None:
        """Fail as `FAKE_CLAUDE` says."""
        if FAULT == "garbage":
            print("this is not JSON", flush=True)
        elif FAULT == "crash":
            print("panic: it is broken", file=sys.stderr, flush=True)
            os._exit(3)
        elif FAULT == "long":
            while True:
                sys.stdout.write("x" * 1_000_000)
        elif FAULT == "lost":
            self.result("success", "API Error: the connection was lost", is_error=True, api_error_status=None)
            raise InterruptedTurnError
        elif FAULT == "too_long":
            self.result("success", "Prompt is too long", is_error=True, api_error_status=None)
            raise InterruptedTurnError
        elif FAULT == "vanish":
            sys.exit(0)


def main() -> None:
    """Behave like the command line."""
    if "--version" in sys.argv:
        print(f"{VERSION} (Claude Code)")
        return
    if FAULT == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        with open(os.environ["FAKE_CLAUDE_FILE"], "w", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {child.pid}")
    Claude().run()


if __name__ == "__main__":
    main()
