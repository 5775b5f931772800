"""Requests of servers to the model of the run's executor, charged and seen like the executor's own."""

import base64
from collections.abc import Mapping
from typing import Any

import mcp_types as protocol

from ..agent.model_call import load_price, open_stream, report_request, unreported_usage
from ..configuration import StepExecutorConfiguration
from ..errors import ConfigurationError
from ..kernel.environment import get_environment
from ..kernel.usage_meter import UsageMeter
from ..ports import Model
from ..types.messages import AssistantMessage, BinaryContent, Message, UserContent, UserMessage
from ..types.model import FinishReason, ModelRequest, ResponseFinished, TextDelta, UsageReported
from ..types.usage import Usage
from .errors import McpError
from .json_data import characters

_STOP_REASONS: Mapping[FinishReason, str] = {"stop": "endTurn", "length": "maxTokens"}


async def sampled(server: str, params: protocol.CreateMessageRequestParams) -> protocol.CreateMessageResult:
    """Ask the model of the run's executor for a server.

    Args:
        server: The name of the server.
        params: Its request.

    Raises:
        McpError: The executor asks no model, or the request needs tools.
        BudgetExceededError: A budget has no room for it.
        ModelError: The request failed.
    """
    environment = get_environment()
    executor = environment.step_executor
    model: object = getattr(executor, "model", None)
    if not isinstance(model, Model):
        raise McpError(f"Server {server!r} asks for a model, but the executor of the run has none.")
    if params.tools:
        raise McpError(f"Server {server!r} asks a model with tools, which is not offered.")
    configuration = getattr(executor, "configuration", None)
    settings = dict(
        configuration.model_settings if isinstance(configuration, StepExecutorConfiguration) else {}
    )
    if "native_tools" in settings:
        settings["native_tools"] = None  # a server asks for text alone
    settings["max_tokens"] = min(params.max_tokens, settings.get("max_tokens") or params.max_tokens)
    request = ModelRequest(
        system_prompt=params.system_prompt or "",
        messages=tuple(map(_message, params.messages)),
        settings=settings,
    )
    text, reason = await _response(model, request, environment.usage_meter)
    return protocol.CreateMessageResult(
        role="assistant",
        content=protocol.TextContent(text=characters(text)),
        model=model.name,
        stop_reason=_STOP_REASONS.get(reason or "stop", reason),
    )


async def _response(
    model: Model, request: ModelRequest, meter: UsageMeter
) -> tuple[str, FinishReason | None]:
    await load_price(model)
    parts: list[str] = []
    reason: FinishReason | None = None
    reported: Usage | None = None
    stream = open_stream(model, request)
    async with stream as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    parts.append(text)
                case UsageReported(usage=usage):
                    reported = usage
                case ResponseFinished(reason=finish):
                    reason = finish
                case _:
                    pass
    report_request(meter.add, model, stream, reported or unreported_usage())
    return "".join(parts), reason


def _message(message: protocol.SamplingMessage) -> Message:
    content = tuple(map(_content, message.content_as_list))
    if message.role == "user":
        return UserMessage(content=content)
    texts = [each for each in content if isinstance(each, str)]
    return AssistantMessage(text="".join(texts))


def _content(content: Any) -> UserContent:
    match content:
        case protocol.TextContent():
            return content.text
        case protocol.ImageContent() | protocol.AudioContent():
            return BinaryContent(data=base64.b64decode(content.data), media_type=content.mime_type)
        case _:
            raise ConfigurationError(f"A model cannot be sent {content.type!r} for a server.")
