"""Errors of cassettes.

Both leave natural functions bare: no model is told of them, and nothing is asked again.
"""

from ..runtime.model_access import InterceptionError

__all__ = ["CassetteError", "CassetteMissError"]


class CassetteError(InterceptionError):
    """A cassette cannot be used as it is: its file is bad, taken or would be overwritten."""


class CassetteMissError(CassetteError):
    """No recording fits a request, and the cassette does not record."""

    _without_content = "no recording fits a request, and the cassette does not record"
