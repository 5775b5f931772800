import pytest

from nighthawk_async.wire.redaction import credential_forms, find_secrets, is_secret_name, redact


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "proxy-authorization",
        "api_key",
        "apiKey",
        "APIKey",
        "API-KEY",
        "apikey",
        "api_keys",
        "key",
        "x-goog-api-key",
        "ocp-apim-subscription-key",
        "x-amz-security-token",
        "authorization_token",
        "accessToken",
        "access_tokens",
        "session_token",
        "user_token",
        "x-authtoken",
        "helicone-auth",
        "OAUTH2_TOKEN",
        "token_2",
        "token",
        "client_secret",
        "password",
        "db_passwd",
        "Cookie",
        "Set-Cookie",
        "aws_credentials",
        "cache_api_key",
    ],
)
def test_these_names_say_that_their_value_is_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "max_tokens",
        "maxOutputTokens",
        "max_token",
        "thinking_budget_tokens",
        "tokens_per_minute",
        "stop_token_ids",
        "eos_token",
        "token_count",
        "token_type",
        "next_page_token",
        "prompt_cache_key",
        "promptCacheKey",
        "Idempotency-Key",
        "X-Idempotency-Key",
        "idempotency_header",
        "tokenizer",
        "author",
        "keyboard",
        "monkey",
        "x-portkey-provider",
        "keywords",
        "X-Title",
        "temperature",
        "Schlüssel",
    ],
)
def test_these_names_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_secrets_are_found_at_every_depth_and_in_urls() -> None:
    settings = {
        "max_tokens": 100,
        "prompt_cache_key": "my-cache",
        "user_token": "user-secret",
        "mcp_servers": [
            {
                "name": "files",
                "authorization_token": "mcp-secret",
                "url": "https://me:url-password@mcp.example/sse?token=query%2Fsecret&mode=fast",
            }
        ],
        "auth": {"type": "bearer", "value": "deep-secret", "scopes": ["listed-secret"]},
    }
    assert set(find_secrets(settings)) == {
        "user-secret",
        "mcp-secret",
        "url-password",
        "query/secret",
        "deep-secret",
        "listed-secret",
    }


def test_a_text_that_only_resembles_a_url_holds_no_secrets() -> None:
    assert list(find_secrets(["https://[broken?token=x", "see https and ?token=x", ""])) == []


def test_a_credential_is_known_without_its_scheme_and_as_it_stands_in_a_url() -> None:
    assert set(credential_forms("Bearer a/b")) == {"Bearer a/b", "Bearer%20a%2Fb", "a/b", "a%2Fb"}
    assert set(credential_forms("a%2Fb")) == {"a%2Fb", "a%252Fb", "a/b"}


def test_the_last_word_of_a_text_without_an_authorization_scheme_is_no_secret_of_its_own() -> None:
    secrets = credential_forms("Review of the analysis")
    assert redact("the analysis of Review of the analysis", secrets) == "the analysis of [redacted]"
    assert credential_forms("") == ()
