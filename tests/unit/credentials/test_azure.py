"""`nh.credentials.azure`: azure-identity with a managed identity whose endpoint is on the loopback."""

import pickle
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from nighthawk_async.credentials import CredentialError, azure
from nighthawk_async.errors import ConfigurationError

from .loopback import token_server

pytestmark = pytest.mark.anyio

URL = "https://mine.openai.azure.com/openai/v1/responses"


@pytest.fixture(autouse=True)
def managed_identity_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
        "IDENTITY_ENDPOINT",
        "MSI_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")


def answer(number: int) -> tuple[int, Any]:
    return 200, {
        "access_token": f"entra-token-{number}",
        "expires_on": str(int(time.time()) + 86_400),
        "resource": "https://cognitiveservices.azure.com",
        "token_type": "Bearer",
    }


async def test_tokens_come_from_the_endpoint_of_the_managed_identity(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    with token_server(answer) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "identity-secret")
        credentials = azure()
        seen: list[str] = []

        async def ask() -> None:
            seen.append((await credentials.headers("POST", URL, b""))["authorization"])

        async with anyio.create_task_group() as task_group:
            for _ in range(50):
                task_group.start_soon(ask)
        assert seen == ["Bearer entra-token-1"] * 50
        (request,) = server.requests
        assert parse_qs(urlsplit(request[1]).query)["resource"] == ["https://cognitiveservices.azure.com"]
        assert {name.lower(): each for name, each in request[2].items()}[
            "x-identity-header"
        ] == "identity-secret"

        # The library itself would return its token again.
        assert credentials.refused({"authorization": "Bearer entra-token-1"})
        assert await credentials.headers("POST", URL, b"") == {"authorization": "Bearer entra-token-2"}
    pickled = pickle.dumps(credentials)
    assert "entra-token" not in caplog.text
    assert "identity-secret" not in caplog.text
    assert b"entra-token" not in pickled
    assert repr(pickle.loads(pickled)) == "nh.credentials.azure()"


class Static:
    """A credential as those of azure-identity: it returns a token, or raises."""

    def __init__(self, result: Callable[[], AccessToken]) -> None:
        self._result = result
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.scopes += scopes
        return self._result()


async def test_a_credential_can_be_given_with_a_scope() -> None:
    given = Static(lambda: AccessToken("given-token", int(time.time()) + 3_600))
    credentials = azure(given, scope="https://ai.azure.com/.default")
    assert await credentials.headers("POST", URL, b"") == {"authorization": "Bearer given-token"}
    assert given.scopes == ["https://ai.azure.com/.default"]
    with pytest.raises(TypeError, match="may hold a secret"):
        pickle.dumps(credentials)


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        pytest.param(ClientAuthenticationError("AADSTS700016: not found"), False, id="refused"),
        pytest.param(ServiceRequestError("no route"), True, id="network"),
    ],
)
async def test_an_error_names_the_credential_and_says_whether_another_attempt_may_help(
    error: Exception, is_transient: bool
) -> None:
    def fail() -> AccessToken:
        raise error

    with pytest.raises(CredentialError, match=r"nh\.credentials\.azure\(Static\)") as raised:
        await azure(Static(fail)).headers("POST", URL, b"")
    assert raised.value.is_transient is is_transient
    assert str(error) in str(raised.value)


class Asynchronous:
    async def get_token(self, *scopes: str) -> AccessToken:
        return AccessToken("a", 1)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"azure\.identity\.aio"):
        azure(Asynchronous())
    with pytest.raises(ConfigurationError, match="credential of azure-identity"):
        azure("secret-key")
