"""The facts of each protocol: its codec, and its endpoints of batches and files, loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..catalog.protocols import PROTOCOLS, folder_of
from ..wire.codec import Codec

if TYPE_CHECKING:
    from .batch_protocol import BatchProtocol
    from .file_endpoints import FileEndpoint


def create_codec(protocol: str) -> Codec:
    """The codec of a protocol.

    Args:
        protocol: The protocol's name, as the catalog's provider rows give it.
    """
    module = import_module(f"..wire.{folder_of(protocol)}.codec", __package__)
    return module.create_codec()


def create_batches(protocol: str) -> "BatchProtocol":
    """The speaker to the batch endpoints of a protocol, which has them.

    Args:
        protocol: The protocol's name.
    """
    return _create(PROTOCOLS[protocol].batches)


def create_files(protocol: str) -> "FileEndpoint":
    """The speaker to the file endpoints of a protocol, which has them.

    Args:
        protocol: The protocol's name.
    """
    return _create(PROTOCOLS[protocol].files)


def _create(row: str) -> Any:
    module, _, name = row.partition(":")
    return getattr(import_module(f".{module}", __package__), name)()
