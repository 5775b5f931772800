"""`read_recording`: the tree that a file holds; see `recording_file`."""

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct, field

from ..observation import NodeState, TranscriptKind
from ..types.usage import Usage
from .errors import NodeNotFoundError, RecordingFileError
from .node import Node
from .recording_file import FORMAT, VERSION
from .tree import TaskTree
from .views import ENDS, ErrorView, NodeView, TranscriptPart, ViewedKind

_UNLIMITED = 2**40
"""Characters of transcripts; those of a file are there already."""


class _Header(Struct, frozen=True):
    format: str
    version: int
    began_at: float


class _UsageLine(Struct, frozen=True):
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    retries: int = 0
    cost: Decimal = Decimal(0)
    unpriced_requests: int = 0
    is_complete: bool = True

    def usage(self) -> Usage:
        return Usage(**msgspec.structs.asdict(self))


class _ErrorLine(Struct, frozen=True):
    type: str
    message: str


class _PartLine(Struct, frozen=True):
    kind: TranscriptKind
    text: str
    key: str | None = None
    is_cut: bool = False


class _RecordedNode(Struct, frozen=True, kw_only=True):
    """The last state of a node that was recorded in a file.

    Args:
        node: The node as it began.
        parent_id: The id of its parent.
        state: Its last state.
        ended_at: The time at which it ended, in Unix seconds; None when it has not.
        outputs: Its outputs.
        error: The error that ended it.
        usage: Its own usage by model.
        retries: The number of times that it was retried.
        transcript: The parts of its transcript.
    """

    node: Node
    parent_id: str
    state: NodeState
    ended_at: float | None
    outputs: Mapping[str, str]
    error: ErrorView | None
    usage: Mapping[str, Usage]
    retries: int
    transcript: Sequence[TranscriptPart]


def _restore_tree(nodes: Sequence[_RecordedNode], *, began_at: float) -> TaskTree:
    """Make a tree of recorded nodes.

    Args:
        nodes: The nodes, each after its parent.
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
        state.begin(each.node, parent, speaks_above=False)
        for part in each.transcript:
            state.write(each.node, part.kind, part.text, part.key)
        for model, usage in each.usage.items():
            state.set_usage(each.node, usage, model)
        for _ in range(each.retries):
            state.count_retry(each.node)
        state.change_state(each.node, each.state)
        state.set_outputs(each.node, each.outputs)
    for each in sorted(nodes, key=lambda each: each.ended_at or 0.0):
        if each.ended_at is not None:
            state.end(each.node, each.state, each.ended_at, each.outputs, each.error)
    return tree


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
    error: _ErrorLine | None = None
    usage_by_model: dict[str, _UsageLine] = field(default_factory=dict[str, _UsageLine])
    retries: int = 0
    transcript: list[_PartLine] = field(default_factory=list[_PartLine])
    attributes: dict[str, str | int | float | bool] = field(
        default_factory=dict[str, str | int | float | bool]
    )

    def recorded(self) -> _RecordedNode:
        """Return the node."""
        error = self.error
        return _RecordedNode(
            node=Node(
                id=self.id,
                kind=self.kind,
                name=self.name,
                state="running",
                began_at=self.began_at,
                source=self.source,
                inputs=self.inputs,
                attributes=self.attributes,
            ),
            parent_id=self.parent_id,
            state=self.state,
            ended_at=self.ended_at if self.state in ENDS else None,
            outputs=self.outputs,
            error=None if error is None else ErrorView(type=error.type, message=error.message),
            usage={model: line.usage() for model, line in self.usage_by_model.items()},
            retries=self.retries,
            transcript=[
                TranscriptPart(kind=part.kind, text=part.text, key=part.key, is_cut=part.is_cut)
                for part in self.transcript
            ],
        )


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
            if "ended_at" in known and "id" not in known:
                ended_at = float(known["ended_at"] or 0.0)
                continue
            node = _convert(known, number, path)
            nodes[node.id] = node
    if header is None:
        raise RecordingFileError(
            f"{os.fspath(path)} is no recording of nighthawk-async: it has no whole line"
        )
    try:
        tree = _restore_tree([node.recorded() for node in nodes.values()], began_at=header.began_at)
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


def _parse(line: bytes, number: int, path: str | os.PathLike[str]) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingFileError(f"{os.fspath(path)}, line {number}: {error}") from None


def _convert(known: Mapping[str, Any], number: int, path: str | os.PathLike[str]) -> _NodeLine:
    try:
        return msgspec.convert(known, _NodeLine)
    except msgspec.ValidationError as error:
        raise RecordingFileError(f"{os.fspath(path)}, line {number}: {error}") from None
