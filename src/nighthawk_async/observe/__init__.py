"""The live tree of a program's work, to watch and to influence. Floor 4: the sink of `observation`."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "errors": ("NodeNotFoundError", "NotControllableError", "NotRecordingError", "ObserveError"),
        "in_force": ("find_node_id", "get_tree", "recording", "snapshot", "watch"),
        "tree": ("TaskTree", "find_tree"),
        "view_json": ("view_as_json",),
        "views": ("Children", "ControlName", "ErrorView", "NodeView", "TranscriptPart", "ViewedKind"),
        "watching": ("Watch",),
    },
)
