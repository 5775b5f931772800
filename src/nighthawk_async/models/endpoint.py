"""Where a model is reached and how it is told who asks. Floor 4.

An endpoint holds credentials and shows them nowhere: its `repr` leaves them out, and every error goes through
`name_error`, which redacts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from ..errors import ConfigurationError, ModelError
from ..wire.redaction import redact

__all__ = ["Endpoint", "check_header", "name_error", "parse_base_url"]

_SECRET_HEADER_WORDS = ("auth", "cookie", "key", "secret", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint of one model.

    Args:
        model_id: The model's id, `provider:name`.
        base_url: The URL below which the protocol's paths lie.
        headers: Headers of every request, credentials included; names in lower case.
    """

    model_id: str
    base_url: SplitResult = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def url(self, path: str) -> SplitResult:
        """The URL of a path of the protocol; a query of the base URL stays.

        Args:
            path: The path, with a leading slash.
        """
        return self.base_url._replace(path=self.base_url.path.rstrip("/") + path)

    def with_headers(self, headers: Mapping[str, str]) -> "Endpoint":
        """The same endpoint with more headers, which have the last word.

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
        return Endpoint(model_id=self.model_id, base_url=self.base_url, headers={**self.headers, **added})

    def secrets(self) -> tuple[str, ...]:
        """The texts that must appear in no message: values of headers that carry credentials."""
        values = [
            value
            for name, value in self.headers.items()
            if any(word in name for word in _SECRET_HEADER_WORDS)
        ]
        return tuple(part for value in values for part in (value, value.removeprefix("Bearer ")))


def parse_base_url(text: str) -> SplitResult:
    """A base URL taken apart.

    Args:
        text: The URL.

    Raises:
        ConfigurationError: It is not an absolute `http` or `https` URL.
    """
    try:
        url = urlsplit(text.strip())
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    else:
        if is_usable and url.username is None:
            return url._replace(fragment="")
    reason = (
        "must not hold credentials" if is_usable else "must begin with http:// or https:// and name a host"
    )
    raise ConfigurationError(f"The base URL {_without_credentials(text)!r} {reason}.")


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
    """Let an error name the model, and redact the endpoint's secrets in it.

    Args:
        error: The error; it is changed.
        endpoint: The endpoint whose request failed.
    """
    error.message = redact(f"{endpoint.model_id}: {error.message}", endpoint.secrets())
    error.args = (error.message,)


def _without_credentials(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
