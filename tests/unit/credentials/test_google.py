"""`nh.credentials.google`: google-auth with a service account whose token endpoint is on the loopback."""

import json
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nighthawk_async.credentials import CredentialError, google
from nighthawk_async.errors import ConfigurationError

from .loopback import token_server

pytestmark = pytest.mark.anyio

URL = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/x:generate"


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def write_account(path: Path, private_key: str, token_uri: str, **fields: str) -> None:
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "p",
                "private_key_id": "1",
                "private_key": private_key,
                "client_email": "robot@p.iam.gserviceaccount.com",
                "token_uri": token_uri,
                **fields,
            }
        )
    )


def answer(number: int) -> tuple[int, Any]:
    return 200, {"access_token": f"ya29.token-{number}", "expires_in": 3600, "token_type": "Bearer"}


async def test_tokens_come_from_the_endpoint_of_the_service_account(
    private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    file = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with token_server(answer) as server:
        write_account(file, private_key, f"{server.url}/token")
        credentials = google()
        seen: list[str] = []

        async def ask() -> None:
            seen.append((await credentials.headers("POST", URL, b""))["authorization"])

        async with anyio.create_task_group() as task_group:
            for _ in range(50):
                task_group.start_soon(ask)
        assert seen == ["Bearer ya29.token-1"] * 50
        ((method, path, _, body),) = server.requests
        assert (method, path) == ("POST", "/token")
        assert parse_qs(body.decode())["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]

        assert credentials.refused({"authorization": "Bearer ya29.token-1"})
        assert await credentials.headers("POST", URL, b"") == {"authorization": "Bearer ya29.token-2"}
        assert credentials.known_secrets() == ("ya29.token-1", "ya29.token-2")
        pickled = pickle.dumps(credentials)
    assert "ya29" not in caplog.text
    assert b"ya29" not in pickled
    assert b"PRIVATE KEY" not in pickled
    assert repr(pickle.loads(pickled)) == "nh.credentials.google()"


async def test_credentials_of_the_library_can_be_given_and_are_not_pickled(private_key: str) -> None:
    from google.oauth2 import service_account

    with token_server(answer) as server:
        given = service_account.Credentials.from_service_account_info(
            {
                "private_key": private_key,
                "client_email": "robot@p.iam.gserviceaccount.com",
                "token_uri": f"{server.url}/token",
            }
        )
        credentials = google(given)
        assert await credentials.headers("POST", URL, b"") == {"authorization": "Bearer ya29.token-1"}
    assert repr(credentials) == "nh.credentials.google(Credentials)"
    with pytest.raises(TypeError, match="may hold a secret"):
        pickle.dumps(credentials)


async def test_a_refused_account_is_an_error_that_names_the_credential_and_no_secret(
    private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with token_server(lambda number: (401, {"error": "invalid_grant"})) as server:
        write_account(file, private_key, f"{server.url}/token")
        with pytest.raises(CredentialError, match=r"nh\.credentials\.google\(\).*invalid_grant") as raised:
            await google().headers("POST", URL, b"")
    assert not raised.value.is_transient
    assert private_key[60:100] not in str(raised.value)


async def test_a_token_endpoint_that_cannot_be_reached_may_be_asked_again(
    private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    write_account(file, private_key, "http://127.0.0.1:1/token")
    with pytest.raises(CredentialError, match="TransportError") as raised:
        await google(timeout=20).headers("POST", URL, b"")
    assert raised.value.is_transient


async def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    with pytest.raises(CredentialError, match=r"nowhere\.json"):
        await google().headers("POST", URL, b"")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="sequence of texts"):
        google(scopes="https://www.googleapis.com/auth/cloud-platform")
    with pytest.raises(ConfigurationError, match="object of google-auth"):
        google("key.json")


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nighthawk_async.credentials.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'nighthawk-async\[google\]'"):
        google()
