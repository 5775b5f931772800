"""The configuration of step executors (specification 5.2 and 5.3)."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import nighthawk_async as nh
from nighthawk_async.configuration import parse_model_id


class Caps(BaseModel):
    context_tokens: int = 8_000
    output_tokens: int | None = None


class ServerSettings(BaseModel):
    temperature: float = 0.5
    seed: int | None = None
    timeout: float | None = None
    capabilities: Caps = Field(default_factory=Caps)
    betas: list[str] = Field(default_factory=lambda: ["early"])


class OpenSettings(BaseModel):
    model_config = ConfigDict(extra="allow")

    top_k: int = 5


def test_5_2_the_default_model_and_renderer_style() -> None:
    configuration = nh.StepExecutorConfiguration()
    assert configuration.model == "openai-responses:gpt-5.4-nano"
    assert configuration.json_renderer_style == "default"
    assert configuration.tokenizer_encoding is None


def settings_of(settings: object) -> object:
    return nh.StepExecutorConfiguration.model_validate({"model_settings": settings}).model_settings


def test_5_2_model_settings_may_be_a_pydantic_model_whose_declared_defaults_count() -> None:
    assert settings_of(ServerSettings(seed=7)) == {
        "temperature": 0.5,
        "seed": 7,
        "capabilities": {"context_tokens": 8_000},
        "betas": ["early"],
    }
    assert settings_of(OpenSettings(more=1)) == {"top_k": 5, "more": 1}  # type: ignore[call-arg]
    assert settings_of(OpenSettings.model_construct()) == {"top_k": 5}
    assert settings_of(None) == {}


def test_none_counts_where_it_was_given() -> None:
    given = ServerSettings(timeout=None, capabilities=Caps(output_tokens=None))
    assert settings_of(given) == {
        "temperature": 0.5,
        "timeout": None,
        "capabilities": {"context_tokens": 8_000, "output_tokens": None},
        "betas": ["early"],
    }
    assert settings_of({"timeout": None}) == {"timeout": None}


def test_settings_that_are_neither_a_mapping_nor_a_model_are_refused() -> None:
    @dataclass
    class Settings:
        seed: int = 1

    with pytest.raises(ValidationError, match="model_settings"):
        settings_of(Settings())


def test_a_key_in_the_settings_is_not_shown() -> None:
    configuration = nh.StepExecutorConfiguration(model_settings={"api_key": "sk-secret"})
    assert "sk-secret" not in repr(configuration) + str(configuration)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_turns": 0},
        {"step_timeout": 0},
        {"provided_tools": ["nh_fly"]},
        {"outcome_transport": "pigeon"},
        {"json_renderer_style": "loud"},
        {"no_such_field": 1},
        {"context_limits": {"locals_max_tokens": 0}},
    ],
)
def test_a_bad_setting_is_refused_and_named(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        nh.StepExecutorConfiguration.model_validate(fields)


def test_a_configuration_does_not_change() -> None:
    configuration = nh.StepExecutorConfiguration()
    with pytest.raises(ValidationError, match="frozen"):
        configuration.model = "other:model"


@pytest.mark.parametrize("text", ["", "gpt", ":gpt", "openai-chat:", " openai-chat:gpt", "openai-chat:gpt "])
def test_a_model_id_that_is_not_provider_and_name_is_refused(text: str) -> None:
    with pytest.raises(nh.errors.UnknownModelError, match="provider:model"):
        parse_model_id(text)


def test_a_model_name_may_contain_colons() -> None:
    model_id = parse_model_id("openai-chat:org/model:free")
    assert (model_id.provider, model_id.name) == ("openai-chat", "org/model:free")
    assert str(model_id) == "openai-chat:org/model:free"


def test_the_model_may_be_given_by_its_position() -> None:
    given = nh.StepExecutorConfiguration("openai-chat:any", max_turns=3)
    assert given == nh.StepExecutorConfiguration(model="openai-chat:any", max_turns=3)
    assert nh.StepExecutorConfiguration.model_validate(given.model_dump()) == given
    make: Any = nh.StepExecutorConfiguration
    for arguments, options in ((("a:b", "c"), {}), (("a:b",), {"model": "a:b"})):
        with pytest.raises(TypeError):
            make(*arguments, **options)


def test_settings_of_the_model_are_pointed_to_their_place() -> None:
    make: Any = nh.StepExecutorConfiguration
    with pytest.raises(ValidationError, match=r"'temperature'\. .* model_settings=\{'temperature': …\}"):
        make("openai-chat:any", temperature=0.2)
    with pytest.raises(ValidationError, match=r"no option 'max_turn'\."):
        make(max_turn=3)
