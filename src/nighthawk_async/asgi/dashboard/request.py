"""Requests to the dashboard: their bodies and their refusals.

Refusals are problem details with fixed or plain texts. Pure.
"""

import os
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from ...errors import NighthawkError
from ...observe.tree import TaskTree
from ...observe.views import NodeView
from ...pickling import PicklableError
from ..problems import Problem
from ..protocol import AsgiScope, Receive, header_values, read_whole_body


class RefusalError(NighthawkError):
    """A request is refused.

    Args:
        problem: The problem that is reported to the client.
        headers: The additional headers of the response.
    """

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = headers or {}


NOTHING_HERE = Problem(status=404, name="not-found", title="Not found", detail="There is nothing here.")
NOTHING_RECORDED = Problem(
    status=503,
    name="nothing-recorded",
    title="Nothing is recorded",
    detail="The dashboard was given no task tree, and nothing is recorded where it is served.",
)
READ_ONLY = Problem(
    status=403,
    name="read-only",
    title="The dashboard is read-only",
    detail="No token is configured: the dashboard shows what goes on and changes nothing.",
)
BAD_TOKEN = Problem(
    status=401,
    name="bad-token",
    title="A token is needed",
    detail="The request has no token, or a wrong one.",
)
CROSS_SITE = Problem(
    status=403,
    name="cross-site",
    title="The request comes from another site",
    detail="The dashboard is only used from its own page, or without a browser.",
)
WRONG_HOST = Problem(
    status=421,
    name="wrong-host",
    title="The host is another one",
    detail="The dashboard is not served under the host that the request names.",
)
NOT_JSON = Problem(
    status=415,
    name="not-json",
    title="The body is not JSON",
    detail="The content type of the body must be application/json.",
)
TOO_LARGE = Problem(
    status=413,
    name="too-large",
    title="The body is too large",
    detail="The body of the request is longer than the dashboard reads.",
)
OTHER_TREE = Problem(
    status=409,
    name="other-tree",
    title="The tree is another one",
    detail="The service was restarted, or another process of it answers: its nodes are not those seen.",
)


def bad_request(detail: str) -> Problem:
    """The request is malformed."""
    return Problem(status=400, name="bad-request", title="The request makes no sense", detail=detail)


def no_such_node(detail: str) -> Problem:
    """The node does not exist."""
    return Problem(status=404, name="no-such-node", title="There is no such node", detail=detail)


def no_such_record(detail: str) -> Problem:
    """The record of a memory does not exist."""
    return Problem(status=404, name="no-such-record", title="There is no such record", detail=detail)


def not_now(detail: str) -> Problem:
    """The node's state does not allow the action."""
    return Problem(status=409, name="not-possible", title="That is not possible now", detail=detail)


def not_allowed(detail: str) -> Problem:
    """The actor may not do this."""
    return Problem(status=403, name="not-allowed", title="That is not allowed", detail=detail)


def not_valid(detail: str) -> Problem:
    """The answer is not valid for the question."""
    return Problem(status=422, name="not-valid", title="The answer does not fit", detail=detail)


def store_is_away(detail: str) -> Problem:
    """The store of the runs cannot be used now."""
    return Problem(status=503, name="store-away", title="The store cannot be used", detail=detail)


MAX_BODY_BYTES = 65_536

Body = TypeVar("Body")


class ClientLeftError(PicklableError):
    """The client left before its request was complete, so that no response is possible."""


async def read_body(asgi_scope: AsgiScope, receive: Receive, form: type[Body]) -> Body:
    """Read and decode a body.

    Args:
        asgi_scope: The connection.
        receive: Receives its messages.
        form: The type of the body; a missing body counts as an empty object.

    Raises:
        RefusalError: It is not JSON, too long, or not of the type.
        ClientLeftError: The client has left.
    """
    content_types = header_values(asgi_scope, b"content-type")
    if [each.partition(";")[0].strip().lower() for each in content_types] != ["application/json"]:
        raise RefusalError(NOT_JSON)
    body = await read_whole_body(receive, most_bytes=MAX_BODY_BYTES, too_large=RefusalError(TOO_LARGE))
    if body is None:
        raise ClientLeftError
    try:
        return msgspec.json.decode(body or b"{}", type=form)
    except RecursionError:
        raise RefusalError(bad_request("The body is nested too deep.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusalError(bad_request(f"The body is not what is expected: {error}.")) from None


def stream_id(view: NodeView) -> str:
    """Return an id that differs between the trees of two processes, or of two lifespans.

    Args:
        view: The root node.
    """
    return f"{int(view.began_at * 1_000_000):x}-{os.getpid():x}"  # forks inherit an older tree


def check_stream(seen: str, tree: TaskTree) -> None:
    """Refuse a request that was meant for a node of another tree.

    Args:
        seen: The identity of the tree in which the node was seen.
        tree: The tree.

    Raises:
        RefusalError: It is another one.
    """
    if seen != stream_id(tree.snapshot()):
        raise RefusalError(OTHER_TREE)
