"""Errors of the function library. A block can handle them, and a model sees their text.

NighthawkError
└── LibraryError
    ├── WorkspaceError              a file of a workspace cannot be read or written
    │   └── OutsideWorkspaceError       the path leads out of the workspace
    ├── EditError                   the text to replace is not there, or more than once
    ├── PatchError                  a patch is damaged, or does not fit the files
    ├── ShellError                  a command is refused, or the shell cannot be started
    └── FetchError                  a page cannot be fetched, is too large, or is no text
        └── ForbiddenAddressError       the address is not one of the public internet
            └── DeniedAddressError          the egress of the run or scope denies it
"""

from ..confined_files import (
    LibraryError as LibraryError,
    OutsideWorkspaceError as OutsideWorkspaceError,
    WorkspaceError as WorkspaceError,
)
from ..errors import EgressDeniedError
from ..pickling import set_public_module


class EditError(LibraryError):
    """The text to replace is not there, or more than once. Nothing was changed."""


class PatchError(LibraryError):
    """A patch is damaged, or does not fit the files. Nothing was changed."""


class ShellError(LibraryError):
    """A command is refused, or the shell cannot be started. Nothing was executed."""


class FetchError(LibraryError):
    """A page cannot be fetched: no connection, too slow, too large, or no text."""


class ForbiddenAddressError(FetchError):
    """A URL, or one that it redirects to, does not lead to an address of the public internet."""


class DeniedAddressError(ForbiddenAddressError, EgressDeniedError):
    """A URL, or one that it redirects to, leads to a host that the egress of the run or scope denies."""


set_public_module("library", globals())
