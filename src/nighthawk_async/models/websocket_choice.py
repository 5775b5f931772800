"""The choice between HTTP and a WebSocket for one request, by the setting `transport`. Loaded on use."""

from ..errors import ConfigurationError
from ..types.endpoint_rules import WebSocketRule
from ..types.messages import AssistantMessage, ToolResultsMessage
from ..types.model import ModelRequest
from ..wire.openai_responses.input import PROTOCOL
from .exchange import PoolSource, SenderSource
from .prepared_settings import HttpRequestPlan

_CAUTIOUS = WebSocketRule()
"""What any server of the protocol is expected to offer: one conversation on a connection."""


def choose_sender(request: ModelRequest, plan: HttpRequestPlan, over_http: PoolSource) -> SenderSource:
    """The transport of a request.

    Args:
        request: The request.
        plan: The same as it is to be sent; its setting `transport` is not `"http"`.
        over_http: The pool of connections for HTTP.

    Raises:
        ConfigurationError: The settings demand a WebSocket, and the protocol has none; or the extra
            `websocket` is not installed.
    """
    is_demanded = plan.settings.transport == "websocket"
    if plan.codec.name != PROTOCOL:
        if not is_demanded:
            return over_http
        raise ConfigurationError(
            f"{plan.endpoint.model_id}: the model setting transport='websocket' is for the protocol "
            f"{PROTOCOL} alone; this model is reached through {plan.codec.name}. Leave it out, or use 'auto'."
        )
    rule = plan.codec.rules.websocket
    if not is_demanded and (rule is None or not _is_later_turn(request)):
        return over_http
    from .websocket_pool import SocketRequests  # needs the extra

    return lambda: SocketRequests(plan, rule or _CAUTIOUS, None if is_demanded else over_http())


def _is_later_turn(request: ModelRequest) -> bool:
    """Whether the model has called tools before, and now gets their results."""
    for message in reversed(request.messages):
        if isinstance(message, ToolResultsMessage):
            return True
        if isinstance(message, AssistantMessage):
            return False
    return False
