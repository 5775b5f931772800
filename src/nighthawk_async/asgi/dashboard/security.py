"""Permissions to read and to act.

There are no cookies, so a browser adds no authority by itself. To act, a request must have a token in a
header, which other sites cannot set without a preflight request, and come from the dashboard's own page or
from no page.
"""

import hmac
from collections.abc import Collection, Mapping
from typing import TypeGuard
from urllib.parse import urlsplit

from ...errors import NighthawkError
from ...types.json import is_mapping
from ..protocol import AsgiScope, header_values
from .request import BAD_TOKEN, CROSS_SITE, READ_ONLY, WRONG_HOST, RefusalError

MIN_TOKEN_CHARACTERS = 16
"""The minimum length of a token; shorter ones can be guessed."""

DEFAULT_ACTOR = "dashboard"
"""The actor when everybody has the same token."""

_SCHEME = "bearer "
_CHALLENGE = {"www-authenticate": 'Bearer realm="dashboard"'}


class Guard:
    """Admits or refuses requests.

    Args:
        tokens: The tokens, by the names of their owners; none for a read-only dashboard.
        protect_reading: Whether reading needs a token, too.
        allowed_hosts: The hosts under which the dashboard is served; None for any.
    """

    def __init__(
        self, *, tokens: Mapping[str, str], protect_reading: bool, allowed_hosts: frozenset[str] | None
    ) -> None:
        self._tokens = [(name, token.encode()) for name, token in tokens.items()]
        self._protect_reading = protect_reading
        self._allowed_hosts = allowed_hosts

    @property
    def can_act(self) -> bool:
        """Whether the dashboard accepts actions."""
        return bool(self._tokens)

    @property
    def protects_reading(self) -> bool:
        """Whether reading needs a token, too."""
        return self._protect_reading

    def check_host(self, asgi_scope: AsgiScope) -> None:
        """Refuse a request for another host: one from a page whose name was made to resolve to this server.

        Raises:
            RefusalError: The host is not allowed.
        """
        hosts = header_values(asgi_scope, b"host")
        if self._allowed_hosts is not None and (
            len(hosts) != 1 or _host_name(hosts[0]) not in self._allowed_hosts
        ):
            raise RefusalError(WRONG_HOST)

    def check_reading(self, asgi_scope: AsgiScope) -> None:
        """Refuse a request to read without a required token.

        Raises:
            RefusalError: A token is needed.
        """
        if self._protect_reading:
            self._find_actor(asgi_scope)

    def check_reading_private(self, asgi_scope: AsgiScope) -> None:
        """Refuse a request to read what belongs to people, without a token, wherever there is one.

        Raises:
            RefusalError: A token is needed.
        """
        if self._tokens:
            self._find_actor(asgi_scope)

    def check_acting(self, asgi_scope: AsgiScope) -> str:
        """Refuse a request that may not change anything.

        Returns:
            The name of the token's owner.

        Raises:
            RefusalError: The dashboard is read-only, the token is missing or wrong, or the request comes from
                another site.
        """
        if not self._tokens:
            raise RefusalError(READ_ONLY)
        _check_origin(asgi_scope)
        return self._find_actor(asgi_scope)

    def _find_actor(self, asgi_scope: AsgiScope) -> str:
        values = header_values(asgi_scope, b"authorization")
        value = values[0] if len(values) == 1 else ""
        is_bearer = value[: len(_SCHEME)].lower() == _SCHEME
        shown = value[len(_SCHEME) :].strip().encode("latin-1") if is_bearer else b""
        # Compare all tokens, each in a time that does not depend on the position of a difference.
        found = [name for name, token in self._tokens if hmac.compare_digest(token, shown)]
        if not found:
            raise RefusalError(BAD_TOKEN, _CHALLENGE)
        return found[0]


def checked_tokens(token: object) -> Mapping[str, str]:
    """Return the tokens, by the names of their owners.

    Args:
        token: One for everybody, one for each name, or None for a read-only dashboard.

    Raises:
        NighthawkError: It is none of these, or a token is too short, has characters that no header can have,
            or belongs to two names.
    """
    if token is None:
        return {}
    given = token if is_mapping(token) else {DEFAULT_ACTOR: token}
    tokens = {name: each for name, each in given.items() if _is_name(name) and _is_token(each)}
    if not given or len(tokens) < len(given) or len(set(tokens.values())) < len(tokens):
        raise NighthawkError(
            f"a token is a text of at least {MIN_TOKEN_CHARACTERS} visible ASCII characters without spaces, "
            "or a mapping from names to such texts, each for one name"
        )
    return tokens


def checked_hosts(hosts: Collection[str] | None) -> frozenset[str] | None:
    """Return the host names in lower case; None for any.

    Args:
        hosts: The hosts, without ports.

    Raises:
        NighthawkError: It is a single text instead of a collection.
    """
    if hosts is None:
        return None
    if isinstance(hosts, str):
        raise NighthawkError(f"allowed_hosts is a collection of names, not {hosts!r}")
    return frozenset(_host_name(host) for host in hosts)


def _is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and bool(name)


def _is_token(token: object) -> TypeGuard[str]:
    return (
        isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS and all("!" <= c <= "~" for c in token)
    )


def _check_origin(asgi_scope: AsgiScope) -> None:
    """Refuse requests from a page of another origin. Requests without a browser have neither header."""
    sites = header_values(asgi_scope, b"sec-fetch-site")
    origins = header_values(asgi_scope, b"origin")
    hosts = header_values(asgi_scope, b"host")
    if any(site != "same-origin" for site in sites):
        raise RefusalError(CROSS_SITE)
    if origins and (len(hosts) != 1 or any(_authority(each) != hosts[0].lower() for each in origins)):
        raise RefusalError(CROSS_SITE)


def _authority(origin: str) -> str | None:
    """Return host and port of an origin; None when it has none, such as that of a sandboxed page."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """Return a host without its port, in lower case. IPv6 addresses have brackets, at least in a header."""
    lowered = host.strip().lower()
    if lowered.startswith("["):
        return lowered[1:].partition("]")[0]
    return lowered if lowered.count(":") > 1 else lowered.partition(":")[0]
