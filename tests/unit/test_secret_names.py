"""Names of secrets, and hiding what they hold in dumps of configurations."""

import json

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

import nighthawk_async as nh
from nighthawk_async.secret_names import MASK, hides_value, is_masked, masked
from tests.cases import every

KEY = "sk-the-secret-of-this-test"

SECRETS = [
    *("password", "token", "secret", "api_key", "apiKey", "API_KEY", "X-Api-Key", "access_token"),
    *("authorization", "client_secret", "private_key", "private_key_pem", "db_password"),
    *("openai_key", "token_value", "credentials", "access_tokens", "api_keys", "session_cookie"),
    *("passphrase", "refreshToken", "api_key_openai"),
    *(
        "pwd",
        "PWD",
        "db_pwd",
        "DB_PASS",
        "dbPass",
        "smtp_pass",
        "pin",
        "card_pin",
        "pinCode",
        "otp",
        "otp_code",
    ),
    *("csrf", "csrf_token", "X-CSRF-Token", "xsrf", "session_id", "sessionId", "sessionid", "PHP_SESSION_ID"),
    *(
        "dsn",
        "sentry_dsn",
        "SENTRY_DSN",
        "database_url",
        "DATABASE_URL",
        "redis_uri",
        "connection_string",
        "totp",
    ),
]
NO_SECRETS = [
    *("max_tokens", "token_count", "tokens", "total_tokens", "tokenizer", "token_counter"),
    *("max_output_tokens", "key", "keys", "key_points", "keyword", "primary_key", "sort_key"),
    *("cache_key", "next_token", "page_token", "author", "authors", "passed", "secretary"),
    *("token_type", "password_length", "api_key_name", "eos_token"),
    *("password_changed_at", "password_policy", "secret_expires", "token_created_at", "authorization_date"),
    *(
        "pinned",
        "opinion",
        "pins",
        "spin",
        "pinpoint",
        "gpio_pin",
        "led_pin",
        "passes",
        "pass",
        "boarding_pass",
    ),
    *("session", "session_ids", "session_count", "base_url", "url", "options", "adsn", "compass"),
    *("unique_key", "object_key", "lookup_key", "row_key", "routing_key", "answer_key", "first_token"),
]


@pytest.mark.parametrize("name", SECRETS)
def test_what_a_secret_name_holds_is_hidden(name: str) -> None:
    assert hides_value(name, KEY)
    assert hides_value(name, 5)
    assert not hides_value(name, None)
    assert not hides_value(name, True)


@every("name", NO_SECRETS)
def test_what_other_names_hold_is_shown(name: str) -> None:
    assert not hides_value(name, KEY)


@pytest.mark.parametrize("url", ["postgres://me:hunter2@host/x", "https://:k@h/", "redis+tls://a:b@h"])
def test_a_url_with_a_password_is_hidden(url: str) -> None:
    assert hides_value("address", url)


@pytest.mark.parametrize(
    "url", ["https://host/a:b@c", "https://me@host/", "a text: http://x:y@z", "x://a b:c@d"]
)
def test_other_urls_are_shown(url: str) -> None:
    assert not hides_value("address", url)


def test_a_name_is_a_text_of_reasonable_length() -> None:
    assert not hides_value(5, KEY)
    assert not hides_value("x" * 200 + "_token", KEY)


def test_secrets_are_masked_at_any_depth() -> None:
    settings = {
        "api_key": SecretStr(KEY),
        "temperature": 0.2,
        "base_url": f"https://user:{KEY}@host/v1?api-version=5&key={KEY}#top",
        "extra_headers": {"X-Auth-Token": KEY, "X-Name": "a"},
        "extra_body": {"tools": [{"authorization": KEY, "name": "b", "secret": {"value": KEY, "empty": ""}}]},
        "max_tokens": 5,
        "password": None,
    }
    shown = masked(settings)
    assert KEY not in json.dumps(shown)
    assert shown == {
        "api_key": MASK,
        "temperature": 0.2,
        "base_url": f"https://{MASK}@host/v1?api-version=5&key={MASK}#top",
        "extra_headers": {"X-Auth-Token": MASK, "X-Name": "a"},
        "extra_body": {
            "tools": [{"authorization": MASK, "name": "b", "secret": {"value": MASK, "empty": ""}}]
        },
        "max_tokens": 5,
        "password": None,
    }
    assert is_masked(shown)
    assert not is_masked(settings)


def configuration() -> nh.StepExecutorConfiguration:
    return nh.StepExecutorConfiguration(
        model="openai-chat:m", model_settings={"api_key": KEY, "extra_headers": {"X-Api-Key": KEY}, "seed": 5}
    )


def test_a_dump_of_a_configuration_holds_no_key() -> None:
    for dump in (
        configuration().model_dump_json(),
        repr(configuration().model_dump()),
        repr(configuration()),
        json.dumps(configuration().model_dump(mode="json")),
        repr(dict(configuration().model_dump(include={"model_settings"}))),
    ):
        assert KEY not in dump
    assert configuration().model_dump()["model_settings"] == {
        "api_key": MASK,
        "extra_headers": {"X-Api-Key": MASK},
        "seed": 5,
    }


def test_the_configuration_itself_and_its_copies_keep_the_key() -> None:
    assert configuration().model_settings["api_key"] == KEY
    assert configuration().model_copy(update={"max_turns": 5}).model_settings["api_key"] == KEY
    assert configuration().model_copy(deep=True) == configuration()


def test_a_dump_is_no_configuration_until_its_secrets_are_back() -> None:
    dump = configuration().model_dump()
    with pytest.raises(ValidationError, match="from a dump") as caught:
        nh.StepExecutorConfiguration.model_validate(dump)
    assert "model_settings" in str(caught.value)
    with pytest.raises(ValidationError, match="from a dump"):
        nh.StepExecutorConfiguration.model_validate_json(configuration().model_dump_json())
    dump["model_settings"] = {"api_key": KEY}
    assert nh.StepExecutorConfiguration.model_validate(dump).model_settings["api_key"] == KEY


def test_a_dump_without_secrets_is_the_configuration() -> None:
    plain = nh.StepExecutorConfiguration(model_settings={"temperature": 0.5, "base_url": "http://host/v1"})
    assert nh.StepExecutorConfiguration.model_validate_json(plain.model_dump_json()) == plain


def test_errors_of_a_configuration_do_not_quote_it() -> None:
    with pytest.raises(ValidationError) as caught:
        nh.StepExecutorConfiguration.model_validate({"model_settings": [KEY], "more": {"api_key": KEY}})
    assert KEY not in str(caught.value)


def test_settings_may_be_a_model_with_a_secret() -> None:
    class Settings(BaseModel):
        api_key: SecretStr

    made = nh.StepExecutorConfiguration(
        model="openai-chat:m", model_settings=Settings(api_key=SecretStr(KEY))
    )
    assert KEY not in made.model_dump_json()
    nh.AgentStepExecutor.from_configuration(configuration=made)


@pytest.mark.parametrize(
    "name",
    [
        *("room key", "chuck key", "secret garden", "API key", "pass word", "cookie", "cookies", "room_key"),
        *("secret_garden", "secretSanta", "secret_ingredients", "chuckKey", "house_key"),
    ],
)
def test_ordinary_words_are_shown(name: str) -> None:
    assert not hides_value(name, "value")


@pytest.mark.parametrize(
    "name",
    [
        "secret",
        "client_secret",
        "secret_key",
        "secret_access_key",
        "session_cookie",
        "auth_cookies",
        "api_key",
    ],
)
def test_names_of_secrets_stay_hidden(name: str) -> None:
    assert hides_value(name, "value")
