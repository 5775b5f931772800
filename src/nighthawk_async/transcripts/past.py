"""The past of steps: earlier messages that the conversation of each step of a scope begins with.

Reasoning and signatures in the form of one model are dropped for another. A step that offers no tools reads
the calls of its past as text, since providers refuse calls in a request without tools.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ..agent.plain_messages import calls_as_text
from ..configuration import parse_model_id
from ..errors import ConfigurationError, TranscriptError
from ..kernel.policy import Policy, Position
from ..kernel.step import Step
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
from .transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PastPolicy(Policy):
    """Has the conversations of steps begin with earlier messages; those of steps within steps do not.

    Args:
        messages: The messages, oldest first; every call has its result.
        model: The id of the model whose provider content they hold.
    """

    messages: tuple[Message, ...]
    model: str

    position: ClassVar[Position] = Position.PASTS

    def prepare(self, step: Step) -> None:
        """Give the step its past, and the steps within it none."""
        step.opening = self
        step.policies = step.policies.without(PastPolicy)

    def messages_for(self, model: Model | None, *, has_tools: bool) -> tuple[Message, ...]:
        """Return the messages; see `step.Opening.messages_for`."""
        messages = self.messages
        if model is None or model.name != self.model:
            messages = tuple(_for_another(messages, model))
        return messages if has_tools else tuple(map(calls_as_text, messages))


def past_of(value: object) -> PastPolicy | None:
    """Return the policy of the past that steps begin with.

    Args:
        value: A transcript; None for none.

    Raises:
        TranscriptError: It is something else.
    """
    if value is None:
        return None
    if not isinstance(value, Transcript):
        raise TranscriptError(
            f"past must be a nighthawk_async.Transcript or None, not {type(value).__name__!r}; "
            "nighthawk_async.transcript() returns one"
        )
    return PastPolicy(messages=value.messages, model=value.model)


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
