"""What a page's `setup` comments can ask for. An example itself stays as a reader would write it.

Each fixture stands for the endpoint an example talks to: a scripted server on the loopback, named by the
environment variables that a reader would set, or put in the place of the embedded model's own server.
"""

import ast
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import anyio
import httpx
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.util._once import Once

import nighthawk_async as nh
from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.cli.demo_functions import load_reviews
from nighthawk_async.models.weights import _write_marker, weights_path
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ReplyHandler
from nighthawk_async.types.messages import ToolCall
from tests.free_ports import free_port
from tests.sandbox_pool import monty_was_used
from tests.tracing import trace_with

from .commands import PORT_VARIABLE

__all__ = ["monty_was_used"]

FAKE_CLAUDE = Path(__file__).parents[1] / "faults" / "coding_agents" / "fake_claude.py"

Serve: TypeAlias = Callable[[Iterable[ModelReply] | ReplyHandler], ModelServer]

STAND_IN_FOR_XLLAMACPP = """
from types import SimpleNamespace


def CommonParams():
    return SimpleNamespace(
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )


def Server(parameters):
    return SimpleNamespace(listening_address=ADDRESS)
"""
"""The package as far as the child process needs it. Its server is the scripted one."""


def tool_calls(*calls: tuple[str, dict[str, object]]) -> ModelReply:
    """A reply that calls tools: pairs of a tool's name and its arguments."""
    made = [ToolCall(id="", name=name, arguments=json.dumps(arguments)) for name, arguments in calls]
    return ModelReply(tool_calls=tuple(made))


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    """Leave the garbage collector as it was, which an example tells to look less often."""
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


@pytest.fixture
def telemetry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a page set OpenTelemetry's providers, which a program can do once, and take them back after it."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(metrics._internal, "_PROXY_METER_PROVIDER", metrics._internal._ProxyMeterProvider())
    trace_with(monkeypatch, trace.get_tracer_provider())
    yield
    if isinstance(provider := metrics.get_meter_provider(), MeterProvider):
        provider.shutdown()
    nh.telemetry.configure_telemetry()


class OtlpHandler(BaseHTTPRequestHandler):
    """Takes what an exporter of OpenTelemetry sends."""

    server: "OtlpServer"

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        self.server.spans += [
            span.name
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class OtlpServer(HTTPServer):
    """A receiver of traces on the loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OtlpHandler)
        self.spans: list[str] = []


@pytest.fixture
def otlp_receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A receiver that OpenTelemetry's variable names. The spans of a run and a step must arrive there."""
    with OtlpServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
    assert server.spans[-1] == "nighthawk.run"
    assert {"nighthawk.step", "invoke_agent shout", "execute_tool nh_assign"} <= {*server.spans}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a scripted server that `openai-chat` models are sent to."""
    with ExitStack() as stack:

        def start(replies: Iterable[ModelReply] | ReplyHandler) -> ModelServer:
            server = stack.enter_context(ModelServer.in_thread(replies))
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-the-examples")
            return server

        yield start


@pytest.fixture
def model_that_averages(serve: Serve) -> None:
    """Sets `result` to the average of one, two, three and four, and ends the step, in one response."""
    assign = {"target_path": "result", "expression": "python_average([1, 2, 3, 4])"}
    serve([tool_calls(("nh_assign", assign), ("nh_outcome", {"kind": "pass"}))])


@pytest.fixture
def model_that_gives_three_stars(serve: Serve) -> None:
    """Sets `count` to three and ends the step, in one response, once."""
    assign = {"target_path": "count", "expression": "3"}
    serve([tool_calls(("nh_assign", assign), ("nh_outcome", {"kind": "pass"}))])


@pytest.fixture
def claude_code_that_repairs_a_function(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program on `PATH` that behaves like Claude Code. Its model edits a file with its shell, then ends."""
    program = FAKE_CLAUDE.read_text(encoding="utf-8")
    command = tmp_path / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable} -SE\n{program}", encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    edit = {"command": "sed -i 's/ + 1//' prices.py", "description": "Edit the function"}
    done = {"kind": "pass", "bindings": {"summary": "total() no longer adds one."}}
    server = serve([tool_calls(("Bash", edit)), tool_calls(("mcp__nighthawk__nh_outcome", done))])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))


@pytest.fixture
def model_that_counts_stars(serve: Serve) -> None:
    """Sets `count` to the number of asterisks in `review` and ends the step, in one response, always."""
    assign = {"target_path": "count", "expression": "review.count('*')"}
    serve(lambda _: tool_calls(("nh_assign", assign), ("nh_outcome", {"kind": "pass"})))


@pytest.fixture
def model_that_offers_a_discount(serve: Serve) -> None:
    """Sets `price` to what a function for discounts says, and then, corrected, to 98."""
    done = ("nh_outcome", {"kind": "pass"})
    prices = [{"target_path": "price", "expression": expression} for expression in ("discount(98)", "98")]
    serve([tool_calls(("nh_assign", price), done) for price in prices])


@pytest.fixture
def model_that_sends_a_mail(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets `result` to what `send` returns, once; a person at the terminal approves."""

    async def approve(_: nh.human.TerminalHandler, request: nh.human.ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)

    monkeypatch.setattr(nh.human.TerminalHandler, "approve", approve)
    assign = {"target_path": "result", "expression": "send(to=customer, body='Please pay.')"}
    serve([tool_calls(("nh_assign", assign), ("nh_outcome", {"kind": "pass"}))])


@pytest.fixture
def embedded_model_that_classifies(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The embedded model without its weights: the child process runs and answers like a good model would."""
    server = serve(_classify)
    folder = tmp_path_factory.mktemp("stand_in")
    address = server.base_url.removesuffix("/v1")
    program = f"ADDRESS = {address!r}\n{STAND_IN_FOR_XLLAMACPP}"
    Path(folder, "xllamacpp.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("nighthawk_async.models.local.are_weights_whole", lambda source, path: True)


def _classify(request: RecordedRequest) -> ModelReply:
    """Praise is positive; the field to fill is named by the schema of the request."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    review = request.body["messages"][-1]["content"]
    label = "positive" if "love" in review or "elegant" in review else "negative"
    return ModelReply(text=json.dumps(dict.fromkeys(schema["properties"], label)))


ORDERS_OF_THE_TUTORIAL = {"4711": "a new one", "4717": "money back", "4712": "information"}


@pytest.fixture
def embedded_model_of_the_tutorial(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The embedded model for programs that a page starts, with the answers that the real one gave."""
    _replace_embedded_model(serve(_answer_mail), monkeypatch, tmp_path_factory)


MISTAKES_OF_THE_MODEL = {
    "Set <:label> for": {1, 3, 5, 7, 9, 11, 15, 17, 19, 21, 24, 25, 27, 29, 31},
    "sentiment": {8},
}
"""The reviews about which the real model is wrong, by a part of the block."""


@pytest.fixture
def embedded_model_that_sorts_reviews(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The embedded model for the reviews of the demonstration, with the answers that the real one gave."""
    _replace_embedded_model(serve(_sort_review), monkeypatch, tmp_path_factory)


@pytest.fixture
def folder_under_version_control() -> None:
    """Makes the folder of a page the root of a repository."""
    subprocess.run(["git", "init", "--quiet"], check=True)


def _sort_review(request: RecordedRequest) -> ModelReply:
    text = "\n".join(message["content"] for message in request.body["messages"])
    mistakes = next(numbers for part, numbers in MISTAKES_OF_THE_MODEL.items() if part in text)
    number, review = next(
        (number, review) for number, review in enumerate(load_reviews(), 1) if review.review in text
    )
    label = review.label
    if number in mistakes:
        label = "negative" if label == "positive" else "positive"
    return ModelReply(text=json.dumps({"label": label}), usage=nh.Usage(input_tokens=60, output_tokens=9))


def _replace_embedded_model(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Put a server in the place of that of the embedded model, for programs that a page starts."""
    address = server.base_url.removesuffix("/v1")
    folder = tmp_path_factory.mktemp("stand_in")
    program = f"ADDRESS = {address!r}\n{STAND_IN_FOR_XLLAMACPP}"
    Path(folder, "xllamacpp.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(folder))
    source = LOCAL_MODELS["smollm2-135m"].weights
    assert source is not None
    path = weights_path(source)
    path.parent.mkdir()
    with path.open("wb") as weights:
        weights.truncate(source.file_bytes)  # a file with a hole, which takes no room
    _write_marker(source, path)


def _answer_mail(request: RecordedRequest) -> ModelReply:
    schema = request.body["response_format"]["json_schema"]["schema"]
    [name] = schema["properties"]
    text = ast.literal_eval(request.body["messages"][-1]["content"].partition(" = ")[2])
    if name == "label":
        label = "question" if text.endswith(("?", "ten days.")) else "complaint"
        return ModelReply(text=json.dumps({name: label}), usage=nh.Usage(input_tokens=60, output_tokens=17))
    if name == "reply":
        return ModelReply(text=json.dumps({name: text}))
    found = next((number for number in ORDERS_OF_THE_TUTORIAL if number in text), "1")
    order = {"number": int(found), "wants": ORDERS_OF_THE_TUTORIAL.get(found, "information")}
    return ModelReply(text=json.dumps({name: order}), usage=nh.Usage(input_tokens=65, output_tokens=26))


class _ExamplePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<h1>Example</h1><p>For <a href='/more'>documents</a>."
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def page_at_example_org(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serves the site `example.org`, whose address leads to this machine."""
    server = HTTPServer(("127.0.0.1", 0), _ExamplePage)
    resolve, connect = anyio.getaddrinfo, anyio.connect_tcp
    address = "93.184.215.14"

    async def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        return await resolve(address if host == "example.org" else host, port, **options)

    async def connect_tcp(host: str, port: int, **options: Any) -> Any:
        assert host == address
        return await connect("127.0.0.1", server.server_port, **options)

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def port_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the worker of a page serve its health on a free port of the loopback."""
    monkeypatch.setenv(PORT_VARIABLE, str(free_port()))


@pytest.fixture
def person_at_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Says yes to everything that the service of a page asks, on a free port of the loopback."""
    port = free_port()
    monkeypatch.setenv(PORT_VARIABLE, str(port))
    monkeypatch.setenv("NIGHTHAWK_DASHBOARD_TOKEN", "a-long-random-text")
    ended = threading.Event()
    person = threading.Thread(target=_say_yes, args=(f"http://127.0.0.1:{port}/dashboard/api", ended))
    person.start()
    yield
    ended.set()
    person.join()


def _say_yes(address: str, ended: threading.Event) -> None:
    with httpx.Client(headers={"Authorization": "Bearer a-long-random-text"}) as client:
        while not ended.wait(0.05):
            with suppress(httpx.TransportError):  # the service does not run yet, or no more
                _answer_what_waits(client, address)


def _answer_what_waits(client: httpx.Client, address: str) -> None:
    seen = client.get(f"{address}/tree").json()
    nodes = [seen["tree"]]
    for node in nodes:
        nodes += node.get("children", [])
        if "answer" in node.get("controls", []):
            question = client.get(f"{address}/nodes/{node['id']}").json()["question"]
            digest = question.get("digest")
            answer = {"default": True} if digest is None else {"answer": "approve", "digest": digest}
            client.post(f"{address}/nodes/{node['id']}/answer", json={"stream": seen["stream"], **answer})


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No provider's key is set."""
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
