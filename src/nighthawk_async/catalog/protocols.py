"""Facts about the protocols of providers, one row each.

A protocol is its folder in `wire`, with the codec, and its row here. Nothing else asks for its name;
`tests/architecture/test_tables.py` holds that.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class ProtocolFacts(Struct, frozen=True, kw_only=True):
    """Facts about a protocol.

    Args:
        batches: The class in `models` that speaks to its batch endpoint, as `module:class`; empty for none.
        files: The class that speaks to its file endpoint, likewise.
        has_native_calls: Whether its responses hold calls of the provider's own tools; then `native_tools` of
            its folder finds them with `calls_in`.
    """

    batches: str = ""
    files: str = ""
    has_native_calls: bool = False


PROTOCOLS: Mapping[str, ProtocolFacts] = MappingProxyType(
    {
        "openai-chat": ProtocolFacts(
            batches="batch_openai:OpenAIBatches",
            files="file_endpoints:OpenAIFiles",
        ),
        "openai-responses": ProtocolFacts(
            batches="batch_openai:OpenAIBatches",
            files="file_endpoints:OpenAIFiles",
            has_native_calls=True,
        ),
        "anthropic": ProtocolFacts(
            batches="batch_anthropic:AnthropicBatches",
            files="file_endpoints:AnthropicFiles",
            has_native_calls=True,
        ),
        "google": ProtocolFacts(
            batches="batch_google:GoogleBatches",
            files="file_endpoints:GoogleFiles",
            has_native_calls=True,
        ),
    }
)
"""The protocols by their names, which the rows of providers give."""


def folder_of(protocol: str) -> str:
    """The folder of a protocol in `wire`.

    Args:
        protocol: The protocol.
    """
    return protocol.replace("-", "_")
