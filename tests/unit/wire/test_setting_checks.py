from types import MappingProxyType
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.types.model import AnthropicSettings, GoogleSettings, OpenAIChatSettings
from nighthawk_async.wire.transport_settings import (
    TRANSPORT_SETTINGS,
    checked_settings,
    refuse_reserved_settings,
    refuse_settings,
)


def test_known_and_unknown_settings_come_through_and_those_that_are_none_do_not() -> None:
    settings = MappingProxyType({"temperature": 0.5, "stop": ["x"], "new": {"deep": [1]}, "top_p": None})
    assert checked_settings(settings, OpenAIChatSettings) == {
        "temperature": 0.5,
        "stop": ["x"],
        "new": {"deep": [1]},
    }


def test_no_settings_need_no_check() -> None:
    assert checked_settings({"api_key": "secret", "seed": None}, OpenAIChatSettings) == {}


def test_settings_of_the_transport_stay_out_whatever_they_hold() -> None:
    assert checked_settings(dict.fromkeys(TRANSPORT_SETTINGS, object()), OpenAIChatSettings) == {}


@pytest.mark.parametrize(
    ("form", "name", "value"),
    [
        (OpenAIChatSettings, "temperature", "hot-value"),
        (OpenAIChatSettings, "max_tokens", 1.5),
        (OpenAIChatSettings, "parallel_tool_calls", "perhaps"),
        (OpenAIChatSettings, "reasoning_effort", "hot-value"),
        (OpenAIChatSettings, "stop", 5),
        (OpenAIChatSettings, "verbosity", "hot-value"),
        (AnthropicSettings, "prompt_caching", "2h"),
        (AnthropicSettings, "top_k", "many"),
        (GoogleSettings, "safety_settings", "hot-value"),
    ],
)
def test_a_bad_value_is_refused_by_name_and_not_shown(form: type[Any], name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"Bad model setting '{name}") as raised:
        checked_settings({name: value}, form)
    assert "hot-value" not in str(raised.value)


def test_a_setting_that_the_protocol_lacks_is_refused_when_it_is_set() -> None:
    refuse_settings({"seed": None, "stop": "x"}, frozenset({"seed"}), protocol="Anthropic Messages")
    with pytest.raises(ConfigurationError, match="Anthropic Messages protocol has no setting 'seed'"):
        refuse_settings({"seed": 1}, frozenset({"seed"}), protocol="Anthropic Messages")


def test_a_setting_that_only_the_library_writes_is_refused_even_when_it_is_none() -> None:
    refuse_reserved_settings({"temperature": 1}, frozenset({"model"}))
    with pytest.raises(ConfigurationError, match="'model' is written by the library"):
        refuse_reserved_settings({"model": None}, frozenset({"model"}))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": float("inf")}, "top_p"),
        ({"unknown": {"deep": [1, (2.5, float("-inf"))]}}, "unknown"),
        ({"extra_body": {"min_p": float("nan")}}, "extra_body"),
    ],
)
def test_numbers_that_json_cannot_write_are_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Bad model setting '{name}': .* not finite"):
        checked_settings(settings, OpenAIChatSettings)


def test_a_setting_that_holds_itself_is_refused() -> None:
    knot: dict[str, Any] = {}
    knot["again"] = knot
    with pytest.raises(ConfigurationError, match="'extra_body': it is nested too deeply"):
        checked_settings({"extra_body": knot}, OpenAIChatSettings)


@pytest.mark.parametrize("stop", ["", [], (), [""]])
def test_a_stop_that_holds_no_text_is_left_out(stop: object) -> None:
    assert checked_settings({"stop": stop, "seed": 1}, OpenAIChatSettings) == {"seed": 1}


@pytest.mark.parametrize("stop", ["", [], ()])
def test_a_stop_that_holds_no_text_is_not_one_that_a_protocol_lacks(stop: object) -> None:
    refuse_settings({"stop": stop}, frozenset({"stop"}), protocol="OpenAI Responses")


def test_empty_texts_among_those_that_stop_a_response_are_left_out() -> None:
    assert checked_settings({"stop": ("", "END")}, OpenAIChatSettings) == {"stop": ["END"]}
    assert checked_settings({"stop": "END"}, OpenAIChatSettings) == {"stop": "END"}
