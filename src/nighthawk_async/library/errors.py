"""Errors of the function library. A block can handle them, and a model sees their text.

NighthawkError
└── LibraryError
    ├── WorkspaceError              a file of a workspace cannot be read or written
    │   └── OutsideWorkspaceError       the path leads out of the workspace
    ├── EditError                   the text to replace is not there, or more than once
    └── PatchError                  a patch is damaged, or does not fit the files
"""

from ..errors import NighthawkError
from ..pickling import set_public_module


class LibraryError(NighthawkError):
    """A function of the library was used in a way that it refuses."""


class WorkspaceError(LibraryError):
    """A file of a workspace cannot be read or written. Nothing was changed."""


class OutsideWorkspaceError(WorkspaceError):
    """A path leads out of the workspace, directly or over a symbolic link."""


class EditError(LibraryError):
    """The text to replace is not there, or more than once. Nothing was changed."""


class PatchError(LibraryError):
    """A patch is damaged, or does not fit the files. Nothing was changed."""


set_public_module("library", globals())
