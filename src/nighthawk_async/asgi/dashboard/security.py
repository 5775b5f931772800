"""Permissions to look and to act.

There are no cookies, so a browser adds no authority by itself: whoever acts shows a token in a header that
no other site can set without being asked first, and comes from the dashboard's own page or from no page.
"""

import hmac
from collections.abc import Collection, Mapping
from typing import cast
from urllib.parse import urlsplit

from ...errors import NighthawkError
from ..protocol import AsgiScope, header_values
from .request import BAD_TOKEN, CROSS_SITE, READ_ONLY, WRONG_HOST, RefusalError

MIN_TOKEN_CHARACTERS = 16
"""Shorter tokens are guessed."""

DEFAULT_ACTOR = "dashboard"
"""Who acts when there is one token for everybody."""

_SCHEME = "bearer "
_CHALLENGE = {"www-authenticate": 'Bearer realm="dashboard"'}


class Guard:
    """Lets requests pass, or refuses them.

    Args:
        tokens: The tokens, by the names of whom they stand for; none for a dashboard that only shows.
        protect_reading: Whether a token is needed for looking, too.
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
        """Whether anybody can act."""
        return bool(self._tokens)

    @property
    def protects_reading(self) -> bool:
        """Whether a token is needed for looking, too."""
        return self._protect_reading

    def check_host(self, asgi_scope: AsgiScope) -> None:
        """Refuse a request for another host: that of a page whose name was made to lead here.

        Raises:
            RefusalError: The host is none of those allowed.
        """
        hosts = header_values(asgi_scope, b"host")
        if self._allowed_hosts is not None and (
            len(hosts) != 1 or _host_name(hosts[0]) not in self._allowed_hosts
        ):
            raise RefusalError(WRONG_HOST)

    def check_reading(self, asgi_scope: AsgiScope) -> None:
        """Refuse to show what goes on.

        Raises:
            RefusalError: A token is needed.
        """
        if self._protect_reading:
            self._find_actor(asgi_scope)

    def check_acting(self, asgi_scope: AsgiScope) -> str:
        """Refuse to change anything.

        Returns:
            The name of whom the token stands for.

        Raises:
            RefusalError: Nobody may act, the token is missing or wrong, or the request comes from elsewhere.
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
        # Every token is compared, each in a time that does not depend on where it differs.
        found = [name for name, token in self._tokens if hmac.compare_digest(token, shown)]
        if not found:
            raise RefusalError(BAD_TOKEN, _CHALLENGE)
        return found[0]


def checked_tokens(token: object) -> Mapping[str, str]:
    """The tokens, by the names of whom they stand for.

    Args:
        token: One for everybody, one for each name, or None for a dashboard that only shows.

    Raises:
        NighthawkError: It is none of these, or a token is too short, has characters that no header can have,
            or stands for two.
    """
    if token is None:
        return {}
    given = cast("Mapping[object, object]", token if isinstance(token, Mapping) else {DEFAULT_ACTOR: token})
    tokens = {name: each for name, each in given.items() if _is_name(name) and _is_token(each)}
    if not given or len(tokens) < len(given) or len(set(tokens.values())) < len(tokens):
        raise NighthawkError(
            f"a token is a text of at least {MIN_TOKEN_CHARACTERS} visible ASCII characters without spaces, "
            "or a mapping from names to such texts, each for one name"
        )
    return cast("Mapping[str, str]", tokens)


def checked_hosts(hosts: Collection[str] | None) -> frozenset[str] | None:
    """The names of hosts, in lower case; None for any.

    Args:
        hosts: The hosts, without ports.

    Raises:
        NighthawkError: It is one text instead of several.
    """
    if hosts is None:
        return None
    if isinstance(hosts, str):
        raise NighthawkError(f"allowed_hosts is a collection of names, not {hosts!r}")
    return frozenset(_host_name(host) for host in hosts)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name)


def _is_token(token: object) -> bool:
    return (
        isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS and all("!" <= c <= "~" for c in token)
    )


def _check_origin(asgi_scope: AsgiScope) -> None:
    """Refuse what a page of another origin sends. Without a browser neither header is there."""
    sites = header_values(asgi_scope, b"sec-fetch-site")
    origins = header_values(asgi_scope, b"origin")
    hosts = header_values(asgi_scope, b"host")
    if any(site != "same-origin" for site in sites):
        raise RefusalError(CROSS_SITE)
    if origins and (len(hosts) != 1 or any(_authority(each) != hosts[0].lower() for each in origins)):
        raise RefusalError(CROSS_SITE)


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None when it has none, as that of a sandboxed page."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """A host without its port, in lower case. An address of IPv6 has brackets, at least in a header."""
    lowered = host.strip().lower()
    if lowered.startswith("["):
        return lowered[1:].partition("]")[0]
    return lowered if lowered.count(":") > 1 else lowered.partition(":")[0]
