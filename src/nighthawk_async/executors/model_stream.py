"""Sending the requests of executors, with the active policies and observers, and the usage of each."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from ..catalog.request_cost import priced
from ..errors import ModelError
from ..observation import find_node_writer
from ..ports import HasCurrentPrice, Model, ResponseStream, usage_so_far
from ..runtime.environment import find_environment
from ..runtime.model_access import ask_source
from ..runtime.places import below_place, take_turn_place
from ..runtime.policies import NO_POLICIES
from ..runtime.response_cache import find_response_cache
from ..tracing import find_tracing
from ..types.model import ModelEvent, ModelRequest
from ..types.usage import Usage

if TYPE_CHECKING:
    from .partial_answer import PartialAnswer


async def load_price(model: Model) -> None:
    """Let a model look up its price, before a request to it is measured, shown or sent.

    Args:
        model: The model to ask.
    """
    # An object without the method is asked for it first, because `isinstance` takes long to deny a protocol.
    if hasattr(model, "load_price") and isinstance(model, HasCurrentPrice):
        await model.load_price()


def open_stream(
    model: Model, request: ModelRequest, *, may_be_last: bool = True
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request and stream its response; see `ports.Model.stream`.

    Args:
        model: The model to ask.
        request: The request.
        may_be_last: Whether its answer may end the step, so that it may take the last of a budget.

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
    cache = find_response_cache()
    has_journal = environment is not None and environment.journal is not None
    place = take_turn_place(model, request) if has_journal else None
    if parent is None and not is_traced and not policies.govern_requests and cache is None:
        return ask_source(model, request, place)
    from .governed_stream import GovernedStream  # here, because most requests need none

    return GovernedStream(
        model, request, policies, parent=parent, may_be_last=may_be_last, cache=cache, place=place
    )


def find_partial_answer() -> "PartialAnswer | None":
    """Return a reader for the next response of the step in progress; None without listeners."""
    environment = find_environment()
    step = None if environment is None else environment.step
    if step is None or step.partial_listeners is None:
        return None
    from .partial_answer import PartialAnswer  # here, because few programs read values before their end

    return PartialAnswer(step.context, step.partial_listeners)


def report_request(
    report: Callable[[str, Usage], None], model: Model, stream: object, reported: Usage
) -> None:
    """Report the usage of one request in its place, from the best source, with its cost.

    Args:
        report: Counts it, by model id.
        model: The model that was asked.
        stream: The stream of `open_stream`; it knows about attempts and answers that were cancelled. None
            when there is none.
        reported: The usage of the events, or `unreported_usage`.
    """
    usage = priced(usage_so_far(stream) or reported, model.capabilities.price)
    place = stream.turn_place if isinstance(stream, ResponseStream) else None
    with nullcontext() if place is None else below_place(place):
        report(model.name, usage)


def unreported_usage(error: ModelError | None = None) -> Usage:
    """The usage of one request whose response reported none.

    Args:
        error: The error of the request, if any; it knows how often the request was sent again.
    """
    return Usage(requests=1, retries=0 if error is None else error.retries, is_complete=False)
