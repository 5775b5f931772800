"""The configuration of step executors (specification 5.2 and 5.3)."""

import pytest
from pydantic import BaseModel, ValidationError

import nighthawk_async as nh
from nighthawk_async.configuration import parse_model_id


class ServerSettings(BaseModel):
    temperature: float = 1.0
    seed: int | None = None


def test_5_2_the_default_model_and_renderer_style() -> None:
    configuration = nh.StepExecutorConfiguration()
    assert configuration.model == "openai-responses:gpt-5.4-nano"
    assert configuration.json_renderer_style == "default"
    assert configuration.tokenizer_encoding is None


def test_5_2_model_settings_may_be_a_pydantic_model_of_which_the_set_fields_count() -> None:
    configuration = nh.StepExecutorConfiguration.model_validate({"model_settings": ServerSettings(seed=7)})
    assert configuration.model_settings == {"seed": 7}
    assert nh.StepExecutorConfiguration.model_validate({"model_settings": None}).model_settings == {}


def test_a_key_in_the_settings_is_not_shown() -> None:
    configuration = nh.StepExecutorConfiguration(model_settings={"api_key": "sk-secret"})
    assert "sk-secret" not in repr(configuration) + str(configuration)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_turns": 0},
        {"step_timeout_seconds": 0},
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
    with pytest.raises(nh.UnknownModelError, match="provider:model"):
        parse_model_id(text)


def test_a_model_name_may_contain_colons() -> None:
    model_id = parse_model_id("openai-chat:org/model:free")
    assert (model_id.provider, model_id.name) == ("openai-chat", "org/model:free")
    assert str(model_id) == "openai-chat:org/model:free"
