"""`nh.credentials.azure`: access tokens of Microsoft Entra ID, through azure-identity."""

from collections.abc import Mapping
from inspect import iscoroutinefunction
from typing import Any

from ..errors import ConfigurationError
from .bearer_token import check_timeout
from .errors import credential_error
from .extras import require_library
from .header_credentials import HeaderCredentials
from .refresher import Lease, Refresher, lease_until

_SCOPE = "https://cognitiveservices.azure.com/.default"


def azure(credentials: Any = None, *, scope: str = _SCOPE, timeout: float = 30.0) -> HeaderCredentials:
    """Authenticate requests as azure-identity does: by `DefaultAzureCredential`, or by a given credential.

    The former tries, among others, the environment (`AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and a secret or a
    certificate), workload and managed identities, and the login of the Azure CLI.

    Args:
        credentials: A synchronous credential of azure-identity, or another object with `get_token`; None for
            `DefaultAzureCredential`.
        scope: The scope of the tokens.
        timeout: Seconds that a refresh may take.

    Raises:
        ConfigurationError: The extra `azure` is not installed, or an argument is wrong.
    """
    require_library("azure.identity", "azure")
    check_timeout(timeout)
    if credentials is not None and not callable(getattr(credentials, "get_token", None)):
        raise ConfigurationError("nh.credentials.azure takes a credential of azure-identity.")
    if iscoroutinefunction(getattr(credentials, "get_token", None)):
        raise ConfigurationError(
            "nh.credentials.azure takes a credential of azure.identity, not one of azure.identity.aio: it is "
            "used in a thread, for all event loops."
        )
    shown = f"nh.credentials.azure({'' if credentials is None else type(credentials).__name__})"
    source = _Source(shown, credentials, scope)
    return HeaderCredentials(
        shown,
        Refresher(shown, fetch=source.fetch, timeout=timeout),
        make=azure,
        arguments={"credentials": credentials, "scope": scope, "timeout": timeout},
    )


class _Source:
    """Fetches tokens. Its method blocks, and imports the library."""

    def __init__(self, shown: str, given: Any, scope: str) -> None:
        self._shown = shown
        self._given = given
        self._scope = scope
        self._found: Any = None

    def fetch(self, is_refused: bool) -> Lease[Mapping[str, str]]:
        """Fetch a token.

        Args:
            is_refused: Whether an endpoint refused the last one. The library would return it again, from its
                memory, so it begins anew, unless the credential was given.

        Raises:
            CredentialError: There are no credentials, or they are refused.
        """
        from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError

        if self._given is None and (self._found is None or is_refused):
            from azure.identity import DefaultAzureCredential

            former, self._found = self._found, DefaultAzureCredential()
            if former is not None:
                former.close()
        try:
            token = (self._given or self._found).get_token(self._scope)
        except AzureError as error:
            status = getattr(error, "status_code", None)
            is_transient = isinstance(error, ServiceRequestError | ServiceResponseError)
            raise credential_error(
                self._shown, error, is_transient=is_transient or (status or 0) >= 500 or status == 429
            ) from None
        return lease_until(
            {"authorization": f"Bearer {token.token}"}, float(token.expires_on), secrets=(token.token,)
        )
