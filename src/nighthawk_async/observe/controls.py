"""Control of a node from any thread, on the node's event loop.

Every control can cancel its node. Other actions depend on the methods that the control has: `steer`,
`suspend` and `resume`, as in `parallel.TaskControl`.
"""

import logging
from collections.abc import Callable

from ..errors import NighthawkError
from ..observation import NodeControl, NodeState
from ..parallel.errors import ParallelError
from ..parallel.event_loop import EventLoop, is_loop_thread
from .errors import NotControllableError
from .views import ControlName

_METHODS: dict[ControlName, str] = {
    "cancel": "request_cancel",
    "steer": "steer",
    "suspend": "suspend",
    "resume": "resume",
}

_logger = logging.getLogger("nighthawk")


class HeldControl:
    """A control, and the event loop on which it was set.

    A control that was set in a thread without an event loop is used in the caller's thread.

    Args:
        control: The control.
    """

    __slots__ = ("_control", "_loop", "_offered")

    def __init__(self, control: NodeControl) -> None:
        self._control = control
        self._loop = EventLoop() if is_loop_thread() else None
        offered: frozenset[ControlName] | None = getattr(control, "offered", None)
        if offered is None:
            offered = frozenset(name for name, method in _METHODS.items() if hasattr(type(control), method))
        self._offered = offered

    @property
    def all_offered(self) -> frozenset[ControlName]:
        """The actions that it offers in one state or another."""
        return self._offered

    def offered(self, state: NodeState) -> frozenset[ControlName]:
        """Return the actions possible in a state: suspended work can be resumed but not suspended."""
        return self._offered - _POINTLESS.get(state, _POINTLESS_WHILE_RUNNING)

    def carry_out(self, node_id: str, name: ControlName, *arguments: object) -> None:
        """Run an action: at once on the node's event loop, from elsewhere as soon as that loop gets to it.

        Raises:
            NotControllableError: The node does not offer the action, refuses it, or its event loop has ended.
                A refusal that comes later, on its event loop, is logged.
        """
        if name not in self._offered:
            raise NotControllableError(node_id, f"it cannot be asked to {name}")
        method: Callable[..., object] = getattr(self._control, _METHODS[name])
        if self._loop is None or self._loop.is_here:
            try:
                method(*arguments)
            except (NighthawkError, ParallelError) as error:
                raise NotControllableError(node_id, f"it refuses to {name}: {error}") from error
            return
        try:
            self._loop.call_soon(lambda: _call_guarded(node_id, name, method, arguments))
        except RuntimeError:
            raise NotControllableError(node_id, "its event loop has ended") from None


_POINTLESS: dict[NodeState, frozenset[ControlName]] = {"suspended": frozenset({"suspend"})}
_POINTLESS_WHILE_RUNNING: frozenset[ControlName] = frozenset({"resume"})


def _call_guarded(
    node_id: str, name: ControlName, method: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    try:
        method(*arguments)
    except Exception as error:  # there is no caller to raise to, and it could break the event loop
        _logger.warning("node %s refuses to %s: %s", node_id, name, error, exc_info=error)
