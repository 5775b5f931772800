import subprocess
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from nighthawk_async.errors import (
    ConfigurationError,
    MissingCredentialError,
    NighthawkError,
    UnknownModelError,
)
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.providers import create_model
from nighthawk_async.models.settings import TransportSettings
from nighthawk_async.ports import Model
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelCapabilities, ModelRequest
from nighthawk_async.wire.transport_settings import TRANSPORT_SETTINGS

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


def test_an_unknown_provider_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(UnknownModelError, match=r"'opneai'.* known are local, openai-chat\."):
        create("opneai:gpt")


@pytest.mark.parametrize("provider", ["openai-responses", "anthropic", "google"])
def test_a_provider_that_this_version_cannot_speak_to_says_what_it_can(provider: str) -> None:
    with pytest.raises(UnknownModelError, match=f"cannot speak to '{provider}' yet.*openai-chat"):
        create(f"{provider}:x")


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
        {"timeout_seconds": 0},
        {"connect_timeout_seconds": "soon"},
        {"idle_timeout_seconds": float("inf")},
        {"extra_headers": {"x": 1}},
        {"api_key": [SECRET]},
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
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
