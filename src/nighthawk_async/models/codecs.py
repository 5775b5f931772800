"""Who speaks which protocol. Floor 4. A codec is loaded on first use: most programs speak one protocol."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..wire.codec import Codec

__all__ = ["create_codec"]


def create_codec(protocol: str) -> Codec:
    """The codec of a protocol.

    Args:
        protocol: The protocol's name, as the catalog's provider rows give it.
    """
    return _CODECS[protocol]()


def _anthropic() -> Codec:
    from ..wire.anthropic import AnthropicCodec

    return AnthropicCodec()


def _google() -> Codec:
    from ..wire.google import GoogleCodec

    return GoogleCodec()


def _openai_chat() -> Codec:
    from ..wire.openai_chat import OpenAIChatCodec

    return OpenAIChatCodec()


def _openai_responses() -> Codec:
    from ..wire.openai_responses import OpenAIResponsesCodec

    return OpenAIResponsesCodec()


_CODECS: Mapping[str, Callable[[], Codec]] = MappingProxyType(
    {
        "anthropic": _anthropic,
        "google": _google,
        "openai-chat": _openai_chat,
        "openai-responses": _openai_responses,
    }
)
