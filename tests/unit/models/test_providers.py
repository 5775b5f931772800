import subprocess
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from nighthawk_async.catalog.providers import PROVIDERS, ProviderFacts
from nighthawk_async.errors import (
    ConfigurationError,
    MissingCredentialError,
    NighthawkError,
    UnknownModelError,
)
from nighthawk_async.models.endpoint import Endpoint, is_loopback, parse_base_url
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.providers import create_codec, create_model
from nighthawk_async.models.time_limits import TransportSettings
from nighthawk_async.ports import Model
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelCapabilities, ModelRequest
from nighthawk_async.wire.transport_settings import TRANSPORT_SETTINGS
from tests.cases import every

EVERY_URL = {
    variable: "https://mine.example" if variable.endswith("ENDPOINT") else "mine"
    for facts in PROVIDERS.values()
    for part in facts.url_parts.values()
    for variable in part.variables
}
LOOPBACK = {"base_url": "http://127.0.0.1:1/v1"}
SECRET = "sk-very-secret"


def create(
    model_id: str, environment: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None
) -> Model:
    return create_model(model_id, environment=environment or {}, settings=settings or {})


def test_a_model_of_a_known_provider_needs_only_its_key() -> None:
    model = create("openai-chat:gpt-5.4-nano", {"OPENAI_API_KEY": SECRET})
    assert isinstance(model, HttpModel)
    assert isinstance(model, Model)
    assert model.name == "openai-chat:gpt-5.4-nano"


def test_a_model_name_may_hold_colons() -> None:
    assert create("openai-chat:qwen3:0.6b", settings=LOOPBACK).name == "openai-chat:qwen3:0.6b"


@pytest.mark.parametrize("model_id", ["gpt", "", ":x", "openai-chat:", " openai-chat:x"])
def test_a_malformed_model_id_is_refused_by_name(model_id: str) -> None:
    with pytest.raises(UnknownModelError, match="provider:model") as raised:
        create(model_id)
    assert repr(model_id) in str(raised.value)


ONLY_ELSEWHERE = "openai-chat:gpt-5.5-pro"


@pytest.mark.parametrize(
    "base_url", [None, "https://api.openai.com/v1", "https://API.openai.com/v1/projects/mine"]
)
def test_a_model_that_the_provider_serves_through_another_protocol_only_is_refused_with_its_name_there(
    base_url: str | None,
) -> None:
    for environment in ({}, {"OPENAI_API_KEY": SECRET}):  # the key is not what is missing
        with pytest.raises(UnknownModelError, match=r"use openai-responses:gpt-5\.5-pro\."):
            create(ONLY_ELSEWHERE, environment, settings={"base_url": base_url})


def test_what_another_endpoint_serves_is_not_judged() -> None:
    settings = {"base_url": "https://models.example/v1", "api_key": SECRET}
    assert create(ONLY_ELSEWHERE, settings=settings).name == ONLY_ELSEWHERE
    environment = {"OPENAI_BASE_URL": "https://models.example/v1", "OPENAI_API_KEY": SECRET}
    assert create(ONLY_ELSEWHERE, environment).name == ONLY_ELSEWHERE


def test_whoever_says_what_a_model_can_do_may_reach_it_through_any_protocol() -> None:
    settings = {"api_key": SECRET, "capabilities": {"tools": True}}
    assert create(ONLY_ELSEWHERE, settings=settings).capabilities.tools


def test_an_unknown_provider_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(
        UnknownModelError,
        match=r"'opneai'.* known are anthropic, claude-code-cli, claude-code-sdk, codex, google, local, ",
    ):
        create("opneai:gpt")


@every("provider", PROVIDERS)
def test_every_provider_of_the_catalog_can_be_spoken_to(provider: str) -> None:
    model = create(f"{provider}:x", EVERY_URL, settings={"api_key": SECRET})
    assert model.name == f"{provider}:x"


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " \n"}])
def test_a_missing_key_is_named_by_its_variable(environment: dict[str, str]) -> None:
    with pytest.raises(MissingCredentialError, match="OPENAI_API_KEY"):
        create("openai-chat:gpt-5.4-nano", environment)


def test_a_remote_base_url_needs_a_key_too() -> None:
    with pytest.raises(MissingCredentialError):
        create("openai-chat:x", settings={"base_url": "https://models.example/v1"})


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "llama.localhost"])
def test_a_base_url_on_this_machine_needs_no_key(host: str) -> None:
    assert create("openai-chat:x", settings={"base_url": f"http://{host}/v1"}).name == "openai-chat:x"
    assert create("openai-chat:x", {"OPENAI_BASE_URL": f"http://{host}/v1"}).name == "openai-chat:x"


def test_credentials_in_a_header_of_ones_own_stand_for_the_key() -> None:
    settings = {"base_url": "https://models.example/v1", "extra_headers": {"Authorization": "Basic abc"}}
    assert create("openai-chat:x", settings=settings).name == "openai-chat:x"


@pytest.mark.parametrize("name", ["api-key", "X-Gateway-Token", "cf-aig-authorization"])
def test_a_credential_in_a_header_of_another_name_stands_for_the_key_too(name: str) -> None:
    settings = {"base_url": "https://models.example/v1", "extra_headers": {name: "abc"}}
    assert create("openai-chat:x", settings=settings).name == "openai-chat:x"


def test_a_header_that_carries_no_credential_does_not_stand_for_the_key() -> None:
    settings = {"base_url": "https://models.example/v1", "extra_headers": {"x-title": "abc"}}
    with pytest.raises(MissingCredentialError):
        create("openai-chat:x", settings=settings)


def test_a_key_in_the_query_of_the_base_url_stands_for_the_key() -> None:
    settings = {"base_url": "https://models.example/v1?key=abc"}
    assert create("google:x", settings=settings).name == "google:x"


def test_an_empty_base_url_in_the_environment_is_none() -> None:
    with pytest.raises(MissingCredentialError):
        create("openai-chat:x", {"OPENAI_BASE_URL": ""})


def test_a_blank_base_url_in_the_environment_is_none() -> None:
    with pytest.raises(MissingCredentialError):
        create("openai-chat:x", {"OPENAI_BASE_URL": " \t"})


@pytest.mark.parametrize("base_url", ["", " ", "\n"])
@pytest.mark.parametrize("environment", [{}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}])
def test_an_empty_base_url_among_the_settings_is_refused_by_name(
    base_url: str, environment: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="model setting 'base_url'"):
        create("openai-chat:x", {"OPENAI_API_KEY": SECRET, **environment}, settings={"base_url": base_url})


def test_a_base_url_of_none_takes_the_environments() -> None:
    environment = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    assert create("openai-chat:x", environment, settings={"base_url": None}).name == "openai-chat:x"


@pytest.mark.parametrize(
    "base_url",
    ["localhost:8080", "ftp://localhost", "http://", "http://[::1", "http://h:99999", "//host", "http://h:0"],
)
def test_a_bad_base_url_is_refused_by_name(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        create("openai-chat:x", settings={"base_url": base_url})


def test_a_base_url_with_credentials_is_refused_without_showing_them() -> None:
    with pytest.raises(ConfigurationError, match="must not hold credentials") as raised:
        create("openai-chat:x", settings={"base_url": "http://user:hunter22@localhost/v1"})
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize("key", [f"{SECRET}\nx", f"{SECRET}é", f"{SECRET}\0"])
def test_a_key_that_no_header_may_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError, match="authorization") as raised:
        create("openai-chat:x", {"OPENAI_API_KEY": key})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_retries": -1},
        {"timeout": 0},
        {"connect_timeout": "soon"},
        {"idle_timeout": float("inf")},
        {"extra_headers": {"x": 1}},
        {"api_key": [SECRET]},
        {"first_event_timeout": 0},
        {"max_concurrent_requests": 0},
        {"requests_per_minute": 0.5},
        {"tokens_per_minute": "many"},
        {"idempotency_header": 7},
    ],
)
def test_a_bad_transport_setting_is_refused_by_name_and_not_by_value(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))) as raised:
        create("openai-chat:x", settings={**LOOPBACK, **settings})
    text = "".join(traceback.format_exception(raised.value))
    assert SECRET not in text


def test_a_bad_extra_header_is_refused_before_anything_is_sent() -> None:
    model = create("openai-chat:x", settings=LOOPBACK | {"extra_headers": {"x y": "z"}})
    with pytest.raises(ConfigurationError, match="'x y'"):
        model.stream(ModelRequest(messages=(UserMessage(content=("hi",)),)))


def test_the_key_is_shown_nowhere() -> None:
    model = create("openai-chat:gpt-5.4-nano", settings={"api_key": SECRET})
    assert repr(model) == "HttpModel('openai-chat:gpt-5.4-nano')"
    assert SECRET not in repr(model)


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("gpt-5.4-nano", {"tools": True, "structured_output": True, "images": True, "documents": True}),
        ("gpt-4o-mini", {"structured_output": True, "images": True, "audio": False}),
        ("gpt-4o-audio-preview", {"audio": True, "images": False}),
        ("o4-mini", {"structured_output": True, "context_window": 200_000}),
        (
            "some-new-model",
            {"tools": True, "structured_output": False, "images": False, "default_transport": "tool"},
        ),
    ],
)
def test_capabilities_come_from_the_catalog_and_are_conservative_for_unknown_models(
    name: str, capabilities: dict[str, Any]
) -> None:
    found = create(f"openai-chat:{name}", settings=LOOPBACK).capabilities
    assert {each: getattr(found, each) for each in capabilities} == capabilities


def test_capabilities_can_be_overridden() -> None:
    settings = {**LOOPBACK, "capabilities": {"images": True, "default_transport": "direct"}}
    found = create("openai-chat:x", settings=settings).capabilities
    assert found == ModelCapabilities(images=True, default_transport="direct")


@pytest.mark.parametrize(
    ("capabilities", "named"), [({"image": True}, "image"), ({"default_transport": "x"}, "default")]
)
def test_a_bad_capability_is_refused_by_name(capabilities: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        create("openai-chat:x", settings={**LOOPBACK, "capabilities": capabilities})


def test_every_transport_setting_is_kept_out_of_the_body() -> None:
    assert frozenset(TransportSettings.model_fields) == TRANSPORT_SETTINGS


def test_the_process_environment_is_used_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(NighthawkError):
        create_model("openai-chat:gpt-5.4-nano")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert create_model("openai-chat:gpt-5.4-nano").name == "openai-chat:gpt-5.4-nano"


def test_creating_a_model_does_not_load_the_http_library() -> None:
    program = (
        "import sys\n"
        "from nighthawk_async.models.providers import create_model\n"
        "create_model('openai-chat:x', settings={'base_url': 'http://127.0.0.1:1'})\n"
        "assert 'httpx' not in sys.modules and 'h11' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


def endpoint_of(
    model_id: str, environment: Mapping[str, str], settings: Mapping[str, Any] | None = None
) -> Endpoint:
    """Where requests of a model go."""
    model = create(model_id, environment, settings)
    return vars(model)["_memory"].prepare({}).endpoint


@pytest.mark.parametrize(
    ("model_id", "variable", "base_url", "expected"),
    [
        ("anthropic:x", "ANTHROPIC_BASE_URL", "https://gate.example", "https://gate.example/v1/messages"),
        ("anthropic:x", "ANTHROPIC_BASE_URL", "https://gate.example/v1/", "https://gate.example/v1/messages"),
        ("anthropic:x", "ANTHROPIC_BASE_URL", "https://gate.example/a", "https://gate.example/a/v1/messages"),
        (
            "google:x",
            "GOOGLE_GEMINI_BASE_URL",
            "https://gate.example/",
            "https://gate.example/v1beta/messages",
        ),
        ("google:x", "GOOGLE_GEMINI_BASE_URL", "https://gate.example/v1", "https://gate.example/v1/messages"),
        ("openai-chat:x", "OPENAI_BASE_URL", "https://gate.example", "https://gate.example/messages"),
    ],
)
def test_a_base_url_is_understood_as_the_sdk_of_the_provider_does(
    model_id: str, variable: str, base_url: str, expected: str
) -> None:
    for environment, settings in (({variable: base_url}, {}), ({}, {"base_url": base_url})):
        endpoint = endpoint_of(model_id, environment, {"api_key": SECRET, **settings})
        assert endpoint.url("/messages").geturl() == expected


@pytest.mark.parametrize(
    ("model_id", "environment", "expected"),
    [
        ("anthropic:x", {"ANTHROPIC_API_KEY": "a"}, {"x-api-key": "a"}),
        ("google:x", {"GEMINI_API_KEY": "a"}, {"x-goog-api-key": "a"}),
        ("google:x", {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, {"x-goog-api-key": "b"}),
        ("google:x", {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": " "}, {"x-goog-api-key": "a"}),
        (
            "openai-responses:x",
            {"OPENAI_API_KEY": "a", "OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "project"},
            {"authorization": "Bearer a", "openai-organization": "org", "openai-project": "project"},
        ),
        ("openai-chat:x", {"OPENAI_API_KEY": "a", "OPENAI_ORG_ID": ""}, {"authorization": "Bearer a"}),
    ],
)
def test_headers_come_from_the_variables_that_the_sdk_of_the_provider_reads(
    model_id: str, environment: dict[str, str], expected: dict[str, str]
) -> None:
    assert endpoint_of(model_id, environment).headers == expected


def test_what_is_missing_is_named_for_every_provider_that_needs_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nighthawk_async.models.providers.is_available", lambda facts: False)
    for name, facts in PROVIDERS.items():
        if is_loopback(parse_base_url(facts.own_base_url(EVERY_URL)[0]).hostname):
            create(f"{name}:x")  # a server on this machine
            continue
        expected = [facts.key_variable, "api_key", facts.credentials and f"the extra '{facts.credentials}'"]
        with pytest.raises(MissingCredentialError, match=".*".join(expected)):
            create(f"{name}:x", EVERY_URL)


def test_a_codec_is_loaded_when_it_is_needed_first() -> None:
    program = (
        "import sys\n"
        "from nighthawk_async.models.providers import create_model\n"
        "wire = 'nighthawk_async.wire.'\n"
        "assert not {wire + 'anthropic', wire + 'google', wire + 'openai_responses'} & set(sys.modules)\n"
        "create_model('anthropic:x', settings={'base_url': 'http://127.0.0.1:1'})\n"
        "assert wire + 'anthropic' in sys.modules and wire + 'google' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


@every("facts", PROVIDERS.values())
def test_every_provider_of_the_catalog_has_a_codec_of_its_protocols_name(facts: ProviderFacts) -> None:
    assert create_codec(facts.protocol).name == facts.protocol


@pytest.mark.parametrize(
    ("model_id", "meant"),
    [
        ("openai:gpt-5", "'openai-responses:gpt-5' or 'openai-chat:gpt-5'"),
        ("OpenAI:gpt-5", "'openai-responses:gpt-5' or 'openai-chat:gpt-5'"),
        ("gpt:gpt-5", "'openai-responses:gpt-5' or 'openai-chat:gpt-5'"),
        ("Anthropic:any", "'anthropic:any'"),
        ("gemini:any", "'google:any'"),
        ("aws:any", "'bedrock:any'"),
        ("anthropc:any", "'anthropic'"),
    ],
)
def test_a_provider_that_others_call_so_is_named_as_it_is_here(model_id: str, meant: str) -> None:
    with pytest.raises(UnknownModelError) as refused:
        create(model_id)
    assert str(refused.value).endswith(f" Did you mean {meant}?")
