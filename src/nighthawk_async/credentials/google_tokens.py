"""`nh.credentials.google`: access tokens of Google Cloud, through google-auth."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from importlib import import_module
from typing import Any

from ..errors import ConfigurationError
from .bearer_token import check_timeout
from .errors import credential_error
from .extras import require_library
from .header_credentials import HeaderCredentials
from .refresher import Lease, Refresher, lease_until

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def google(
    credentials: Any = None, *, scopes: Sequence[str] = _SCOPES, timeout: float = 30.0
) -> HeaderCredentials:
    """Authenticate requests as google-auth does: by Application Default Credentials, or by given ones.

    These are, in this order, the file of `GOOGLE_APPLICATION_CREDENTIALS` (a service account, a workload
    identity), the login of `gcloud auth application-default login`, and the metadata server of Google Cloud.

    Args:
        credentials: An object of google-auth; None for Application Default Credentials.
        scopes: The scopes of the tokens.
        timeout: Seconds that a refresh may take.

    Raises:
        ConfigurationError: The extra `google` is not installed, or an argument is wrong.
    """
    require_library("google.auth", "google")
    check_timeout(timeout)
    if isinstance(scopes, str):
        raise ConfigurationError("scopes must be a sequence of texts, for example (scope,).")
    if credentials is not None and not callable(getattr(credentials, "refresh", None)):
        raise ConfigurationError("nh.credentials.google takes an object of google-auth with credentials.")
    scopes = tuple(scopes)
    shown = _shown(credentials, scopes)
    source = _Source(shown, credentials, scopes)
    return HeaderCredentials(
        shown,
        Refresher(shown, fetch=source.fetch, timeout=timeout),
        make=google,
        arguments={"credentials": credentials, "scopes": scopes, "timeout": timeout},
    )


def _shown(credentials: Any, scopes: tuple[str, ...]) -> str:
    parts = [] if credentials is None else [type(credentials).__name__]
    parts += [] if scopes == _SCOPES else [f"scopes={scopes!r}"]
    return f"nh.credentials.google({', '.join(parts)})"


class _Source:
    """Fetches tokens. Its method blocks, and imports the library."""

    def __init__(self, shown: str, given: Any, scopes: tuple[str, ...]) -> None:
        self._shown = shown
        self._given = given
        self._scopes = scopes
        self._found: Any = None

    def fetch(self, is_refused: bool) -> Lease[Mapping[str, str]]:
        """Fetch a token.

        Args:
            is_refused: Whether an endpoint refused the last one; files are read again then.

        Raises:
            CredentialError: There are no credentials, or they are refused.
        """
        requests: Any = import_module("requests")
        library: Any = import_module("google.auth")
        errors: Any = import_module("google.auth.exceptions")
        transport: Any = import_module("google.auth.transport.requests")
        try:
            with requests.Session() as session:
                request = transport.Request(session)
                if self._found is None or is_refused:
                    self._found = self._find(library, request)
                self._found.refresh(request)
        except errors.GoogleAuthError as error:
            is_transient = isinstance(error, errors.TransportError) or bool(
                getattr(error, "retryable", False)
            )
            raise credential_error(self._shown, error, is_transient=is_transient) from None
        headers: dict[str, str] = {}
        self._found.apply(headers)
        expiry = self._found.expiry  # in UTC, without a time zone
        return lease_until(
            {name.lower(): value for name, value in headers.items()},
            None if expiry is None else expiry.replace(tzinfo=UTC).timestamp(),
            secrets=(self._found.token,),
        )

    def _find(self, library: Any, request: Any) -> Any:
        if self._given is None:
            return library.default(scopes=self._scopes, request=request)[0]
        module: Any = import_module("google.auth.credentials")
        return module.with_scopes_if_required(self._given, scopes=self._scopes)
