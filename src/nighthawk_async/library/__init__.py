"""Functions that blocks often need: the files of a folder, a shell, pages of the web. Floor 6.

    workspace = library.Workspace("/repo", writable=True)
    tests = await workspace.shell("pytest -q", timeout=120)
    page = await library.fetch("https://example.org/")

Plain objects: name them in a block, or call them in Python. See the page "The function library".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "agents": ("Finding", "Remark", "apply_patch", "research", "review"),
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
        "web": ("FetchedPage", "Web", "fetch"),
        "shell_sandbox": ("Sandbox",),
        "shell_session": ("ShellResult",),
        "workspace": ("SearchMatch", "SearchResult", "Workspace"),
    },
)
