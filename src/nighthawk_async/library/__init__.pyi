"""Exports of `nighthawk_async.library`. Each name is loaded when it is first used."""

from .errors import EditError, LibraryError, OutsideWorkspaceError, PatchError, WorkspaceError
from .workspace import SearchMatch, SearchResult, Workspace

__all__ = [
    "EditError",
    "LibraryError",
    "OutsideWorkspaceError",
    "PatchError",
    "SearchMatch",
    "SearchResult",
    "Workspace",
    "WorkspaceError",
]
