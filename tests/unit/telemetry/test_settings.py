"""Which conventions are in force, and what is refused."""

from typing import Any, cast

import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.telemetry_names import BASELINE, LATEST
from nighthawk_async.telemetry_settings import get_settings

from .traces import telemetry

VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, BASELINE),
        ("", BASELINE),
        ("http", BASELINE),
        ("gen_ai_latest_experimental", LATEST),
        ("http/dup, gen_ai_latest_experimental", LATEST),
    ],
)
def test_an_environment_variable_chooses_the_conventions(
    monkeypatch: pytest.MonkeyPatch, value: str | None, names: object
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with telemetry():
        assert get_settings().names is names


def test_a_call_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gen_ai_latest_experimental")
    with telemetry(semantic_conventions="baseline"):
        assert get_settings().names is BASELINE


def test_other_conventions_are_refused_and_change_nothing() -> None:
    with telemetry(semantic_conventions="latest"):
        with pytest.raises(nh.ConfigurationError, match="'newest'"):
            nh.telemetry.configure_telemetry(semantic_conventions=cast("Any", "newest"))
        assert get_settings().names is LATEST
