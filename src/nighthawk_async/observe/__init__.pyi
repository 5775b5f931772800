"""What `nighthawk_async.observe` exports. Each name is loaded when it is first used."""

from .errors import NodeNotFoundError, NotControllableError, NotRecordingError, ObserveError
from .in_force import find_node_id, get_tree, recording, snapshot, watch
from .tree import TaskTree, find_tree
from .view_json import view_as_json
from .views import Children, ControlName, ErrorView, NodeView, TranscriptPart, ViewedKind
from .watching import Watch

__all__ = [
    "Children",
    "ControlName",
    "ErrorView",
    "NodeNotFoundError",
    "NodeView",
    "NotControllableError",
    "NotRecordingError",
    "ObserveError",
    "TaskTree",
    "TranscriptPart",
    "ViewedKind",
    "Watch",
    "find_node_id",
    "find_tree",
    "get_tree",
    "recording",
    "snapshot",
    "view_as_json",
    "watch",
]
