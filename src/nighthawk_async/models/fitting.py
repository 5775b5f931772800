"""Fits a request to what its model can do, before anything is sent. Floor 4.

What a protocol cannot carry is the codec's to refuse; this is about the model behind it. Content of the
prompt that the model cannot take is an error. Content of a tool result is replaced by a text that describes
it, since the model may go on without it (specification 8.3).
"""

from dataclasses import replace

from ..errors import ConfigurationError, UnsupportedContentError
from ..types.content import UserContent
from ..types.messages import AssistantMessage, Message, ToolResult, ToolResultsMessage, UserMessage
from ..types.model import ModelCapabilities, ModelRequest
from ..wire.media import MediaKind, describe_media, is_all_text, media_kind

__all__ = ["fit_request"]


def fit_request(request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str) -> ModelRequest:
    """The request as the model can take it; the same object when nothing had to change.

    Args:
        request: The request.
        capabilities: What the model can do.
        model_id: The model's id, for errors.

    Raises:
        ConfigurationError: It offers tools or demands a schema, and the model has no such thing.
        UnsupportedContentError: A user message holds content that the model cannot take.
    """
    if request.tools and not capabilities.tools:
        raise ConfigurationError(f"{model_id} does not call tools.{_remedy('tools')}")
    if request.response_format is not None and not capabilities.structured_output:
        raise ConfigurationError(
            f"{model_id} does not hold its answer to a JSON Schema.{_remedy('structured_output')}"
        )
    missing = _missing_kinds(capabilities)
    messages = tuple([_fit_message(message, missing, model_id) for message in request.messages])
    is_same = all(new is old for new, old in zip(messages, request.messages, strict=True))
    return request if is_same else replace(request, messages=messages)


def _missing_kinds(capabilities: ModelCapabilities) -> dict[MediaKind, str]:
    """The kinds of media that the model cannot take, each with the name of the capability."""
    missing: dict[MediaKind, str] = {}
    if not capabilities.images:
        missing["image"] = "images"
    if not capabilities.audio:
        missing["audio"] = "audio"
    if not capabilities.documents:
        missing["document"] = "documents"
    return missing


def _fit_message(message: Message, missing: dict[MediaKind, str], model_id: str) -> Message:
    match message:
        case UserMessage():
            for item in message.content:
                if not isinstance(item, str) and (name := missing.get(media_kind(item))) is not None:
                    raise UnsupportedContentError(
                        f"{model_id} cannot take {describe_media(item)}.{_remedy(name)}"
                    )
            return message
        case AssistantMessage():
            return message
        case ToolResultsMessage():
            if all(is_all_text(result.content) for result in message.results):
                return message
            return ToolResultsMessage(results=tuple([_fit_result(each, missing) for each in message.results]))


def _fit_result(result: ToolResult, missing: dict[MediaKind, str]) -> ToolResult:
    content = tuple([_fit_item(item, missing) for item in result.content])
    return replace(result, content=content)


def _fit_item(item: UserContent, missing: dict[MediaKind, str]) -> UserContent:
    if isinstance(item, str) or media_kind(item) not in missing:
        return item
    return f"[{describe_media(item)}; it cannot be shown to this model]"


def _remedy(capability: str) -> str:
    return f" If it does, say so with the model setting capabilities={{{capability!r}: True}}."
