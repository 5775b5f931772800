"""Errors of executors that no other package raises."""

from collections.abc import Mapping

from ..errors import ExecutionError
from ..pickling import set_public_module


class ContextWindowError(ExecutionError):
    """A request is too large for the context of its model, also after compaction. It was not sent.

    Args:
        message: The failure, naming the step, with the sizes of the parts.
        tokens: The size of the request.
        context_window: The size of the context in tokens.
        parts: The sizes of its parts in tokens, by name.
    """

    def __init__(self, message: str, *, tokens: int, context_window: int, parts: Mapping[str, int]) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.context_window = context_window
        self.parts = parts


set_public_module("executors", globals())
