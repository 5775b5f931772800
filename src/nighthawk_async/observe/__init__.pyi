"""What `nighthawk_async.observe` exports. Each name is loaded when it is first used."""

from .errors import (
    NodeNotFoundError,
    NotControllableError,
    NotRecordingError,
    ObserveError,
    RecordingFileError,
)
from .page.export import view_as_page
from .recording_file import view_as_recording
from .recording_reader import Recording, read_recording
from .tree import TaskTree, find_node_id, find_tree, get_tree, recording, snapshot, watch
from .tree_text import view_as_text
from .views import Children, ControlName, ErrorView, NodeView, TranscriptPart, ViewedKind, view_as_json
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
    "Recording",
    "RecordingFileError",
    "TaskTree",
    "TranscriptPart",
    "ViewedKind",
    "Watch",
    "find_node_id",
    "find_tree",
    "get_tree",
    "read_recording",
    "recording",
    "snapshot",
    "view_as_json",
    "view_as_page",
    "view_as_recording",
    "view_as_text",
    "watch",
]
