"""Pages: where they may come from, their limits, and their text."""

import gzip
import ipaddress
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from nighthawk_async.library import (
    FetchedPage,
    FetchError,
    ForbiddenAddressError,
    Web,
    fetch,
    web as web_module,
)
from nighthawk_async.library.page_text import html_as_text
from nighthawk_async.library.public_addresses import is_public

pytestmark = pytest.mark.anyio
HERE = ("127.0.0.0/8",)


class Site:
    """A server on this machine. Each path has a function that answers it.

    Attributes:
        requests: The headers of each request, with its path.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[Mapping[str, str]] = []
        self.released = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
                try:
                    site.answers[self.path](self)
                except (BrokenPipeError, ConnectionResetError):
                    return  # the client has seen enough

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def page(self, path: str, body: bytes, **headers: str) -> str:
        """Answer a path with a body; returns its URL. In names of headers, `_` stands for `-`."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer
        return self.url + path

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        """Answer a path with a redirect; returns its URL."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("location", to)
            handler.send_header("set-cookie", "a=b")
            handler.send_header("content-length", "0")
            handler.end_headers()

        self.answers[path] = answer
        return self.url + path


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.released.set()
        site.server.shutdown()
        thread.join()
        site.server.server_close()


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Names with their addresses, for each time that they are resolved."""
    names: dict[str, list[list[str]]] = {}

    async def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in names[host].pop(0)
        ]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    return names


async def test_a_page_is_fetched(site: Site) -> None:
    url = site.page("/a?b=c", "Grüße".encode(), content_type="text/plain; charset=utf-8")
    assert await Web(allow=HERE).fetch(f"{url}#part") == FetchedPage(
        url=url, status=200, content_type="text/plain", text="Grüße"
    )
    (request,) = site.requests
    assert request["host"] == f"127.0.0.1:{site.port}"
    assert not {"cookie", "authorization", "referer"} & set(request)


async def test_an_error_status_is_a_page(site: Site) -> None:
    site.answers["/missing"] = lambda handler: handler.send_error(404)
    page = await Web(allow=HERE).fetch(f"{site.url}/missing")
    assert page.status == 404
    assert "Nothing matches the given URI" in page.text


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "LOCALHOST", "127.1", "0x7f000001", "0x7f.1", "2130706433", "0"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *(
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "100.64.0.1",
            "[fe80::1]",
            "[fd00::1]",
        ),
        *("[fec0::1]", "[2001:0:7f00:1::]", "224.0.0.1", "255.255.255.255", "[ff02::1]"),
        *("192.0.0.8", "198.18.0.1", "[::ffff:0:7f00:1]", "[64:ff9b:1::7f00:1]", "[3fff::1]", "[5f00::1]"),
        "127\u30020\u30020\u30021",
    ],
)
async def test_private_addresses_are_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(ForbiddenAddressError, match="not on the public internet"):
        await fetch(f"http://{host}:1/")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "no URL of the scheme"),
        ("ftp://example.org/", "no URL of the scheme"),
        ("gopher:x", "no URL of the scheme"),
        ("//example.org/", "no URL of the scheme"),
        ("http:///x", "no URL of the scheme"),
        ("http://user:word@example.org/", "never sent"),
        ("http://0177.0.0.1/", "no valid URL"),
        ("http://[::1/", "no valid URL"),
        ("http://a:99999/", "no valid URL"),
        ("http://\r\nhost/", "no valid URL"),
    ],
)
async def test_other_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        await fetch(url)


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.216.34", "10.0.0.1"]])
async def test_a_name_with_a_private_address_is_refused(
    addresses: list[str], resolver: dict[str, list[list[str]]]
) -> None:
    resolver["inside.example"] = [addresses]
    with pytest.raises(ForbiddenAddressError):
        await fetch("http://inside.example/")


async def test_the_address_that_was_checked_is_connected_to(
    site: Site, resolver: dict[str, list[list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes its address between the check and the connection."""
    connected: list[str] = []
    url = site.page("/", b"page", content_type="text/plain")
    connect_tcp = anyio.connect_tcp

    async def connect(host: str, port: int, **options: Any) -> Any:
        connected.append(host)
        return await connect_tcp("127.0.0.1", port, **options)

    monkeypatch.setattr(anyio, "connect_tcp", connect)
    resolver["rebinds.example"] = [["93.184.216.34"], ["127.0.0.1"]]
    page = await fetch(f"http://rebinds.example:{site.port}/")
    assert page.url == url.replace("127.0.0.1", "rebinds.example")
    assert connected == ["93.184.216.34"]
    assert site.requests[0]["host"] == f"rebinds.example:{site.port}"
    with pytest.raises(ForbiddenAddressError):
        await fetch(f"http://rebinds.example:{site.port}/")
    assert len(site.requests) == 1


async def test_the_next_address_is_tried(site: Site, resolver: dict[str, list[list[str]]]) -> None:
    site.page("/", b"page", content_type="text/plain")
    resolver["two.example"] = [["127.0.0.2", "127.0.0.1"], ["127.0.0.2"]]
    url = f"http://two.example:{site.port}/"
    assert (await Web(allow=["Two.Example"]).fetch(url)).text == "page"
    with pytest.raises(FetchError, match="cannot be fetched"):
        await Web(allow=HERE).fetch(url)


async def test_redirects_are_followed(site: Site) -> None:
    site.page("/end", b"end", content_type="text/plain")
    for number, status in enumerate((301, 302, 303, 307, 308)):
        site.redirect(f"/{number}", f"/{number + 1}" if number < 4 else "end", status)
    page = await Web(allow=HERE).fetch(f"{site.url}/0")
    assert (page.url, page.text) == (f"{site.url}/end", "end")
    assert not any("cookie" in request for request in site.requests)
    site.redirect("/more", "/0")
    with pytest.raises(FetchError, match="more than 5 redirects"):
        await Web(allow=HERE).fetch(f"{site.url}/more")


@pytest.mark.parametrize("target", ["http://[::1]:{port}/", "//localhost:{port}/", "http://10.0.0.1/"])
async def test_redirects_to_private_addresses_are_refused(target: str, site: Site) -> None:
    url = site.redirect("/", target.format(port=site.port))
    with pytest.raises(ForbiddenAddressError):
        await Web(allow=["127.0.0.1"] if "localhost" not in target else ["127.0.0.2"]).fetch(url)
    with pytest.raises(ForbiddenAddressError):
        await fetch(url)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "data:text/plain,x"])
async def test_redirects_to_other_urls_are_refused(target: str, site: Site) -> None:
    with pytest.raises(FetchError):
        await Web(allow=HERE).fetch(site.redirect("/", target))
    assert len(site.requests) == 1


async def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await Web(allow=HERE).fetch(site.page("/", b"x", content_type="text/plain"))).text == "x"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "x-gzip", "raw", "parts"])
async def test_compressed_pages(encoding: str, site: Site) -> None:
    text = b"some text, " * 10_000
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": gzip.compress(text) + b"\0" * 10,
        "x-gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw": raw.compress(text) + raw.flush(),
        "parts": gzip.compress(text[:1_000]) + gzip.compress(text[1_000:]),
    }[encoding]
    name = {"raw": "deflate", "parts": "gzip"}.get(encoding, encoding)
    url = site.page("/", body, content_type="text/plain", content_encoding=name)
    assert (await Web(allow=HERE).fetch(url)).text.encode() == text
    with pytest.raises(FetchError, match="more than 109,999 bytes"):
        await Web(allow=HERE).fetch(url, max_bytes=len(text) - 1)
    assert (await Web(allow=HERE).fetch(url, max_bytes=len(text))).status == 200


async def test_damaged_compression_is_refused(site: Site) -> None:
    body = gzip.compress(b"some text" * 100)
    for number, (content, encoding) in enumerate(
        [(body[:-10], "gzip"), (b"plain", "gzip"), (b"plain", "deflate"), (body, "br")]
    ):
        url = site.page(f"/{number}", content, content_type="text/plain", content_encoding=encoding)
        with pytest.raises(FetchError, match=r"compressed|encoding"):
            await Web(allow=HERE).fetch(url)


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_a_page_without_end_is_refused(encoding: str, site: Site) -> None:
    chunk = b"\0" * 1_000_000
    compress = zlib.compressobj(wbits=31)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-encoding", encoding)
        handler.end_headers()
        while True:
            handler.wfile.write(compress.compress(chunk) if encoding == "gzip" else chunk)

    site.answers["/"] = answer
    with pytest.raises(FetchError, match="more than 2,000,000 bytes"):
        await Web(allow=HERE).fetch(f"{site.url}/")


async def test_a_bomb_is_not_decompressed() -> None:
    """Of what arrives at once, no more is decompressed than may be kept."""
    bomb = gzip.compress(b"\0" * 20_000_000)
    inflate = web_module._Inflate("gzip")
    assert len(inflate.decode(bomb, 1_000)) == 1_000


@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_slow_server_meets_the_time_limit(part: str, site: Site) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if part == "body":
            handler.send_response(200)
            handler.send_header("content-length", "10")
            handler.end_headers()
            handler.wfile.write(b"x")
        site.released.wait()

    site.answers["/"] = answer
    with pytest.raises(FetchError, match=r"not fetched within 0\.2 seconds"):
        await Web(allow=HERE).fetch(f"{site.url}/", timeout=0.2)


async def test_damaged_responses_are_refused(site: Site) -> None:
    def headers_without_end(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("x", "y" * 1_000_000)
        handler.end_headers()

    def no_http(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"220 mail.example ESMTP\r\n")

    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "10")
        handler.end_headers()
        handler.wfile.write(b"x")

    for number, answer in enumerate((headers_without_end, no_http, cut)):
        site.answers[f"/{number}"] = answer
        with pytest.raises(FetchError, match=r"cannot be fetched|is damaged"):
            await Web(allow=HERE).fetch(f"{site.url}/{number}")


async def test_content_that_is_no_text_is_refused(site: Site) -> None:
    for number, (content, kind) in enumerate(
        [(b"%PDF", "application/pdf"), (b"x", "image/png"), (b"a\0b", "text/plain"), (b"a\0b", "")]
    ):
        url = site.page(f"/{number}", content, **({"content_type": kind} if kind else {}))
        with pytest.raises(FetchError, match="is no text"):
            await Web(allow=HERE).fetch(url)


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b"\xe4", "text/plain; charset=latin-1", "ä"),
        (b"\xe4", "text/plain", "\ufffd"),
        (b"\xe4", "text/plain; charset=base64", "\ufffd"),
        (b"\xe4", "text/plain; charset=no-such", "\ufffd"),
        (b"\xef\xbb\xbfa", "text/csv", "a"),
        ("ä".encode("utf-16"), "text/plain", "ä"),
        (b"<meta charset='latin-1'>\xe4", "text/html", "ä\n"),
        (b'{"a": 1}', "application/ld+json", '{"a": 1}'),
        (b"plain", "", "plain"),
    ],
)
async def test_encodings(content: bytes, kind: str, text: str, site: Site) -> None:
    url = site.page("/", content, **({"content_type": kind} if kind else {}))
    assert (await Web(allow=HERE).fetch(url)).text == text


async def test_networks_and_names_are_allowed_by_what_they_are() -> None:
    with pytest.raises(FetchError, match="neither a host name nor a network"):
        await Web(allow=["http://127.0.0.1"]).fetch("http://127.0.0.1/")
    with pytest.raises(ForbiddenAddressError):
        await Web(allow=["10.0.0.0/8", "localhost", "::1"]).fetch("http://127.0.0.1:1/")


async def test_a_model_cannot_allow_hosts(site: Site) -> None:
    url = site.page("/", b"keys", content_type="text/plain")
    web = Web(allow="10.0.0.0/8")
    for call in (fetch, web.fetch):
        with pytest.raises(TypeError, match="allow"):
            await call(url, allow=HERE)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        web.allow = HERE  # type: ignore[misc]
    with pytest.raises(ForbiddenAddressError):
        await web.fetch(url)
    assert repr(web) == "Web(allow=('10.0.0.0/8',))"
    assert site.requests == []


HTML = """<!doctype html><html><head><title>The  title</title><style>p {}</style>
<script>var a = "<p>no</p>"</script></head><body><h1>A <b>big</b> head</h1>
<p>One <a href="/x?a=1&amp;b=2">link</a>, <a href="#top">none</a> and<br>a line. <a name=x>Anchor</a></p>
<ul><li>first<li><a href="y"> second </a>item</ul><pre>  def f():
    return 1</pre><table><tr><th>A<th>B</tr><tr><td>1<td>2</tr></table><img src=x alt="A cat">
<svg><text>drawn</text></svg><p>5 &lt; 6 <a href="javascript:x()">js</a></div></body></html>"""
TEXT = """The title

# A big head

One [link](http://site.example/x?a=1&b=2), none and
a line. Anchor

- first
- [second](http://site.example/d/y) item

  def f():
    return 1

A | B
1 | 2

A cat

5 < 6 js
"""


def test_html_becomes_text() -> None:
    assert html_as_text(HTML, "http://site.example/d/") == TEXT
    assert html_as_text("", "http://site.example/") == ""
    assert html_as_text("<p>" * 10_000 + "<a href=x>" * 10_000 + "end", "http://site.example/") == "end\n"
    assert html_as_text("<base href='http://b.example/'><a href=c>d</a>", "http://site.example/") == (
        "[d](http://b.example/c)\n"
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a < b <3 & c &amp; d", "a < b <3 & c & d\n"),
        ("<p title='a > b'>c</p><p title=\"d\">e", "c\n\ne\n"),
        ("a<!-- <p> -- > -->b<!x>c<?php y ?>d</>e", "abcde\n"),
        ("<SCRIPT>'</scrip>' < x</Script >after", "after\n"),
        ("a<script>no end", "a\n"),
        ("a<!-- no end", "a\n"),
        ("a<p class='no end", "a\n"),
        ("<svg/>a<svg><svg></svg>b</svg>c", "ac\n"),
        ("<A HREF=/x?a=1&b=2 >y</A>", "[y](http://site.example/x?a=1&b=2)\n"),
        ("<a href='x' href='z'>y</a><a href='http://[/'>w</a>", "[y](http://site.example/x)w\n"),
    ],
)
def test_unusual_html(html: str, text: str) -> None:
    assert html_as_text(html, "http://site.example/") == text


@pytest.mark.parametrize(
    "part",
    [
        *(
            "<",
            "<!--",
            "<a b='",
            "<a ",
            "</a ",
            "<![CDATA[",
            "<a =",
            "&",
            "<script>",
            "<a b=\"c'",
            "<svg>",
            "<?",
        ),
        *("<a href=x>", "a=", "<p a", "<a" + " " * 99, "<title>", "\n", "&#"),
    ],
)
def test_no_page_takes_long(part: str) -> None:
    """Where the time grew with the square of the length, these would meet the time limit of tests."""
    for page in (part * 200_000, f"<p {part * 200_000}>", f"{part * 200_000}>'\"-->"):
        assert isinstance(html_as_text(page[:2_000_000], "http://site.example/"), str)


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::"])
def test_addresses_of_the_public_internet(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


async def test_the_certificate_belongs_to_the_name(
    resolver: dict[str, list[list[str]]], monkeypatch: pytest.MonkeyPatch, tls_contexts: Any
) -> None:
    server_context, client_context = tls_contexts
    monkeypatch.setattr(web_module, "verifying_context", lambda: client_context)
    names: list[str | None] = []
    server_context.sni_callback = lambda _, name, __: names.append(name)
    site = Site()
    site.server.socket = server_context.wrap_socket(site.server.socket, server_side=True)
    site.page("/", b"safe", content_type="text/plain")
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        resolver.update({"shop.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})
        page = await Web(allow=HERE).fetch(f"https://shop.example:{site.port}/")
        assert (page.text, site.requests[0]["host"]) == ("safe", f"shop.example:{site.port}")
        with pytest.raises(FetchError, match="certificate"):
            await Web(allow=HERE).fetch(f"https://other.example:{site.port}/")
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()
    assert names == ["shop.example", "other.example"]


@pytest.fixture(scope="module")
def tls_contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of a server with the name `shop.example`, and of a client that trusts it."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("shop.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "certificate").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "certificate", folder / "key")
    return server, ssl.create_default_context(cafile=folder / "certificate")


def test_a_page_of_links_does_not_grow_beyond_bounds() -> None:
    base = "http://example.org/" + "a" * 1_000_000 + "/"
    page = f"<base href='{base}'>" + "<a href=b>x</a>" * 50_000
    assert len(html_as_text(page, "http://example.org/")) < 3_000_000


@pytest.mark.parametrize(
    ("entry", "is_there"),
    [
        ("two.example", True),
        ("TWO.example.", True),
        ("*.example", True),
        ("two.example:{port}", True),
        ("two.example:1", False),
        ("example", False),
        ("*.two.example", False),
        ("o.example", False),
        ("127.0.0.0/8", True),
        ("10.0.0.0/8", False),
    ],
)
async def test_only_hosts_of_a_list_are_fetched_and_denied_ones_are_not(
    site: Site, resolver: dict[str, list[list[str]]], entry: str, is_there: bool
) -> None:
    url = site.page("/x", b"page", content_type="text/plain")
    port = url.split(":")[2].split("/")[0]
    resolver["two.example"] = [["127.0.0.1"], ["127.0.0.1"]]
    url = f"http://two.example:{port}/x"
    entry = entry.format(port=port)
    for web, is_fetched in ((Web(HERE, only=[entry]), is_there), (Web(HERE, deny=[entry]), not is_there)):
        if is_fetched:
            assert (await web.fetch(url)).text == "page"
        else:
            with pytest.raises(ForbiddenAddressError, match=r"two\.example is"):
                await web.fetch(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f000001", "127.1", "[::ffff:127.0.0.1]"])
async def test_a_denied_network_is_denied_in_every_spelling(site: Site, host: str) -> None:
    with pytest.raises(ForbiddenAddressError, match="is denied here"):
        await Web(allow=["127.0.0.0/8", "::/0"], deny="127.0.0.1").fetch(f"http://{host}:1/")


async def test_a_redirect_to_a_denied_host_is_refused(
    site: Site, resolver: dict[str, list[list[str]]]
) -> None:
    resolver |= {name: [["127.0.0.1"]] * 4 for name in ("bad.example", "127.0.0.1")}
    url = site.redirect("/", "http://bad.example/x")
    here = url.removeprefix("http://").partition("/")[0]
    for web in (Web(HERE, deny="bad.example"), Web(HERE, only=here)):
        with pytest.raises(ForbiddenAddressError, match="bad"):
            await web.fetch(url)
    assert Web(HERE, only="*.example.org").only == ("*.example.org",)


@pytest.mark.parametrize("entry", ["", "*", "a b", "a.example:x", "http://a.example", "*.*.example"])
@pytest.mark.parametrize("name", ["only", "deny"])
def test_a_list_has_hosts_and_networks_only(name: str, entry: str) -> None:
    with pytest.raises(FetchError, match="is neither a host name"):
        Web(**{name: [entry]})  # type: ignore[arg-type]
