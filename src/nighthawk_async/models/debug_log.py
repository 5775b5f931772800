"""The debug log: requests and responses, without secrets and normally without bodies.

The logger is `nighthawk`. The environment variable `NIGHTHAWK_LOG` (`debug`, `info`, `warning` or `error`)
shows it on standard error in programs that do not set up logging themselves; `NIGHTHAWK_LOG_BODIES=1` adds
bodies and the content of events at level debug.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from itertools import count
from urllib.parse import SplitResult, parse_qsl

from ..errors import ConfigurationError
from ..types.model import ModelEvent
from ..wire.redaction import redact
from .endpoint import Endpoint

LOGGER = logging.getLogger("nighthawk")
"""The logger of the library."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SHOWN_HEADERS = (
    "anthropic-ratelimit-",
    "cf-ray",
    "content-encoding",
    "content-type",
    "request-id",
    "retry-after",
    "server",
    "x-ratelimit-",
    "x-request-id",
    "x-should-retry",
)
_SHOWN_QUERY = ("alt", "api-version")
_MAX_BODY_CHARACTERS = 20_000
_numbers = count(1)


class _StandardErrorHandler(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]
    """The handler that `show_log` attaches; silent if the program has set up logging itself."""

    def emit(self, record: logging.LogRecord) -> None:
        if not _has_other_handlers():
            super().emit(record)


def _has_other_handlers() -> bool:
    """Whether log records reach a handler of the program, which may have been attached at any time."""
    handlers = [*LOGGER.handlers, *(logging.getLogger().handlers if LOGGER.propagate else ())]
    return any(not isinstance(each, _StandardErrorHandler | logging.NullHandler) for each in handlers)


def show_log(environment: Mapping[str, str]) -> None:
    """Show the log on standard error when the environment says so. Doing so twice does nothing.

    In a program that sets up logging, before or after, its own handlers show the log, and only the level
    is set.

    Args:
        environment: Environment variables.

    Raises:
        ConfigurationError: `NIGHTHAWK_LOG` is no level.
    """
    name = environment.get("NIGHTHAWK_LOG", "").strip().lower()
    if not name or any(isinstance(each, _StandardErrorHandler) for each in LOGGER.handlers):
        return
    if name not in _LEVELS:
        raise ConfigurationError(
            f"The environment variable NIGHTHAWK_LOG must be one of {', '.join(_LEVELS)}, not {name!r}."
        )
    handler = _StandardErrorHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(_LEVELS[name])


class RequestLog:
    """Logs one request at level debug. Made by `begin`, and only when the level is enabled.

    Args:
        endpoint: The endpoint of the request; its secrets are redacted.
        shows_bodies: Whether bodies and the content of events are shown.
    """

    def __init__(self, endpoint: Endpoint, *, shows_bodies: bool) -> None:
        self._endpoint = endpoint
        self._shows_bodies = shows_bodies
        self._secrets = endpoint.secrets()
        self._number = next(_numbers)

    @classmethod
    def begin(cls, endpoint: Endpoint) -> "RequestLog | None":
        """The log of a request; None when the level is not enabled.

        Args:
            endpoint: The endpoint of the request.
        """
        if not LOGGER.isEnabledFor(logging.DEBUG):
            return None
        return cls(endpoint, shows_bodies=os.environ.get("NIGHTHAWK_LOG_BODIES", "") == "1")

    def hide(self, secrets: Sequence[str]) -> None:
        """Redact more secrets.

        Args:
            secrets: The secrets.
        """
        self._secrets = tuple(dict.fromkeys((*self._secrets, *secrets)))

    def sending(self, url: SplitResult, body: bytes, *, attempt: int) -> None:
        """Log that a request is sent.

        Args:
            url: The endpoint of the request.
            body: Its body.
            attempt: The number of the attempt, from 1.
        """
        self._log(f"POST {_shown_url(url, self._endpoint.base_url)}, {len(body):,} bytes, attempt {attempt}")
        if self._shows_bodies:
            self._log(f"body: {body[: 4 * _MAX_BODY_CHARACTERS].decode(errors='replace')}")

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Log the head of a response.

        Args:
            status: Its HTTP status code.
            headers: Its headers; names in lower case.
        """
        shown = [f"{name}: {value}" for name, value in headers.items() if name.startswith(_SHOWN_HEADERS)]
        self._log(f"HTTP {status}; {'; '.join(shown)}")

    def events(self, events: Sequence[ModelEvent]) -> None:
        """Log events of a response.

        Args:
            events: The events.
        """
        for event in events:
            self._log(repr(event) if self._shows_bodies else type(event).__name__)

    def _log(self, text: str) -> None:
        text = redact(text, self._secrets)
        if len(text) > _MAX_BODY_CHARACTERS:
            text = redact(text[:_MAX_BODY_CHARACTERS] + "…", self._secrets)
        LOGGER.debug("%s #%d: %s", self._endpoint.model_id, self._number, text)


def _shown_url(url: SplitResult, base_url: SplitResult) -> str:
    """The URL without the path of the base URL and without the values in its query, which may be keys."""
    query = [
        f"{name}={value if name in _SHOWN_QUERY else '[redacted]'}"
        for name, value in parse_qsl(url.query, keep_blank_values=True)
    ]
    base_path = base_url.path.rstrip("/")
    path = url.path.removeprefix(base_path)
    return url._replace(path=f"/…{path}" if base_path else path, query="&".join(query)).geturl()
