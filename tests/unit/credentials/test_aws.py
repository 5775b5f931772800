"""`nh.credentials.aws`: the signatures of botocore over what is sent, with the keys that it finds."""

import logging
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings, strategies as st

import nighthawk_async as nh
from nighthawk_async.credentials import CredentialError, aws
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest

from .loopback import token_server

pytestmark = pytest.mark.anyio

KEY_ID, SECRET, SESSION = (
    "AKIDEXAMPLE",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "session-token/with+signs==",
)
URL = "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions"


@pytest.fixture(autouse=True)
def keys_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clear_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def clear_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))


def signature_of(
    method: str, url: str, body: bytes, headers: Mapping[str, str], *, service: str, region: str
) -> str:
    """Sign a request that has arrived with botocore, at the time and with the headers that it states."""
    stated = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest(method=method, url=url, data=body, headers={name: headers[name] for name in stated})
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(KEY_ID, SECRET, headers.get("x-amz-security-token")), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return str(signer.signature(text, request))


WORDS = st.text("abcXYZ019-_.~:", min_size=1, max_size=8)
PATHS = st.lists(WORDS, max_size=5).map(lambda words: "/" + "/".join(words))
QUERIES = st.lists(st.tuples(WORDS, WORDS), max_size=3)


@settings(max_examples=50, deadline=None)
@given(
    path=PATHS,
    query=QUERIES,
    body=st.binary(max_size=300),
    host=st.sampled_from(["bedrock-runtime.us-west-2.amazonaws.com", "bedrock-mantle.us-west-2.api.aws"]),
    port=st.sampled_from(["", ":8443"]),
)
def test_signatures_are_those_of_botocore(
    path: str, query: list[tuple[str, str]], body: bytes, host: str, port: str
) -> None:
    pairs = "&".join(f"{quote(name)}={quote(value)}" for name, value in query)
    url = f"https://{host}{port}{path}{'?' if pairs else ''}{pairs}"
    service = "bedrock-mantle" if "mantle" in host else "bedrock"
    moment = datetime(2026, 11, 26, 10, 0, 0, tzinfo=UTC)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(botocore.auth, "get_current_datetime", lambda *arguments, **options: moment)
        ours = anyio.run(aws().headers, "POST", url, body)
        request = AWSRequest(method="POST", url=url, data=body)
        SigV4Auth(Credentials(KEY_ID, SECRET), service, "us-west-2").add_auth(request)
    assert ours["authorization"] == request.headers["Authorization"]
    assert ours["x-amz-date"] == request.headers["X-Amz-Date"]
    assert ours["host"] == urlsplit(url).netloc


@nh.natural_function
async def count(word: str) -> int:
    """natural
    Set <:letters> to the number of letters of <word>.
    """
    letters: int
    return letters


ANSWER = ModelReply(text='{"result": {"kind": "pass", "bindings": {"letters": 4}}}')


@pytest.mark.parametrize("session", ["", SESSION], ids=["long-lived", "temporary"])
@pytest.mark.parametrize("query", ["", "?tenant=a%2Fb&x=1"], ids=["no query", "query"])
@pytest.mark.parametrize(
    "model", ["openai-chat:openai.gpt-oss-120b-1:0", "google:any/model:0 with signs", "anthropic:claude"]
)
async def test_what_is_signed_is_what_is_sent(
    model: str, query: str, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if session:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    async with ModelServer([ANSWER]) as server:
        configuration = nh.StepExecutorConfiguration(
            model=model,
            model_settings={
                "base_url": server.base_url + query,
                "credentials": aws(region="eu-central-1"),
                "extra_headers": {"X-Own": "yes"},
                "capabilities": {"structured_output": True},
            },
            outcome_transport="direct",
        )
        async with nh.run(configuration):
            assert await count("four") == 4
        (request,) = server.requests
    assert_is_signed(request, session)


def assert_is_signed(request: RecordedRequest, session: str) -> None:
    headers = {name.lower(): value for name, value in request.headers.items()}
    url = f"http://{headers['host']}{request.path}"
    expected = signature_of(
        request.method, url, request.content, headers, service="bedrock", region="eu-central-1"
    )
    assert headers["authorization"].endswith(f"Signature={expected}")
    assert headers.get("x-amz-security-token", "") == session
    assert headers["x-own"] == "yes"
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert "host" in signed
    assert "x-own" not in signed


async def test_a_long_body_is_signed_in_a_thread_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"x" * 300_000
    headers = await aws().headers("POST", URL, body)
    expected = signature_of("POST", URL, body, headers, service="bedrock", region="eu-west-1")
    assert headers["authorization"].endswith(expected)


async def test_a_bedrock_api_key_is_sent_as_it_is_unless_a_profile_is_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    credentials = aws()
    assert await credentials.headers("POST", URL, b"") == {"authorization": "Bearer bedrock-key"}
    assert "bedrock-key" in credentials.known_secrets()
    (tmp_path / "credentials").write_text(
        f"[other]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    )
    headers = await aws(profile="other").headers("POST", URL, b"")
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")


async def test_keys_come_from_a_metadata_server_and_are_kept_until_they_are_due(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clear_environment(monkeypatch, tmp_path)
    expiry = datetime.now(UTC) + timedelta(hours=6)

    def answer(number: int) -> tuple[int, Any]:
        return 200, {
            "AccessKeyId": f"ASIA{number}",
            "SecretAccessKey": SECRET,
            "Token": SESSION,
            "Expiration": expiry.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    with token_server(answer) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/keys")
        credentials = aws()
        seen: list[str] = []

        async def ask() -> None:
            seen.append((await credentials.headers("POST", URL, b""))["authorization"])

        async with anyio.create_task_group() as task_group:
            for _ in range(50):
                task_group.start_soon(ask)
        assert all("Credential=ASIA1/" in each for each in seen)
        assert len(server.requests) == 1
        headers = await credentials.headers("POST", URL, b"")
        assert credentials.refused(headers)
        assert "Credential=ASIA2/" in (await credentials.headers("POST", URL, b""))["authorization"]
        assert len(server.requests) == 2
        assert {SECRET, SESSION} <= set(credentials.known_secrets())


async def test_without_keys_the_error_says_where_to_put_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clear_environment(monkeypatch, tmp_path)
    with pytest.raises(CredentialError, match=r"nh\.credentials\.aws\(\) .*AWS_BEARER_TOKEN_BEDROCK"):
        await aws().headers("POST", URL, b"")
    with pytest.raises(CredentialError, match=r"ProfileNotFound.*\(missing\)"):
        await aws(profile="missing").headers("POST", URL, b"")


async def test_the_region_is_that_of_the_host_or_the_environment_or_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = "https://gateway.example/v1/chat/completions"
    with pytest.raises(CredentialError, match="knows no region; set AWS_REGION"):
        await aws().headers("POST", gateway, b"")
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert "/ap-south-1/bedrock/" in (await aws().headers("POST", gateway, b""))["authorization"]
    assert "/eu-west-1/bedrock/" in (await aws().headers("POST", URL, b""))["authorization"]
    chosen = aws(region="us-east-2", service="execute-api")
    assert "/us-east-2/execute-api/" in (await chosen.headers("POST", URL, b""))["authorization"]


async def test_the_library_logs_no_credential(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    caplog.set_level(1)
    await aws().headers("POST", URL, b"")
    assert "StringToSign" in caplog.text
    assert "[redacted: it holds credentials]" in caplog.text
    assert SESSION not in caplog.text
    assert SECRET not in caplog.text


async def test_the_library_logs_no_request_that_holds_a_token(caplog: pytest.LogCaptureFixture) -> None:
    await aws().headers("POST", URL, b"")
    caplog.set_level(1)
    logger = logging.getLogger("botocore.endpoint")  # of AWS IAM Identity Center, and of a web identity
    for name in ("x-amz-sso_bearer_token", "WebIdentityToken", "refreshToken", "clientSecret"):
        logger.debug("Making request for %s with params: %s", "model", {"headers": {name: SECRET}})
    assert caplog.text.count("[redacted: it holds credentials]") == 4
    assert SECRET not in caplog.text


async def test_neither_the_repr_nor_a_pickle_holds_a_key() -> None:
    credentials = aws(region="eu-west-1")
    await credentials.headers("POST", URL, b"")
    assert repr(credentials) == "nh.credentials.aws(region='eu-west-1')"
    pickled = pickle.dumps(credentials)
    assert SECRET.encode() not in pickled
    assert KEY_ID.encode() not in pickled
    assert repr(pickle.loads(pickled)) == repr(credentials)
