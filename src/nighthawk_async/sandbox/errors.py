"""Errors within sandboxes."""


class CrossingError(TypeError):
    """A value cannot be copied into a sandbox, or out of it."""
