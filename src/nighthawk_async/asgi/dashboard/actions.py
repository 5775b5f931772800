"""Actions of people on a node: cancel, steer, suspend, resume, answer."""

import logging
from collections.abc import Mapping

import msgspec

from ...observe.errors import NodeNotFoundError, NotControllableError
from ...observe.tree import TaskTree
from ..protocol import AsgiScope, Receive
from .approvals import AnswerBody, AskedPeople
from .request import RefusalError, check_stream, no_such_node, not_now, read_body

_LOGGER = logging.getLogger("nighthawk")


class _CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stream: str
    reason: str | None = None


class _SteerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stream: str
    text: str


class _PlainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stream: str


_Body = _CancelBody | _SteerBody | _PlainBody | AnswerBody

ACTIONS: Mapping[str, type[_Body]] = {
    "cancel": _CancelBody,
    "steer": _SteerBody,
    "suspend": _PlainBody,
    "resume": _PlainBody,
    "answer": AnswerBody,
}
"""The actions, with the forms of their bodies. Each body names the tree in which the node was seen."""


async def carry_out(
    action: str,
    node_id: str,
    actor: str,
    *,
    tree: TaskTree,
    people: AskedPeople,
    asgi_scope: AsgiScope,
    receive: Receive,
) -> None:
    """Run the action that a request asks for.

    Args:
        action: One of `ACTIONS`.
        node_id: The id of the node.
        actor: The person who requests it.
        tree: The tree that has the node.
        people: The questions that wait for an answer.
        asgi_scope: The request.
        receive: Receives its body.

    Raises:
        RefusalError: It is not possible.
        ClientLeftError: The client has left.
    """
    body = await read_body(asgi_scope, receive, ACTIONS[action])
    check_stream(body.stream, tree)
    try:
        match body:
            case _CancelBody():
                tree.cancel(node_id, body.reason or f"cancelled by {actor}")
            case _SteerBody():
                tree.steer(node_id, body.text)
            case AnswerBody():
                await people.answer(node_id, body, actor)
            case _ if action == "suspend":
                tree.suspend(node_id)
            case _:
                tree.resume(node_id)
    except NodeNotFoundError as error:
        raise RefusalError(no_such_node(str(error))) from None
    except NotControllableError as error:
        raise RefusalError(not_now(str(error))) from None
    _LOGGER.info("%s: %s of node %s over the dashboard", actor, action, node_id)
