"""Sending the requests of executors: policies, the live tree and telemetry around the source."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from ..observation import find_node_writer
from ..ports import Model
from ..runtime.environment import find_environment
from ..runtime.model_access import ask_source
from ..runtime.policies import NO_POLICIES
from ..telemetry.doors import traced_response
from ..types.model import ModelEvent, ModelRequest

__all__ = ["open_stream"]


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
    if policies.that("before_request") or policies.that("after_request"):
        from ..runtime.governed_stream import (
            GovernedStream,  # here, because most programs have no such policy
        )

        stream = GovernedStream(model, request, policies, open_stream=_ask)
    else:
        stream = _ask(model, request)
    node = find_node_writer()
    if node is None:
        return stream
    from ..runtime.told_stream import ToldStream  # here, because most requests are watched by nobody

    step = None if environment is None else environment.step
    return ToldStream(stream, model, request, around=node, step=step)


def _ask(model: Model, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    return traced_response(ask_source(model, request), model, request)
