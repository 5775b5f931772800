"""The address of a model, its authentication, and the proxy on the way to it.

An endpoint holds credentials and never shows them: its `repr` leaves them out, and every error goes through
`name_error`, which redacts them.

Connections are made directly by httpx's transports, which know nothing of proxies; the client object that
reads the environment is not used. The rules are those of the standard library (`HTTPS_PROXY`, `NO_PROXY`, …).
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..catalog.providers import ACCOUNT_HEADERS
from ..errors import ConfigurationError, ModelError, ModelProviderError, ModelStatusError
from ..wire.redaction import credential_forms, is_secret_name, redact

_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy. As a text, it is the name of the setting with the proxy's host and port.

    Args:
        url: Its URL, credentials included.
        place: Its host and port.
        source: The source of the address, for errors.
    """

    url: str = field(repr=False)
    place: str
    source: str

    def __str__(self) -> str:
        return f"the proxy {self.place} ({self.source})"


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine.

    Args:
        host: A host name or address.
    """
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # Connecting to the unspecified address reaches this machine, and servers print it as theirs.
    return address.is_loopback or address.is_unspecified


def proxy_for(url: SplitResult, proxies: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy through which an endpoint is reached; None when it is reached directly.

    Args:
        url: The endpoint.
        proxies: The proxies by scheme; None reads the machine's settings.

    Raises:
        ConfigurationError: The proxy's URL is malformed, or of a kind that cannot be used.
    """
    host = url.hostname or ""
    if is_loopback(host):
        return None
    known = getproxies() if proxies is None else proxies
    kind = url.scheme if known.get(url.scheme) else "all"
    proxy = known.get(kind, "").strip()
    return None if not proxy or proxy_bypass(host) else _parse_proxy(proxy, _source_of(kind))


def _parse_proxy(text: str, source: str) -> Proxy:
    text = text if "://" in text else f"http://{text}"
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        host = None
    else:
        if url.scheme not in _SCHEMES:
            raise ConfigurationError(
                f"{source} must name a proxy of one of the kinds {', '.join(_SCHEMES)}, not {url.scheme!r}."
            )
        if host and text.isprintable():
            return Proxy(url=text, place=host if port is None else f"{host}:{port}", source=source)
    raise ConfigurationError(f"{source} must be the URL of a proxy, for example http://proxy.example:3128.")


def _source_of(kind: str) -> str:
    """The environment variable that names the proxies of a kind, by the rules of the standard library."""
    for variable in (f"{kind}_proxy", f"{kind}_proxy".upper()):
        if os.environ.get(variable):
            return variable
    return "the machine's proxy settings"


_MIN_UNNAMED_SECRET_CHARACTERS = 8
_MAX_URL_CHARACTERS = 8_192  # far below what an HTTP library refuses, paths and queries included
_HOST_NAME = re.compile(r"(?=.{1,254}$)[\w-]{1,63}(?:\.[\w-]{1,63})*\.?", re.ASCII)
_SHOWN_PART = re.compile(r"[a-z][a-z0-9+.-]*://[\w.:\[\]-]{0,100}", re.ASCII | re.IGNORECASE)
_VERSION = re.compile(r"v\d+\w*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint of one model.

    Args:
        model_id: The model's id, `provider:name`.
        base_url: The URL below which the protocol's paths lie.
        headers: Headers of every request, credentials included; names in lower case.
        own_header_names: The names of headers that the user chose; each may be a credential, whatever its
            name.
        more_secrets: Secrets that the settings put in other places than headers.
    """

    model_id: str
    base_url: SplitResult = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    own_header_names: frozenset[str] = frozenset()
    more_secrets: tuple[str, ...] = field(default=(), repr=False)

    def url(self, path: str) -> SplitResult:
        """The URL of a path of the protocol; a query of the base URL is kept, after that of the path.

        Args:
            path: The path, with a leading slash and perhaps a query.
        """
        path, _, query = path.partition("?")
        queries = [each for each in (query, self.base_url.query) if each]
        return self.base_url._replace(path=self.base_url.path.rstrip("/") + path, query="&".join(queries))

    def with_headers(self, headers: Mapping[str, str]) -> "Endpoint":
        """The same endpoint with more headers, which take precedence.

        Args:
            headers: The headers to add.

        Raises:
            ConfigurationError: A header cannot be sent.
        """
        if not headers:
            return self
        added = {name.strip().lower(): value for name, value in headers.items()}
        for name, value in added.items():
            check_header(name, value)
        return replace(
            self,
            headers={**self.headers, **added},
            own_header_names=self.own_header_names | added.keys(),
        )

    def with_secrets(self, secrets: Iterable[str]) -> "Endpoint":
        """The same endpoint with more texts that must appear in no message.

        Args:
            secrets: The secrets of requests beside the headers, for example keys of other services in their
                body.
        """
        more = dict.fromkeys((*self.more_secrets, *secrets))
        return self if len(more) == len(self.more_secrets) else replace(self, more_secrets=tuple(more))

    def secrets(self) -> tuple[str, ...]:
        """The texts that must appear in no message.

        Values of headers and of the base URL's query that are or may be credentials, each as it is, without
        its scheme (`Bearer`, `Basic`), and in its URL-encoded form.
        """
        found: dict[str, None] = {}
        for value in (*self._secret_values(), *self.more_secrets):
            found |= dict.fromkeys(credential_forms(value))
        return tuple(found)

    def account(self) -> str:
        """An opaque text that identifies the origin and the credentials of requests, and reveals neither."""
        accounts = [(name, value) for name, value in sorted(self.headers.items()) if name in ACCOUNT_HEADERS]
        known = repr((self.base_url.scheme, self.base_url.netloc, self.base_url.query, accounts))
        return sha256(known.encode()).hexdigest()

    def _secret_values(self) -> Iterator[str]:
        fields = [(name, value, name in self.own_header_names) for name, value in self.headers.items()]
        query = parse_qsl(self.base_url.query, keep_blank_values=True)
        fields += [(name, value, True) for name, value in query]
        for name, value, is_own in fields:
            if is_secret_name(name) or (is_own and len(value) >= _MIN_UNNAMED_SECRET_CHARACTERS):
                yield value


def with_version(base_url: SplitResult, version_path: str) -> SplitResult:
    """The base URL with the version's path at its end, unless it ends in a version of its own.

    Args:
        base_url: The base URL.
        version_path: The path of the version, with a leading slash; empty adds nothing.
    """
    path = base_url.path.rstrip("/")
    if not version_path or _VERSION.fullmatch(path.rpartition("/")[2]):
        return base_url
    return base_url._replace(path=path + version_path)


def parse_base_url(text: str) -> SplitResult:
    """A parsed base URL, with its host name in the form that the network uses.

    Args:
        text: The URL.

    Raises:
        ConfigurationError: It is not an absolute `http` or `https` URL that a request can go to. The message
            shows only the scheme and the host.
    """
    text = text.strip()
    url = _split(text)
    if url is not None and url.username is None:
        return url._replace(fragment="")
    if url is not None:
        reason = "must not hold credentials"
    elif text.isascii():
        reason = "must begin with http:// or https:// and name a host"
    else:
        reason = "must begin with http:// or https:// and name a host, if need be in its form xn--"
    # The text before an @ may be a password, and a password may hold any other delimiter.
    shown = None if "@" in text else _SHOWN_PART.match(text)
    raise ConfigurationError(f"The base URL{f' {shown[0]!r}' if shown else ''} {reason}.")


def _split(text: str) -> SplitResult | None:
    """The parts of a URL; None when no request can go there."""
    if len(text) > _MAX_URL_CHARACTERS or not text.isprintable():
        return None
    try:
        url = urlsplit(text)
        if url.scheme not in ("http", "https") or url.port == 0:
            return None
        return _with_known_host(url, url.hostname or "")
    except ValueError:
        return None


def _with_known_host(url: SplitResult, host: str) -> SplitResult:
    """The URL with its host name in ASCII.

    Raises:
        ValueError: There is no such host name.
    """
    if ":" in host:
        ip_address(host)
        return url
    if not host.isascii():
        known = host.encode("idna").decode()
        if known.encode().decode("idna") != host:
            raise ValueError("an older standard knows it by another name, which may be another host")
        host = known
        url = url._replace(netloc=host if url.port is None else f"{host}:{url.port}")
    if _HOST_NAME.fullmatch(host) is None:
        raise ValueError("no name of a host")
    return url


def check_header(name: str, value: str) -> None:
    """Refuse a header that cannot be sent, before an HTTP library refuses it with the value in its message.

    Args:
        name: The header's name.
        value: The header's value.

    Raises:
        ConfigurationError: It cannot be sent.
    """
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigurationError(f"{name!r} is no name of an HTTP header.")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise ConfigurationError(
            f"The value of the HTTP header {name!r} holds characters that no header may carry."
        )


def name_error(error: ModelError, endpoint: Endpoint) -> None:
    """Add the model's name to an error, and redact the endpoint's secrets in it and in its causes.

    Args:
        error: The error; it is changed.
        endpoint: The endpoint whose request failed.
    """
    secrets = endpoint.secrets()
    error.message = redact(f"{endpoint.model_id}: {error.message}", secrets)
    error.args = (error.message,)
    if isinstance(error, ModelProviderError | ModelStatusError) and error.error_type is not None:
        error.error_type = redact(error.error_type, secrets)
    # An HTTP library's messages quote the server's response, which may echo the request.
    if any(redact(text, secrets) != text for text in _cause_texts(error)):
        error.__cause__ = error.__context__ = None


def _cause_texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        cause = waiting.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            yield repr(cause)
            waiting += [cause.__cause__, cause.__context__]
