"""A model request as policies see it."""

from typing import Protocol

from ..ports import AttemptsSource, Model
from ..types.model import FinishReason, ModelEvent, ModelRequest
from ..types.usage import Usage

__all__ = ["ModelCall", "RequestCharges"]


class RequestCharges(Protocol):
    """The charges of a request, from before it is sent until it has ended."""

    @property
    def pricing_error(self) -> Exception | None:
        """The error with which it could not be priced; None when it could."""
        ...

    def note(self, event: ModelEvent) -> None:
        """Remember what has arrived, for the case that nobody tells its usage."""
        ...

    def check_resend(self, attempts: AttemptsSource) -> bool:
        """See `ports.ResendCheck`."""
        ...

    def settle(self, told: Usage | None, *, may_have_consumed: bool) -> Usage:
        """Charge what it consumed.

        Args:
            told: What was told; None when nothing was.
            may_have_consumed: Whether it may have consumed what was not told.

        Returns:
            What was charged.
        """
        ...


class ModelCall:
    """One request to a model.

    Args:
        model: The model that is asked.
        request: The request.

    Attributes:
        request: The request as it is sent; policies may replace it before that.
        charges: What it is charged to; None for nothing.
        usage: What it used; None when nothing was sent, or nobody knows.
        finish_reason: Why the response ended; None when it did not come to its end.
        error: Why it failed; None when it did not.
    """

    __slots__ = ("charges", "error", "finish_reason", "model", "request", "usage")

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self.model = model
        self.request = request
        self.charges: RequestCharges | None = None
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.error: Exception | None = None
