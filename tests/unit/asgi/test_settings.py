"""Bad arguments are refused when the middleware is made."""

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import NighthawkMiddleware
from nighthawk_async.testing import ScriptedExecutor


async def app(scope: Any, receive: Any, send: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "needs a model"),
        ({"max_concurrent_requests": 0}, "max_concurrent_requests must be an integer of at least 1"),
        ({"max_concurrent_requests": True}, "max_concurrent_requests"),
        ({"max_queued_requests": -1}, "max_queued_requests must be an integer of at least 0"),
        ({"max_queued_requests": None}, "max_queued_requests"),
        ({"max_requests_per_client": 0, "client_of": str}, "max_requests_per_client"),
        ({"max_requests_per_client": 1}, "needs client_of"),
        ({"request_timeout": -1}, "request_timeout must be a number of seconds"),
        ({"request_timeout": "5"}, "request_timeout"),
        ({"grace_seconds": float("nan")}, "grace_seconds"),
        ({"retry_after_seconds": None}, "retry_after_seconds"),
        ({"retry_after_seconds": float("inf")}, "a number of seconds of at most 86,400, not inf"),
        ({"request_budget": 5}, "request_budget must be a budget"),
        ({"budget": 5}, "budget must be a budget"),
        ({"max_concurrent_steps": 0}, "max_concurrent_steps"),
        ({"hooks": 5}, "."),
        ({"tools": [5]}, "5 is no tool"),
    ],
)
def test_a_bad_argument_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(nh.NighthawkError, match=message):
        NighthawkMiddleware(app, **{"model": ScriptedExecutor([]), **arguments})
