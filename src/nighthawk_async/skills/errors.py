"""Errors of skills.

NighthawkError
├── ConfigurationError
│   └── SkillsError             folders are not what the format asks for; lists every fault
└── SkillFileError              a file of a skill cannot be read
"""

from collections.abc import Iterable

from msgspec import Struct

from ..errors import ConfigurationError, NighthawkError
from ..pickling import set_public_module


class SkillFault(Struct, frozen=True, kw_only=True):
    """One fault of one skill. As text, `path:line: message`.

    Args:
        path: The file or folder.
        line: The line in the file, counted from 1; None when it is unknown.
        message: The fault, and what to do.
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        path = self.path if self.path.isprintable() else ascii(self.path)
        place = path if self.line is None else f"{path}:{self.line}"
        return f"{place}: {self.message}"


class SkillsError(ConfigurationError):
    """Skills cannot be loaded. The text has one line for each fault.

    Args:
        faults: All faults of all skills.
    """

    def __init__(self, faults: Iterable[SkillFault]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        heading = f"The skills have {count} fault{'s' if count != 1 else ''}:"
        super().__init__("\n".join([heading, *map(str, self.faults)]))


class SkillFileError(NighthawkError):
    """A file of a skill cannot be read: it is not there, too large, or neither a text nor an image."""


set_public_module("skills", globals())
