"""Credentials of requests to models: tokens that are refreshed, and signatures.

An object of this package is the model setting `credentials`. It fetches tokens and keys through the
library of a provider, or a function of the program, and belongs to no event loop. It knows nothing of models.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from ..types.model import Credentials, RefreshableCredentials as RefreshableCredentials
    from .aws_signatures import aws
    from .azure_tokens import azure
    from .bearer_token import Token, bearer
    from .errors import CredentialError
    from .google_tokens import google
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "..types.model": (
                "Credentials",
                "RefreshableCredentials",
            ),
            "aws_signatures": ("aws",),
            "azure_tokens": ("azure",),
            "bearer_token": (
                "Token",
                "bearer",
            ),
            "errors": ("CredentialError",),
            "google_tokens": ("google",),
        },
    )

__all__ = [
    "CredentialError",
    "Credentials",
    "Token",
    "aws",
    "azure",
    "bearer",
    "google",
]
