"""`Did you mean …?` wherever a name is unknown."""

import warnings
from typing import Any, cast

import pytest

import nighthawk_async as nh
from nighthawk_async.models.providers import create_model
from nighthawk_async.suggestions import closest, did_you_mean
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel

ENVIRONMENT = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
OWN = (
    "openai-chat:gpt-5.4-nano",
    "openai-responses:gpt-5.4-nano",
    "anthropic:claude-haiku-4-5",
    "google:gemini-3.5-flash",
)


def test_closest() -> None:
    known = ["temperature", "top_p", "timeout", "max_tokens", "max_retries"]
    assert closest("temprature", known) == "temperature"
    assert closest("timeout", known) == "timeout"
    assert closest("max", known) is None  # begins two
    assert closest("logprobs", known) is None
    assert did_you_mean("maxtokens", known) == " Did you mean 'max_tokens'?"
    assert did_you_mean("other", known) == ""


@pytest.mark.parametrize("model_id", OWN)
@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [("temprature", "temperature"), ("apikey", "api_key"), ("timout", "timeout")],
)
def test_a_mistyped_setting_is_refused(model_id: str, mistyped: str, meant: str) -> None:
    with pytest.raises(nh.ConfigurationError, match=f"'{mistyped}' is not known. Did you mean '{meant}'"):
        create_model(model_id, settings={mistyped: 1}, environment=ENVIRONMENT)


@pytest.mark.parametrize("model_id", OWN)
def test_settings_that_resemble_none_are_passed_on(model_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_model(model_id, settings={"min_p": 0.1, "guided_json": {}}, environment=ENVIRONMENT)


def test_a_server_of_another_kind_may_know_it() -> None:
    settings = {"base_url": "http://127.0.0.1:9/v1", "temprature": 1}
    with pytest.warns(UserWarning, match="Did you mean 'temperature'"):
        create_model("openai-chat:any", settings=settings, environment=ENVIRONMENT)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1}, "'temperature': Input should be greater than or equal to 0"),
        ({"temperature": "hot"}, "'temperature'"),
        ({"top_p": 1.5}, "'top_p': Input should be less than or equal to 1"),
        ({"max_tokens": -1}, "'max_tokens': Input should be greater than or equal to 0"),
        ({"max_tokens": "many"}, "'max_tokens'"),
        ({"parallel_tool_calls": "perhaps"}, "'parallel_tool_calls'"),
    ],
)
@pytest.mark.parametrize("model_id", OWN)
def test_values_are_checked_before_anything_is_sent(
    model_id: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(nh.ConfigurationError, match=message):
        create_model(model_id, settings=settings, environment=ENVIRONMENT)


def test_unknown_providers_and_capabilities() -> None:
    with pytest.raises(nh.errors.UnknownModelError, match=r"'antropic'.*Did you mean 'anthropic'"):
        create_model("antropic:claude-haiku-4-5", environment=ENVIRONMENT)
    with pytest.raises(nh.errors.UnknownModelError, match="Did you mean 'smollm2-135m'"):
        create_model("local:smolm2-135m", environment=ENVIRONMENT)
    with pytest.raises(nh.ConfigurationError, match="Did you mean 'images'"):
        create_model("openai-chat:any", settings={"capabilities": {"image": True}}, environment=ENVIRONMENT)


def test_unknown_attributes_and_arguments() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'natural_function'"):
        _ = cast("Any", nh).natural_funtion
    for name, hint in (
        ("permision", "Did you mean 'permissions'"),
        ("skill", "Did you mean 'skills'"),
        ("server", "Did you mean 'servers'"),
        ("compaction", "It is a setting of StepExecutorConfiguration"),
    ):
        with pytest.raises(TypeError, match=rf"run\(\) has no argument '{name}'\. {hint}"):
            nh.run(ScriptedModel([]), **cast("Any", {name: None}))
    with (
        nh.run(ScriptedModel([])),
        pytest.raises(TypeError, match=r"scope\(\) has no argument 'servers'\. Its"),
    ):
        nh.scope(servers=None).__enter__()  # pyright: ignore[reportCallIssue]


@pytest.mark.anyio
async def test_a_model_that_the_provider_does_not_have() -> None:
    @nh.natural_function
    async def act() -> None:
        """natural
        Do it.
        """

    reply = ModelReply(status=404, error={"message": "no such model", "code": "model_not_found"})
    async with ModelServer([reply]) as server:
        settings = {"base_url": server.base_url, "api_key": "k"}
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:gpt-5.4-nanno", model_settings=settings
        )
        async with nh.run(configuration):
            with pytest.raises(
                nh.errors.ModelStatusError, match=r"HTTP 404.* Did you mean 'openai-chat:gpt-5.4-nano'"
            ):
                await act()
