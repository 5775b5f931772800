"""What is active around model requests in a context, in runs and outside of them: policies, an interceptor.

The policies of a run end with it, and a nested run has its own. These ones hold for all requests of a `with`
statement: in threads, in nested runs, and where there is no run. Of several at one position, the innermost
one counts.

An active interceptor answers instead of the model, or asks the model itself and observes. It flows into
steps, threads and nested runs. Policies come before it.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ..ports import Model
from ..types.model import ModelEvent, ModelRequest
from .commit import InterceptionError as InterceptionError
from .commit import find_interception_error as find_interception_error
from .environment import Environment
from .features import Feature
from .fold import OpenResponse
from .policy import Policy


class ModelInterceptor(Protocol):
    """Intercepts the requests of executors to models."""

    @property
    def is_offline(self) -> bool:
        """Whether it never asks a model, so that no endpoint, key or embedded model is needed."""
        ...

    def stream(
        self, model: Model, request: ModelRequest, step_path: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Answer a request as `ports.Model.stream` does.

        Args:
            model: The model.
            request: The request.
            step_path: The addresses of the blocks in progress, outermost first; empty outside a step.

        Raises:
            InterceptionError: There is no answer.
            ConfigurationError: The request asks for what the model lacks.
            ModelError: The request failed.
        """
        ...


_interceptor = Feature[ModelInterceptor | None](None)
_everywhere: list[ModelInterceptor] = []


def ask_source(
    environment: Environment | None,
    model: Model,
    request: ModelRequest,
    place: str | None,
    answer: OpenResponse | None = None,
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request to the model, or to the active interceptor; see `ports.Model.stream`.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model to ask.
        request: The request.
        place: Its place in a run with a journal; None without one.
        answer: Opens a response that a policy gives in place of the model's; None for none.

    Raises:
        InterceptionError: The interceptor has no answer.
        ConfigurationError: The request asks for what the model lacks.
        ModelError: The request failed.
    """
    step_path = () if environment is None else environment.step_path

    def ask(source: Model = model) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return answer() if answer is not None and source is model else ask_model(source, request, step_path)

    if environment is None or environment.journal is None or place is None:
        return ask()
    return environment.journal.respond(place, model.name, ask)


def ask_model(
    model: Model, request: ModelRequest, step_path: tuple[str, ...]
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request to the model, or to the active interceptor, without the journal.

    Args:
        model: The model to ask.
        request: The request.
        step_path: The addresses of the blocks in progress, outermost first.
    """
    interceptor = find_interceptor()
    return model.stream(request) if interceptor is None else interceptor.stream(model, request, step_path)


def needs_endpoint() -> bool:
    """Whether requests reach their model, so that it needs its key or its weights."""
    interceptor = find_interceptor()
    return interceptor is None or not interceptor.is_offline


class using_interceptor:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate an interceptor during the `with` statement; the innermost one counts."""

    __slots__ = ("_before", "_interceptor")

    def __init__(self, interceptor: ModelInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        self._before = _interceptor.set(self._interceptor)

    def __exit__(self, *exc_details: object) -> None:
        _interceptor.reset(self._before)


class using_interceptor_everywhere:  # noqa: N801
    """Activate an interceptor for the whole program, wherever the context has none of its own.

    For test fixtures: a test may run in a context that was made before its fixtures ran.
    """

    __slots__ = ("_interceptor",)

    def __init__(self, interceptor: ModelInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        _everywhere.append(self._interceptor)

    def __exit__(self, *exc_details: object) -> None:
        _everywhere.remove(self._interceptor)


def find_interceptor() -> ModelInterceptor | None:
    """Return the active interceptor; None for none."""
    interceptor = _interceptor.get()
    if interceptor is None and _everywhere:
        return _everywhere[-1]
    return interceptor


_active = Feature[tuple[Policy, ...]](())


def begin_policy(policy: Policy) -> None:
    """Activate a policy around the requests of the caller until `end_policy`; in many tasks, if need be."""
    _active.set((*_active.get(), policy))


def end_policy(policy: Policy) -> None:
    """End the innermost activation of a policy."""
    active = _active.get()
    last = max(index for index, each in enumerate(active) if each is policy)
    _active.set((*active[:last], *active[last + 1 :]))


def find_policies() -> tuple[Policy, ...]:
    """Return the active ones, one for each position, outermost first."""
    active = _active.get()
    return active and in_order({policy.position: policy for policy in active}.values())


def in_order(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return policies in the order of their positions."""
    return tuple(sorted(policies, key=_position_of))


def _position_of(policy: Policy) -> int:
    return policy.position
