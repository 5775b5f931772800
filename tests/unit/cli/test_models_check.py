"""`models check`: one tiny request, and what it tells."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.usage import Usage

Captured = pytest.CaptureFixture[str]

KEY = "sk-never-shown-0123456789"
CALL = ModelReply(tool_calls=(ToolCall(id="", name="say_word", arguments='{"word": "ready"}'),))
TEXT = ModelReply(text="ready")
FORM = ModelReply(text='{"word": "ready"}')
CAPABLE = 'capabilities={"structured_output": true}'
TOOLLESS = 'capabilities={"tools": false}'


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    for provider in PROVIDERS.values():
        for variable in (provider.base_url_variable, *provider.key_variables):
            monkeypatch.delenv(variable, raising=False)


def answer_well(request: RecordedRequest) -> ModelReply:
    if "tools" in request.body:
        return CALL
    return FORM if "response_format" in request.body else TEXT


class Check:
    """Runs `models check` against a scripted server and takes its lines apart."""

    def __init__(self, capsys: Captured) -> None:
        self._capsys = capsys
        self.exit_code = 0
        self.output = ""
        self.requests: list[RecordedRequest] = []

    def run(
        self, replies: ModelReply | Callable[[RecordedRequest], ModelReply], *options: str
    ) -> dict[str, tuple[str, str]]:
        script = replies if callable(replies) else [replies]
        with ModelServer.in_thread(script) as server:
            arguments = ["openai-chat:any", "--base-url", server.base_url, *options]
            self.exit_code = run_command_line(["models", "check", *arguments])
            self.requests = server.requests
        captured = self._capsys.readouterr()
        assert captured.err == ""
        self.output = captured.out
        return dict(self._findings())

    def _findings(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for line in self.output.splitlines()[1:]:
            yield line[:19].strip(), (line[19:28].strip(), line[28:])


@pytest.fixture
def check(capsys: Captured) -> Check:
    return Check(capsys)


def test_one_request_with_a_tool_tells_what_works(check: Check) -> None:
    findings = check.run(CALL, "--setting", f"api_key={KEY}", "--setting", CAPABLE)
    assert {name: state for name, (state, _) in findings.items()} == {
        "connection": "ok",
        "key": "ok",
        "answer": "ok",
        "tool call": "ok",
        "structured output": "skipped",
        "usage": "ok",
    }
    assert check.exit_code == 0
    assert len(check.requests) == 1
    assert findings["tool call"][1] == 'say_word {"word": "ready"}'
    assert "--all" in findings["structured output"][1]
    assert findings["usage"][1] == "10 tokens sent, 5 received, one request, at an unknown price"
    assert "first event after" in findings["answer"][1]
    assert KEY not in check.output


def test_all_sends_one_request_for_each_thing_that_is_claimed(check: Check) -> None:
    findings = check.run(answer_well, "--all", "--setting", CAPABLE)
    assert [findings[name][0] for name in ("answer", "tool call", "structured output")] == ["ok"] * 3
    assert check.exit_code == 0
    kinds = [("tools" in each.body, "response_format" in each.body) for each in check.requests]
    assert kinds == [(False, False), (True, False), (False, True)]
    assert findings["usage"][1].startswith("30 tokens sent, 15 received, 3 requests")


@pytest.mark.parametrize(
    "model_id",
    [
        "openai-chat:gpt-5.4-nano",
        "openai-responses:gpt-5.4-nano",
        "anthropic:claude-haiku-5-5",
        "google:gemini-3.8-flash",
    ],
)
def test_every_protocol_is_checked_alike(model_id: str, capsys: Captured) -> None:
    def answer(request: RecordedRequest) -> ModelReply:
        if "tools" in request.body:
            return CALL
        return FORM if b'"additionalProperties"' in request.content else TEXT

    with ModelServer.in_thread(answer) as server:
        options = ["--base-url", server.base_url, "--setting", f"api_key={KEY}", "--all", "--json"]
        assert run_command_line(["models", "check", model_id, *options]) == 0
        assert len(server.requests) == 3
    states = [finding["state"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    native = [] if model_id.startswith("openai-chat") else ["skipped"]  # they are not tried
    assert states == [*["ok"] * 5, *native, "ok"]


def test_all_requests_share_a_connection(capsys: Captured) -> None:
    with ModelServer.in_thread(answer_well) as server:
        arguments = ["openai-chat:any", "--base-url", server.base_url, "--all", "--setting", CAPABLE]
        assert run_command_line(["models", "check", *arguments]) == 0
        assert server.connections.total == 1


def test_a_model_without_tools_gets_a_direct_question(check: Check) -> None:
    findings = check.run(TEXT, "--setting", TOOLLESS)
    assert findings["answer"][0] == "ok"
    assert findings["tool call"] == ("skipped", "the model is not said to call tools")
    assert "tools" not in check.requests[0].body
    assert check.exit_code == 0


def test_settings_travel_in_the_request(check: Check) -> None:
    check.run(CALL, "--setting", "temperature=0.25", "--setting", "service_tier=flex")
    assert check.requests[0].body["temperature"] == 0.25
    assert check.requests[0].body["service_tier"] == "flex"


def test_a_price_gives_a_cost(check: Check) -> None:
    reply = ModelReply(text="ready", usage=Usage(requests=1, input_tokens=1_000, output_tokens=100))
    price = 'capabilities={"tools": false, "price": {"input": 1, "output": 5}}'
    assert check.run(reply, "--setting", price)["usage"][1].endswith("for $0.0015")


def test_usage_that_nobody_tells_is_no_failure(check: Check) -> None:
    findings = check.run(ModelReply(text="ready", usage=None), "--setting", TOOLLESS)
    assert findings["usage"][0] == "skipped"
    assert check.exit_code == 0


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_apart_from_the_connection(status: int, check: Check) -> None:
    findings = check.run(ModelReply(status=status, text="no such key"), "--setting", f"api_key={KEY}")
    assert findings["connection"][0] == "ok"
    assert findings["key"] == ("failed", f"HTTP {status}: no such key")
    assert findings["answer"] == ("skipped", "the key was refused")
    assert findings["tool call"] == ("skipped", "no answer")
    assert check.exit_code == 1
    assert KEY not in check.output


def test_a_key_that_is_refused_as_a_bad_request_is_recognized(check: Check) -> None:
    findings = check.run(ModelReply(status=400, text="API key not valid."), "--setting", f"api_key={KEY}")
    assert findings["key"][0] == "failed"


def test_another_refusal_says_nothing_of_the_key(check: Check) -> None:
    reply = ModelReply(status=404, text="no model of that name")
    findings = check.run(reply, "--setting", f"api_key={KEY}")
    assert findings["connection"][0] == "ok"
    assert findings["key"] == ("skipped", "the endpoint said nothing of it")
    assert findings["answer"] == ("failed", "HTTP 404: no model of that name")
    assert check.exit_code == 1


def test_a_failure_is_told_at_once(check: Check) -> None:
    check.run(ModelReply(status=500, text="sorry"))
    assert len(check.requests) == 1


def test_more_attempts_can_be_asked_for(check: Check) -> None:
    quickly = {"retry-after-ms": "1"}
    replies = iter([ModelReply(status=500, text="sorry", headers=quickly), CALL])
    findings = check.run(lambda request: next(replies), "--setting", "max_retries=1")
    assert findings["tool call"][0] == "ok"
    assert len(check.requests) == 2


def test_nobody_there_is_a_connection_that_failed(capsys: Captured) -> None:
    with ModelServer.in_thread([]) as server:
        base_url = server.base_url
    assert run_command_line(["models", "check", "openai-chat:any", "--base-url", base_url]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["connection", "failed"]
    assert "connection refused" in lines[1]
    assert lines[2].split()[:2] == ["key", "skipped"]


def test_a_stream_that_breaks_off_is_a_failed_answer(check: Check) -> None:
    findings = check.run(ModelReply(text="ready", ending="close", ending_after=1), "--setting", TOOLLESS)
    assert findings["connection"][0] == "ok"
    assert findings["answer"][0] == "failed"
    assert check.exit_code == 1


def test_an_empty_answer_fails(check: Check) -> None:
    findings = check.run(ModelReply(text="", finish_reason="length"), "--setting", TOOLLESS)
    assert findings["answer"] == ("failed", "it is empty, cut off at its length limit")


def test_a_model_that_talks_in_place_of_calling_fails_the_tool_call(check: Check) -> None:
    findings = check.run(ModelReply(text="I would call say_word."))
    assert findings["answer"][0] == "ok"
    assert findings["tool call"][0] == "failed"
    assert "'I would call say_word.'" in findings["tool call"][1]
    assert check.exit_code == 1


@pytest.mark.parametrize(
    ("name", "arguments"), [("shout", '{"word": "ready"}'), ("say_word", '{"text": 1}'), ("say_word", "[")]
)
def test_a_call_that_does_not_fit_the_tool_fails(name: str, arguments: str, check: Check) -> None:
    call = ToolCall(id="", name=name, arguments=arguments)
    findings = check.run(ModelReply(tool_calls=(call,)))
    assert findings["tool call"] == ("failed", f"the call does not fit the tool: {name} {arguments}")


def test_with_all_a_refused_tool_does_not_hide_that_the_model_answers(check: Check) -> None:
    def refuse_tools(request: RecordedRequest) -> ModelReply:
        return ModelReply(status=400, text="no tools here") if "tools" in request.body else TEXT

    findings = check.run(refuse_tools, "--all")
    assert findings["answer"][0] == "ok"
    assert findings["tool call"] == ("failed", "HTTP 400: no tools here")
    assert check.exit_code == 1


@pytest.mark.parametrize("text", ["ready", '{"words": 1}', "[]"])
def test_an_answer_that_does_not_fit_the_schema_fails(text: str, check: Check) -> None:
    def answer(request: RecordedRequest) -> ModelReply:
        return ModelReply(text=text) if "response_format" in request.body else answer_well(request)

    findings = check.run(answer, "--all", "--setting", CAPABLE)
    assert findings["structured output"][0] == "failed"
    assert repr(text) in findings["structured output"][1]
    assert check.exit_code == 1


def test_a_refused_schema_fails_with_the_reason_of_the_endpoint(check: Check) -> None:
    def refuse_schemas(request: RecordedRequest) -> ModelReply:
        if "response_format" in request.body:
            return ModelReply(status=400, text="no schemas here")
        return answer_well(request)

    findings = check.run(refuse_schemas, "--all", "--setting", CAPABLE)
    assert findings["structured output"] == ("failed", "HTTP 400: no schemas here")


def test_long_and_broken_messages_stay_one_line(check: Check) -> None:
    findings = check.run(ModelReply(status=400, text="no\n" * 500))
    assert "\n" not in findings["answer"][1]
    assert len(findings["answer"][1]) <= 300


def test_the_findings_can_be_had_as_json(capsys: Captured) -> None:
    with ModelServer.in_thread([TEXT]) as server:
        arguments = ["openai-chat:any", "--base-url", server.base_url, "--json"]
        assert run_command_line(["models", "check", *arguments]) == 1
    checked = json.loads(capsys.readouterr().out)
    assert checked["model"] == "openai-chat:any"
    assert checked["ok"] is False
    assert {each["name"]: each["state"] for each in checked["findings"]}["tool call"] == "failed"


def test_what_the_catalog_notes_is_shown_first(capsys: Captured) -> None:
    with ModelServer.in_thread([TEXT]) as server:
        arguments = ["openai-chat:gpt-6-luna", "--base-url", server.base_url]
        assert run_command_line(["models", "check", *arguments]) == 0
    assert "note: It can do more through openai-responses." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["openai-chat:any"], "needs an API key"),
        (["openai:any"], "No provider is called"),
        (["local:smollm2-135m", "--setting", "base_url=http://localhost"], "'base_url'"),
        (
            ["openai-chat:any", "--base-url", "http://127.0.0.1:9", "--setting", "temperature=warm"],
            "temperature",
        ),
    ],
)
def test_what_cannot_be_checked_is_one_line_with_exit_code_2(
    arguments: list[str], complaint: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.models.local.require_local_extra", lambda: None)
    monkeypatch.setattr("nighthawk_async.models.local.are_weights_whole", lambda source, path: True)
    assert run_command_line(["models", "check", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_ctrl_c_ends_a_check_that_waits() -> None:
    command = [sys.executable, "-m", "nighthawk_async", "models", "check", "openai-chat:any", "--base-url"]
    arrived = threading.Event()

    def keep_waiting(request: RecordedRequest) -> ModelReply:
        arrived.set()
        return ModelReply(ending="hang", ending_after="request")

    with (
        ModelServer.in_thread(keep_waiting) as server,
        subprocess.Popen(
            [*command, server.base_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        try:
            assert arrived.wait(240)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, error.strip()) == (130, b"interrupted")


def test_a_credential_that_cannot_be_obtained_is_reported_as_the_key(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    assert run_command_line(["models", "check", "vertex:gemini-2.5-pro"]) == 1
    lines = capsys.readouterr().out.splitlines()
    findings = {line[:19].strip(): (line[19:28].strip(), line[28:]) for line in lines}
    assert findings["connection"] == ("skipped", "nothing was sent")
    assert findings["key"][0] == "failed"
    assert "nh.credentials.google()" in findings["key"][1]
    assert "nowhere.json" in findings["key"][1]
    assert findings["answer"] == ("skipped", "nothing was sent")
