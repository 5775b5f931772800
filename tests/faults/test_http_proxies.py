"""Proxies that the machine's settings name: used, out of order, or not to be used at all."""

import socket
import sys

import anyio
import pytest
from anyio.abc import SocketStream
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError, ModelConnectionError
from nighthawk_async.models.http_pool import open_http_pool
from nighthawk_async.models.providers import create_model

from .http_support import SECRET, collect, model_at, raw_server, read_request, text_of

pytestmark = pytest.mark.anyio

STREAM = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
MODEL_URL = "http://models.example/v1"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_proxy_without_a_scheme_carries_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        requests.append(await read_request(stream))
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n"
        await stream.send(head.format(len(STREAM)).encode() + STREAM)

    async with raw_server(serve) as proxy_url:
        monkeypatch.setenv("HTTP_PROXY", proxy_url.removeprefix("http://").removesuffix("/v1"))
        with anyio.fail_after(240):
            assert text_of(await collect(model_at(MODEL_URL))) == "Hi"
    assert requests[0].startswith(b"POST http://models.example/v1/chat/completions HTTP/1.1")


async def test_what_is_signed_is_what_a_proxy_passes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    requests: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        requests.append(await read_request(stream))
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n"
        await stream.send(head.format(len(STREAM)).encode() + STREAM)

    credentials = nh.credentials.aws(region="eu-west-1")
    async with raw_server(serve) as proxy_url:
        monkeypatch.setenv("HTTP_PROXY", proxy_url.removeprefix("http://").removesuffix("/v1"))
        settings = {"base_url": f"{MODEL_URL}?tenant=a%2Fb", "credentials": credentials}
        with anyio.fail_after(240):
            assert text_of(await collect(create_model("openai-chat:x", settings=settings))) == "Hi"
    head, _, body = requests[0].partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    sent = AWSRequest(
        "POST", line.split()[1], {"Host": headers["host"], "X-Amz-Date": headers["x-amz-date"]}, body
    )
    sent.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI"), "bedrock", "eu-west-1")
    signature = signer.signature(signer.string_to_sign(sent, signer.canonical_request(sent)), sent)
    assert headers["authorization"].endswith(f"Signature={signature}")


async def test_a_proxy_that_refuses_connections_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        monkeypatch.setenv("HTTP_PROXY", f"http://me:hunter22@127.0.0.1:{port}")
        with anyio.fail_after(240), pytest.raises(ModelConnectionError) as raised:
            await collect(model_at(MODEL_URL))
    place = f"models.example through the proxy 127.0.0.1:{port} (HTTP_PROXY)"
    assert f"cannot connect to {place}: connection refused" in str(raised.value)
    assert "hunter" not in str(raised.value)


async def test_a_proxy_that_breaks_the_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(stream: SocketStream) -> None:
        await read_request(stream)

    async with raw_server(serve) as proxy_url:
        monkeypatch.setenv("ALL_PROXY", proxy_url.removesuffix("/v1"))
        with (
            anyio.fail_after(240),
            pytest.raises(ModelConnectionError, match=r"proxy 127\.0\.0\.1:\d+ \(ALL_"),
        ):
            await collect(model_at(MODEL_URL))


async def test_a_socks_proxy_needs_a_package_that_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://me:hunter22@localhost:1080")
    async with open_http_pool() as pool:
        with pytest.raises(ConfigurationError) as raised:
            await collect(model_at(MODEL_URL, pool, max_retries=5))
        assert pool.statistics().open == 0
    assert str(raised.value) == (
        "the proxy localhost:1080 (ALL_PROXY) cannot be used: SOCKS needs the package socksio."
    )


async def test_a_path_that_no_request_can_carry_is_refused() -> None:
    settings = {"base_url": "http://localhost:1/v1", "api_key": SECRET}
    model = create_model(f"google:{'x' * 70_000}", settings=settings, environment={})
    with pytest.raises(ConfigurationError, match="No request can be sent to 'localhost:1'") as raised:
        await collect(model)
    assert "xxx" not in str(raised.value)
