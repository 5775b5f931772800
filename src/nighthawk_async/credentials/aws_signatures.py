"""`nh.credentials.aws`: Signature Version 4 over the final bytes of a request, through botocore.

The headers that are signed are `Host`, as it is sent, the date, and the token of temporary keys. The other
headers are not, so that the HTTP layer and proxies may add to them.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import anyio

from .bearer_token import check_timeout
from .errors import CredentialError, credential_error
from .extras import require_library
from .header_credentials import RefreshedCredentials
from .refresher import Lease, Refresher, never

_KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"
_REGION_IN_HOST = re.compile(r"^bedrock[a-z-]*\.(?P<region>[a-z]{2,8}(?:-[a-z0-9]+)+-\d+)\.")
_MANTLE = "bedrock-mantle"
_BEDROCK = "bedrock"
_LIBRARY = "botocore"
_LOGGERS = ("botocore.auth", "botocore.endpoint", "botocore.parsers", "botocore.utils")
_LOGGED_CREDENTIALS = re.compile(
    r"security-token|secretaccesskey|session_?token|access_?token|bearer_?token|identity_?token"
    r"|refresh_?token|client_?secret|saml_?assertion|authorization",
    re.IGNORECASE,
)
_MOST_BYTES_ON_THE_LOOP = 256 * 1024


def aws(
    *,
    region: str | None = None,
    profile: str | None = None,
    service: str | None = None,
    timeout: float = 30.0,
) -> "AwsCredentials":
    """Authenticate requests to Amazon Bedrock: by signatures, or by a Bedrock API key.

    The key of `AWS_BEARER_TOKEN_BEDROCK` is sent when that variable is set and no profile is given.
    Otherwise each request is signed with the keys that botocore finds: those of the environment, of the files
    of the AWS CLI, of its logins, or of the metadata server of a machine or a container.

    Args:
        region: The region; None for that in the name of the endpoint's host, else that of botocore.
        profile: A profile of the AWS CLI; None for the default.
        service: The name of the service in signatures; None for `bedrock-mantle` at hosts of that name, else
            `bedrock`.
        timeout: Seconds that it may take to get the keys.

    Raises:
        ConfigurationError: The extra `aws` is not installed, or an argument is wrong.
    """
    if profile is not None or not os.environ.get(_KEY_VARIABLE, "").strip():
        require_library(_LIBRARY, "aws")
    check_timeout(timeout)
    return AwsCredentials(region, profile, service, timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """The present keys of botocore, or a Bedrock API key in their place.

    Args:
        api_key: The API key; empty for none.
        keys: The keys of botocore.
        region: The region that botocore is configured for.
    """

    api_key: str = field(default="", repr=False)
    keys: Any = field(default=None, repr=False)
    region: str | None = None

    @property
    def sign_of_use(self) -> str:
        """A part of the header `Authorization` of the requests that they authenticate, and of no others."""
        return f"Bearer {self.api_key}" if self.api_key else f" Credential={self.keys.access_key}/"


class AwsCredentials(RefreshedCredentials[_Keys]):
    """Signs requests; implements `types.model.RefreshableCredentials`. Made by `aws`.

    Args:
        region: The region.
        profile: The profile.
        service: The service.
        timeout: Seconds that it may take to get the keys.
    """

    def __init__(self, region: str | None, profile: str | None, service: str | None, timeout: float) -> None:
        arguments = {"region": region, "profile": profile, "service": service}
        given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
        shown = f"nh.credentials.aws({', '.join(given)})"
        source = _Source(shown, profile)
        super().__init__(
            shown,
            Refresher(shown, fetch=source.fetch, timeout=timeout),
            make=aws,
            arguments={**arguments, "timeout": timeout},
        )
        self._region = region
        self._service = service

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Sign a request.

        Args:
            method: The method.
            url: The URL.
            body: The body.

        Raises:
            CredentialError: There are no keys, or no region is known.
        """
        keys = await self._refresher.get()
        if keys.api_key:
            return {"authorization": f"Bearer {keys.api_key}"}
        if len(body) <= _MOST_BYTES_ON_THE_LOOP:
            return self._sign(keys, method, url, body)
        return await anyio.to_thread.run_sync(
            self._sign, keys, method, url, body, limiter=anyio.CapacityLimiter(1)
        )

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Note that a request was refused; returns whether the next one may be accepted.

        Args:
            headers: The headers of the request.
        """
        authorization = headers.get("authorization", "")
        return self._refresher.refused(lambda keys: keys.sign_of_use in authorization)

    def _sign(self, keys: _Keys, method: str, url: str, body: bytes) -> Mapping[str, str]:
        auth, requests = _import_signer()  # loaded, in a thread, when the keys were fetched
        host = urlsplit(url).netloc
        found = _REGION_IN_HOST.match(host)
        region = self._region or (found["region"] if found else keys.region)
        if not region:
            raise CredentialError(
                f"the credential {self._shown} knows no region; set AWS_REGION, or give it one: "
                "nh.credentials.aws(region=…)"
            )
        service = self._service or (_MANTLE if host.startswith(f"{_MANTLE}.") else _BEDROCK)
        request = requests.AWSRequest(method=method, url=url, data=body, headers={"Host": host})
        auth.SigV4Auth(keys.keys, service, region).add_auth(request)
        return {str(name).lower(): str(value) for name, value in request.headers.items()}


def _import_signer() -> tuple[Any, Any]:
    return import_module("botocore.auth"), import_module("botocore.awsrequest")


class _HidesCredentials(logging.Filter):
    """Removes what botocore logs at level debug of requests and responses that hold credentials."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _LOGGED_CREDENTIALS.search(record.getMessage()):
            record.msg, record.args = "[redacted: it holds credentials]", ()
        return True


_HIDES_CREDENTIALS = _HidesCredentials()


class _Source:
    """Gets the keys. Its method blocks, and imports the library."""

    def __init__(self, shown: str, profile: str | None) -> None:
        self._shown = shown
        self._profile = profile
        self._session: Any = None

    def fetch(self, is_refused: bool) -> Lease[_Keys]:
        """Get the present keys, which botocore refreshes when need be.

        Args:
            is_refused: Whether an endpoint refused the last ones; files are read again then.

        Raises:
            CredentialError: There are none, or they could not be refreshed.
        """
        api_key = os.environ.get(_KEY_VARIABLE, "").strip()
        if api_key and self._profile is None:
            return Lease(value=_Keys(api_key=api_key), secrets=(api_key,))
        _import_signer()
        for name in _LOGGERS:  # a logger takes a filter only once
            logging.getLogger(name).addFilter(_HIDES_CREDENTIALS)
        library: Any = import_module("botocore.session")
        errors: Any = import_module("botocore.exceptions")
        try:
            if self._session is None or is_refused:
                self._session = library.Session(profile=self._profile)
            found: Any = self._session.get_credentials()
            frozen: Any = None if found is None else found.get_frozen_credentials()
        except (errors.BotoCoreError, errors.ClientError) as error:
            is_transient = isinstance(error, errors.HTTPClientError)
            raise credential_error(self._shown, error, is_transient=is_transient) from None
        if frozen is None:
            raise CredentialError(
                f"the credential {self._shown} could not be obtained: botocore finds no keys; set "
                f"{_KEY_VARIABLE}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in with the AWS CLI"
            )
        secrets: tuple[str, ...] = tuple(filter(None, (frozen.secret_key, frozen.token)))
        value = _Keys(keys=frozen, region=self._region())
        expires_within = getattr(found, "refresh_needed", never)  # only temporary keys have it
        return Lease(value=value, secrets=secrets, expires_within=expires_within)

    def _region(self) -> str | None:
        return os.environ.get("AWS_REGION", "").strip() or self._session.get_config_variable("region")
