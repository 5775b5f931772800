"""Functions that blocks often need: the files of a folder, changed with care. Floor 5.

    workspace = library.Workspace("/repo", writable=True)

Plain objects: name them in a block, or call them in Python. See the page "The function library".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "errors": ("EditError", "LibraryError", "OutsideWorkspaceError", "PatchError", "WorkspaceError"),
        "workspace": ("SearchMatch", "SearchResult", "Workspace"),
    },
)
