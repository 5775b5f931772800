"""Exports of `nighthawk_async.credentials`. Each name is loaded on first use."""

from ..types.model import Credentials, RefreshableCredentials
from .aws_signatures import aws
from .azure_tokens import azure
from .bearer_token import Token, bearer
from .errors import CredentialError
from .google_tokens import google

__all__ = [
    "CredentialError",
    "Credentials",
    "RefreshableCredentials",
    "Token",
    "aws",
    "azure",
    "bearer",
    "google",
]
