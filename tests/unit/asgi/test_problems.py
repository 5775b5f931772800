"""What a client is told of an error: the status, and nothing that the service keeps to itself."""

import json
import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware, Problem, find_problem
from nighthawk_async.kernel.commit import InterceptionError
from nighthawk_async.parallel import TaskCancelledError
from nighthawk_async.resilience import CircuitOpenError
from tests.unit.asgi.applications import Steps, answer
from tests.unit.asgi.asgi_client import get, http_scope, open_connection

pytestmark = pytest.mark.anyio

SECRET = "prompt of Ada, sk-secret, /srv/app/keys.py"


def over_budget(resource: str) -> nh.BudgetExceededError:
    return nh.BudgetExceededError(budget=SECRET, resource=resource, limit=1, spent=1, reserved=0, asked=1)


def caused_by(cause: Exception) -> nh.ExecutionError:
    error = nh.ExecutionError(SECRET)
    error.__cause__ = cause
    return error


def of_status(status: int, *, is_transient: bool, after: float | None = None) -> nh.errors.ModelStatusError:
    return nh.errors.ModelStatusError(
        SECRET, status=status, is_transient=is_transient, retry_after_seconds=after
    )


@pytest.mark.parametrize(
    ("error", "status", "name", "retry_after"),
    [
        (over_budget("tokens"), 429, "budget-exceeded", None),
        (over_budget("seconds"), 504, "timeout", None),
        (nh.parallel.DeadlineExceededError(1.0, SECRET), 504, "timeout", None),
        (nh.errors.FirstEventTimeoutError(SECRET, is_transient=True), 504, "model-timeout", None),
        (of_status(429, is_transient=True, after=12.2), 503, "model-unavailable", "13"),
        (of_status(529, is_transient=True), 503, "model-unavailable", None),
        (of_status(401, is_transient=False), 502, "model-error", None),
        (nh.errors.ModelConnectionError(SECRET, is_transient=True), 503, "model-unavailable", None),
        (nh.errors.ModelProtocolError(SECRET), 502, "model-error", None),
        (CircuitOpenError(SECRET, retry_in=12.2), 503, "unavailable", "13"),
        (CircuitOpenError(SECRET, retry_in=None), 503, "unavailable", None),
        (caused_by(CircuitOpenError(SECRET, retry_in=1.0)), 503, "unavailable", "1"),
        (of_status(429, is_transient=True, after=math.nan), 503, "model-unavailable", None),
        (of_status(429, is_transient=True, after=math.inf), 503, "model-unavailable", "86400"),
        (of_status(429, is_transient=True, after=-5), 503, "model-unavailable", "1"),
        (nh.errors.AnswerTimeoutError(SECRET), 504, "no-answer", None),
        (nh.errors.ApprovalExpiredError(SECRET), 504, "no-answer", None),
        (nh.errors.ApprovalDeniedError(SECRET), 403, "refused", None),
        (nh.errors.StepRejectedError(SECRET), 403, "refused", None),
        (nh.errors.StepAbortedError(SECRET), 403, "refused", None),
        (nh.errors.NoHumanError(SECRET), 500, "misconfigured", None),
        (nh.errors.MissingCredentialError(SECRET), 500, "misconfigured", None),
        (nh.errors.StepLimitError(SECRET), 500, "step-limit", None),
        (nh.ExecutionError(SECRET), 500, "step-failed", None),
        (caused_by(ValueError(SECRET)), 500, "step-failed", None),
        (caused_by(of_status(503, is_transient=True, after=0.1)), 503, "model-unavailable", "1"),
        (caused_by(caused_by(over_budget("cost"))), 429, "budget-exceeded", None),
        (InterceptionError(SECRET), 500, "internal-error", None),
        (
            ExceptionGroup(SECRET, [nh.errors.ApprovalDeniedError(SECRET), nh.ModelError(SECRET)]),
            502,
            None,
            None,
        ),
    ],
)
async def test_an_error_of_the_library_becomes_a_problem(
    error: Exception, status: int, name: str | None, retry_after: str | None
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    answered = await get(middleware, headers={"x-request-id": "seventh"})
    told = json.loads(answered.body)
    assert (answered.status, told["status"], answered.error) == (status, status, None)
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.headers["content-length"] == str(len(answered.body))
    assert answered.headers.get("retry-after") == retry_after
    assert told["request_id"] == answered.headers["x-request-id"] == "seventh"
    assert told["instance"].endswith(":seventh")
    assert name is None or told["type"].endswith(f":{name}")
    assert set(told) == {"type", "title", "status", "detail", "instance", "request_id"}
    assert not any(word in str(answered.sent) for word in ("Ada", "sk-secret", "/srv"))


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        ExceptionGroup("both", [nh.ModelError(SECRET), ValueError(SECRET)]),
        TimeoutError(),
    ],
)
async def test_other_errors_go_to_the_server(error: Exception) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert (answered.error, answered.sent) == (error, [])
    assert find_problem(error) is None


async def test_a_cause_that_leads_back_to_itself_is_followed_once() -> None:
    error = nh.ExecutionError(SECRET)
    error.__cause__ = error
    problem = find_problem(error)
    assert problem is not None
    assert problem.status == 500


async def test_an_error_behind_the_first_byte_ends_the_connection() -> None:
    error = nh.ModelError(SECRET)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise error

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert (answered.error, answered.body, answered.is_complete) == (error, b"first", False)


def page(content_type: bytes, *, parts: int = 1) -> Callable[[Any], Any]:
    """An error page, as frameworks send it before they let the error out."""

    async def send_page(send: Any) -> None:
        headers = [(b"content-type", content_type)]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        for part in range(parts):
            body = {"type": "http.response.body", "body": SECRET.encode(), "more_body": part + 1 < parts}
            await send(body)

    return send_page


@pytest.mark.parametrize("content_type", [b"text/plain; charset=utf-8", b"Text/HTML"])
async def test_a_problem_takes_the_place_of_the_error_page_of_a_framework(content_type: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await page(content_type)(send)
        raise of_status(429, is_transient=True, after=7)

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert (answered.status, answered.headers["retry-after"], answered.error) == (503, "7", None)
    assert SECRET not in str(answered.sent)


@pytest.mark.parametrize("error", [None, ValueError("theirs")])
async def test_an_error_page_without_an_error_of_the_library_is_sent(error: Exception | None) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await page(b"text/plain")(send)
        if error is not None:
            raise error

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert (answered.status, answered.body, answered.error) == (500, SECRET.encode(), error)
    assert "x-request-id" in answered.headers


@pytest.mark.parametrize(("content_type", "parts"), [(b"application/json", 1), (b"text/plain", 2)])
async def test_an_answer_that_an_application_has_made_itself_stays(content_type: bytes, parts: int) -> None:
    error = nh.ModelError(SECRET)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await page(content_type, parts=parts)(send)
        raise error

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert (answered.status, answered.body, answered.error) == (500, SECRET.encode() * parts, error)


@pytest.mark.parametrize("leaves", [True, False])
async def test_an_error_page_is_sent_though_its_application_goes_on(leaves: bool) -> None:
    """A background task, for example, which goes on behind any other response too."""
    stop = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await page(b"text/plain")(send)
        await stop.wait()
        finished.append(scope["path"])

    finished: list[str] = []
    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with open_connection(middleware, http_scope("/a")) as connection:
        if leaves:
            connection.disconnect()
        await connection.wait_for_sent(2)
        await anyio.wait_all_tasks_blocked()
        stop.set()
    assert (connection.status, connection.is_complete, connection.error) == (500, True, None)
    assert finished == ["/a"]


async def test_an_error_behind_a_page_that_was_sent_goes_to_the_server() -> None:
    error = nh.ModelError(SECRET)
    is_sent = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await page(b"text/plain")(send)
        await is_sent.wait()
        raise error

    middleware = NighthawkMiddleware(app, model=Steps().executor)
    async with open_connection(middleware, http_scope()) as connection:
        await connection.wait_for_sent(2)
        is_sent.set()
    assert (connection.status, connection.body, connection.error) == (500, SECRET.encode(), error)


async def test_a_hint_is_no_response() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.early_hint", "links": []})
        raise nh.ModelError(SECRET)

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert [message.get("status") for message in answered.sent] == [None, 502, None]


async def test_a_response_with_trailers_is_complete_with_them() -> None:
    done = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"all"})
        await send({"type": "http.response.trailers", "headers": []})
        done.set()

    answered = await get(NighthawkMiddleware(app, model=Steps().executor))
    assert [message["type"] for message in answered.sent] == [
        "http.response.start",
        "http.response.body",
        "http.response.trailers",
    ]


async def test_an_error_is_logged_with_the_id_that_the_client_got(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise nh.ExecutionError("for the operator")

    await get(NighthawkMiddleware(app, model=Steps().executor), headers={"x-request-id": "seventh"})
    assert "request seventh is answered with the status 500" in caplog.text
    assert "for the operator" in caplog.text


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [
        (nh.ModelError("broken answer"), "ERROR", True),
        (TaskCancelledError(task_id="7", reason="enough", forced=False), "WARNING", False),
        (nh.errors.ApprovalDeniedError("not today"), "INFO", False),
    ],
)
async def test_only_what_somebody_has_to_mend_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str, has_traceback: bool
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    caplog.set_level("INFO", logger="nighthawk")
    await get(NighthawkMiddleware(app, model=Steps().executor))
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == (level, has_traceback)
    assert str(error) in record.getMessage()


async def test_what_an_error_quotes_begins_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise nh.errors.ApprovalDeniedError("no\nERROR somebody logged in as root " + "x" * 10_000)

    caplog.set_level("INFO", logger="nighthawk")
    await get(NighthawkMiddleware(app, model=Steps().executor))
    (record,) = caplog.records
    assert record.getMessage().splitlines() == [record.getMessage()]
    assert len(record.getMessage()) < 2_000


def test_a_framework_can_answer_with_a_problem_itself() -> None:
    problem = find_problem(of_status(503, is_transient=True, after=0.2))
    assert isinstance(problem, Problem)
    assert problem.headers["retry-after"] == "1"
    assert "request_id" not in problem.as_json()
    assert problem.as_json(request_id="x")["instance"] == "urn:nighthawk-async:request:x"


async def test_an_application_may_answer_without_saying_whether_more_comes() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, "fine")

    assert (await get(NighthawkMiddleware(app, model=Steps().executor))).is_complete
