"""Requests with tokens that expire: refreshed once for all, sent again once, and shown nowhere."""

import logging
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.credentials import CredentialError, Token, bearer
from nighthawk_async.errors import ConfigurationError, ModelStatusError, RequestTimeoutError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette
from tests.tracing import trace_with

pytestmark = pytest.mark.anyio

ANSWER = ModelReply(text='{"result": {"kind": "pass", "bindings": {"letters": 4}}}')


@nh.natural_function
async def count(word: str) -> int:
    """natural
    Set <:letters> to the number of letters of <word>.
    """
    letters: int
    return letters


@nh.natural_function
def count_now(word: str) -> int:
    """natural
    Set <:letters> to the number of letters of <word>.
    """
    letters: int
    return letters


class Gate:
    """The model server's check of tokens, and the source of tokens: each new one ends the former.

    Args:
        expires_at_request: The request with whose arrival the present token ends, without notice.
        lifetime_seconds: The lifetime that the source states; None for none.
    """

    def __init__(
        self, *, expires_at_request: int | None = None, lifetime_seconds: float | None = None
    ) -> None:
        self._expires_at_request = expires_at_request
        self._lifetime_seconds = lifetime_seconds
        self.fetches = 0
        self.requests = 0
        self.refusals = 0
        self._valid = ""

    def token(self) -> Token:
        self.fetches += 1
        self._valid = f"expiring-secret-{self.fetches}"
        end = None if self._lifetime_seconds is None else time.time() + self._lifetime_seconds
        return Token(self._valid, end)

    def blocking(self) -> Token:
        time.sleep(0.05)
        return self.token()

    async def awaiting(self) -> Token:
        await anyio.sleep(0.05)
        return self.token()

    def answer(self, request: RecordedRequest) -> ModelReply:
        self.requests += 1
        if self.requests == self._expires_at_request:
            self._valid = ""
        sent = request.headers.get("authorization", "")
        if not self._valid or sent != f"Bearer {self._valid}":
            self.refusals += 1
            return ModelReply(status=401, text=f"the token {sent} has expired")
        return ANSWER


def configuration(server: ModelServer, credentials: object, **settings: Any) -> nh.StepExecutorConfiguration:
    return nh.StepExecutorConfiguration(
        model="openai-chat:tested",
        model_settings={
            "base_url": server.base_url,
            "credentials": credentials,
            "capabilities": {"structured_output": True},
            **settings,
        },
        outcome_transport="direct",
    )


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_a_token_that_ends_amid_parallel_steps_costs_one_more_refresh_and_no_step(
    kind: str, all_cases: bool
) -> None:
    count_of_steps = 500 if all_cases else 100
    gate = Gate(expires_at_request=count_of_steps // 2)
    results: list[int] = []

    async def step() -> None:
        results.append(await count("four"))

    async with ModelServer(gate.answer) as server:
        credentials = bearer(gate.blocking if kind == "blocking" else gate.awaiting)
        async with nh.run(configuration(server, credentials)), anyio.create_task_group() as task_group:
            for _ in range(count_of_steps):
                task_group.start_soon(step)
    assert results == [4] * count_of_steps
    assert gate.fetches == 2
    assert gate.refusals >= 1
    assert gate.requests == count_of_steps + gate.refusals


async def test_a_token_that_says_when_it_ends_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(lifetime_seconds=3_600)
    async with ModelServer(gate.answer) as server, nh.run(configuration(server, bearer(gate.awaiting))):
        assert await count("four") == 4
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 3_595)
        assert await count("four") == 4
    assert (gate.fetches, gate.refusals) == (2, 0)


async def test_one_object_serves_two_runs_and_synchronous_functions_in_threads() -> None:
    gate = Gate()
    async with ModelServer(gate.answer) as server:
        chosen = configuration(server, bearer(gate.blocking))
        async with nh.run(chosen):
            assert await count("four") == 4
        async with nh.run(chosen):
            results = list[int]()

            async def in_thread() -> None:
                results.append(await anyio.to_thread.run_sync(count_now, "four"))

            async with anyio.create_task_group() as task_group:
                for _ in range(10):
                    task_group.start_soon(in_thread)
    assert results == [4] * 10
    assert gate.fetches == 1


def test_one_object_serves_scripts_on_both_event_loops() -> None:
    gate = Gate()
    credentials = bearer(gate.awaiting)
    with ModelServer.in_thread(gate.answer) as server:

        async def main() -> None:
            async with nh.run(configuration(server, credentials)):
                assert await count("four") == 4

        for backend in ("trio", "asyncio", "trio"):
            anyio.run(main, backend=backend)
    assert gate.fetches == 1


class Signer:
    """Credentials of a program's own."""

    def __init__(self, headers: Callable[[str, str, bytes], Any]) -> None:
        self._headers = headers
        self.calls: list[tuple[str, str, bytes]] = []

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        self.calls.append((method, url, body))
        result: Mapping[str, str] = self._headers(method, url, body)
        return result


async def test_every_attempt_is_signed_anew_over_what_it_sends() -> None:
    signer = Signer(lambda method, url, body: {"x-signature": f"{len(signer.calls)}-{len(body)}"})
    replies = [ModelReply(status=503, headers={"retry-after-ms": "1"}), ANSWER]
    async with ModelServer(replies) as server:
        async with nh.run(configuration(server, signer)):
            assert await count("four") == 4
        first, second = server.requests
    assert [each.headers["x-signature"] for each in (first, second)] == [
        f"1-{len(first.content)}",
        f"2-{len(second.content)}",
    ]
    assert signer.calls == [
        ("POST", f"http://{each.headers['host']}{each.path}", each.content) for each in (first, second)
    ]


async def test_credentials_replace_a_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    signer = Signer(lambda method, url, body: {"x-signature": "s"})
    async with ModelServer([ANSWER]) as server:
        async with nh.run(configuration(server, signer)):
            await count("four")
        assert "authorization" not in server.requests[0].headers


async def test_a_second_refusal_is_the_error_of_the_step() -> None:
    gate = Gate()
    gate.answer = lambda request: ModelReply(status=401, text="never")  # type: ignore[method-assign]
    async with ModelServer(gate.answer) as server:
        async with nh.run(configuration(server, bearer(gate.blocking))):
            with pytest.raises(ModelStatusError, match="HTTP 401") as raised:
                await count("four")
        assert len(server.requests) == 2
    assert raised.value.status == 401
    assert raised.value.retries == 1
    assert gate.fetches == 2


@pytest.mark.parametrize(
    ("text", "attempts"),
    [("The security token has expired", 2), ("not allowed", 1)],
    ids=["expired", "other"],
)
async def test_a_403_counts_as_a_refusal_when_it_says_that_something_has_expired(
    text: str, attempts: int
) -> None:
    replies = [ModelReply(status=403, text=text), ANSWER]
    gate = Gate()
    async with ModelServer(replies) as server:
        async with nh.run(configuration(server, bearer(gate.blocking))):
            if attempts == 1:
                with pytest.raises(ModelStatusError, match="HTTP 403"):
                    await count("four")
            else:
                assert await count("four") == 4
        assert len(server.requests) == gate.fetches == attempts


async def test_without_retries_a_refusal_is_the_error_and_the_next_step_has_a_new_token() -> None:
    gate = Gate(expires_at_request=2)
    async with (
        ModelServer(gate.answer) as server,
        nh.run(configuration(server, bearer(gate.blocking), max_retries=0)),
    ):
        assert await count("four") == 4
        with pytest.raises(ModelStatusError, match="HTTP 401"):
            await count("four")
        assert await count("four") == 4
    assert gate.fetches == 2


async def test_a_credential_that_fails_for_a_moment_is_asked_again_as_the_settings_allow() -> None:
    calls = 0

    def fetch() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError("no route")
        return "expiring-secret"

    async with ModelServer([ANSWER]) as server:
        async with nh.run(configuration(server, bearer(fetch))):
            assert await count("four") == 4
        assert len(server.requests) == 1
    assert calls == 2


async def test_a_credential_that_fails_is_an_error_that_names_it_and_nothing_is_sent() -> None:
    def fetch() -> str:
        raise PermissionError("no access")

    async with ModelServer([]) as server:
        async with nh.run(configuration(server, bearer(fetch))):
            with pytest.raises(
                CredentialError,
                match=r"openai-chat:tested: .*bearer\(.*fetch\).*PermissionError, at test_exp",
            ):
                await count("four")
        assert server.requests == []


async def test_the_time_of_a_request_covers_its_credential() -> None:
    async def fetch() -> str:
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        ModelServer([]) as server,
        nh.run(configuration(server, bearer(fetch), timeout=0.2)),
    ):
        with pytest.raises(RequestTimeoutError, match=r"still waiting for the credential after 0\.2 seconds"):
            await count("four")


async def test_a_step_that_is_cancelled_while_its_credential_is_fetched_leaves_nothing() -> None:
    calls = 0

    async def fetch() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return "expiring-secret"

    async with ModelServer([ANSWER]) as server, nh.run(configuration(server, bearer(fetch))):
        with anyio.move_on_after(0.2) as scope:
            await count("four")
        assert scope.cancelled_caught
        assert server.requests == []
        assert await count("four") == 4


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        pytest.param(
            "text", ConfigurationError, "Signer must return a mapping of headers, not str", id="text"
        ),
        pytest.param({"x": 1}, ConfigurationError, "Signer must be texts", id="number"),
        pytest.param(
            {"bad name": "secret-value"}, ConfigurationError, "no name of an HTTP header", id="name"
        ),
        pytest.param({"x-a": "secret\nvalue"}, ConfigurationError, "'x-a' holds characters", id="line"),
        pytest.param({"Content-Length": "1"}, ConfigurationError, "belongs to the HTTP layer", id="length"),
        pytest.param(ZeroDivisionError("x"), CredentialError, "Signer could not .*ZeroDivision", id="error"),
    ],
)
async def test_bad_headers_of_a_signer_are_an_error_that_names_it(
    result: Any, error: type[Exception], message: str
) -> None:
    def give(method: str, url: str, body: bytes) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async with ModelServer([]) as server:
        async with nh.run(configuration(server, Signer(give))):
            with pytest.raises(error, match=message) as raised:
                await count("four")
        assert server.requests == []
    assert "secret-value" not in str(raised.value)
    assert "secret\n" not in str(raised.value)


@pytest.mark.parametrize(
    "value", [bearer, Signer, "token", {"headers": 1}], ids=["function", "class", "text", "mapping"]
)
def test_what_are_no_credentials_is_refused_before_anything_is_sent(value: object) -> None:
    settings = {"base_url": "http://127.0.0.1:1/v1", "credentials": value}
    with pytest.raises(ConfigurationError, match=r"'credentials': .*nh\.credentials\.google\(\)"):
        nh.AgentStepExecutor.from_configuration(
            nh.StepExecutorConfiguration(model="openai-chat:x", model_settings=settings)
        )


def test_a_key_and_credentials_are_refused_together() -> None:
    settings = {"api_key": "k", "credentials": bearer(lambda: "t")}
    with pytest.raises(ConfigurationError, match="both of the model settings api_key and credentials"):
        nh.AgentStepExecutor.from_configuration(
            nh.StepExecutorConfiguration(model="openai-chat:x", model_settings=settings)
        )


def contents_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


async def test_tokens_are_in_no_log_recording_journal_span_or_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTHAWK_LOG_BODIES", "1")
    caplog.set_level(logging.DEBUG)
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    gate = Gate(expires_at_request=2)
    replies = iter([ModelReply(status=400, text="expiring-secret-2 and expiring-secret-1"), ANSWER])

    def answer(request: RecordedRequest) -> ModelReply:
        reply = gate.answer(request)
        if reply.status == 401 or gate.requests == 1:
            return reply
        return next(replies)

    trace_with(monkeypatch, provider)
    with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        async with ModelServer(answer) as server:
            chosen = configuration(server, bearer(gate.blocking))
            async with (
                cassette(tmp_path / "tape.yaml", keep_on_error=True),
                nh.run(chosen, journal=journal, run_id="one") as run,
            ):
                await count("four")
                with pytest.raises(ModelStatusError) as raised:
                    await count("five")
                await count("six")
    shown = [repr(chosen), chosen.model_dump_json(), repr(run), str(raised.value), repr(raised.value)]
    assert gate.fetches == 2
    assert "[redacted]" in str(raised.value)
    assert len(spans.get_finished_spans()) > 3
    shown += [caplog.text, *(span.to_json() for span in spans.get_finished_spans())]
    contents = [text.encode() for text in shown]
    files = contents_of(tmp_path)
    assert len(files) >= 2
    contents += [*files, pickle.dumps(raised.value)]
    assert [each for each in contents if b"expiring-secret" in each] == []


class Login:
    """The program's own function, whose errors quote the token: nothing about it looks like a secret."""

    TOKEN = "larkspur"

    def __init__(self) -> None:
        self.fails = False

    def blocking(self) -> str:
        if self.fails:
            try:
                raise RuntimeError(f"the gateway refused {self.TOKEN}")
            except RuntimeError as error:
                error.add_note(self.TOKEN)
                raise OSError(5, f"no expiry in {self.TOKEN}") from error
        return self.TOKEN

    async def awaiting(self) -> str:
        return self.blocking()

    def __call__(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        return {"authorization": self.blocking()}


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "signer"])
async def test_the_error_of_a_function_carries_its_token_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("NIGHTHAWK_LOG_BODIES", "1")
    caplog.set_level(logging.DEBUG)
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace_with(monkeypatch, provider)
    login = Login()
    credentials = Signer(login) if kind == "signer" else bearer(getattr(login, kind))
    login.fails, tree = True, nh.observe.TaskTree()
    with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store, tree.recording():
        async with (
            ModelServer([]) as server,
            nh.run(configuration(server, credentials), journal=store, run_id="one"),
        ):
            with pytest.raises(CredentialError) as raised:
                await count("four")
        kept = store.tree("one").snapshot()
    trees = [str(nh.observe.view_as_json(each)) for each in (tree.snapshot(), kept)]
    shown = [*trees, caplog.text]
    shown += ["".join(traceback.format_exception(raised.value)), repr(vars(raised.value))]
    shown += [span.to_json() for span in spans.get_finished_spans()]
    contents = [text.encode() for text in shown]
    contents += [*contents_of(tmp_path), pickle.dumps(raised.value)]
    assert len(spans.get_finished_spans()) > 1
    for each in trees:
        assert "could not be obtained: OSError, at test_expiring_tokens.py:" in each
    assert [each for each in contents if login.TOKEN.encode() in each] == []


async def test_a_token_that_a_model_repeats_is_redacted_in_a_cassette(tmp_path: Path) -> None:
    gate = Gate()

    def answer(request: RecordedRequest) -> ModelReply:
        gate.answer(request)
        return ModelReply(text='{"result": {"kind": "pass", "bindings": {"letters": "expiring-secret-1"}}}')

    @nh.natural_function
    async def name(word: str) -> str:
        """natural
        Set <:letters> to the letters of <word>.
        """
        letters: str
        return letters

    async with (
        ModelServer(answer) as server,
        cassette(tmp_path / "tape.yaml"),
        nh.run(configuration(server, bearer(gate.blocking))),
    ):
        assert await name("four") == "expiring-secret-1"
    assert "expiring-secret" not in (tmp_path / "tape.yaml").read_text()
    assert "[redacted]" in (tmp_path / "tape.yaml").read_text()
