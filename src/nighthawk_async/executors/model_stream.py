"""Sending the requests of executors, with the active policies and observers."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from ..observation import find_node_writer
from ..ports import HasCurrentPrice, Model
from ..runtime.environment import find_environment
from ..runtime.model_access import ask_source
from ..runtime.policies import NO_POLICIES
from ..tracing import find_tracing
from ..types.model import ModelEvent, ModelRequest


async def load_price(model: Model) -> None:
    """Let a model look up its price, before a request to it is measured, shown or sent.

    Args:
        model: The model to ask.
    """
    if isinstance(model, HasCurrentPrice):
        await model.load_price()


def open_stream(
    model: Model, request: ModelRequest
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request and stream its response; see `ports.Model.stream`.

    Args:
        model: The model to ask.
        request: The request.

    Raises:
        InterceptionError: An interceptor is active and has no answer.
        BudgetExceededError: A budget has no room for it, on entering.
        ExecutionError: A hook vetoed it, on entering.
        ConfigurationError: The request asks for what the model lacks, or a budget cannot be kept.
        ModelError: The request failed.
    """
    environment = find_environment()
    policies = NO_POLICIES if environment is None else environment.policies
    parent = find_node_writer()
    tracing = find_tracing()
    is_traced = tracing is not None and tracing.collects()
    if parent is None and not is_traced and not policies.govern_requests:
        return ask_source(model, request)
    from .governed_stream import GovernedStream  # here, because most requests need none

    return GovernedStream(model, request, policies, parent=parent)
