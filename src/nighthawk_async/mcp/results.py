"""Results of servers as Python values."""

import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, cast

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic_core import from_json

from ..journal.registered_types import is_registered
from ..journal.values import register
from ..types.messages import BinaryContent
from .tool_facts import ToolFacts
from .values import IS_JSON, LinkedResource, PromptText, ResourceContent

_UNKNOWN_MEDIA_TYPE = "application/octet-stream"


def value_of(result: CallToolResult, tool: ToolFacts) -> object:
    """Return the result of a tool: structured content as it is, otherwise its content.

    A single item stands for itself: one text is a `str`, also if it is JSON, unless the server is one of this
    library and says that it stands for a value. Several are a list.
    Images and other bytes count as content: structured content has them as text, if at all.
    """
    has_structured = "structured_content" in result.model_fields_set and (
        result.structured_content is not None or tool.output_schema is not None or not result.content
    )  # many servers write null for what they do not have
    if has_structured and not any(map(_is_binary, result.content)):
        return tool.unwrapped(result.structured_content)
    value = content_of(result)
    if isinstance(value, str) and (result.meta or {}).get(IS_JSON) is True:
        with suppress(ValueError):
            return from_json(value)
    return value


def _is_binary(content: object) -> bool:
    if isinstance(content, EmbeddedResource):
        return isinstance(content.resource, BlobResourceContents)
    return isinstance(content, ImageContent | AudioContent)


def content_of(result: CallToolResult) -> object:
    """Return the content of a result, without its structured content."""
    items = [content_value(each) for each in result.content]
    return items[0] if len(items) == 1 else items or None


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, for errors."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent)).strip()


def content_value(content: object) -> object:
    """Return one item of content."""
    match content:
        case TextContent():
            return content.text
        case ImageContent() | AudioContent():
            return BinaryContent(data=_decoded(content.data), media_type=content.mime_type)
        case ResourceLink():
            return LinkedResource(
                uri=content.uri,
                name=content.title or content.name,
                description=content.description or "",
                media_type=content.mime_type,
                size=content.size,
            )
        case EmbeddedResource():
            return resource_value(content.resource)
        case _:  # a kind of content that later versions of the protocol have
            return cast("Any", content).model_dump(by_alias=True, mode="json", exclude_none=True)


def resource_value(contents: TextResourceContents | BlobResourceContents) -> ResourceContent:
    """Return the contents of a resource."""
    if isinstance(contents, TextResourceContents):
        return ResourceContent(uri=contents.uri, media_type=contents.mime_type, content=contents.text)
    media_type = contents.mime_type or _UNKNOWN_MEDIA_TYPE
    data = BinaryContent(data=_decoded(contents.blob), media_type=media_type)
    return ResourceContent(uri=contents.uri, media_type=contents.mime_type, content=data)


def prompt_texts(messages: Sequence[PromptMessage]) -> list[PromptText]:
    """Return the messages of a prompt."""
    return [PromptText(role=each.role, content=content_value(each.content)) for each in messages]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error):
        return text.encode()


def _register_for_journals() -> None:
    """Let journals store the values that results are made of."""
    for kind in (BinaryContent, LinkedResource, ResourceContent, PromptText):
        if not is_registered(kind):
            register(
                kind,
                dump=lambda value: {each.name: getattr(value, each.name) for each in fields(value)},
                load=lambda stored, kind=kind: kind(**stored),
            )


_register_for_journals()
