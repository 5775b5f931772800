"""The codec of each protocol.

The codec of a protocol is `wire.<name>`, with underscores for hyphens, and is loaded on first use: most
programs speak one protocol. So another provider is one codec there and one row in `catalog.providers`.
"""

from importlib import import_module
from typing import cast

from ..wire.codec import Codec

__all__ = ["create_codec"]


def create_codec(protocol: str) -> Codec:
    """The codec of a protocol.

    Args:
        protocol: The protocol's name, as the catalog's provider rows give it.
    """
    module = import_module(f"..wire.{protocol.replace('-', '_')}", __package__)
    return cast("Codec", module.create_codec())
