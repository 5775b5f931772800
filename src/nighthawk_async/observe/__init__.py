"""The live tree of a program's work, to observe and to control. Floor 4: the sink of `observation`."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
        "recording_reader": ("Recording", "read_recording"),
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
