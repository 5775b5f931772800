"""Functions that blocks often need: the files of a folder, a shell, pages of the web.

    workspace = library.Workspace("/repo", writable=True)
    tests = await workspace.shell("pytest -q", timeout=120)
    page = await library.fetch("https://example.org/")

Plain objects: name them in a block, or call them in Python. See the page "The function library".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .agents import Finding as Finding, Remark as Remark, apply_patch, research, review
    from .errors import (
        DeniedAddressError as DeniedAddressError,
        EditError as EditError,
        FetchError as FetchError,
        ForbiddenAddressError as ForbiddenAddressError,
        LibraryError,
        OutsideWorkspaceError as OutsideWorkspaceError,
        PatchError as PatchError,
        ShellError as ShellError,
        WorkspaceError as WorkspaceError,
    )
    from .shell_sandbox import Sandbox as Sandbox
    from .shell_session import ShellResult as ShellResult
    from .web import FetchedPage as FetchedPage, Web, fetch
    from .workspace import SearchMatch as SearchMatch, SearchResult as SearchResult, Workspace
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "agents": (
                "Finding",
                "Remark",
                "apply_patch",
                "research",
                "review",
            ),
            "errors": (
                "DeniedAddressError",
                "EditError",
                "FetchError",
                "ForbiddenAddressError",
                "LibraryError",
                "OutsideWorkspaceError",
                "PatchError",
                "ShellError",
                "WorkspaceError",
            ),
            "web": (
                "FetchedPage",
                "Web",
                "fetch",
            ),
            "shell_sandbox": ("Sandbox",),
            "shell_session": ("ShellResult",),
            "workspace": (
                "SearchMatch",
                "SearchResult",
                "Workspace",
            ),
        },
    )

__all__ = [
    "LibraryError",
    "Web",
    "Workspace",
    "apply_patch",
    "fetch",
    "research",
    "review",
]
