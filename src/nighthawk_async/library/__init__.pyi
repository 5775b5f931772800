"""Exports of `nighthawk_async.library`. Each name is loaded when it is first used."""

from .agents import Finding, Remark, apply_patch, research, review
from .errors import (
    DeniedAddressError,
    EditError,
    FetchError,
    ForbiddenAddressError,
    LibraryError,
    OutsideWorkspaceError,
    PatchError,
    ShellError,
    WorkspaceError,
)
from .shell_sandbox import Sandbox
from .shell_session import ShellResult
from .web import FetchedPage, Web, fetch
from .workspace import SearchMatch, SearchResult, Workspace

__all__ = [
    "DeniedAddressError",
    "EditError",
    "FetchError",
    "FetchedPage",
    "Finding",
    "ForbiddenAddressError",
    "LibraryError",
    "OutsideWorkspaceError",
    "PatchError",
    "Remark",
    "Sandbox",
    "SearchMatch",
    "SearchResult",
    "ShellError",
    "ShellResult",
    "Web",
    "Workspace",
    "WorkspaceError",
    "apply_patch",
    "fetch",
    "research",
    "review",
]
