"""`models list` and `models show`: what is known of models, without a request."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.catalog.coding_agents import CODING_AGENTS
from nighthawk_async.catalog.models import MODELS
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.cli.application import run_command_line

Captured = pytest.CaptureFixture[str]

KEY = "sk-never-shown-0123456789"


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    for provider in PROVIDERS.values():
        for variable in (provider.base_url_variable, *provider.key_variables):
            monkeypatch.delenv(variable, raising=False)


def output_of(arguments: list[str], capsys: Captured, *, exit_code: int = 0) -> str:
    assert run_command_line(arguments) == exit_code
    captured = capsys.readouterr()
    return captured.err if exit_code else captured.out


def json_of(arguments: list[str], capsys: Captured) -> Any:
    return json.loads(output_of([*arguments, "--json"], capsys))


def test_the_list_names_every_family_of_every_provider_in_100_columns(capsys: Captured) -> None:
    output = output_of(["models", "list"], capsys)
    words = output.replace(",", " ").split()
    assert [facts.pattern for facts in MODELS if facts.pattern.partition(":")[2] not in words] == []
    assert all(f"{name}:" in output for name in [*PROVIDERS, "local"])
    tables = [line for line in output.splitlines() if line.startswith("  ")]
    assert max(len(line) for line in tables) <= 100


def test_the_list_shows_what_a_family_can_do_and_costs(capsys: Captured) -> None:
    lines = output_of(["models", "list", "--provider", "anthropic"], capsys).splitlines()
    row = next(line.split() for line in lines if "claude-haiku-4-5" in line)
    assert row == ["claude-haiku-4-5*", "yes", "yes", "images,", "documents", "budget", "200K", "1", "5"]


def test_one_provider_can_be_listed(capsys: Captured) -> None:
    output = output_of(["models", "list", "--provider", "google"], capsys)
    assert "gemini-2.5-pro" in output
    assert "claude" not in output
    assert "smollm2" not in output


def test_an_unknown_provider_is_refused_with_the_known_ones(capsys: Captured) -> None:
    message = output_of(["models", "list", "--provider", "openai"], capsys, exit_code=2)
    assert "'openai'" in message
    assert "openai-responses" in message


def test_the_list_says_which_weights_are_here(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not pulled" in output_of(["models", "list", "--provider", "local"], capsys)
    monkeypatch.setattr("nighthawk_async.cli.models_commands.are_weights_whole", lambda source, path: True)
    row = output_of(["models", "list", "--provider", "local"], capsys).splitlines()[2]
    assert row.split()[:4] == ["smollm2-135m", "here", "98", "MB"]


def test_the_list_as_json_holds_every_row_with_its_source(capsys: Captured) -> None:
    listed = json_of(["models", "list"], capsys)
    assert [each["provider"] for each in listed] == [*PROVIDERS, *CODING_AGENTS, "local"]
    rows = [row for each in listed for row in each["models"] if each["provider"] != "local"]
    assert len(rows) == len(MODELS)
    assert all(row["source"] for row in rows)
    ways = {row["pattern"]: (row["only_through"], row["more_through"]) for row in rows}
    assert ways["openai-chat:gpt-5.4*"] == (None, "openai-responses")
    assert ways["openai-chat:gpt-5.4-pro*"] == ("openai-responses", None)
    local = listed[-1]["models"][0]
    assert local["pattern"] == "local:smollm2-135m"
    assert local["weights_are_here"] is False


def test_the_list_says_whether_a_key_is_set_and_never_shows_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    output = output_of(["models", "list"], capsys)
    assert "key set (the variable ANTHROPIC_API_KEY)" in output
    assert "key not set; set the variable OPENAI_API_KEY" in output
    assert KEY not in output
    assert KEY not in json.dumps(json_of(["models", "list"], capsys))


def test_show_gives_what_the_catalog_knows_and_the_row_that_says_so(capsys: Captured) -> None:
    shown = json_of(["models", "show", "anthropic:claude-haiku-4-5-20251001"], capsys)
    assert shown["row"] == "anthropic:claude-haiku-4-5*"
    assert shown["protocol"] == "anthropic"
    assert shown["base_url"] == "https://api.anthropic.com/v1"
    assert shown["base_url_origin"] == "the provider's own"
    assert shown["has_key"] is False
    assert shown["capabilities"]["images"] is True
    assert shown["capabilities"]["price"] == {
        "input": "1",
        "output": "5",
        "cache_read": "0.1",
        "cache_write": "1.25",
        "cache_write_1h": "2",
        "web_search": "10",
        "file_search": None,
        "long_request": None,
        "long_request_tokens": None,
        "image_output": None,
    }


def test_show_says_when_a_price_is_by_genai_prices(capsys: Captured) -> None:
    version = pytest.importorskip("genai_prices").__version__
    deepseek = ["--base-url", "https://api.deepseek.com/v1"]
    shown = json_of(["models", "show", "openai-chat:deepseek-chat", *deepseek], capsys)
    assert shown["price_source"] == f"genai-prices {version}"
    assert Decimal(shown["capabilities"]["price"]["input"]) > 0
    own = ["--setting", 'capabilities={"price": {"input": "3", "output": "4"}}']
    shown = json_of(["models", "show", "openai-chat:deepseek-chat", *deepseek, *own], capsys)
    assert shown["price_source"] is None
    assert shown["capabilities"]["price"]["input"] == "3"


def test_show_prints_one_line_for_each_thing(capsys: Captured) -> None:
    lines = output_of(["models", "show", "openai-responses:gpt-5.4-nano"], capsys).splitlines()
    shown = {line[:19].strip(): line[19:].strip() for line in lines}
    assert shown["catalog row"] == "openai-responses:gpt-5.4-nano*"
    assert shown["tools"] == "yes, several in one response"
    assert shown["takes"] == "images, documents"
    assert shown["context"] == "400,000 tokens"
    assert shown["price"] == "$0.20 sent, $1.25 received, $0.02 read from the cache per million tokens"
    assert shown["native tools"] == "web_search, code_execution, file_search"
    assert shown["searches"] == "$10.00 per thousand web searches, $2.50 per thousand file searches"
    assert max(len(line) for line in lines) <= 100


def test_show_says_that_nothing_is_known_of_a_model(capsys: Captured) -> None:
    output = output_of(["models", "show", "openai-chat:my-model"], capsys)
    assert "unknown: conservative defaults" in output
    assert "text only" in output


def test_show_says_which_protocol_reaches_a_model(capsys: Captured) -> None:
    note = json_of(["models", "show", "openai-chat:gpt-5.5-pro"], capsys)["note"]
    assert note.startswith("It is reached through openai-responses only.")


def test_show_takes_settings_into_account(capsys: Captured) -> None:
    settings = ["--setting", 'capabilities={"images": true}', "--setting", f"api_key={KEY}"]
    output = output_of(["models", "show", "openai-chat:my-model", *settings, "--json"], capsys)
    shown = json.loads(output)
    assert shown["capabilities"]["images"] is True
    assert shown["key"] == "set (the setting api_key)"
    assert KEY not in output


@pytest.mark.parametrize(
    ("variable", "option", "origin"),
    [
        ("http://localhost:8000/v1", None, "the variable OPENAI_BASE_URL"),
        ("http://elsewhere/v1", "http://localhost:8000/v1", "the setting base_url"),
    ],
)
def test_show_names_the_base_url_in_force_and_who_says_so(
    variable: str, option: str | None, origin: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", variable)
    options = ["--base-url", option] if option else []
    shown = json_of(["models", "show", "openai-chat:any", *options], capsys)
    assert shown["base_url"] == "http://localhost:8000/v1"
    assert shown["base_url_origin"] == origin
    assert shown["key"] == "not set; a server on this machine needs none"


def test_a_base_url_gets_the_version_that_the_protocol_wants(capsys: Captured) -> None:
    shown = json_of(["models", "show", "anthropic:any", "--base-url", "https://gateway.example"], capsys)
    assert shown["base_url"] == "https://gateway.example/v1"


def test_a_key_in_the_base_url_or_in_a_header_counts_and_is_not_shown(capsys: Captured) -> None:
    url = f"https://gateway.example/v1?api-key={KEY}"
    output = output_of(["models", "show", "openai-chat:any", "--base-url", url], capsys)
    assert "set (api-key)" in output
    assert KEY not in output
    header = json.dumps({"x-gateway-token": KEY})
    output = output_of(["models", "show", "openai-chat:any", "--setting", f"extra_headers={header}"], capsys)
    assert "set (x-gateway-token)" in output
    assert KEY not in output


def test_show_says_how_to_get_the_weights_of_a_local_model(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = output_of(["models", "show", "local:smollm2-135m"], capsys)
    assert "nighthawk-async models pull smollm2-135m" in output
    assert "free" in output
    monkeypatch.setattr("nighthawk_async.cli.model_description.are_weights_whole", lambda source, path: True)
    shown = json_of(["models", "show", "local:smollm2-135m"], capsys)
    assert shown["weights"].endswith("SmolLM2-135M-Instruct.Q4_1.gguf")


def test_show_knows_files_by_their_suffix(capsys: Captured) -> None:
    assert json_of(["models", "show", "local:/models/mine.GGUF"], capsys)["row"] == "local:*.gguf"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gpt-5"], "'gpt-5' is not of the form 'provider:model'"),
        (["openai:gpt-5"], "No provider is called 'openai'"),
        (["local:mystery"], "No local model is called 'mystery'"),
        (["openai-chat:any", "--setting", "temperature"], "NAME=VALUE"),
        (["openai-chat:any", "--setting", "max_retries=-1"], "'max_retries'"),
        (["openai-chat:any", "--setting", 'capabilities={"wings": true}'], "'wings'"),
        (["openai-chat:any", "--base-url", "localhost:8000"], "http://"),
    ],
)
def test_what_cannot_be_shown_is_one_line_with_exit_code_2(
    arguments: list[str], complaint: str, capsys: Captured
) -> None:
    message = output_of(["models", "show", *arguments], capsys, exit_code=2)
    assert complaint in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("model_id", "words"),
    [
        ("anthropic:claude-haiku-4-5", "by a number of tokens (thinking_budget_tokens, or reasoning_effort)"),
        ("openai-responses:gpt-5.4", "by a word (reasoning_effort): none, low, medium, high, xhigh"),
        ("openai-responses:gpt-5.2-codex", "by a word (reasoning_effort) sampling"),
        ("openai-chat:gpt-5.4", "high, xhigh; not in a request that offers tools"),
        ("openai-chat:gpt-5.4", "It can do more through openai-responses."),
        ("openai-responses:gpt-5.4", "sampling adjustable"),
        ("anthropic:claude-opus-5-5", "sampling not adjustable (temperature, top_p, top_k)"),
        ("anthropic:claude-opus-5-5", "yes, several in one response, never on demand"),
        ("google:gemini-2.5-pro", "structured output yes, not in a request that offers tools"),
        ("google:gemini-3.8-flash", "structured output yes takes"),
        ("openai-responses:gpt-5.5-pro", "structured output no"),
        ("openai-chat:gpt-4.1", "not adjustable"),
        ("anthropic:claude-opus-5-5", "$0.20 read from the cache, $5.00 written to the cache"),
        ("openai-responses:gpt-5-pro", "$15.00 sent, $120.00 received per million tokens"),
        ("openai-chat:o3", "yes, one in a response"),
        ("openai-chat:gpt-audio-1.5", "audio"),
        ("google:gemini-pro-latest", "images, audio, video, documents"),
    ],
)
def test_show_says_in_words_what_a_model_can_do(model_id: str, words: str, capsys: Captured) -> None:
    assert words in " ".join(output_of(["models", "show", model_id], capsys).split())


def test_a_width_that_is_set_is_kept_to(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    lines = output_of(["models", "show", "openai-responses:gpt-6.1-sol"], capsys).splitlines()
    assert 60 < max(len(line) for line in lines) <= 70


def test_headers_that_hold_no_credential_are_no_key(capsys: Captured) -> None:
    options = ["--setting", 'extra_headers={"x-title": "mine"}']
    assert json_of(["models", "show", "openai-chat:any", *options], capsys)["has_key"] is False


def test_the_list_tells_what_presets_miss(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("nighthawk_async.cli.model_description.is_available", lambda facts: False)
    output = output_of(["models", "list", "--provider", "bedrock"], capsys)
    assert output == (
        "bedrock: not set; set the variable AWS_REGION, or the setting base_url; key not set; set the "
        "variable AWS_BEARER_TOKEN_BEDROCK, or the setting api_key, or install the extra aws\n"
    )
    monkeypatch.setattr("nighthawk_async.cli.model_description.is_available", lambda facts: True)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert output_of(["models", "list", "--provider", "bedrock"], capsys) == (
        "bedrock: https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1; key nh.credentials.aws()\n"
    )


def test_show_describes_a_model_of_a_preset_without_its_base_url(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    shown = json_of(["models", "show", "vertex:gemini-2.5-pro"], capsys)
    assert shown["base_url"].startswith("not set; set the variable GOOGLE_CLOUD_PROJECT")
    assert shown["base_url_origin"] is None
    assert shown["row"] == "google:gemini-2.5-pro"
    assert "google-genai" in shown["source"]


def test_a_coding_agent_is_shown_with_its_command(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    shown = output_of(["models", "show", "claude-code-cli:sonet"], capsys)
    assert "Claude Code, a coding agent" in shown
    assert "command claude, not found on PATH" in shown
    assert "version 2.1.197 or later" in shown
    assert "Did you mean 'sonnet'?" in shown
    facts = json_of(["models", "show", "codex:default"], capsys)
    assert (facts["agent"], facts["model_sent"], facts["command"]) == ("Codex", None, None)
    listed = output_of(["models", "list", "--provider", "codex"], capsys)
    assert listed.startswith("codex: Codex, a coding agent; command codex, not found on PATH")


def test_a_coding_agent_is_not_asked_by_one_request(capsys: Captured) -> None:
    assert run_command_line(["models", "check", "codex:default"]) != 0
    assert "codex:default is a coding agent" in capsys.readouterr().err
