"""A model request as hooks are shown it: nothing in it can be changed in place. Pure.

Its settings, its schemas and what providers want back are shared with other requests, of other runs too.
"""

from dataclasses import replace
from typing import TypeVar

from ...runtime.read_only import deeply_read_only, read_only
from ...types.messages import AssistantMessage, Message
from ...types.model import ModelRequest
from ...types.tools import ToolDefinition

__all__ = ["as_answered", "as_shown"]

Part = TypeVar("Part")


def as_shown(request: ModelRequest) -> ModelRequest:
    """The request with read-only settings, tools, schemas and contents of providers.

    Args:
        request: The request.
    """
    form = request.response_format
    return replace(
        request,
        messages=tuple(map(_shown_message, request.messages)),
        settings=deeply_read_only(request.settings),
        tools=tuple(map(_shown_tool, request.tools)),
        response_format=None if form is None else replace(form, schema=deeply_read_only(form.schema)),
    )


def as_answered(answer: ModelRequest, *, shown: ModelRequest, request: ModelRequest) -> ModelRequest:
    """Return the request by the hooks' answer: parts they left alone are as they were.

    Args:
        answer: The request that the hooks gave back.
        shown: The request that they were shown.
        request: The request itself.
    """
    if answer is shown:
        return request
    form = answer.response_format
    return replace(
        answer,
        messages=_originals(answer.messages, shown.messages, request.messages),
        settings=request.settings if answer.settings is shown.settings else answer.settings,
        tools=_originals(answer.tools, shown.tools, request.tools),
        response_format=request.response_format if form is shown.response_format else form,
    )


def _shown_message(message: Message) -> Message:
    content = message.provider_content if isinstance(message, AssistantMessage) else None
    if content is None:
        return message
    content = replace(content, items=tuple(map(deeply_read_only, content.items)))
    return replace(message, provider_content=content)


def _shown_tool(tool: ToolDefinition) -> ToolDefinition:
    return replace(tool, parameters=deeply_read_only(tool.parameters), metadata=read_only(tool.metadata))


def _originals(
    answered: tuple[Part, ...], shown: tuple[Part, ...], own: tuple[Part, ...]
) -> tuple[Part, ...]:
    """Return the answer with the request's own parts in place of the shown ones."""
    by_shown = {id(each): original for each, original in zip(shown, own, strict=True)}
    return tuple(by_shown.get(id(each), each) for each in answered)
