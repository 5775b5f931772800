import traceback
from urllib.parse import urlsplit

import pytest

from nighthawk_async.catalog.providers import ACCOUNT_HEADERS, PROVIDERS
from nighthawk_async.errors import ConfigurationError, ModelConnectionError
from nighthawk_async.models.endpoint import (
    Endpoint,
    check_header,
    is_loopback,
    name_error,
    parse_base_url,
    proxy_for,
)

PROXIES = {"http": "http://proxy:1", "https": "http://proxy:2"}


def endpoint(base_url: str = "http://host/v1", **headers: str) -> Endpoint:
    return Endpoint(model_id="p:m", base_url=parse_base_url(base_url), headers=headers)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://host/v1", "http://host/v1/chat"),
        ("http://host/v1/", "http://host/v1/chat"),
        ("http://host", "http://host/chat"),
        (" https://host:8443/a?api-version=1#x ", "https://host:8443/a/chat?api-version=1"),
    ],
)
def test_a_path_is_added_and_a_query_stays(base_url: str, url: str) -> None:
    assert endpoint(base_url).url("/chat").geturl() == url


@pytest.mark.parametrize(
    ("base_url", "known"),
    [
        ("http://bücher.example:81/v1", "http://xn--bcher-kva.example:81/v1"),
        ("http://BÜCHER.example", "http://xn--bcher-kva.example"),
        ("http://under_score.local./v1", "http://under_score.local./v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_a_host_name_is_written_as_the_network_knows_it(base_url: str, known: str) -> None:
    assert parse_base_url(base_url).geturl() == known


@pytest.mark.parametrize(
    "base_url",
    [
        "ws://host/v1?api-key=hunter22",
        "host/v1?api-key=hunter22",
        "http:///v1?api-key=hunter22",
        "http://host:0/v1?api-key=hunter22",
        "http://host:x/hunter22",
        "http://user:hunter22@host/v1",
        "http://user:hunter22/3@host/v1",
        "ws://host/v1?a=1@hunter22",
        "http://ho st/hunter22",
        "http://a..b/hunter22",
        "http://.b/hunter22",
        f"http://{'a' * 64}.example/hunter22",
        "http://host\\hunter22/v1",
        "http://host/hunter22\n",
        "http://host/hun\nter22",
        "http://host/hunter22\x7f/v1",
        f"http://host/hunter22/{'x' * 70_000}",
        "http://\N{SNOWMAN}\N{ZERO WIDTH JOINER}/hunter22",
        "http://straße.example/hunter22",
        "http://[broken/hunter22",
        "hunter22",
        "",
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_and_not_quoted_beyond_its_host(base_url: str) -> None:
    base_url = base_url if base_url.strip() == base_url else f"{base_url}x"
    with pytest.raises(ConfigurationError, match="base URL") as raised:
        parse_base_url(base_url)
    assert "hunter" not in "".join(traceback.format_exception(raised.value))
    assert raised.value.__context__ is None


def test_a_base_url_that_is_refused_is_known_by_its_host() -> None:
    with pytest.raises(ConfigurationError, match="'ws://host'"):
        parse_base_url("ws://host/v1")


def test_the_query_of_a_path_is_joined_with_that_of_the_base_url() -> None:
    url = endpoint("https://host/v1?api-version=1&key=2").url("/models/m:stream?alt=sse")
    assert url.geturl() == "https://host/v1/models/m:stream?alt=sse&api-version=1&key=2"
    assert endpoint("https://host/v1").url("/m?alt=sse").geturl() == "https://host/v1/m?alt=sse"


def test_more_headers_have_the_last_word_whatever_their_case() -> None:
    given = endpoint(authorization="Bearer a", other="b")
    assert given.with_headers({"Authorization": "Bearer c"}).headers == {
        "authorization": "Bearer c",
        "other": "b",
    }
    assert given.with_headers({}) is given


@pytest.mark.parametrize(
    ("name", "value"), [("", "x"), ("a b", "x"), ("é", "x"), ("a:", "x"), ("a", "x\r\ny"), ("a", " x")]
)
def test_a_header_that_cannot_be_sent_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError):
        check_header(name, value)


def test_an_error_names_the_model_and_loses_the_secrets() -> None:
    given = endpoint(authorization="Bearer hunter22", **{"x-api-key": "hunter33"})
    error = ModelConnectionError("hunter22 and hunter33 and Bearer hunter22")
    name_error(error, given)
    assert error.message == str(error)
    assert error.message.startswith("p:m: ")
    assert "hunter" not in error.message
    assert "hunter" not in repr(given)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        (None, False),
    ],
)
def test_this_machine_is_recognized(host: str | None, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("url", "proxies", "proxy"),
    [
        ("https://models.example/v1", PROXIES, "http://proxy:2"),
        ("http://models.example/v1", PROXIES, "http://proxy:1"),
        ("http://models.example/v1", {"all": "http://proxy:3"}, "http://proxy:3"),
        ("http://models.example/v1", {}, None),
        ("http://localhost/v1", PROXIES, None),
        ("https://127.0.0.1/v1", PROXIES, None),
    ],
)
def test_a_proxy_is_used_for_other_machines_only(
    url: str, proxies: dict[str, str], proxy: str | None
) -> None:
    found = proxy_for(urlsplit(url), proxies)
    assert (found and found.url) == proxy


def test_the_machines_settings_name_the_proxy_and_its_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:hunter22@proxy:4")
    monkeypatch.setenv("no_proxy", "internal.example")
    proxy = proxy_for(urlsplit("https://models.example/v1"))
    assert proxy is not None
    assert proxy.url == "http://me:hunter22@proxy:4"
    assert str(proxy) == "the proxy proxy:4 (https_proxy)"
    assert "hunter" not in repr(proxy)
    assert proxy_for(urlsplit("https://internal.example/v1")) is None


def test_a_proxy_without_a_scheme_is_an_http_proxy() -> None:
    proxy = proxy_for(urlsplit("http://models.example/v1"), {"http": "localhost:3128"})
    assert proxy is not None
    assert proxy.url == "http://localhost:3128"


@pytest.mark.parametrize(
    "text",
    [
        "socks://me:hunter22@proxy:1",
        "ftp://me:hunter22@proxy:1",
        "http://me:hunter22@:1",
        "http://me:hunter22@proxy:99999",
        "http://me:hunter22@[proxy",
        "http://me:hunter22@pro\x01xy",
        "me:hunter22@",
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("all_proxy", raising=False)
    monkeypatch.setenv("ALL_PROXY", text)
    with pytest.raises(ConfigurationError, match=r"^ALL_PROXY must ") as raised:
        proxy_for(urlsplit("https://models.example/v1"))
    assert "hunter" not in "".join(traceback.format_exception(raised.value))


def test_requests_with_the_same_credentials_share_an_account_that_shows_nothing() -> None:
    account = endpoint(authorization="Bearer hunter22").account()
    assert account == endpoint(authorization="Bearer hunter22", other="b").account()
    assert account != endpoint(authorization="Bearer hunter33").account()
    assert account != endpoint("http://elsewhere/v1", authorization="Bearer hunter22").account()
    assert "hunter" not in account


@pytest.mark.parametrize(
    "name", ["idempotency-key", "x-request-token", "x-author", "x-api-keyboard", "cookie"]
)
def test_a_header_that_each_request_has_for_itself_makes_no_account_of_its_own(name: str) -> None:
    """Each request would have limits of its own, so that nothing would be limited."""
    assert (
        endpoint(**{"api-key": "a", name: "1"}).account() == endpoint(**{"api-key": "a", name: "2"}).account()
    )


@pytest.mark.parametrize(
    "name",
    [
        "api-key",
        "authorization",
        "ocp-apim-subscription-key",
        "openai-project",
        "x-api-key",
        "x-goog-api-key",
    ],
)
def test_a_header_that_tells_who_asks_makes_an_account_of_its_own(name: str) -> None:
    assert endpoint(**{name: "1"}).account() != endpoint(**{name: "2"}).account()


def test_every_providers_key_header_tells_who_asks() -> None:
    assert {facts.key_header for facts in PROVIDERS.values()} <= ACCOUNT_HEADERS


@pytest.mark.parametrize(
    "text",
    ["hunter/22", "Basic hunter/22", "hunter%2F22", "the value hunter/22-token of a header of one's own"],
)
def test_secrets_are_redacted_in_every_form(text: str) -> None:
    given = endpoint(
        "https://host/v1?key=hunter/22", authorization="Basic hunter/22", **{"x-a": "x"}
    ).with_headers({"x-trace": "hunter/22-token"})
    error = ModelConnectionError(text)
    name_error(error, given)
    assert "hunter" not in str(error)


def test_a_cause_that_holds_a_secret_is_cut_off_and_another_one_stays() -> None:
    given = endpoint(authorization="Bearer hunter22")
    for text, is_kept in (("illegal status line: b'hunter22'", False), ("reset", True)):
        error = ModelConnectionError("x")
        error.__cause__ = ValueError("a")
        error.__cause__.__context__ = OSError(text)
        name_error(error, given)
        assert (error.__cause__ is not None) is is_kept


def test_what_remains_of_a_secret_that_an_excerpt_cut_is_redacted() -> None:
    given = endpoint(authorization="Bearer hunter22-hunter22")
    error = ModelConnectionError("it held: hunter22-hun… and more")
    name_error(error, given)
    assert str(error) == "p:m: it held: [redacted]… and more"
