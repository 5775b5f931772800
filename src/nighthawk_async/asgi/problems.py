"""Errors for clients: problem details with fixed texts, and log records with the details that they hide.

Messages of errors are never sent to clients: they quote prompts, providers and file paths.

Source: RFC 9457 (https://www.rfc-editor.org/rfc/rfc9457).
"""

import json
import logging
import math
from dataclasses import dataclass, replace

from ..causes import is_group
from ..errors import (
    AnswerTimeoutError,
    ApprovalDeniedError,
    ApprovalExpiredError,
    BudgetExceededError,
    ConfigurationError,
    ExecutionError,
    HookError,
    HumanError,
    ModelError,
    ModelTimeoutError,
    NighthawkError,
    StepAbortedError,
    StepLimitError,
    StepRejectedError,
)
from ..parallel import DeadlineExceededError, TaskCancelledError
from ..prompt.plain_text import single_line
from .protocol import Message

MOST_RETRY_AFTER_SECONDS = 86_400.0
"""The longest wait that is recommended to a client: a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem details of an error, for a client.

    Args:
        status: The HTTP status.
        name: The name of the problem, the last part of its `type`.
        title: Its title; the same for all problems of a type.
        detail: The explanation for the client.
        retry_after_seconds: The number of seconds after which to try again; None when it is unknown.
    """

    status: int
    name: str
    title: str
    detail: str
    retry_after_seconds: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a response that reports it."""
        headers = {"content-type": "application/problem+json", "cache-control": "no-store"}
        if self.retry_after_seconds is not None and not math.isnan(self.retry_after_seconds):
            seconds = min(self.retry_after_seconds, MOST_RETRY_AFTER_SECONDS)
            headers["retry-after"] = str(max(1, math.ceil(seconds)))
        return headers

    def as_json(self, *, request_id: str | None = None) -> dict[str, str | int]:
        """Return the members of the problem, for the body of a response.

        Args:
            request_id: The id of the request, when it is to be included.
        """
        members: dict[str, str | int] = {
            "type": f"urn:nighthawk-async:problem:{self.name}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if request_id is not None:
            members["instance"] = f"urn:nighthawk-async:request:{request_id}"
            members["request_id"] = request_id
        return members


QUEUE_FULL = Problem(
    status=503,
    name="busy",
    title="The service is busy",
    detail="Too many requests are in progress and waiting. Try again later.",
)
TOO_MANY_OF_CLIENT = Problem(
    status=429,
    name="too-many-requests",
    title="Too many requests",
    detail="Too many requests of this client are in progress and waiting. Try again later.",
)
SHUTTING_DOWN = Problem(
    status=503,
    name="shutting-down",
    title="The service is shutting down",
    detail="The service takes no further requests and ends those in progress. Try again later.",
)
TIMED_OUT = Problem(
    status=504,
    name="timeout",
    title="The request took too long",
    detail="The request was not answered within its time, and was cancelled.",
)
MALFORMED_IDEMPOTENCY_KEY = Problem(
    status=400,
    name="malformed-idempotency-key",
    title="The idempotency key is malformed",
    detail="Idempotency-Key needs one value of 1 to 255 printable ASCII characters.",
)
REQUEST_IN_PROGRESS = Problem(
    status=409,
    name="request-in-progress",
    title="The request is in progress",
    detail="A request with this idempotency key is in progress elsewhere. Send it again later.",
)
BODY_TOO_LARGE = Problem(
    status=413,
    name="body-too-large",
    title="The body is too large",
    detail="A request with an idempotency key has a body of at most 16 MiB.",
)
IDEMPOTENCY_KEY_REUSED = Problem(
    status=422,
    name="idempotency-key-reused",
    title="The idempotency key belongs to another request",
    detail="An earlier request with this idempotency key had another content.",
)
IDEMPOTENCY_KEY_EXPIRED = Problem(
    status=422,
    name="idempotency-key-expired",
    title="The idempotency key has expired",
    detail="A request with this idempotency key was answered, and its response is not kept any more. Send "
    "new work with a new key.",
)
CANCELLED = Problem(
    status=503,
    name="cancelled",
    title="The request was cancelled",
    detail="Somebody cancelled the request, or a part of it.",
)

_MODEL_UNAVAILABLE = Problem(
    status=503,
    name="model-unavailable",
    title="The model is not available",
    detail="The language model cannot be reached or is overloaded at present. Try again later.",
)
_UNAVAILABLE = Problem(
    status=503,
    name="unavailable",
    title="Something is not available",
    detail="Something that the request needs is not available at present. Try again later.",
)
_REFUSED = Problem(
    status=403,
    name="refused",
    title="The request was refused",
    detail="Something that the request would have done was not allowed.",
)

_TABLE: tuple[tuple[tuple[type[Exception], ...], Problem], ...] = (
    (
        (BudgetExceededError,),
        Problem(
            status=429,
            name="budget-exceeded",
            title="The budget is used up",
            detail="The request needs more than its budget allows.",
        ),
    ),
    ((DeadlineExceededError,), TIMED_OUT),
    ((TaskCancelledError,), CANCELLED),
    (
        (AnswerTimeoutError, ApprovalExpiredError),
        Problem(
            status=504,
            name="no-answer",
            title="Nobody answered in time",
            detail="The request needs an answer or an approval that did not come in time.",
        ),
    ),
    ((ApprovalDeniedError, StepRejectedError, StepAbortedError), _REFUSED),
    (
        (ModelTimeoutError,),
        Problem(
            status=504,
            name="model-timeout",
            title="The model took too long",
            detail="The language model did not answer in time.",
        ),
    ),
    (
        (ModelError,),
        Problem(
            status=502,
            name="model-error",
            title="The model failed",
            detail="The language model gave no usable answer.",
        ),
    ),
    (
        (StepLimitError,),
        Problem(
            status=500,
            name="step-limit",
            title="A limit was reached",
            detail="A step did not finish within its limits.",
        ),
    ),
    (
        (ExecutionError,),
        Problem(
            status=500,
            name="step-failed",
            title="A step failed",
            detail="A step of the request failed.",
        ),
    ),
    (
        (ConfigurationError, HookError, HumanError),
        Problem(
            status=500,
            name="misconfigured",
            title="The service is not set up for this",
            detail="The service lacks something that the request needs.",
        ),
    ),
    (
        (NighthawkError,),
        Problem(
            status=500,
            name="internal-error",
            title="The request failed",
            detail="Something went wrong inside the service.",
        ),
    ),
)
"""The first row whose errors include the given one applies."""

_TELLING_CAUSES = (BudgetExceededError, DeadlineExceededError, ExecutionError, HumanError, ModelError)
"""Causes that inform a client better than the failure of a step."""

_MAX_CAUSES = 16


def find_problem(error: BaseException) -> Problem | None:
    """Return the problem details of an error, for a client.

    | error | status |
    |---|---|
    | `BudgetExceededError` | 429; 504 when its seconds are over |
    | `DeadlineExceededError`, `ModelTimeoutError`, an answer or approval that came too late | 504 |
    | another `ModelError` | 503 when it is transient, with `Retry-After` if the provider sent one; else 502 |
    | `CircuitOpenError`, others with `is_transient` | 503, with `Retry-After` if they have one |
    | `ApprovalDeniedError`, `StepRejectedError`, `StepAbortedError` | 403 |
    | `TaskCancelledError`, as for a step that an observer cancels | 503 |
    | every other `NighthawkError` | 500 |

    A failed step counts as its cause. For a group, the problem with the highest status counts.

    Args:
        error: The error.

    Returns:
        The problem; None when the error, or one in the group, is not an error of the library.
    """
    if is_group(error):
        found = [find_problem(each) for each in error.exceptions]
        problems = [each for each in found if each is not None]
        return max(problems, key=_status) if len(problems) == len(found) else None
    exact = exact_cause(error)
    problem = next((problem for types, problem in _TABLE if isinstance(exact, types)), None)
    if isinstance(exact, BudgetExceededError) and exact.resource == "seconds":
        return TIMED_OUT
    if problem is not None and isinstance(exact, NighthawkError):
        if exact.is_transient and not isinstance(exact, ModelTimeoutError):
            problem = _MODEL_UNAVAILABLE if isinstance(exact, ModelError) else _UNAVAILABLE
        problem = replace(problem, retry_after_seconds=exact.retry_after_seconds)
    return problem


def problem_messages(problem: Problem, request_id: str) -> tuple[Message, Message]:
    """Return the response that reports a problem.

    Args:
        problem: The problem.
        request_id: The id of the request.
    """
    body = json.dumps(problem.as_json(request_id=request_id)).encode()
    headers = {**problem.headers, "content-length": str(len(body)), "x-request-id": request_id}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return (
        {"type": "http.response.start", "status": problem.status, "headers": encoded},
        {"type": "http.response.body", "body": body, "more_body": False},
    )


def _status(problem: Problem) -> int:
    return problem.status


def exact_cause(error: BaseException) -> BaseException:
    """Return the cause of a step's failure that informs a client better; else the error itself.

    Args:
        error: The error.
    """
    for _ in range(_MAX_CAUSES):
        cause = error.__cause__ if isinstance(error, ExecutionError) else None
        is_transient = isinstance(cause, NighthawkError) and cause.is_transient
        if cause is None or not (is_transient or isinstance(cause, _TELLING_CAUSES)):
            break
        error = cause
    return error


_LOGGER = logging.getLogger("nighthawk")

_MAX_LOGGED_CHARACTERS = 1_000
_SERVER_ERROR = 500
_BROKEN = (500, 502)
"""The statuses that need a fix; the others are intended or transient."""


def is_cancellation(error: Exception) -> bool:
    """Whether an error only reports that the work was cancelled, as `TaskCancelledError` does.

    Args:
        error: The error that the work has raised.
    """
    return find_problem(error) == CANCELLED


def log_problem(what: str, problem: Problem, error: Exception, *, is_expected: bool = False) -> None:
    """Log an error on one line, with its traceback when it needs a fix.

    Args:
        what: The event.
        problem: The problem that is reported to the client.
        error: The error.
        is_expected: Whether it is normal when a client leaves, and only worth a debug record.
    """
    said = single_line(str(error), _MAX_LOGGED_CHARACTERS)  # it may quote a model or a client
    is_broken = problem.status in _BROKEN and not is_expected
    level = logging.WARNING if problem.status >= _SERVER_ERROR else logging.INFO
    level = logging.ERROR if is_broken else logging.DEBUG if is_expected else level
    message = "%s with the status %d: %s: %s"
    _LOGGER.log(
        level,
        message,
        what,
        problem.status,
        type(error).__name__,
        said,
        exc_info=error if is_broken else None,
    )
