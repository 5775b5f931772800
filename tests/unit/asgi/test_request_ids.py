"""Which id a request gets."""

import re

import pytest

from nighthawk_async.asgi.protocol import choose_request_id
from tests.unit.asgi.asgi_client import http_scope

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"traceparent": f"00-{TRACE}-{PARENT}-01"}, TRACE),
        ({"traceparent": f" 00-{TRACE}-{PARENT}-00 "}, TRACE),
        ({"traceparent": f"cc-{TRACE}-{PARENT}-01-what-comes-later"}, TRACE),
        ({"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}, TRACE),
        ({"traceparent": f"ff-{TRACE}-{PARENT}-01", "x-request-id": "mine"}, "mine"),
        ({"X-Request-ID": "Root=1-67891233-abcdef012345678912345678"}, None),
        ({"x-request-id": "a" * 128}, None),
    ],
)
def test_the_id_is_the_one_that_the_client_gives(headers: dict[str, str], expected: str | None) -> None:
    given = expected or next(iter(headers.values()))
    assert choose_request_id(http_scope(headers=headers)) == given


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": f"00-{'0' * 32}-{PARENT}-01"},
        {"traceparent": f"00-{TRACE}-{'0' * 16}-01"},
        {"traceparent": f"00-{TRACE.upper()}-{PARENT}-01"},
        {"traceparent": f"00-{TRACE}-{PARENT}-01-more"},
        {"traceparent": f"00-{TRACE}-{PARENT}"},
        {"x-request-id": ""},
        {"x-request-id": "a" * 129},
        {"x-request-id": "two words"},
        {"x-request-id": "<script>"},
        {"x-request-id": "line\r\nset-cookie: a"},
        {"x-request-id": "\x1b[31m"},
        {"x-request-id": "trailing\n"},
    ],
)
def test_what_is_malformed_is_ignored(headers: dict[str, str]) -> None:
    chosen = choose_request_id(http_scope(headers=headers))
    assert re.fullmatch("[0-9a-f]{32}", chosen)
    assert chosen not in str(headers)


def test_an_id_that_is_given_twice_is_ignored() -> None:
    asgi_scope = http_scope()
    asgi_scope["headers"] = [(b"x-request-id", b"one"), (b"x-request-id", b"two")]
    assert choose_request_id(asgi_scope) not in ("one", "two")
