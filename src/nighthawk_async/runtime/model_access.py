"""The source of a response: a model, or an interceptor such as a recorder.

An active interceptor answers instead of the model, or asks the model itself and observes. It is held in a
context variable, so it flows into steps, threads and nested runs. Policies come before it.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Protocol

from ..causes import RunEndingError, with_causes
from ..errors import NighthawkError
from ..ports import Model
from ..types.model import ModelEvent, ModelRequest
from .environment import find_environment


class InterceptionError(NighthawkError, RunEndingError):
    """An interceptor cannot go on.

    It concerns the host only: it passes through every step unchanged, and no model sees it or is asked
    for a correction.
    """


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


_interceptor: ContextVar[ModelInterceptor | None] = ContextVar(
    "nighthawk_async_model_interceptor", default=None
)
_everywhere: list[ModelInterceptor] = []


def ask_source(
    model: Model, request: ModelRequest, place: str | None
) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """Send a request to the model, or to the active interceptor; see `ports.Model.stream`.

    Args:
        model: The model to ask.
        request: The request.
        place: Its place in a run with a journal; None without one.

    Raises:
        InterceptionError: The interceptor has no answer.
        ConfigurationError: The request asks for what the model lacks.
        ModelError: The request failed.
    """
    environment = find_environment()
    step_path = () if environment is None else environment.step_path

    def ask(source: Model = model) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return ask_model(source, request, step_path)

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


def find_interception_error(error: BaseException) -> InterceptionError | None:
    """Return the failed interception among the causes of an error, or in a group; None for none.

    Args:
        error: An error of a step, or of code that was called from a step.
    """
    return next((each for each in with_causes(error) if isinstance(each, InterceptionError)), None)


class using_interceptor:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate an interceptor during the `with` statement; the innermost one counts."""

    __slots__ = ("_interceptor", "_token")

    def __init__(self, interceptor: ModelInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        self._token = _interceptor.set(self._interceptor)

    def __exit__(self, *exc_details: object) -> None:
        _interceptor.reset(self._token)


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
