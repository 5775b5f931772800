"""The identity of a request with an idempotency key: whose it is, and what it asks for. Pure.

Every part is written with its name and the length of both, so that no two requests have the same parts: a
header is never taken for a client, nor one header for another.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from ..errors import ConfigurationError
from ..secret_names import is_secret_name
from ..types.json import is_text
from .protocol import AsgiScope

_VERSION = b"2"
_COOKIES = "header cookie"
_HOSTS = ("host", "x-forwarded-host")
_WORD = re.compile(r"[a-z0-9]+")
# Proxies that authenticate callers pass on who they are: `X-Forwarded-User`, `X-Client-Cert`, `X-Tenant-Id`.
_CALLER_WORDS = frozenset(
    {"acct", "actor", "auth", "behalf", "dn", "from", "group", "groups", "jwt", "key", "oidc", "org", "orgid"}
    | {"pat", "project", "realm", "role", "roles", "shop", "sub", "team", "uid"}
)
_CALLER_PARTS = re.compile(
    "account|apikey|assertion|caller|cert|clientid|company|consumer|customer|device|email|employee|identity"
    "|impersonat|login|member|merchant|organi[sz]ation|owner|partner|person|principal|profile|session|subject"
    "|tenant|token|user|workspace"
)
_OTHER_WORDS = frozenset(
    {"affinity", "correlation", "csrf", "fetch", "idempotency", "trace", "useragent", "websocket", "xsrf"}
)
"""A header with one of these words is none of its caller: `User-Agent`, `X-CSRF-Token`, `Sec-Fetch-User`."""


def find_run_id(asgi_scope: AsgiScope, key: str, client: str | None) -> str:
    """Return the id of the run of a request: the same for one key, method, host, path and caller.

    The caller is the client that the service has found. Without one, it is all that the request shows of its
    caller together: credentials, cookies, certificates, and what a proxy says about it.

    Args:
        asgi_scope: The request.
        key: Its idempotency key.
        client: Its client; None or empty when it is unknown.

    Raises:
        ConfigurationError: The client is no text.
    """
    parts: list[tuple[str, bytes]] = [
        ("key", _encoded(key)),
        ("method", _encoded(asgi_scope["method"])),
        *((name, value.lower()) for name in _HOSTS for found, value in _headers(asgi_scope) if found == name),
        ("root", _encoded(str(asgi_scope.get("root_path", "")))),
        ("path", _encoded(str(asgi_scope.get("path", "")))),
        ("raw path", bytes(asgi_scope.get("raw_path") or b"").partition(b"?")[0]),
    ]
    if client is not None and not is_text(client):
        raise ConfigurationError(f"client_of returns a str or None, not {type(client).__name__}")
    parts += [("client", _encoded(client))] if client else _signs_of_caller(asgi_scope)
    flat = (part for name, value in parts for part in (_encoded(name), value))
    return f"http-{_digest(_VERSION, *flat)[:32]}"


def fingerprint_of(asgi_scope: AsgiScope, body: bytes) -> str:
    """Return the digest of what a request asks for: its query and its body.

    Args:
        asgi_scope: The request.
        body: Its body.
    """
    return _digest(bytes(asgi_scope.get("query_string", b"")), body)


def _signs_of_caller(asgi_scope: AsgiScope) -> list[tuple[str, bytes]]:
    """The signs of its caller that a request shows; the order of different headers does not matter."""
    found = [(f"header {name}", value) for name, value in _headers(asgi_scope) if _names_caller(name)]
    cookies = [value for name, value in found if name == _COOKIES]
    if cookies:  # HTTP/2 may send each in a header of its own
        found = [part for part in found if part[0] != _COOKIES] + [(_COOKIES, b"; ".join(cookies))]
    extensions: dict[str, Any] = asgi_scope.get("extensions") or {}
    tls: dict[str, Any] = extensions.get("tls") or {}
    for name in ("client_cert_name", "client_cert_error"):
        if tls.get(name) is not None:
            found.append((f"tls {name}", _encoded(str(tls[name]))))
    found += [("tls client_cert_chain", _encoded(str(each))) for each in tls.get("client_cert_chain") or ()]
    return sorted(found, key=_name_of_part)


def _name_of_part(part: tuple[str, bytes]) -> str:
    return part[0]


def _names_caller(name: str) -> bool:
    words = set(_WORD.findall(name))
    if words & _OTHER_WORDS or words >= {"user", "agent"}:
        return False
    return (
        bool(words & _CALLER_WORDS or _CALLER_PARTS.search(name))
        or words >= {"client", "id"}
        or words >= {"act", "as"}
        or words <= {"x", "client"}
        or is_secret_name(name)
    )


def _headers(asgi_scope: AsgiScope) -> Iterator[tuple[str, bytes]]:
    for name, value in asgi_scope.get("headers") or ():
        yield bytes(name).lower().decode("latin-1"), bytes(value)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _digest(*parts: bytes) -> str:
    """Return the digest of texts in their order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
