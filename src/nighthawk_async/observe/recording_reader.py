"""`read_recording`: the tree that a file holds; see `recording_file`."""

import os
from typing import Any

import msgspec
from msgspec import Struct

from .errors import NodeNotFoundError, RecordingFileError
from .recording_file import FORMAT, VERSION
from .restored_tree import RestoredNode, restore_tree
from .tree import TaskTree
from .views import NodeView


class _Header(Struct, frozen=True):
    format: str
    version: int
    began_at: float


class _EndLine(Struct, frozen=True):
    ended_at: float


class Recording(Struct, frozen=True, kw_only=True, eq=False):
    """A recording that was read from a file.

    Args:
        tree: The tree as it was at the end of the file.
        is_complete: Whether the recording ended by itself. Otherwise the program was killed, is still
            running, or could not write.
        until: The time up to which the file is known to go, in Unix seconds.
    """

    tree: TaskTree
    is_complete: bool
    until: float

    def snapshot(self) -> NodeView:
        """Return the view of the whole tree."""
        return self.tree.snapshot()


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a file that `recording(to=…)` has written.

    The end of a line that was not written whole is left out.

    Args:
        path: The path of the file.

    Returns:
        The recording.

    Raises:
        RecordingFileError: It is no recording, or a line is malformed; the message has its number.
        OSError: It cannot be read.
    """
    nodes: dict[str, RestoredNode] = {}
    header: _Header | None = None
    ended_at: float | None = None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            if header is None:
                header = _parse_header(line, path)
                continue
            known = _parse(line, number, path)
            if isinstance(known, _EndLine):
                ended_at = known.ended_at
            else:
                nodes[known.id] = known
    if header is None:
        raise RecordingFileError(
            f"{os.fspath(path)} is no recording of nighthawk-async: it has no whole line"
        )
    try:
        tree = restore_tree([*nodes.values()], began_at=header.began_at)
    except NodeNotFoundError as error:
        raise RecordingFileError(
            f"{os.fspath(path)} is not whole: it has nodes below node {error.node_id!r}, but not that one"
        ) from None
    times = [header.began_at, *(node.ended_at or node.began_at for node in nodes.values())]
    return Recording(tree=tree, is_complete=ended_at is not None, until=ended_at or max(times))


def _parse_header(line: bytes, path: str | os.PathLike[str]) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except msgspec.DecodeError:
        header = None
    if header is None or header.format != FORMAT:
        raise RecordingFileError(f"{os.fspath(path)} is no recording of nighthawk-async")
    if header.version != VERSION:
        raise RecordingFileError(
            f"{os.fspath(path)} has version {header.version} of the format; this library reads {VERSION}"
        )
    return header


def _parse(line: bytes, number: int, path: str | os.PathLike[str]) -> RestoredNode | _EndLine:
    try:
        known = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert(known, RestoredNode if "id" in known else _EndLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingFileError(f"{os.fspath(path)}, line {number}: {error}") from None
