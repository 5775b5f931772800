from urllib.parse import urlsplit

import pytest

from nighthawk_async.errors import ConfigurationError, ModelConnectionError
from nighthawk_async.models.endpoint import Endpoint, check_header, name_error, parse_base_url
from nighthawk_async.models.http_proxy import is_loopback, proxy_for

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
    assert proxy_for(urlsplit(url), proxies) == proxy


def test_the_machines_settings_name_the_proxy_and_its_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:4")
    monkeypatch.setenv("no_proxy", "internal.example")
    assert proxy_for(urlsplit("https://models.example/v1")) == "http://proxy:4"
    assert proxy_for(urlsplit("https://internal.example/v1")) is None
