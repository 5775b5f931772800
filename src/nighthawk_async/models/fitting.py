"""Fits a request to what its model can do, before anything is sent.

Features that the model lacks are refused (`models.feature_checks`), but for a demand that it call some tool:
where it cannot be made to, the choice is left to it. Content of the prompt that the model cannot take is an
error, and so is, before that, content that the protocol cannot carry, which no setting changes. Content of a
tool result is replaced by a text that describes it, since the model may go on without it (specification 8.3).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ..errors import UnsupportedContentError
from ..types.content import MultimodalContent, UserContent
from ..types.messages import AssistantMessage, Message, ToolResult, ToolResultsMessage, UserMessage
from ..types.model import ModelCapabilities, ModelRequest, ToolChoice
from ..wire.media import MediaKind, describe_media, is_all_text, media_kind
from .feature_checks import check_features
from .remedies import remedy

__all__ = ["FindRefusal", "fit_request"]

FindRefusal: TypeAlias = Callable[[MultimodalContent], str | None]
"""Says why a protocol cannot carry a media item, or None when it can."""


def fit_request(
    request: ModelRequest, capabilities: ModelCapabilities, *, model_id: str, find_refusal: FindRefusal
) -> ModelRequest:
    """The request as the model can take it; the same object when nothing had to change.

    Args:
        request: The request, with all settings that are in force.
        capabilities: What the model can do.
        model_id: The model's id, for errors.
        find_refusal: What the protocol cannot carry.

    Raises:
        ConfigurationError: It asks for what the model lacks.
        UnsupportedContentError: A user message holds content that the protocol cannot carry or the model
            cannot take.
    """
    check_features(request, capabilities, model_id=model_id)
    missing = _missing_kinds(capabilities)
    _check_user_content(request, missing, model_id, find_refusal)
    messages = tuple([_fit_message(message, missing) for message in request.messages])
    tool_choice = _fit_tool_choice(request, capabilities)
    is_same = all(new is old for new, old in zip(messages, request.messages, strict=True))
    if is_same and tool_choice == request.tool_choice:
        return request
    return replace(request, messages=messages, tool_choice=tool_choice)


def _fit_tool_choice(request: ModelRequest, capabilities: ModelCapabilities) -> ToolChoice:
    """Leave the choice to a model that cannot be made to call a tool; it calls tools as a rule."""
    is_demanded = request.tool_choice == "required" and bool(request.tools)
    return "auto" if is_demanded and not capabilities.forced_tool_choice else request.tool_choice


def _missing_kinds(capabilities: ModelCapabilities) -> dict[MediaKind, str]:
    """The kinds of media that the model cannot take, each with the name of the capability."""
    missing: dict[MediaKind, str] = {}
    if not capabilities.images:
        missing["image"] = "images"
    if not capabilities.audio:
        missing["audio"] = "audio"
    if not capabilities.video:
        missing["video"] = "video"
    if not capabilities.documents:
        missing["document"] = "documents"
    return missing


def _check_user_content(
    request: ModelRequest, missing: dict[MediaKind, str], model_id: str, find_refusal: FindRefusal
) -> None:
    # First what nobody can change: a setting that the other message recommends would not help.
    for item in _user_media(request):
        if (refusal := find_refusal(item)) is not None:
            raise UnsupportedContentError(f"{model_id}: {refusal}.")
    for item in _user_media(request):
        if (name := missing.get(media_kind(item))) is not None:
            raise UnsupportedContentError(
                f"{model_id}: the model cannot take {describe_media(item)}.{remedy(model_id, name)}"
            )


def _user_media(request: ModelRequest) -> Iterator[MultimodalContent]:
    for message in request.messages:
        if isinstance(message, UserMessage):
            yield from (item for item in message.content if not isinstance(item, str))


def _fit_message(message: Message, missing: dict[MediaKind, str]) -> Message:
    match message:
        case UserMessage() | AssistantMessage():
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
