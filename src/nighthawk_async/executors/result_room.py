"""The room that a model has left for tool results."""

from collections.abc import Iterable

from msgspec.structs import replace

from ..prompt.room import MULTIMODAL_ITEM_TOKENS
from ..runtime.tool_outcome import ToolOutcome, ToolResultRenderingPolicy, render_outcome
from ..types.content import UserContent
from ..types.usage import Usage

__all__ = ["ResultRoom"]

_PART_OF_REST = 4
"""A result takes at most one part in so many of what is left, so that the next ones have room too."""

_LEAST_TOKENS = 100
"""What a result may have in any case."""

_CHARACTERS_PER_TOKEN = 3
"""A low estimate: the room is used up early rather than late."""


class ResultRoom:
    """Renders the results of one step within what is left of its model's context.

    What the conversation holds is what the provider reported of its last request, and what came since,
    estimated by its characters.

    Args:
        policy: How results are rendered, and how long they may be at most.
        context_window: The size of the model's context in tokens; None when it is not known, which leaves
            every result as much as the policy says.
    """

    def __init__(self, policy: ToolResultRenderingPolicy, context_window: int | None) -> None:
        self._policy = policy
        self._context_window = context_window
        self._used = 0

    @property
    def max_tokens(self) -> int:
        """The most tokens that the next result may have."""
        most = self._policy.tool_result_max_tokens
        if self._context_window is None:
            return most
        left = self._context_window - self._used
        return min(most, max(_LEAST_TOKENS, left // _PART_OF_REST))

    def hold(self, content: Iterable[UserContent]) -> None:
        """Take in something that the conversation holds from now on."""
        for item in content:
            is_text = isinstance(item, str)
            self._used += len(item) // _CHARACTERS_PER_TOKEN if is_text else MULTIMODAL_ITEM_TOKENS

    def measure(self, usage: Usage) -> None:
        """Take in what a request and its response had, as its provider reported it."""
        self._used = max(self._used, usage.input_tokens + usage.output_tokens)

    def render(self, outcome: ToolOutcome) -> tuple[UserContent, ...]:
        """Render a result, within the room there is."""
        policy = replace(self._policy, tool_result_max_tokens=self.max_tokens)
        content = render_outcome(outcome, policy)
        self.hold(content)
        return content
