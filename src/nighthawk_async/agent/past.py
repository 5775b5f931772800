"""The past of a step as its own model takes it: a past of another model, or one whose tools are not offered.

Reasoning and signatures in the form of one model are dropped for another. A step that offers no tools reads
the calls of its past as text, since providers refuse calls in a request without tools.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..configuration import parse_model_id
from ..errors import ConfigurationError
from ..kernel.usage_meter import Past
from ..ports import Model
from ..types.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultsMessage,
    UploadedFile,
    UserContent,
    UserMessage,
)
from ..types.model import ModelCapabilities
from ..wire.media import describe_media, media_kind


def past_messages(past: Past, model: Model | None, *, has_tools: bool) -> tuple[Message, ...]:
    """Return the messages that a conversation begins with.

    Args:
        past: The past of the step.
        model: The model that is asked; None for an agent of the program's own.
        has_tools: Whether the requests of the step offer tools.
    """
    messages = past.messages
    if model is None or model.name != past.model:
        messages = tuple(_for_another(messages, model))
    return messages if has_tools else tuple(map(calls_as_text, messages))


def _for_another(messages: tuple[Message, ...], model: Model | None) -> Iterator[Message]:
    """Yield messages without content of their provider, and with ids of calls that occur once."""
    taken: set[str] = set()
    ids: list[str] = []  # of the last response with calls
    for message in messages:
        match message:
            case UserMessage():
                yield message if model is None else _with_fit_media(message, model)
            case AssistantMessage():
                calls = tuple(_with_unique_id(call, taken) for call in message.tool_calls)
                ids = [call.id for call in calls]
                yield replace(message, tool_calls=calls, provider_content=None)
            case ToolResultsMessage():
                results = zip(message.results, ids, strict=True)
                yield ToolResultsMessage(results=tuple(replace(each, call_id=id_) for each, id_ in results))


def _with_unique_id(call: ToolCall, taken: set[str]) -> ToolCall:
    """The call with an id that no earlier one has; providers with numbers of their own repeat them."""
    id_, number = call.id, 1
    while id_ in taken:
        number += 1
        id_ = f"{call.id}_{number}"
    taken.add(id_)
    return call if id_ == call.id else replace(call, id=id_)


def _with_fit_media(message: UserMessage, model: Model) -> UserMessage:
    """The message with words in place of media that the model cannot take."""
    content = tuple(_fit_item(item, model) for item in message.content)
    return message if content == message.content else UserMessage(content=content)


def _fit_item(item: UserContent, model: Model) -> UserContent:
    if isinstance(item, str):
        return item
    is_foreign = isinstance(item, UploadedFile) and item.provider_name != _provider(model.name)
    if not is_foreign and _takes(model.capabilities, media_kind(item)):
        return item
    return f"[{describe_media(item)}; it cannot be shown to this model]"


def _takes(capabilities: ModelCapabilities, kind: str) -> bool:
    takes = {
        "image": capabilities.images,
        "audio": capabilities.audio,
        "video": capabilities.video,
        "document": capabilities.documents,
    }
    return takes[kind]


def _provider(model_name: str) -> str:
    try:
        return parse_model_id(model_name).provider
    except ConfigurationError:  # a model of the program's own may have any name
        return model_name


def calls_as_text(message: Message) -> Message:
    """Return a message with its calls, or the results of calls, as text.

    Args:
        message: The message.
    """
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [f"[called {call.name} with {call.arguments or '{}'}]" for call in message.tool_calls]
        text = "\n".join(filter(None, (message.text, *calls)))
        return AssistantMessage(text=text, reasoning=message.reasoning)
    if isinstance(message, ToolResultsMessage):
        return UserMessage(content=tuple(_items_of_results(message)))
    return message


def past_as_text(messages: Sequence[Message]) -> tuple[UserContent, ...]:
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
