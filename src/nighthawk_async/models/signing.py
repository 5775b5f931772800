"""Authentication of the attempts at a request, each just before it is sent."""

from collections.abc import Callable, Iterable, Mapping

from ..credentials.errors import CredentialError, error_of_function
from ..errors import ConfigurationError, ModelError, ModelStatusError
from ..types.json import is_mapping
from ..types.model import Credentials, RefreshableCredentials
from .endpoint import Endpoint, check_header
from .time_limits import TimeLimits

_UNAUTHORIZED = 401
_FORBIDDEN = 403
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})


class RequestSigner:
    """Authenticates one request.

    Args:
        credentials: Provides the headers.
        endpoint: The endpoint of the request.
        path: The path of the request at the endpoint.
        body: The body of the request.
        method: The HTTP method of the request.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        endpoint: Endpoint,
        path: str,
        body: bytes,
        method: str = "POST",
    ) -> None:
        self._method = method
        self._credentials = credentials
        self._endpoint = endpoint
        self._path = path
        self._body = body
        self._headers: Mapping[str, str] = {}
        self._was_refused = False

    async def sign(self, limits: TimeLimits) -> Endpoint:
        """Return the endpoint with the headers that authenticate the next attempt.

        Args:
            limits: The time limits of the request.

        Raises:
            CredentialError: The credential could not be obtained.
            RequestTimeoutError: The request's time is over.
            ConfigurationError: The credential has headers that cannot be sent.
        """
        from .http_transport import wire_url  # httpx is loaded on first use

        url = wire_url(self._endpoint.url(self._path))
        failed: CredentialError | None = None
        headers: object = None
        try:
            headers = await limits.keep_credential(
                lambda: self._credentials.headers(self._method, url, self._body)
            )
        except (ModelError, ConfigurationError):
            raise
        except Exception as error:  # that of a class of the program
            failed = error_of_function(self._name, error)
        if failed is not None:  # here, where it gets no context: that error may hold a secret
            raise failed
        self._headers = self._checked(headers)
        return self._endpoint.with_headers(self._headers).with_secrets(_secrets_of(self._credentials))

    def may_send_again(self, error: ModelError) -> bool:
        """Whether another attempt is likely to be accepted after an error: the first refusal of a credential.

        Args:
            error: The error of the attempt.
        """
        if not isinstance(error, ModelStatusError) or not _is_refusal(error):
            return False
        if not isinstance(self._credentials, RefreshableCredentials):
            return False
        was_refused, self._was_refused = self._was_refused, True
        return self._credentials.refused(self._headers) and not was_refused

    @property
    def _name(self) -> str:
        """The type; the `repr` of an object of the program may show a secret."""
        return type(self._credentials).__qualname__

    def _checked(self, headers: object) -> Mapping[str, str]:
        if not is_mapping(headers):
            raise ConfigurationError(
                f"The credential {self._name} must return a mapping of headers, not {type(headers).__name__}."
            )
        checked: dict[str, str] = {}
        for name, value in headers.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ConfigurationError(f"The headers of the credential {self._name} must be texts.")
            check_header(name.strip(), value)
            if name.strip().lower() in _OWN_HEADERS:
                raise ConfigurationError(
                    f"The credential {self._name} must not set the header {name!r}, which belongs to the "
                    "HTTP layer."
                )
            checked[name.strip().lower()] = value
        return checked


def _is_refusal(error: ModelStatusError) -> bool:
    """Whether an endpoint did not accept a credential. AWS answers 403 when one has expired."""
    return error.status == _UNAUTHORIZED or (
        error.status == _FORBIDDEN and "expired" in error.message.lower()
    )


def _secrets_of(credentials: Credentials) -> tuple[str, ...]:
    known: Callable[[], Iterable[str]] | None = getattr(credentials, "known_secrets", None)
    return () if known is None else tuple(known())
