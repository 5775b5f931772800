"""`models check --rules`: which rules of an endpoint hold, by requests that break them."""

import json
from pathlib import Path

import pytest

from nighthawk_async.catalog.endpoint_rules import ENDPOINT_RULES
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.rule_probes import each_rule, probe_of
from nighthawk_async.testing import ModelReply, ModelServer

NAMES = {"openai-chat": "o4-mini", "anthropic": "claude-haiku-4-5"}
UNTRIED = {
    "google": {"cached_content beside tools", "cached_content beside system_prompt"},
    "anthropic": set[str](),
}


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    for provider in PROVIDERS.values():
        for variable in (provider.base_url_variable, *provider.key_variables):
            monkeypatch.delenv(variable, raising=False)


def states_at(provider: str, rules: str | None, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The states of the rules of a provider at a server with these rules, or with none."""
    with ModelServer.in_thread(
        lambda _: ModelReply(text="ready"), rules=rules, checks_requests=False
    ) as server:
        model = f"{provider}:{NAMES.get(provider, 'any')}"
        settings = ("--base-url", server.base_url, "--setting", f'endpoint_rules="{provider}"')
        assert run_command_line(["models", "check", model, *settings, "--rules", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    return {
        each["name"]: each["state"] for each in found if each["name"] not in ("connection", "key", "answer")
    }


@pytest.mark.parametrize("provider", ["mistral", "openai-chat", "openai-responses", "anthropic", "google"])
def test_rules_hold_where_the_server_refuses_and_are_gone_where_it_answers(
    provider: str, capsys: pytest.CaptureFixture[str]
) -> None:
    untried = UNTRIED.get(provider, set())
    there, elsewhere = states_at(provider, provider, capsys), states_at(provider, None, capsys)
    assert there.keys() == elsewhere.keys()
    assert {name for name, state in there.items() if state == "unknown"} == untried
    assert {state for name, state in there.items() if name not in untried} == {"holds"}
    assert {state for name, state in elsewhere.items() if name not in untried} == {"gone"}


def test_every_row_can_be_tried_with_a_key() -> None:
    for provider, rules in ENDPOINT_RULES.items():
        untried = {name for name, _, rule in each_rule(rules) if probe_of(name, rules, rule) is None}
        assert untried <= UNTRIED["google"], provider


def test_findings_are_rows_and_an_endpoint_without_rules_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer.in_thread(lambda _: ModelReply(text="ready"), rules="mistral") as server:
        arguments = ["models", "check", "mistral:any", "--base-url", server.base_url, "--rules"]
        assert run_command_line(arguments) == 0
        shown = capsys.readouterr().out
        assert (
            "has_user_after_results            holds    mistral:any: HTTP 400: Unexpected role 'user'"
            in shown
        )
        assert (
            run_command_line(["models", "check", "vllm:any", "--base-url", server.base_url, "--rules"]) == 2
        )
    assert "no rules of this endpoint are known" in capsys.readouterr().err
