"""`read_recording`: the tree that a file holds; see `recording_file`."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from ..observation import NodeState
from ..types.usage import Usage
from .errors import NodeNotFoundError, RecordingFileError
from .node import Node
from .recording_file import FORMAT, VERSION
from .tree import TaskTree
from .views import ENDS, ErrorView, NodeView, TranscriptPart, ViewedKind

_UNLIMITED = 2**40
"""Characters of transcripts; those of a file are there already."""

_MAX_RETRIES = 100_000


class _Header(Struct, frozen=True):
    format: str
    version: int
    began_at: float


class _NodeLine(Struct, frozen=True):
    """A line about a node; see `NodeView`."""

    id: str
    parent_id: str
    kind: ViewedKind
    name: str
    state: NodeState
    began_at: float
    source: str | None = None
    ended_at: float | None = None
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    error: ErrorView | None = None
    usage_by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])
    retries: Annotated[int, Meta(ge=0, le=_MAX_RETRIES)] = 0
    transcript: list[TranscriptPart] = field(default_factory=list[TranscriptPart])
    attributes: dict[str, str | int | float | bool] = field(
        default_factory=dict[str, str | int | float | bool]
    )

    def node(self) -> Node:
        """Return the node as it began."""
        return Node(
            id=self.id,
            kind=self.kind,
            name=self.name,
            state="running",
            began_at=self.began_at,
            source=self.source,
            inputs=self.inputs,
            attributes=self.attributes,
        )


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
    nodes: dict[str, _NodeLine] = {}
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
        tree = _restore_tree([*nodes.values()], began_at=header.began_at)
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


def _parse(line: bytes, number: int, path: str | os.PathLike[str]) -> _NodeLine | _EndLine:
    try:
        known = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert(known, _NodeLine if "id" in known else _EndLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingFileError(f"{os.fspath(path)}, line {number}: {error}") from None


def _restore_tree(nodes: Sequence[_NodeLine], *, began_at: float) -> TaskTree:
    """Make a tree of recorded nodes.

    Args:
        nodes: The last lines about the nodes, each after that of its parent.
        began_at: The time at which the recording began, in Unix seconds.

    Raises:
        NodeNotFoundError: The parent of a node is not before it.
    """
    tree = TaskTree(
        max_nodes=len(nodes) + 1,
        max_finished_trees=len(nodes),
        max_transcript_characters=_UNLIMITED,
        max_total_transcript_characters=_UNLIMITED,
    )
    state = tree._shared.state  # pyright: ignore[reportPrivateUsage]  (of the same package)
    state.root.began_at = began_at
    for each in nodes:
        parent = state.nodes.get(each.parent_id)
        if parent is None:
            raise NodeNotFoundError(each.parent_id)
        node = each.node()
        state.begin(node, parent, speaks_above=False)
        for part in each.transcript:
            state.write(node, part.kind, part.text, part.key)
        for model, usage in each.usage_by_model.items():
            state.set_usage(node, usage, model)
        for _ in range(each.retries):
            state.count_retry(node)
        if each.state not in ENDS:
            state.change_state(node, each.state)
            state.set_outputs(node, each.outputs)
    for each in sorted(nodes, key=lambda each: each.ended_at or 0.0):
        if each.state in ENDS:
            ended_at = each.began_at if each.ended_at is None else each.ended_at
            state.end(state.nodes[each.id], each.state, ended_at, each.outputs, each.error)
    return tree
