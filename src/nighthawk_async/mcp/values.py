"""Values that servers return, beside texts, data and `BinaryContent`."""

from dataclasses import dataclass
from typing import Any, Literal

from ..types.messages import BinaryContent

ERROR_KIND = "nighthawk-async/error-kind"
"""The key in the metadata of a result under which servers of this library say the kind of a failure."""
IS_JSON = "nighthawk-async/is-json"
"""The key under which they say that the text of the result is a value in JSON, not a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedResource:
    """A resource of a server that can be read: `await nh.mcp.read_resource(server, resource.uri)`.

    Args:
        uri: Its URI.
        name: Its name.
        description: Its description; empty for none.
        media_type: The media type; None when it is unknown.
        size: The size in bytes; None when it is unknown.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A pattern of resources of a server.

    Args:
        uri_template: The URI, with `{variables}` as RFC 6570 has them.
        name: Its name.
        description: Its description; empty for none.
        media_type: The media type; None when it is unknown or differs.
    """

    uri_template: str
    name: str
    description: str = ""
    media_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContent:
    """The content of a resource.

    Args:
        uri: The URI of the resource.
        media_type: The media type; None when it is unknown.
        content: The text or the bytes.
    """

    uri: str
    media_type: str | None
    content: str | BinaryContent


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDescription:
    """A prompt that a server offers.

    Args:
        name: Its name, for `nighthawk_async.mcp.get_prompt`.
        description: Its description; empty for none.
        required: The names of the arguments that have to be given.
        optional: The names of the others.
    """

    name: str
    description: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptText:
    """One message of a prompt.

    Args:
        role: The role that speaks.
        content: A text, `BinaryContent`, `LinkedResource` or `ResourceContent`.
    """

    role: Literal["user", "assistant"]
    content: Any
