"""WebSockets over TLS, and through proxies: the same ways as over HTTP, with real servers on the loopback."""

import datetime
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import nighthawk_async as nh
from nighthawk_async.errors import ConnectTimeoutError, ModelConnectionError, ModelError
from nighthawk_async.models.http_transport import verifying_context
from nighthawk_async.testing import ModelReply, ModelServer

from .http_support import collect, text_of
from .websocket_support import SECRET, after_calls, executor_at, socket_model, work

pytestmark = pytest.mark.anyio

HOST = "models.example"
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Authority:
    """A certificate for servers, and the file that makes clients trust it."""

    def __init__(self, folder: Path, name: str = HOST) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName(name), *([x509.IPAddress(ip_address("127.0.0.1"))] if name == HOST else [])]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        kept = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + certificate.public_bytes(pem)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(kept)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.file)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Generator[Authority, None, None]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    verifying_context.cache_clear()
    yield authority
    verifying_context.cache_clear()


async def _copy(source: ByteStream, target: ByteStream, seen: bytearray | None = None) -> None:
    with suppress(*_GONE):
        while True:
            data = await source.receive()
            if seen is not None:
                seen += data
            await target.send(data)
    with suppress(*_GONE):
        await target.aclose()


async def _join(left: ByteStream, right: ByteStream, seen: bytearray | None = None) -> None:
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(_copy, left, right, seen)
        task_group.start_soon(_copy, right, left, seen)


@asynccontextmanager
async def served(
    handle: Callable[[ByteStream], Awaitable[None]], context: ssl.SSLContext | None = None
) -> AsyncGenerator[int, None]:
    """A server on the loopback, over TLS if there is a context; gives its port."""

    async def serve(stream: ByteStream) -> None:
        async with stream:
            with suppress(*_GONE, ConnectionError):
                await handle(stream)

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    listener = tcp if context is None else TLSListener(tcp, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as task_group:
        task_group.start_soon(listener.serve, serve)
        yield tcp.extra(SocketAttribute.local_port)
        task_group.cancel_scope.cancel()


async def _leave(stream: ByteStream) -> None:
    await stream.aclose()


def secured(server: ModelServer, context: ssl.SSLContext) -> AbstractAsyncContextManager[int]:
    """A TLS server in front of a model server; gives its port."""
    port = int(server.base_url.rpartition(":")[2].partition("/")[0])

    async def handle(stream: ByteStream) -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as inner:
            await _join(stream, inner)

    return served(handle, context)


class Proxy:
    """A proxy that connects to one port, whatever it is asked for."""

    def __init__(self, port: int, answer: bytes | None = b"HTTP/1.1 200 Connected\r\n\r\n") -> None:
        self.heads: list[str] = []
        self.seen = bytearray()
        self.open: list[SocketStream] = []
        self._port = port
        self._answer = answer

    async def __call__(self, stream: ByteStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive()
        self.heads.append(head.decode())
        if self._answer is None:
            await anyio.sleep_forever()
            return
        async with await anyio.connect_tcp("127.0.0.1", self._port) as inner:
            self.open.append(inner)
            if head.startswith(b"CONNECT"):
                await stream.send(self._answer)
                if b" 200 " not in self._answer:
                    return
            else:
                line, _, rest = head.partition(b"\r\n")
                path = line.split()[1].split(HOST.encode())[1]
                await inner.send(b"GET " + path + b" HTTP/1.1\r\n" + rest)
            await _join(stream, inner, self.seen)


async def test_a_step_over_tls_uses_one_socket(trusted: Authority) -> None:
    """Large messages too: what a TLS connection holds already is read though its socket is silent."""
    replies = after_calls(4)
    async with ModelServer(replies) as server, secured(server, trusted.server_context()) as port:
        async with nh.run(executor_at(f"https://127.0.0.1:{port}/v1")):
            assert await work("owls " * 20_000) == "4 calls"
            assert text_of(await collect(socket_model(f"https://127.0.0.1:{port}/v1"))) == ""
        assert {request.method for request in server.requests} == {"WEBSOCKET"}
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
        assert server.requests[0].headers["host"] == f"127.0.0.1:{port}"


async def test_a_server_that_nobody_trusts_gets_no_request(
    trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "other.example")
    async with ModelServer([ModelReply(text="Hi")]) as server:
        async with secured(server, other.server_context()) as port:
            for trusted_file in (trusted.file, other.file):  # unknown, and for another host
                monkeypatch.setenv("SSL_CERT_FILE", str(trusted_file))
                verifying_context.cache_clear()
                seen = []
                for transport in ("http", "websocket"):
                    model = socket_model(f"https://127.0.0.1:{port}/v1", transport, max_retries=3)
                    with pytest.raises(ModelConnectionError, match="no secure connection") as caught:
                        await collect(model)
                    assert SECRET not in str(caught.value)
                    seen.append((caught.value.message, caught.value.is_transient, caught.value.retries))
                assert seen[0] == seen[1]
                assert seen[0][1:] == (False, 0)
        async with served(Proxy(1, None)) as port:  # it answers no handshake
            with pytest.raises(ModelError) as timed_out:
                await collect(socket_model(f"https://127.0.0.1:{port}/v1", connect_timeout=0.05))
            assert isinstance(timed_out.value, ConnectTimeoutError)
        assert not server.requests


async def test_a_proxy_carries_sockets_without_seeing_what_they_carry(
    trusted: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(after_calls(3)) as server, secured(server, trusted.server_context()) as port:
        proxy = Proxy(port)
        async with served(proxy) as proxy_port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:hunter22@127.0.0.1:{proxy_port}")
            async with nh.run(executor_at(f"https://{HOST}/v1")):
                assert await work("owls " * 20_000) == "3 calls"
        assert len(server.requests) == 4
        assert {request.method for request in server.requests} == {"WEBSOCKET"}
        assert server.requests[0].headers["host"] == HOST
        assert len(proxy.heads) == 1
        assert proxy.heads[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1")
        assert "proxy-authorization: basic" in proxy.heads[0].lower()
        assert SECRET.encode() not in proxy.seen
        assert b"hunter22" not in proxy.seen


async def test_a_proxy_carries_plain_sockets(monkeypatch: pytest.MonkeyPatch, trusted: Authority) -> None:
    async with ModelServer(after_calls(2)) as server:
        proxy = Proxy(int(server.base_url.rpartition(":")[2].partition("/")[0]))
        async with served(proxy) as proxy_port:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy_port}")
            async with nh.run(executor_at(f"http://{HOST}/v1")):
                assert await work("owls") == "2 calls"
        assert proxy.heads[0].startswith(f"GET http://{HOST}/v1/responses HTTP/1.1")
        assert len(proxy.heads) == 1


async def test_a_proxy_that_fails_is_named_as_over_http(
    trusted: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "needs a password": b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        "is lost": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "never answers": None,
    }
    for name, answer in answers.items():
        async with served(_leave) as port, served(Proxy(port, answer)) as proxy_port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:hunter22@127.0.0.1:{proxy_port}")
            seen = set()
            for transport in ("http", "websocket"):
                seconds = 0.05 if answer is None else 10.0
                model = socket_model(f"https://{HOST}/v1", transport, connect_timeout=seconds)
                with pytest.raises(ModelError) as caught:
                    await collect(model)
                assert "hunter22" not in str(caught.value), name
                assert "HTTPS_PROXY" in str(caught.value), name
                seen.add((type(caught.value), caught.value.is_transient))
            assert seen == {(ConnectTimeoutError if answer is None else ModelConnectionError, True)}, name


async def test_a_proxy_that_dies_is_followed_by_another_connection(
    trusted: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(after_calls(3)) as server, secured(server, trusted.server_context()) as port:
        proxy = Proxy(port)
        async with served(proxy) as proxy_port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy_port}")
            async with nh.run(executor_at(f"https://{HOST}/v1", max_retries=2)):
                assert await work("owls") == "3 calls"
                for each in proxy.open:
                    await each.aclose()
                assert await work("cats") == "3 calls"
        assert len(proxy.heads) == 2
