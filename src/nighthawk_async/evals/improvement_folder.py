"""The folder of an improvement: a description of it, so that nothing goes on with other arguments."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .errors import ReportError
from .report_file import write_whole

_FORMAT = "nighthawk-improvement"
_VERSION = 1


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file.

    Args:
        format: The name of the format.
        version: The version of the format.
        arguments: Digests of the arguments, by words for what would be different.
    """

    format: str
    version: int
    arguments: Mapping[str, str]


def claim_folder(folder: str | os.PathLike[str], arguments: Mapping[str, object]) -> None:
    """Make the folder of an improvement, or check that the one that is there belongs to it.

    Args:
        folder: The folder.
        arguments: The arguments on which results depend, by words for one that is different, as in
            "another seed". Equal ones have equal representations.

    Raises:
        ReportError: The folder belongs to another improvement, or its description is damaged.
        OSError: The folder cannot be made, or not be written to.
    """
    digests = {
        words: hashlib.sha256(repr(each).encode()).hexdigest()[:16] for words, each in arguments.items()
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, "improvement.json")
    if not path.exists():
        description = _Description(format=_FORMAT, version=_VERSION, arguments=digests)
        write_whole(path, [msgspec.json.format(msgspec.json.encode(description), indent=1)])
        return
    known = _read(path)
    different = [words for words, digest in digests.items() if known.get(words) != digest]
    if different:
        raise ReportError(
            f"The folder {os.fspath(folder)} belongs to another improvement, with {' and '.join(different)}. "
            "Give another folder=, or delete it to begin anew."
        )


def _read(path: Path) -> Mapping[str, str]:
    try:
        description = msgspec.json.decode(path.read_bytes(), type=_Description)
    except (OSError, msgspec.MsgspecError) as error:
        raise ReportError(f"{path}: this describes no improvement: {error}") from None
    if (description.format, description.version) != (_FORMAT, _VERSION):
        raise ReportError(f"{path}: this release of nighthawk-async reads version {_VERSION} of its format.")
    return description.arguments
