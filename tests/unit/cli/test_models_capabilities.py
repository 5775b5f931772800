"""`models check --capabilities`: what a server's model can do, and the settings that say so."""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.cli import server_facts
from nighthawk_async.cli.application import run_command_line

from .local_servers import (
    Answer,
    FakeServer,
    RefusedError,
    capable,
    has_image,
    ollama,
    question_of,
    refused_by_vllm,
    vllm,
)

Captured = pytest.CaptureFixture[str]
KEY = "sk-never-shown-0123456789"
VLLM = "openai-chat:Qwen/Qwen3-8B"
OLLAMA = "openai-chat:house-model:8b"


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    for provider in PROVIDERS.values():
        for variable in (provider.base_url_variable, *provider.key_variables):
            monkeypatch.delenv(variable, raising=False)


class Check:
    """Runs the command and takes its JSON apart."""

    def __init__(self, capsys: Captured) -> None:
        self._capsys = capsys
        self.exit_code = 0
        self.output = ""
        self.server: Mapping[str, str] | None = None
        self.findings: dict[str, tuple[str, str]] = {}
        self.values: dict[str, object] = {}
        self.details: dict[str, str] = {}
        self.configuration: dict[str, Any] | None = None

    def run(self, fake: FakeServer, model_id: str, *options: str, path: str = "/v1") -> "Check":
        with fake.at_work() as url:
            arguments = [model_id, "--base-url", url + path, "--capabilities", "--json", *options]
            self.exit_code = run_command_line(["models", "check", *arguments])
        captured = self._capsys.readouterr()
        assert captured.err == ""
        self.output = captured.out
        told = json.loads(captured.out)
        self.server, self.configuration = told["server"], told["configuration"]
        self.findings = {each["name"]: (each["state"], each["detail"]) for each in told["findings"]}
        self.values = {each["name"]: each["value"] for each in told["abilities"]}
        self.details = {each["name"]: each["detail"] for each in told["abilities"]}
        return self

    @property
    def capabilities(self) -> Mapping[str, Any]:
        assert self.configuration is not None
        found: Mapping[str, Any] = self.configuration["model_settings"].get("capabilities", {})
        return found


@pytest.fixture
def check(capsys: Captured) -> Check:
    return Check(capsys)


def words(body: Mapping[str, Any]) -> Answer:
    """The answer of a model that only talks."""
    return Answer(text="Hello there!")


def test_a_vllm_server_tells_its_context_and_requests_find_the_rest(check: Check) -> None:
    fake = vllm()
    check.run(fake, VLLM)
    assert check.exit_code == 0
    assert check.server == {"name": "vLLM", "version": "0.24.0"}
    assert check.values == {
        "sampling": True,
        "tools": True,
        "parallel_tool_calls": True,
        "forced_tool_choice": True,
        "structured_output": True,
        "structured_output_with_tools": True,
        "images": True,
        "reasoning": True,
        "context_window": 32_768,
    }
    assert check.capabilities == {
        "structured_output": True,
        "images": True,
        "reasoning": True,
        "context_window": 32_768,
    }
    chats = [body for _, path, body in fake.seen if path.endswith("completions")]
    assert len(chats) == 10  # one for each thing, a second one for reasoning, and the first question


def test_the_settings_that_are_printed_can_be_pasted_into_a_program(capsys: Captured) -> None:
    fake = vllm(key=KEY)
    with fake.at_work() as url:
        options = ["--base-url", f"{url}/v1", "--setting", f"api_key={KEY}", "--setting", "max_tokens=4000"]
        assert run_command_line(["models", "check", VLLM, "--capabilities", *options]) == 0
    output = capsys.readouterr().out
    assert KEY not in output
    assert {body["max_tokens"] for _, path, body in fake.seen if path.endswith("completions")} == {4000}
    source = output.partition("settings to write:\n\n")[2]
    assert "api_key" in source
    configuration = eval(source, {"nh": nh})
    assert configuration == nh.StepExecutorConfiguration(
        model=VLLM,
        model_settings={
            "base_url": f"{url}/v1",
            "max_tokens": 4000,
            "capabilities": {
                "structured_output": True,
                "images": True,
                "reasoning": True,
                "context_window": 32_768,
            },
        },
    )
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    assert executor.model is not None
    assert executor.model.capabilities.context_window == 32_768
    assert isinstance(ast.parse(source), ast.Module)


def test_each_thing_is_a_line(capsys: Captured) -> None:
    with vllm().at_work() as url:
        run_command_line(["models", "check", VLLM, "--capabilities", "--base-url", f"{url}/v1"])
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["server", "ok", "vLLM 0.24.0"] in lines
    assert ["context_window", "32768", "max_model_len (/v1/models)"] in lines
    assert ["forced_tool_choice", "yes", "told to call a tool where none was needed, it did"] in lines


def test_a_server_may_take_a_demanded_call_only_or_none_but_that(check: Check) -> None:
    def without_parser(body: Mapping[str, Any]) -> Answer:
        if body.get("tools") and body.get("tool_choice", "auto") == "auto":
            raise refused_by_vllm('"auto" tool choice requires --enable-auto-tool-choice')
        return capable(body)

    check.run(vllm(without_parser), VLLM)
    assert check.values["tools"] is True
    assert check.values["forced_tool_choice"] is True
    assert check.values["parallel_tool_calls"] is False
    assert "--enable-auto-tool-choice" in check.details["parallel_tool_calls"]

    def never_forced(body: Mapping[str, Any]) -> Answer:
        if body.get("tool_choice") == "required":
            raise refused_by_vllm("tool_choice must be auto")
        return capable(body)

    check.run(vllm(never_forced), VLLM)
    assert (check.values["tools"], check.values["forced_tool_choice"]) == (True, False)
    assert check.capabilities["forced_tool_choice"] is False


def test_a_schema_and_tools_in_one_request_are_found_apart(check: Check) -> None:
    def one_or_the_other(body: Mapping[str, Any]) -> Answer:
        if "response_format" in body and body.get("tools"):
            return Answer(calls=(("ring_bell", {}),))
        return capable(body)

    check.run(vllm(one_or_the_other), VLLM)
    assert check.capabilities["structured_output"] is True
    assert check.capabilities["structured_output_with_tools"] is False
    assert "ring_bell" in check.details["structured_output_with_tools"]


def test_a_model_without_tools_is_asked_directly(check: Check) -> None:
    def no_tools(body: Mapping[str, Any]) -> Answer:
        if body.get("tools") and "response_format" not in body:
            return words(body)
        return capable(body)

    check.run(vllm(no_tools), VLLM)
    assert check.capabilities["tools"] is False
    assert check.capabilities["default_transport"] == "direct"
    assert "forced_tool_choice" not in check.capabilities
    assert check.details["forced_tool_choice"] == "it needs tools"


def test_a_model_that_only_talks_is_of_no_use(check: Check) -> None:
    check.run(vllm(words), VLLM)
    assert check.exit_code == 1
    assert check.findings["use"][0] == "failed"
    assert check.configuration is None


def test_pictures_are_taken_by_who_sees_them(check: Check) -> None:
    def blind(body: Mapping[str, Any]) -> Answer:
        if has_image(body):
            raise refused_by_vllm("Qwen/Qwen3-8B is not a multimodal model")
        return capable(body)

    check.run(vllm(blind), VLLM)
    assert check.values["images"] is False
    assert "not a multimodal model" in check.details["images"]
    assert "images" not in check.capabilities


def test_a_model_that_reasons_whatever_it_is_told_cannot_be_told(check: Check) -> None:
    def always(body: Mapping[str, Any]) -> Answer:
        return Answer(reasoning="hm", text=capable(body).text, calls=capable(body).calls)

    check.run(vllm(always), VLLM)
    assert check.values["reasoning"] is False
    assert check.details["reasoning"] == "what it is told makes no difference"


def test_an_ollama_server_tells_what_its_model_can_do(check: Check) -> None:
    def never_forced(body: Mapping[str, Any]) -> Answer:
        asks_for_call = "Call the tool" in question_of(body)
        return capable(body) if asks_for_call or not body.get("tools") else words(body)

    fake = ollama(
        chat=never_forced,
        loaded={"context_length": 4_096},
        thinking={"values": ["none", "low", "high", "loud"], "default": "low"},
    )
    check.run(fake, OLLAMA)
    assert check.server == {"name": "Ollama", "version": "0.40.12"}
    assert check.capabilities == {
        "forced_tool_choice": False,
        "structured_output": True,
        "structured_output_with_tools": False,
        "images": True,
        "reasoning": True,
        "reasoning_efforts": ["none", "low", "high"],
        "context_window": 4_096,
    }
    assert "vision" in check.details["images"]


def test_an_ollama_model_that_lacks_tools_is_not_asked_to_call_any(check: Check) -> None:
    fake = ollama(capabilities=("completion",))
    check.run(fake, OLLAMA)
    assert check.values["tools"] is False
    assert check.values["images"] is False
    assert check.values["reasoning"] is False
    offers = [body for _, _, body in fake.seen if body.get("tools")]
    assert all("response_format" in body for body in offers)


@pytest.mark.parametrize(
    ("shown", "window", "detail"),
    [
        ({"parameters": "num_ctx                        8192"}, 8_192, "num_ctx"),
        ({}, None, "the model could take 262,144 tokens"),
        ({"model_info": {}}, None, "does not say"),
    ],
)
def test_the_context_is_what_requests_get_and_not_what_the_model_could_take(
    shown: Mapping[str, Any], window: int | None, detail: str, check: Check
) -> None:
    check.run(ollama(**shown), OLLAMA)
    assert check.values["context_window"] == window
    assert detail in check.details["context_window"]
    assert ("context_window" in check.capabilities) is (window is not None)


@pytest.mark.parametrize(("size", "is_small"), [("134.52M", True), ("0.6B", False), ("many", False)])
def test_a_model_of_few_parameters_is_small(size: str, is_small: bool, check: Check) -> None:
    check.run(ollama(details={"parameter_size": size}), OLLAMA)
    assert ("is_small" in check.capabilities) is is_small


@pytest.mark.parametrize("fake", [vllm(), ollama()], ids=["vllm", "ollama"])
def test_a_wrong_name_is_answered_with_those_that_there_are(fake: FakeServer, check: Check) -> None:
    check.run(fake, "openai-chat:qwen9")
    assert check.exit_code == 1
    assert check.findings["answer"][0] == "failed"
    state, detail = check.findings["model"]
    assert state == "failed"
    assert detail.startswith("the server has no 'qwen9'; it has ")
    assert check.configuration is None


def test_a_base_url_without_its_version_is_recognized(check: Check) -> None:
    check.run(vllm(), VLLM, path="")
    assert check.exit_code == 1
    assert check.findings["base URL"][1].endswith("/v1?")


def test_a_key_that_is_refused_ends_the_check(check: Check) -> None:
    fake = vllm(key=KEY)
    check.run(fake, VLLM, "--setting", "api_key=sk-another-0123456789")
    assert check.exit_code == 1
    assert check.findings["key"][0] == "failed"
    assert check.values == {}
    check.run(vllm(key=KEY), VLLM, "--setting", f"api_key={KEY}")
    assert check.exit_code == 0
    assert check.server is not None
    assert KEY not in check.output


def test_nobody_there_is_a_connection_that_failed(check: Check, capsys: Captured) -> None:
    with vllm().at_work() as url:
        pass
    arguments = [VLLM, "--base-url", f"{url}/v1", "--capabilities", "--json"]
    assert run_command_line(["models", "check", *arguments]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"][0]["state"] == "failed"
    assert told["configuration"] is None


@pytest.mark.parametrize(
    "page",
    [b"<html>", b"[]", b"null", b'{"data": 1}', b'{"data": [1, {"owned_by": ["vllm"]}]}', b"x" * 5_000_000],
    ids=["html", "array", "null", "number", "odd", "huge"],
)
def test_a_server_that_nobody_knows_is_asked_by_requests_alone(page: bytes, check: Check) -> None:
    fake = FakeServer(pages={"/v1/models": page}, chat=capable)
    check.run(fake, "openai-chat:any")
    assert check.exit_code == 0
    assert check.server is None
    assert check.findings["server"][0] == "skipped"
    assert check.values["tools"] is True
    assert "context_window" not in check.values


def test_a_server_that_is_slow_to_tell_of_itself_is_left_alone(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_facts, "LIMIT_SECONDS", 0.1)
    fake = vllm(never=frozenset({"/v1/models"}))
    check.run(fake, VLLM)
    assert check.findings["server"] == ("skipped", "it said nothing of itself within 0.1 seconds")
    assert check.values["structured_output"] is True


def test_after_a_request_without_an_answer_nothing_more_is_asked(check: Check) -> None:
    fake = vllm()

    def hangs_at_schemas(body: Mapping[str, Any]) -> Answer:
        if "response_format" in body:
            fake.closing.wait(240)
        return capable(body)

    fake.chat = hangs_at_schemas
    check.run(fake, VLLM, "--setting", "timeout=1")
    assert check.exit_code == 0
    assert check.values["tools"] is True
    assert check.values["structured_output"] is None
    assert check.values["images"] is None
    assert check.details["images"].startswith("not asked")
    assert check.capabilities == {"context_window": 32_768}


def test_a_busy_server_leaves_a_thing_open_and_the_next_one_is_asked(check: Check) -> None:
    def busy_with_tools(body: Mapping[str, Any]) -> Answer:
        if body.get("tools"):
            raise RefusedError(503, {"error": {"message": "Loading model", "code": 503}})
        return capable(body)

    check.run(vllm(busy_with_tools), VLLM)
    assert check.values["tools"] is None
    assert check.values["parallel_tool_calls"] is None
    assert check.values["structured_output"] is True
    assert "tools" not in check.capabilities


def test_what_is_said_of_the_model_already_stays(check: Check) -> None:
    price = 'capabilities={"price": {"input": "0.05", "output": "0.20"}, "tools": false}'
    check.run(vllm(), VLLM, "--setting", price)
    assert check.capabilities["price"] == {"input": "0.05", "output": "0.20"}
    assert check.values["tools"] is True
    assert "tools" not in check.capabilities
