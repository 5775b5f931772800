"""Idempotency keys belong to callers: nobody gets the recorded response of another one."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.asgi.request_identity import find_run_id
from nighthawk_async.testing import CallbackExecutor, pass_response
from tests.unit.asgi.applications import answer
from tests.unit.asgi.asgi_client import Connection, http_scope, open_connection

Headers = list[tuple[bytes, bytes]]

SIGNS: list[Headers] = [
    [],
    [(b"authorization", b"alice")],
    [(b"proxy-authorization", b"alice")],
    [(b"cookie", b"alice")],
    [(b"cookie", b"session=1")],
    [(b"cookie", b"session=2")],
    [(b"cookie", b"session=1"), (b"cookie", b"theme=dark")],
    [(b"cookie", b"session=1theme=dark")],
    [(b"x-api-key", b"alice")],
    [(b"apikey", b"alice")],
    [(b"x-auth-token", b"alice")],
    [(b"x-forwarded-user", b"alice")],
    [(b"x-client-cert", b"alice")],
    [(b"x-client-id", b"alice")],
    [(b"x-tenant-id", b"alice")],
    [(b"x-amzn-oidc-identity", b"alice")],
    [(b"x-userinfo", b"alice")],
    [(b"x-memberid", b"alice")],
    [(b"x-clientcert", b"alice")],
    [(b"x-client", b"alice")],
    [(b"x-scope-orgid", b"alice")],
    [(b"x-consumer-custom-id", b"alice")],
    [(b"x-on-behalf-of", b"alice")],
    [(b"x-act-as", b"alice")],
    [(b"x-role", b"alice")],
    [(b"x-agent-account", b"alice")],
    [(b"authorization", b"alice"), (b"cookie", b"alice")],
    [(b"authorization", b""), (b"cookie", b"alice")],
    [(b"authorization", b"alice"), (b"authorization", b"bob")],
    [(b"authorization", b"bob"), (b"authorization", b"alice")],
    [(b"host", b"one.example")],
    [(b"host", b"two.example")],
    [(b"x-forwarded-host", b"one.example")],
]


def cookie_user(asgi_scope: Any) -> str | None:
    """The client that a service finds by its sessions."""
    return {b"session=1": "alice"}.get(dict(asgi_scope["headers"]).get(b"cookie", b""))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[nh.journal.JournalStore]:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        yield store


def service(store: nh.journal.JournalStore, **arguments: Any) -> NighthawkMiddleware:
    """A service that answers each request with a number of its own."""
    numbers = itertools.count()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, str(next(numbers)))

    executor = CallbackExecutor(lambda call: pass_response())
    return NighthawkMiddleware(app, model=executor, journal=store, **arguments)


async def post(app: Any, headers: Headers, path: str = "/", **more: Any) -> Connection:
    scope = http_scope(path, method="POST", **more)
    scope["headers"] = [(b"idempotency-key", b"order-17"), *headers]
    message = {"type": "http.request", "body": b"", "more_body": False}
    async with open_connection(app, scope, message) as connection:
        pass
    return connection


@pytest.mark.anyio
@pytest.mark.parametrize("client_of", [None, cookie_user, lambda scope: None, lambda scope: ""])
async def test_no_two_callers_share_a_response(store: nh.journal.JournalStore, client_of: Any) -> None:
    app = service(store, client_of=client_of)
    first = [await post(app, headers) for headers in SIGNS]
    again = [await post(app, headers) for headers in SIGNS]
    assert [each.body for each in first] == [b"%d" % number for number in range(len(SIGNS))]
    assert [each.body for each in again] == [each.body for each in first]
    assert {each.headers["idempotent-replayed"] for each in again} == {"true"}


@pytest.mark.anyio
async def test_a_client_that_the_service_knows_keeps_its_response_when_its_credentials_change(
    store: nh.journal.JournalStore,
) -> None:
    app = service(store, client_of=lambda asgi_scope: "alice")
    same = [[], [(b"authorization", b"alice")], [(b"cookie", b"session=2")], [(b"x-api-key", b"bob")]]
    assert {(await post(app, headers)).body for headers in same} == {b"0"}
    assert (await post(app, [(b"host", b"another.example")])).body == b"1"


@pytest.mark.anyio
async def test_a_client_is_none_of_its_headers(store: nh.journal.JournalStore) -> None:
    app = service(store, client_of=cookie_user)
    known = await post(app, [(b"cookie", b"session=1")])
    for name in (b"authorization", b"cookie", b"x-client-id", b"client", b"x-user"):
        assert (await post(app, [(name, b"alice")])).body != known.body


@pytest.mark.anyio
async def test_what_concerns_one_attempt_does_not_count(store: nh.journal.JournalStore) -> None:
    app = service(store)
    attempts: list[Headers] = [
        [],
        [(b"user-agent", b"x/1")],
        [(b"traceparent", b"00-1-2-3"), (b"accept", b"*/*")],
        [(b"x-csrf-token", b"abc"), (b"x-request-id", b"q"), (b"x-forwarded-for", b"10.0.0.1")],
        [(b"sec-fetch-user", b"?1"), (b"x-client-trace-id", b"7"), (b"x-session-affinity", b"node-3")],
    ]
    assert {(await post(app, headers)).body for headers in attempts} == {b"0"}
    # HTTP/2 may send each cookie in a header of its own.
    cookies: list[Headers] = [[(b"cookie", b"c=1; d=2")], [(b"cookie", b"c=1"), (b"cookie", b"d=2")]]
    assert len({(await post(app, headers, "/cookies")).body for headers in cookies}) == 1
    swapped: Headers = [(b"authorization", b"a"), (b"cookie", b"b")]
    assert (await post(app, swapped)).body == (await post(app, swapped[::-1])).body == b"2"


@pytest.mark.anyio
async def test_certificates_mounts_and_encoded_paths_are_told_apart(store: nh.journal.JournalStore) -> None:
    app = service(store)
    requests: list[dict[str, Any]] = [
        {},
        {"extensions": {"tls": {"client_cert_name": "CN=alice", "client_cert_chain": ["A"]}}},
        {"extensions": {"tls": {"client_cert_name": "CN=alice", "client_cert_chain": ["B"]}}},
        {"extensions": {"tls": {"client_cert_name": "CN=bob", "client_cert_chain": ["A"]}}},
        {"root_path": "/one"},
        {"root_path": "/two"},
        {"path": "/a/b", "raw_path": b"/a/b"},
        {"path": "/a/b", "raw_path": b"/a%2Fb"},
    ]
    first = [(await post(app, [], **each)).body for each in requests]
    assert len(set(first)) == len(requests)
    assert [(await post(app, [], **each)).body for each in requests] == first


@pytest.mark.anyio
async def test_a_client_that_is_no_text_is_refused(store: nh.journal.JournalStore) -> None:
    refused = await post(service(store, client_of=lambda asgi_scope: 7), [])
    assert (refused.status, store.runs()) == (500, [])
    assert b"urn:nighthawk-async:problem:misconfigured" in refused.body


_names = st.sampled_from([b"authorization", b"cookie", b"host", b"x-api-key", b"Cookie", b"accept"])
_values = st.sampled_from([b"", b"a", b"b", b"ab", b"\x00", b"client", b"cookie", b"header cookie"])
_requests = st.tuples(
    st.lists(st.tuples(_names, _values), max_size=4),
    st.sampled_from(["k", "ka", "a"]),
    st.sampled_from(["/", "/a", "/a/b"]),
    st.sampled_from([None, "", "a", "ab", "cookie"]),
)


def _meaning(request: tuple[Headers, str, str, str | None]) -> object:
    """What has to be the same for two requests to be one."""
    headers, key, path, client = request
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name != b"accept" and not (client and name != b"host"):
            by_name.setdefault(name.lower(), []).append(value)
    return sorted(by_name.items()), key, path, client or None


@given(_requests, _requests)
def test_two_requests_have_one_run_only_where_all_of_them_is_the_same(one: Any, other: Any) -> None:
    ids = [
        find_run_id(
            {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""},
            key,
            client,
        )
        for headers, key, path, client in (one, other)
    ]
    assert (ids[0] == ids[1]) == (_meaning(one) == _meaning(other))
