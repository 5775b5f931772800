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
        native_calls: The module of its folder that finds calls of the provider's own tools in responses, with
            `calls_in`.
    """

    batches: str = ""
    files: str = ""
    native_calls: str = "native_tools"


PROTOCOLS: Mapping[str, ProtocolFacts] = MappingProxyType(
    {
        "openai-chat": ProtocolFacts(
            batches="batch_openai:OpenAIBatches",
            files="file_endpoints:OpenAIFiles",
            native_calls="additions",
        ),
        "openai-responses": ProtocolFacts(
            batches="batch_openai:OpenAIBatches",
            files="file_endpoints:OpenAIFiles",
        ),
        "anthropic": ProtocolFacts(
            batches="batch_anthropic:AnthropicBatches",
            files="file_endpoints:AnthropicFiles",
        ),
        "google": ProtocolFacts(
            batches="batch_google:GoogleBatches",
            files="file_endpoints:GoogleFiles",
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
