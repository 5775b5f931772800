"""Our server and programs of others: the conformance suite, the inspector, Claude Code and Codex."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ReplyPacing, tool_call
from tests.npm_packages import LOADER, LOOPBACK_ONLY, find_binary, find_script

HERE = Path(__file__).parent
PATIENCE_SECONDS = 240

SCENARIOS = [
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image"),
    *("tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error"),
    *("tools-call-with-progress", "tools-call-elicitation", "elicitation-sep1034-defaults"),
    *("server-sse-multiple-streams", "dns-rebinding-protection"),
]
"""The scenarios of the suite for servers of tools; the others are about resources, prompts and logging."""


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A server in a process of its own; yields its address."""
    command = [sys.executable, "-m", "nighthawk_async", "mcp", "serve", *arguments, "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            address = ""
            while not address:
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                address = line.partition("MCP server: ")[2].strip()
            yield address
        finally:
            process.terminate()
            process.communicate()


def run_node(*arguments: str, statuses: tuple[int, ...] = (0,)) -> str:
    command = ["node", "--no-warnings", "--import", str(LOADER), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode in statuses, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def conformance_server() -> Iterator[str]:
    """A server of the tools that the suite calls."""
    script = find_script("@modelcontextprotocol/conformance", "dist/index.js")
    assert script
    program = HERE / "conformance_tools.py"
    names = re.findall(r"^async def (test_\w+)", program.read_text(), re.MULTILINE)
    functions = [f"{program}:{name}" for name in names]
    with serving(*functions, "--run", f"{program}:make_run") as address:
        yield address


def test_the_conformance_suite_passes(conformance_server: str, tmp_path: Path) -> None:
    """In one process of Node, which takes longer to start than a scenario."""
    script = find_script("@modelcontextprotocol/conformance", "dist/index.js")
    url = conformance_server.replace("127.0.0.1", "localhost")
    output = run_node(script, "server", "--url", url, "-o", str(tmp_path), statuses=(0, 1))
    for scenario in SCENARIOS:
        found = [
            path for path in tmp_path.iterdir() if re.fullmatch(f"server-{scenario}-20[0-9TZ-]+", path.name)
        ]
        assert len(found) == 1, output
        checks = json.loads((found[0] / "checks.json").read_text())
        assert {check["status"] for check in checks} - {"INFO"} == {"SUCCESS"}, checks


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_inspector_lists_and_calls_tools(transport: str) -> None:
    script = find_script("@modelcontextprotocol/inspector-cli", "build/index.js")
    arguments = served_arguments()
    if transport == "http":
        with serving(*arguments) as address:
            target = [address, "--transport", "http"]
            listed = json.loads(run_node(script, *target, "--method", "tools/list"))
            call = ["--method", "tools/call", "--tool-name", "stars", "--tool-arg", "review=***"]
            called = json.loads(run_node(script, *target, *call))
    else:
        target = [sys.executable, "-m", "nighthawk_async", "mcp", "serve", *arguments, "--stdio"]
        listed = json.loads(run_node(script, *target, "--method", "tools/list"))
        call = ["--method", "tools/call", "--tool-name", "stars", "--tool-arg", "review=***"]
        called = json.loads(run_node(script, *target, *call))
    assert [tool["name"] for tool in listed["tools"]] == ["stars", "shout"]
    assert called["content"] == [{"type": "text", "text": "3"}]
    assert not called.get("isError")


def served_arguments() -> list[str]:
    program = HERE / "serving_program.py"
    return [*(f"{program}:{name}" for name in ("stars", "shout")), "--run", f"{program}:make_run"]


def run_agent(command: list[str], home: Path, **variables: str) -> list[Any]:
    """Run the command line of a coding agent; gives the lines of JSON that it prints."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
    done = subprocess.run(
        command,
        env={**kept, "HOME": str(home), "CODEX_HOME": str(home), **variables},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_claude_code_calls_a_tool(transport: str, tmp_path: Path) -> None:
    program = find_binary("@anthropic-ai/claude-code-linux-x64", "claude")
    seen: list[list[str]] = []

    def answer(request: RecordedRequest) -> ModelReply:
        seen.append([tool["name"] for tool in request.body.get("tools", ())])
        if "KETTLE" in json.dumps(request.body):
            return ModelReply(text="The tool says KETTLE.")
        # On a busy machine the program may ask before the server has listed its tools: such a call fails, and
        # the program asks again.
        pacing = ReplyPacing(first_byte_seconds=0 if seen[-1] else 0.2)
        return ModelReply(tool_calls=(tool_call("mcp__nighthawk__shout", text="kettle"),), pacing=pacing)

    def run(server: dict[str, Any]) -> list[Any]:
        with ModelServer.in_thread(answer, checks_requests=False) as model:
            return run_agent(
                [
                    *(program, "-p", "Shout kettle.", "--output-format", "stream-json", "--verbose"),
                    *(
                        "--strict-mcp-config",
                        "--mcp-config",
                        json.dumps({"mcpServers": {"nighthawk": server}}),
                    ),
                    *("--allowedTools", "mcp__nighthawk__shout", "--setting-sources=", "--tools", ""),
                    *("--system-prompt", "Be brief."),
                ],
                tmp_path,
                ANTHROPIC_BASE_URL=model.base_url.removesuffix("/v1"),
                ANTHROPIC_API_KEY="none",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                MCP_CONNECTION_NONBLOCKING="false",  # wait for the server before the first request
                MCP_TIMEOUT=str(PATIENCE_SECONDS * 1000),
            )

    if transport == "http":
        with serving(*served_arguments(), "--token", "sesame") as address:
            headers = {"Authorization": "Bearer sesame"}
            events = run({"type": "http", "url": address, "headers": headers})
    else:
        arguments = ["-m", "nighthawk_async", "mcp", "serve", *served_arguments(), "--stdio"]
        environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        events = run({"type": "stdio", "command": sys.executable, "args": arguments, "env": environment})
    assert next(filter(None, seen)) == ["mcp__nighthawk__shout", "mcp__nighthawk__stars"]
    *_, result = [event for event in events if event["type"] == "user"]
    assert result["message"]["content"][0]["content"] == [{"type": "text", "text": "KETTLE"}]
    assert events[-1]["result"] == "The tool says KETTLE."


class ResponsesHandler(BaseHTTPRequestHandler):
    """A model that calls a tool of a namespace, as Codex offers those of servers, and then ends."""

    server: "ResponsesServer"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.bodies.append(body)
        call = {
            "type": "function_call",
            "call_id": "call_1",
            "name": "shout",
            "namespace": "mcp__nighthawk",
            "arguments": '{"text": "kettle"}',
        }
        said = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "The tool says KETTLE."}],
        }
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": "response"}},
            {"type": "response.output_item.done", "item": said if "KETTLE" in body else call},
            {"type": "response.completed", "response": {"id": "response", "usage": usage}},
        ]
        content = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class ResponsesServer(ThreadingHTTPServer):
    """The endpoint of that model."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ResponsesHandler)
        self.bodies: list[str] = []


@contextmanager
def responses_server() -> Iterator[ResponsesServer]:
    with ResponsesServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_codex_calls_a_tool(transport: str, tmp_path: Path) -> None:
    find_script("@openai/codex-linux-x64", "package.json")
    program = find_script("@openai/codex", "bin/codex.js")

    def run(server: str) -> list[Any]:
        with responses_server() as model:
            settings = {
                "model": '"gpt-5.4"',
                "model_provider": '"fake"',
                "model_providers.fake": f'{{name="fake",base_url="http://127.0.0.1:{model.server_port}/v1",'
                'env_key="FAKE_KEY",wire_api="responses",supports_websockets=false}',
                "mcp_servers.nighthawk": server,
            }
            options = [part for name, text in settings.items() for part in ("-c", f"{name}={text}")]
            return run_agent(
                [
                    *("node", program, "exec", "--json", "--skip-git-repo-check", "--ephemeral"),
                    *("--dangerously-bypass-approvals-and-sandbox", *options, "Shout kettle."),
                ],
                tmp_path,
                FAKE_KEY="none",
                **LOOPBACK_ONLY,
                MCP_TOKEN="sesame",
            )

    waiting = f"required=true,startup_timeout_sec={PATIENCE_SECONDS}"
    if transport == "http":
        with serving(*served_arguments(), "--token", "sesame") as address:
            events = run(f'{{url="{address}",bearer_token_env_var="MCP_TOKEN",{waiting}}}')
    else:
        arguments = ["-m", "nighthawk_async", "mcp", "serve", *served_arguments(), "--stdio"]
        path = json.dumps(os.environ.get("PYTHONPATH", ""))
        command = f"command={json.dumps(sys.executable)},args={json.dumps(arguments)}"
        events = run(f"{{{command},env={{PYTHONPATH={path}}},{waiting}}}")
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    (call,) = [item for item in items if item["type"] == "mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("nighthawk", "shout", "completed")
    assert call["result"]["content"] == [{"type": "text", "text": "KETTLE"}]
    assert items[-1]["text"] == "The tool says KETTLE."
