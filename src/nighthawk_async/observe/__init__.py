"""The live tree of a program's work, to observe and to control. The sink of `observation`."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .errors import (
        NodeNotFoundError as NodeNotFoundError,
        NotControllableError as NotControllableError,
        NotRecordingError as NotRecordingError,
        ObserveError,
        RecordingFileError as RecordingFileError,
    )
    from .page.export import view_as_page
    from .recording_file import view_as_recording
    from .recording_reader import Recording as Recording, read_recording
    from .tree import (
        TaskTree,
        find_node_id as find_node_id,
        find_tree as find_tree,
        get_tree,
        recording,
        snapshot as snapshot,
        watch,
    )
    from .tree_text import view_as_text
    from .views import (
        Children as Children,
        ControlName as ControlName,
        ErrorView as ErrorView,
        NodeView as NodeView,
        TranscriptPart as TranscriptPart,
        ViewedKind as ViewedKind,
        view_as_json,
    )
    from .watching import Watch as Watch
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "errors": (
                "NodeNotFoundError",
                "NotControllableError",
                "NotRecordingError",
                "ObserveError",
                "RecordingFileError",
            ),
            "page.export": ("view_as_page",),
            "recording_file": ("view_as_recording",),
            "recording_reader": (
                "Recording",
                "read_recording",
            ),
            "tree": (
                "TaskTree",
                "find_node_id",
                "find_tree",
                "get_tree",
                "recording",
                "snapshot",
                "watch",
            ),
            "tree_text": ("view_as_text",),
            "views": (
                "Children",
                "ControlName",
                "ErrorView",
                "NodeView",
                "TranscriptPart",
                "ViewedKind",
                "view_as_json",
            ),
            "watching": ("Watch",),
        },
    )

__all__ = [
    "ObserveError",
    "TaskTree",
    "get_tree",
    "read_recording",
    "recording",
    "view_as_json",
    "view_as_page",
    "view_as_recording",
    "view_as_text",
    "watch",
]
