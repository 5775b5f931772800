"""Entry points of telemetry, which is loaded where somebody traces or measures."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ports import Model
from ..runtime.tracing import is_measured, is_traced, using_span

if TYPE_CHECKING:
    from .agent import AgentSpan


class invoked_agent:  # noqa: N801  (a context manager that reads as a function at its call)
    """The extent of an agent's work on a step; gives its span, None when nobody traces or measures.

    Args:
        address: The address of the block.
        model: The model; None for an agent of the user's own.
        settings: The settings of its requests.
    """

    __slots__ = ("_address", "_agent", "_current", "_model", "_settings")

    def __init__(self, address: str, model: Model | None, settings: Mapping[str, Any]) -> None:
        self._address = address
        self._model = model
        self._settings = settings
        self._agent: AgentSpan | None = None

    def __enter__(self) -> "AgentSpan | None":
        if not (is_traced() or is_measured()):
            return None
        from .agent import AgentSpan  # here, so that nothing of this is loaded where nobody watches

        self._agent = AgentSpan(self._address, self._model, self._settings)
        self._current = using_span(self._agent.span)
        self._current.__enter__()
        return self._agent

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._agent is not None:
            self._current.__exit__()
            self._agent.end(exc)
