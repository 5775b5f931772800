"""The errors of observing and controlling a running program.

NighthawkError
└── ObserveError
    ├── NodeNotFoundError           the tree has no such node, or has it no longer; also a LookupError
    ├── NotControllableError        the node cannot be controlled in this way at present
    ├── NotRecordingError           nothing is recorded in the caller's context
    └── RecordingFileError          a file is no recording
"""

from ..errors import NighthawkError
from ..pickling import set_public_module


class ObserveError(NighthawkError):
    """The tree was read, or a node was controlled, in a way that is not possible."""


class NodeNotFoundError(ObserveError, LookupError):
    """The tree has no node with this id. It may have had one and dropped it.

    Args:
        node_id: The id.
    """

    def __init__(self, node_id: str) -> None:
        super().__init__(f"there is no node {node_id!r}, or no more: finished nodes are kept up to a limit")
        self.node_id = node_id


class NotControllableError(ObserveError):
    """The node has ended, or does not offer this control at present.

    Args:
        node_id: The id of the node.
        reason: The reason why it cannot be controlled.
    """

    def __init__(self, node_id: str, reason: str) -> None:
        super().__init__(f"node {node_id}: {reason}")
        self.node_id = node_id
        self.reason = reason


class NotRecordingError(ObserveError):
    """Nothing is recorded in the caller's context."""


class RecordingFileError(ObserveError):
    """A file is no recording, or a line of it is malformed."""


set_public_module("observe", globals())
