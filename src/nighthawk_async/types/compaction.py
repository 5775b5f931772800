"""The compaction of a step's conversation, as hooks and policies see it."""

from dataclasses import dataclass

from .messages import Message, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDigest:
    """A tool result that is about to be replaced by a digest.

    Args:
        result: The result as the model saw it.
        text: The digest.
        message_index: The place of its message in the conversation.
        result_index: Its place in the message.
    """

    result: ToolResult
    text: str
    message_index: int
    result_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The changes that a compaction is about to make.

    Hooks and policies may change the `text` of digests, leave digests out, which keeps those results whole,
    and set `summary`, if there are messages to summarise.

    Args:
        model_name: The model id of the step.
        context_window: The size of the model's context in tokens.
        tokens: The size of the conversation.
        tokens_after: An estimate of its size afterwards.
        digests: The tool results that become digests, in order.
        summarized: The messages that a summary replaces; empty for none.
        summary: The summary; None to ask a model for it.
    """

    model_name: str
    context_window: int
    tokens: int
    tokens_after: int
    digests: tuple[ResultDigest, ...] = ()
    summarized: tuple[Message, ...] = ()
    summary: str | None = None
