"""The facts of each protocol: its codec, and its endpoints of batches and files, loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..catalog.endpoint_rules import rules_of_protocol
from ..catalog.protocols import PROTOCOLS, folder_of
from ..types.endpoint_rules import EndpointRules
from ..wire.codec import Codec

if TYPE_CHECKING:
    from .batch_protocol import BatchProtocol
    from .file_endpoints import FileEndpoint


def create_codec(protocol: str, rules: EndpointRules | None = None) -> Codec:
    """The codec of a protocol.

    Args:
        protocol: The protocol's name, as the catalog's provider rows give it.
        rules: The rules of the endpoint; None for those of a server that is not known.
    """
    module = import_module(f"..wire.{folder_of(protocol)}.codec", __package__)
    return module.create_codec(rules_of_protocol(protocol) if rules is None else rules)


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
