"""The credentials of providers whose requests carry no key by default: those of the clouds.

The models of a process share them, and so their tokens. Another environment, as tests set it, gets others.
"""

import os
from functools import lru_cache
from hashlib import sha256
from typing import Any

from .. import credentials
from ..catalog.providers import ProviderFacts
from ..credentials.extras import is_installed
from ..types.model import Credentials

_LIBRARIES = {"aws": "botocore", "azure": "azure.identity", "google": "google.auth"}
_VARIABLES = ("AWS_", "AZURE_", "CLOUDSDK_", "GCE_METADATA_", "GOOGLE_", "IDENTITY_", "MSI_", "HOME")


def is_available(facts: ProviderFacts) -> bool:
    """Whether the credentials of a provider can be made: whether their library is installed.

    Args:
        facts: The provider; it has credentials.
    """
    return is_installed(_LIBRARIES[facts.credentials])


def default_credentials(facts: ProviderFacts) -> Credentials:
    """The credentials of a provider, shared by all its models. Nothing is read or sent before their use.

    Args:
        facts: The provider; it has credentials.

    Raises:
        ConfigurationError: The library is not installed.
    """
    return _shared(facts.credentials, tuple(facts.credential_arguments.items()), _environment())


def _environment() -> str:
    """A digest of the environment variables that the libraries read."""
    known = sorted(each for each in os.environ.items() if each[0].startswith(_VARIABLES))
    return sha256(repr(known).encode()).hexdigest()


@lru_cache(maxsize=16)
def _shared(name: str, arguments: tuple[tuple[str, str], ...], environment: str) -> Credentials:
    settings: dict[str, Any] = dict(arguments)
    if name == "aws":
        return credentials.aws(**settings)
    if name == "azure":
        return credentials.azure(**settings)
    return credentials.google(**settings)
