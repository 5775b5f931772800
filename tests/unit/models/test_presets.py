"""Providers that speak the protocols of others: their URLs, keys, credentials and models."""

from collections.abc import Mapping
from typing import Any

import pytest

from nighthawk_async.catalog.models import UNKNOWN_MODEL, find_model_facts
from nighthawk_async.catalog.providers import PRESETS
from nighthawk_async.catalog.telemetry_names import PROVIDERS as TELEMETRY_NAMES
from nighthawk_async.credentials import bearer
from nighthawk_async.errors import ConfigurationError, MissingCredentialError
from nighthawk_async.models.default_credentials import default_credentials
from nighthawk_async.models.endpoint import Endpoint
from nighthawk_async.models.http_model import HttpModel
from nighthawk_async.models.providers import create_model

URLS = {
    (
        "azure",
        "AZURE_OPENAI_ENDPOINT=https://mine.openai.azure.com/",
    ): "https://mine.openai.azure.com/openai/v1",
    ("azure-chat", "AZURE_OPENAI_ENDPOINT=mine.openai.azure.com/openai/v1/"): (
        "https://mine.openai.azure.com/openai/v1"
    ),
    ("azure-anthropic", "ANTHROPIC_FOUNDRY_RESOURCE=mine"): "https://mine.services.ai.azure.com/anthropic/v1",
    ("bedrock", "AWS_REGION=eu-west-1"): "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
    ("bedrock-responses", "AWS_DEFAULT_REGION=us-east-1"): (
        "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
    ),
    ("bedrock-anthropic", "AWS_REGION=us-east-1"): (
        "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic/v1"
    ),
    ("bedrock-mantle", "AWS_REGION=us-east-1"): "https://bedrock-mantle.us-east-1.api.aws/v1",
    ("bedrock-mantle-anthropic", "AWS_REGION=us-east-1"): (
        "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1"
    ),
    ("vertex", "GOOGLE_CLOUD_PROJECT=p"): (
        "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"
    ),
    ("vertex", "GOOGLE_CLOUD_PROJECT=p GOOGLE_CLOUD_LOCATION=eu"): (
        "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/google"
    ),
    ("vertex-chat", "GOOGLE_CLOUD_PROJECT=p GOOGLE_CLOUD_LOCATION=us-central1"): (
        "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/endpoints/openapi"
    ),
    ("openrouter", ""): "https://openrouter.ai/api/v1",
    ("openrouter-anthropic", ""): "https://openrouter.ai/api/v1",
    ("deepseek-anthropic", ""): "https://api.deepseek.com/anthropic/v1",
    ("ollama", ""): "http://localhost:11434/v1",
    ("vllm", "VLLM_BASE_URL=http://gpu:8000/v1"): "http://gpu:8000/v1",
}


def environment_of(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())


def endpoint_of(
    provider: str, environment: Mapping[str, str], settings: Mapping[str, Any] | None = None
) -> Endpoint:
    model = create_model(f"{provider}:x", environment=environment, settings=settings or {})
    assert isinstance(model, HttpModel)
    return model.endpoint_of({})


@pytest.mark.parametrize(("provider", "variables"), URLS, ids=[f"{each[0]} {each[1]}" for each in URLS])
def test_the_base_url_is_filled_from_the_environment(provider: str, variables: str) -> None:
    endpoint = endpoint_of(provider, environment_of(variables), {"api_key": "k"})
    assert endpoint.base_url.geturl() == URLS[provider, variables]


@pytest.mark.parametrize(
    ("provider", "variables", "header"),
    [
        ("azure", "AZURE_OPENAI_API_KEY=k AZURE_OPENAI_ENDPOINT=https://m", ("api-key", "k")),
        (
            "azure-anthropic",
            "ANTHROPIC_FOUNDRY_API_KEY=k ANTHROPIC_FOUNDRY_RESOURCE=m",
            ("x-api-key", "k"),
        ),
        ("bedrock", "AWS_BEARER_TOKEN_BEDROCK=k AWS_REGION=r", ("authorization", "Bearer k")),
        ("bedrock-anthropic", "AWS_BEARER_TOKEN_BEDROCK=k AWS_REGION=r", ("authorization", "Bearer k")),
        ("openrouter-anthropic", "OPENROUTER_API_KEY=k", ("authorization", "Bearer k")),
        ("github", "GITHUB_TOKEN=k", ("authorization", "Bearer k")),
        ("mistral", "MISTRAL_API_KEY=k OPENAI_API_KEY=other", ("authorization", "Bearer k")),
    ],
)
def test_a_key_of_the_environment_goes_into_the_header_of_the_provider(
    provider: str, variables: str, header: tuple[str, str]
) -> None:
    assert endpoint_of(provider, environment_of(variables)).headers == dict([header])


@pytest.mark.parametrize(
    ("provider", "variables", "credentials"),
    [
        ("azure", "AZURE_OPENAI_ENDPOINT=https://m", "nh.credentials.azure()"),
        ("azure-anthropic", "ANTHROPIC_FOUNDRY_RESOURCE=m", "nh.credentials.azure()"),
        ("bedrock", "AWS_REGION=eu-west-1", "nh.credentials.aws()"),
        ("vertex", "GOOGLE_CLOUD_PROJECT=p", "nh.credentials.google()"),
    ],
)
def test_without_a_key_clouds_are_reached_with_credentials_that_all_models_share(
    provider: str, variables: str, credentials: str
) -> None:
    first, second = (
        create_model(f"{provider}:{name}", environment=environment_of(variables)) for name in ("x", "y")
    )
    assert isinstance(first, HttpModel)
    assert isinstance(second, HttpModel)
    mine = first.settings_of({})["credentials"]
    assert repr(mine) == credentials
    assert second.settings_of({})["credentials"] is mine


def test_another_environment_has_other_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    first = default_credentials(PRESETS["vertex"])
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/elsewhere.json")
    assert default_credentials(PRESETS["vertex"]) is not first


def test_credentials_and_keys_of_the_user_take_precedence() -> None:
    mine = bearer(lambda: "t")
    environment = environment_of("AZURE_OPENAI_ENDPOINT=https://m AZURE_OPENAI_API_KEY=k")
    model = create_model("azure:x", environment=environment, settings={"credentials": mine})
    assert isinstance(model, HttpModel)
    assert model.settings_of({})["credentials"] is mine
    assert model.endpoint_of({}).headers == {}
    own = {"base_url": "https://m/v1", "extra_headers": {"api-key": "mine"}}
    assert "credentials" not in create_model("azure:x", environment={}, settings=own).settings_of({})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("azure", "AZURE_OPENAI_ENDPOINT"), ("bedrock", "AWS_REGION"), ("vertex", "GOOGLE_CLOUD_PROJECT")],
)
def test_a_missing_part_of_the_url_is_named(provider: str, variable: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{provider}:x needs a base URL: .*{variable}.*base_url"):
        create_model(f"{provider}:x", environment={})


def test_while_answers_are_replayed_nothing_of_the_environment_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nighthawk_async.models.providers.needs_endpoint", lambda: False)
    monkeypatch.setattr("nighthawk_async.models.providers.is_available", lambda facts: False)
    for provider in PRESETS:
        assert create_model(f"{provider}:x", environment={}).name == f"{provider}:x"


def test_without_the_extra_the_error_names_the_key_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.models.providers.is_available", lambda facts: False)
    with pytest.raises(MissingCredentialError) as raised:
        create_model("bedrock:x", environment={"AWS_REGION": "eu-west-1"})
    assert str(raised.value) == (
        "bedrock:x needs an API key: set the environment variable AWS_BEARER_TOKEN_BEDROCK or the model "
        "setting api_key, or install the extra 'aws' for nh.credentials.aws()."
    )


def test_a_provider_that_serves_the_models_of_another_has_their_capabilities_and_not_their_price() -> None:
    ours, theirs = find_model_facts("vertex:gemini-2.5-pro"), find_model_facts("google:gemini-2.5-pro")
    assert ours.capabilities.context_window == theirs.capabilities.context_window
    assert ours.capabilities.images
    assert ours.capabilities.price is None
    assert find_model_facts("vertex:unknown").capabilities == UNKNOWN_MODEL.capabilities


def test_ollama_is_not_asked_to_force_a_tool_call() -> None:
    assert not find_model_facts("ollama:qwen3").capabilities.forced_tool_choice


@pytest.mark.parametrize("provider", PRESETS)
def test_a_preset_is_complete(provider: str) -> None:
    facts = PRESETS[provider]
    assert facts.is_preset
    assert facts.source
    assert facts.base_url.startswith(("http://localhost", "https://", "{endpoint}"))
    assert facts.key_variables or facts.credentials
    family = provider.partition("-")[0]
    if family in ("azure", "bedrock", "vertex", "xai"):
        assert provider in TELEMETRY_NAMES
