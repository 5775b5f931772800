"""Messages of a conversation as text, for what takes no calls: a request without tools, an agent's prompt."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..types.messages import AssistantMessage, Message, ToolResultsMessage, UserContent, UserMessage


def calls_as_text(message: Message) -> Message:
    """Return a message with its calls, or the results of calls, as text.

    Args:
        message: The message.
    """
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [f"[called {call.name} with {call.arguments or '{}'}]" for call in message.tool_calls]
        text = "\n".join(filter(None, (message.text, *calls)))
        return replace(message, text=text, tool_calls=(), provider_content=None)
    if isinstance(message, ToolResultsMessage):
        return UserMessage(content=tuple(_items_of_results(message)))
    return message


def conversation_as_text(messages: Sequence[Message]) -> tuple[UserContent, ...]:
    """An earlier conversation as the beginning of a prompt; nothing for none.

    Args:
        messages: The messages.
    """
    if not messages:
        return ()
    items: list[UserContent] = ["The conversation so far:\n"]
    for message in map(calls_as_text, messages):
        items.append("\n[you]\n" if isinstance(message, AssistantMessage) else "\n[user]\n")
        items.extend(message.content)
    return (*items, "\n\nThe conversation goes on:\n\n")


def _items_of_results(message: ToolResultsMessage) -> Iterator[UserContent]:
    for result in message.results:
        yield f"[{'error' if result.is_error else 'result'} of {result.name}]"
        yield from result.content
