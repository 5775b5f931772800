import json
from datetime import UTC, datetime

import pytest

from nighthawk_async.types.model import ResponseFailed
from nighthawk_async.wire.provider_errors import (
    ProviderMessage,
    find_bare_error,
    is_transient_status,
    response_failure,
    retry_after_seconds,
    status_error,
)
from nighthawk_async.wire.redaction import excerpt, redact

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no such model", "type": "invalid_request_error"}}, "HTTP 404: no such model"),
        ({"error": "no such model"}, "HTTP 404: no such model"),
        ({"message": "no such model"}, "HTTP 404: no such model"),
        ({"detail": "no such model"}, "HTTP 404: no such model"),
        ({"detail": [{"loc": ["body"], "msg": "bad"}]}, 'HTTP 404: [{"loc":["body"],"msg":"bad"}]'),
        (
            [{"error": {"code": 404, "message": "no such model", "status": "NOT_FOUND"}}],
            "HTTP 404: no such model",
        ),
        ({"error": {}}, 'HTTP 404: {"error":{}}'),
    ],
)
def test_the_providers_message_is_found_in_every_shape(body: object, message: str) -> None:
    error = status_error(404, {}, json.dumps(body).encode())
    assert error.message == message
    assert error.status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "HTTP 502 without a message"),
        (b"<html>\n  Bad gateway</html>", "HTTP 502: <html> Bad gateway</html>"),
        (b"\xff\x00", "HTTP 502: \ufffd\ufffd"),
        (b"[" * 5_000, "HTTP 502: " + "[" * 500 + "…"),
    ],
)
def test_a_body_that_is_no_json_is_quoted(body: bytes, message: str) -> None:
    assert status_error(502, {}, body).message == message


def test_known_secrets_and_what_looks_like_a_key_are_redacted() -> None:
    body = b'{"error":{"message":"key hunter22 and sk-abcdefghijklmnopqrst and Bearer abc.def are wrong"}}'
    error = status_error(401, {}, body, secrets=["hunter22"])
    assert error.message == "HTTP 401: key [redacted] and [redacted] and Bearer [redacted] are wrong"


def test_ordinary_words_are_not_redacted() -> None:
    text = "the task-force at risk-assessment lost a key_not_found_error and sk-1"
    assert redact(text, ["", "ab"]) == text


def test_a_secret_cut_by_the_bound_of_an_excerpt_is_redacted() -> None:
    assert "hunter" not in excerpt("x" * 497 + "hunter22", ["hunter22"])


@pytest.mark.parametrize(
    ("status", "headers", "is_transient"),
    [
        (400, {}, False),
        (401, {}, False),
        (404, {}, False),
        (408, {}, True),
        (409, {}, True),
        (422, {}, False),
        (429, {}, True),
        (500, {}, True),
        (503, {}, True),
        (529, {}, True),
        (429, {"x-should-retry": "false"}, False),
        (400, {"x-should-retry": "TRUE"}, True),
        (500, {"x-should-retry": "maybe"}, True),
    ],
)
def test_statuses_are_transient_unless_the_server_says_otherwise(
    status: int, headers: dict[str, str], is_transient: bool
) -> None:
    assert is_transient_status(status, headers) is is_transient
    assert status_error(status, headers, b"").is_transient is is_transient


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": f"Thu, 01 Jan {'9' * 40} 11:00:00 GMT"}, None),
        ({"retry-after": f"Thu, 01 Jan 2026 11:00:00 +{'9' * 40}"}, None),
        ({"retry-after": f"Thu, {'9' * 40} Jan 2026 11:00:00 GMT"}, None),
    ],
)
def test_the_delay_a_server_asks_for_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, now=NOON) == seconds


def test_a_date_is_compared_with_the_clock() -> None:
    assert retry_after_seconds({"retry-after": "Thu, 01 Jan 2009 12:00:30 GMT"}) == 0.0


def test_an_error_object_that_stands_alone_is_found() -> None:
    assert find_bare_error(b'{"error": {"message": "kaputt", "type": "server_error"}}') == ProviderMessage(
        message="kaputt", error_type="server_error", is_transient=True
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b'{"error": {"mess', b'{"error": null}', b'{"id": 1}', b"[1]", b'"error"', b"\xff"],
)
def test_what_is_no_error_object_is_not_taken_for_one(content: bytes) -> None:
    assert find_bare_error(content) is None


@pytest.mark.parametrize(
    ("details", "headers", "seconds"),
    [
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}], {}, 34.5),
        ([{"reason": "x"}, {"retryDelay": "7s"}], {}, 7.0),
        ([{"retryDelay": "7s"}], {"retry-after": "3"}, 3.0),
        ([{"retryDelay": "soon"}], {}, None),
        ([{"retryDelay": "-1s"}], {}, None),
        ([{"retryDelay": 7}], {}, None),
        (["x", None], {}, None),
        ("x", {}, None),
    ],
)
def test_a_delay_in_the_body_of_googles_error_counts_where_no_header_names_one(
    details: object, headers: dict[str, str], seconds: float | None
) -> None:
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": details}}
    error = status_error(429, headers, json.dumps(body).encode())
    assert error.retry_after_seconds == seconds


def test_a_secret_is_redacted_though_an_excerpt_of_somebody_elses_cut_it() -> None:
    assert redact("a hunter22-hunt… b", ["hunter22-hunter22"]) == "a [redacted]… b"
    assert redact("a hunt… b", ["hunter22-hunter22"]) == "a hunt… b"


def test_a_secret_that_holds_another_is_redacted_whole() -> None:
    assert redact("hunter22-more", ["hunter22", "hunter22-more"]) == "[redacted]"


@pytest.mark.parametrize(
    ("data", "message", "error_type", "is_transient"),
    [
        (b'{"type":"error","error":{"type":"api_error","message":"m"}}', "m", "api_error", True),
        (b'{"error":{"type":"invalid_request_error","message":"m"}}', "m", "invalid_request_error", False),
        (b'{"type":"error","code":"server_error","message":"m"}', "m", "server_error", True),
        (b"overrun \xff", "overrun \ufffd", None, False),
    ],
)
def test_an_error_inside_a_response_is_told_by_its_own_type(
    data: bytes, message: str, error_type: str | None, is_transient: bool
) -> None:
    failure = response_failure(data, transient_types=frozenset({"api_error"}))
    assert failure == ResponseFailed(message=message, error_type=error_type, is_transient=is_transient)
