"""Errors of sandboxes."""

from ..errors import ConfigurationError, NighthawkError
from ..pickling import set_public_module


class SandboxUnavailableError(ConfigurationError):
    """The sandbox that was asked for cannot run here. Code then runs nowhere, and never with less protection."""


class CrossingError(NighthawkError):
    """A value cannot be copied into a sandbox, or out of it."""


set_public_module("errors", globals())
