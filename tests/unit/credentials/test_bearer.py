"""`nh.credentials.bearer`: one refresh at a time, early, for all loops and threads; errors that name it."""

import copy
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.credentials import CredentialError, Token, bearer
from nighthawk_async.errors import ConfigurationError

pytestmark = pytest.mark.anyio

URL = "https://models.example/v1/chat/completions"


async def header_of(credentials: nh.credentials.Credentials) -> str:
    return (await credentials.headers("POST", URL, b"{}"))["authorization"]


class Source:
    """Hands out tokens `t1`, `t2`, …; by a function that blocks, or by an async one."""

    def __init__(self, *, lifetime_seconds: float | None = None, seconds: float = 0.02) -> None:
        self.calls = 0
        self._lifetime_seconds = lifetime_seconds
        self._seconds = seconds
        self.threads: set[int] = set()

    def _next(self) -> Token:
        self.calls += 1
        self.threads.add(threading.get_ident())
        expires_at = None if self._lifetime_seconds is None else time.time() + self._lifetime_seconds
        return Token(f"t{self.calls}", expires_at)

    def blocking(self) -> Token:
        time.sleep(self._seconds)
        return self._next()

    async def awaiting(self) -> Token:
        await anyio.sleep(self._seconds)
        return self._next()

    def function(self, kind: str) -> Callable[[], Any]:
        return self.blocking if kind == "blocking" else self.awaiting


KINDS = pytest.mark.parametrize("kind", ["blocking", "awaiting"])


@KINDS
async def test_many_requests_share_one_call(kind: str) -> None:
    source = Source()
    credentials = bearer(source.function(kind))
    seen: list[str] = []

    async def ask() -> None:
        seen.append(await header_of(credentials))

    async with anyio.create_task_group() as task_group:
        for _ in range(200):
            task_group.start_soon(ask)
    assert seen == ["Bearer t1"] * 200
    assert source.calls == 1


async def test_a_blocking_function_is_called_in_a_thread_and_an_async_one_on_the_loop() -> None:
    blocking, awaiting = Source(), Source()
    await header_of(bearer(blocking.blocking))
    await header_of(bearer(awaiting.awaiting))
    assert threading.get_ident() not in blocking.threads
    assert awaiting.threads == {threading.get_ident()}


def test_one_object_serves_event_loops_of_both_kinds_in_several_threads() -> None:
    source = Source(seconds=0.1)
    for kind in ("blocking", "awaiting"):
        credentials = bearer(source.function(kind))
        calls, seen = source.calls, list[str]()

        async def ask(credentials: nh.credentials.Credentials = credentials, seen: list[str] = seen) -> None:
            async with anyio.create_task_group() as task_group:
                for _ in range(10):
                    task_group.start_soon(collect, credentials, seen)

        def run(backend: str, ask: Callable[[], Any] = ask) -> None:
            anyio.run(ask, backend=backend)

        threads = [threading.Thread(target=run, args=(each,)) for each in ("trio", "asyncio") * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 60
        assert source.calls == calls + 1


async def collect(credentials: nh.credentials.Credentials, seen: list[str]) -> None:
    seen.append(await header_of(credentials))


@KINDS
async def test_a_token_that_expires_is_fetched_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(lifetime_seconds=3_600)
    credentials = bearer(source.function(kind))
    assert await header_of(credentials) == "Bearer t1"
    assert await header_of(credentials) == "Bearer t1"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3_600)
    assert await header_of(credentials) == "Bearer t2"
    assert source.calls == 2


async def test_a_valid_token_is_refreshed_in_the_background_from_five_minutes_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, called = threading.Event(), threading.Event()
    begin.set()

    def fetch() -> Token:
        called.set()
        begin.wait(10)
        return Token("second" if begun else "first", time.time() + 3_600)

    begun = False
    credentials = bearer(fetch)
    assert await header_of(credentials) == "Bearer first"
    begun = True
    begin.clear()
    called.clear()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3_600 - 301)
    assert await header_of(credentials) == "Bearer first"
    assert not called.is_set()
    monkeypatch.setattr(time, "time", lambda: now() + 3_600 - 299)
    for _ in range(3):  # none waits for the thread, which hangs
        assert await header_of(credentials) == "Bearer first"
    assert await anyio.to_thread.run_sync(called.wait, 10)
    begin.set()
    await wait_for_threads(credentials)
    assert await header_of(credentials) == "Bearer second"


async def test_a_failed_early_refresh_is_logged_and_the_valid_token_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokens: list[Any] = [Token("sound-token", time.time() + 3_600)]
    calls = 0

    async def fetch() -> Token:
        nonlocal calls
        calls += 1
        if not tokens:
            raise OSError("refused for sound-token")
        return tokens.pop()

    credentials = bearer(fetch)
    assert await header_of(credentials) == "Bearer sound-token"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3_600 - 200)
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        for _ in range(5):
            assert await header_of(credentials) == "Bearer sound-token"
    assert calls == 2  # not again with every request
    assert "fetch" in caplog.text
    assert "sound-token" not in caplog.text


async def test_a_source_that_keeps_its_token_is_not_asked_with_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0
    end = time.time() + 3_600

    def fetch() -> Token:
        nonlocal calls
        calls += 1
        return Token("kept", end)

    credentials = bearer(fetch)
    await header_of(credentials)
    monkeypatch.setattr(time, "time", lambda: end - 200)
    for _ in range(5):
        assert await header_of(credentials) == "Bearer kept"
        await wait_for_threads(credentials)
    assert calls == 2


@KINDS
async def test_an_error_reaches_all_who_wait_and_the_next_request_tries_anew(kind: str) -> None:
    calls = 0

    def fail() -> Token:
        nonlocal calls
        calls += 1
        if calls > 1:
            return Token("sound")
        raise PermissionError("no access")

    def blocking() -> Token:
        time.sleep(0.1)
        return fail()

    async def awaiting() -> Token:
        await anyio.sleep(0.1)
        return fail()

    credentials = bearer(blocking if kind == "blocking" else awaiting)
    errors: list[CredentialError] = []

    async def ask() -> None:
        with pytest.raises(CredentialError) as raised:
            await header_of(credentials)
        errors.append(raised.value)

    async with anyio.create_task_group() as task_group:
        for _ in range(20):
            task_group.start_soon(ask)
    assert calls == 1
    assert len({id(error) for error in errors}) == 20
    (said,) = {str(error) for error in errors}
    assert said.startswith(f"the credential {credentials!r} could not be obtained: PermissionError, at test_")
    assert kind in repr(credentials)
    assert await header_of(credentials) == "Bearer sound"


@KINDS
async def test_a_function_that_hangs_is_given_up_and_the_next_request_tries_anew(kind: str) -> None:
    release = threading.Event()
    calls = 0

    def blocking() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            release.wait(10)
            return "late"
        return "sound"

    async def awaiting() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return "sound"

    credentials = bearer(blocking if kind == "blocking" else awaiting, timeout=0.2)
    errors: list[str] = []

    async def ask() -> None:
        with pytest.raises(CredentialError) as raised:
            await header_of(credentials)
        assert raised.value.is_transient
        errors.append(str(raised.value))

    try:
        async with anyio.create_task_group() as task_group:
            for _ in range(20):
                task_group.start_soon(ask)
        assert set(errors) == {
            f"the credential {credentials!r} could not be obtained within 0.2 seconds (timeout)"
        }
        assert calls == 1
        assert await header_of(credentials) == "Bearer sound"
    finally:
        release.set()
    await wait_for_threads(credentials)
    assert await header_of(credentials) == "Bearer sound"  # what came too late replaces nothing newer


async def wait_for_threads(credentials: object) -> None:
    """Wait until the threads that refresh a credential have ended."""
    for thread in threading.enumerate():
        if repr(credentials) in thread.name:
            await anyio.to_thread.run_sync(thread.join, 10)


async def test_when_the_request_that_refreshes_is_cancelled_another_one_takes_over() -> None:
    calls = 0

    async def fetch() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return "sound"

    credentials = bearer(fetch)
    seen: list[str] = []
    async with anyio.create_task_group() as waiting, anyio.create_task_group() as first:
        first.start_soon(header_of, credentials)
        await anyio.wait_all_tasks_blocked()
        for _ in range(5):
            waiting.start_soon(collect, credentials, seen)
        await anyio.wait_all_tasks_blocked()
        first.cancel_scope.cancel()
    assert seen == ["Bearer sound"] * 5
    assert calls == 2


async def test_cancelled_requests_do_not_stop_a_blocking_refresh() -> None:
    release = threading.Event()
    calls = 0

    def fetch() -> str:
        nonlocal calls
        calls += 1
        release.wait(10)
        return "sound"

    credentials = bearer(fetch)
    with anyio.move_on_after(0.1) as scope:
        await header_of(credentials)
    assert scope.cancelled_caught
    release.set()
    assert await header_of(credentials) == "Bearer sound"
    assert calls == 1


async def test_refused_tokens_are_fetched_again_once_for_all_requests() -> None:
    source = Source()
    credentials = bearer(source.blocking)
    headers = await credentials.headers("POST", URL, b"")
    assert all(credentials.refused(headers) for _ in range(100))
    assert await header_of(credentials) == "Bearer t2"
    assert credentials.refused(headers)  # a late one, of a request with the first token
    assert await header_of(credentials) == "Bearer t2"
    assert source.calls == 2


async def test_a_refresh_that_was_begun_before_a_refusal_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    calls = 0

    def fetch() -> Token:
        nonlocal calls
        calls += 1
        if calls == 2:
            release.wait(10)
        return Token("new" if calls > 2 else "refused", end)

    now = time.time
    end = now() + 3_600
    credentials = bearer(fetch)
    headers = await credentials.headers("POST", URL, b"")
    monkeypatch.setattr(time, "time", lambda: end - 200)
    assert await header_of(credentials) == "Bearer refused"  # and a thread begins to refresh
    assert credentials.refused(headers)
    assert await header_of(credentials) == "Bearer new"
    release.set()
    await wait_for_threads(credentials)
    assert await header_of(credentials) == "Bearer new"
    assert calls == 3


async def test_an_early_refresh_that_hangs_delays_no_request_once_the_token_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    calls = 0

    def fetch() -> Token:
        nonlocal calls
        calls += 1
        if calls == 2:
            release.wait(10)
        return Token(f"t{calls}", time.time() + 3_600)

    credentials = bearer(fetch, timeout=0.2)
    await header_of(credentials)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3_600 - 200)
    assert await header_of(credentials) == "Bearer t1"
    monkeypatch.setattr(time, "time", lambda: now() + 3_600)
    begun = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: begun() + 1)
    try:
        assert await header_of(credentials) == "Bearer t3"
    finally:
        release.set()
    await wait_for_threads(credentials)
    assert await header_of(credentials) == "Bearer t3"


async def test_an_endpoint_that_refuses_everything_does_not_cause_a_refresh_for_every_request() -> None:
    source = Source()
    credentials = bearer(source.blocking)
    first = await credentials.headers("POST", URL, b"")
    assert credentials.refused(first)
    second = await credentials.headers("POST", URL, b"")
    assert not any(credentials.refused(second) for _ in range(10))
    assert await header_of(credentials) == "Bearer t2"
    assert source.calls == 2


async def test_a_system_without_another_thread_is_an_error_and_the_next_request_tries_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source()
    credentials = bearer(source.blocking)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("nighthawk_async.credentials.refresher.threading.Thread.start", refuse)
        with pytest.raises(CredentialError, match="can't start new thread"):
            await header_of(credentials)
    assert await header_of(credentials) == "Bearer t1"


async def test_header_and_prefix_can_be_chosen() -> None:
    credentials = bearer(lambda: "abc", header="X-Token", prefix="")
    assert await credentials.headers("POST", URL, b"") == {"x-token": "abc"}


async def returns_later() -> str:
    return "token"


@pytest.mark.parametrize(
    ("fetch", "message"),
    [
        pytest.param(lambda: None, "must return a Token or a str, not NoneType", id="none"),
        pytest.param(lambda: b"bytes", "must return a Token or a str, not bytes", id="bytes"),
        pytest.param(lambda: "", "at least one", id="empty"),
        pytest.param(lambda: "two\nlines", "printable ASCII", id="lines"),
        pytest.param(lambda: Token("secret-text", 1.0), "has expired", id="expired"),
        pytest.param(lambda: returns_later(), "make it an async def", id="awaitable"),
    ],
)
async def test_what_is_no_token_is_refused_by_name_and_not_shown(
    fetch: Callable[[], Any], message: str
) -> None:
    credentials = bearer(fetch)
    with pytest.raises(CredentialError, match=message) as raised:
        await header_of(credentials)
    assert repr(credentials) in str(raised.value)
    assert "secret-text" not in str(raised.value)


async def test_secrets_in_the_error_of_a_function_are_not_shown() -> None:
    def fetch() -> str:
        url = "https://login.example/token?client_secret=abcdef&x=1"
        try:
            raise OSError(f"cannot reach {url}")
        except OSError as error:
            raise RuntimeError(f"failed: {url}") from error

    with pytest.raises(CredentialError) as raised:
        await header_of(bearer(fetch))
    assert "abcdef" not in str(raised.value)
    assert "login.example" in str(raised.value)
    assert raised.value.__cause__ is None


class LoginError(Exception):
    """An error of a program, which holds what a login has answered."""

    def __init__(self, answer: dict[str, str]) -> None:
        super().__init__(f"no expiry in {answer}")
        self.answer = answer


def raise_with_text(token: str) -> None:
    raise RuntimeError(f"the gateway refused {token}")


def raise_with_arguments(token: str) -> None:
    raise LoginError({"value": token})


def raise_with_note(token: str) -> None:
    error = ValueError("failed")
    error.add_note(token)
    raise error


def raise_with_cause(token: str) -> None:
    try:
        raise_with_text(token)
    except RuntimeError as error:
        raise OSError("failed") from error


def raise_with_context(token: str) -> None:
    try:
        raise_with_text(token)
    except RuntimeError:
        raise ConnectionError("failed") from None


def raise_group(token: str) -> None:
    raise ExceptionGroup("failed", [KeyError(token), OSError(5, token)])


def raise_with_local_only(token: str) -> None:
    raise TimeoutError


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "fail",
    [
        raise_with_text,
        raise_with_arguments,
        raise_with_note,
        raise_with_cause,
        raise_with_context,
        raise_group,
        raise_with_local_only,
    ],
)
async def test_the_error_of_a_function_carries_no_token(fail: Callable[[str], None], is_async: bool) -> None:
    token = "alice"  # nothing about it looks like a secret

    def fetch() -> str:
        fail(token)
        return token

    async def fetch_async() -> str:
        return fetch()

    with pytest.raises(CredentialError) as raised:
        await header_of(bearer(fetch_async if is_async else fetch))
    error = raised.value
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    assert (error.__cause__, error.__context__) == (None, None)
    assert token not in repr((error, error.args, vars(error)))
    assert "alice" not in "".join(
        line
        for line in shown.format()
        if "test_bearer.py" not in line  # this test holds it itself
    )
    assert "at test_bearer.py:" in str(error)


@pytest.mark.parametrize("is_note", [False, True])
async def test_secrets_in_a_group_of_errors_or_in_a_note_are_not_shown(is_note: bool) -> None:
    def fetch() -> str:
        inner = OSError("cannot reach https://login.example/token?client_secret=abcdef")
        error = ValueError("failed") if is_note else ExceptionGroup("failed", [inner])
        if is_note:
            error.add_note(str(inner))
        raise error

    with pytest.raises(CredentialError) as raised:
        await header_of(bearer(fetch))
    assert "abcdef" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(partial(bearer, "sk-key"), "api_key", id="a text"),
        pytest.param(partial(bearer, lambda: "a", timeout=0), "positive", id="no time"),
        pytest.param(partial(bearer, lambda: "a", timeout=True), "positive", id="a bool"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        make()
    assert "sk-key" not in str(raised.value)


def test_a_token_shows_neither_its_text_nor_takes_a_time_without_a_zone() -> None:
    token = Token("very-secret", datetime.now(UTC) + timedelta(hours=1))
    assert "very-secret" not in repr(token)
    with pytest.raises(ValueError, match="time zone"):
        Token("very-secret", datetime(2030, 1, 1))


def fetch_for_pickles() -> str:
    return "token-of-a-process"


async def test_copies_share_the_token_and_pickles_hold_none() -> None:
    credentials = bearer(fetch_for_pickles)
    await header_of(credentials)
    assert copy.copy(credentials) is credentials
    assert copy.deepcopy({"credentials": credentials})["credentials"] is credentials
    pickled = pickle.dumps(
        nh.StepExecutorConfiguration(model="openai-chat:x", model_settings={"credentials": credentials})
    )
    assert b"token-of-a-process" not in pickled
    again = pickle.loads(pickled).model_settings["credentials"]
    assert again is not credentials
    assert await header_of(again) == "Bearer token-of-a-process"


def test_a_function_that_another_process_cannot_find_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="must be found by its name"):
        pickle.dumps(bearer(lambda: "a"))
