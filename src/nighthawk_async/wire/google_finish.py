"""Meanings of Gemini's finish reasons.

Source: `FinishReason` and `BlockedReason` in `types.py` of the official SDK.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ..types.model import FinishReason, ResponseFailed
from .redaction import excerpt

__all__ = ["blocked_prompt", "failed_response", "normalized_reason"]

_FINISH_REASONS: Mapping[str, FinishReason] = MappingProxyType(
    {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        "CONTINUATION": "length",
        "BLOCKLIST": "content_filter",
        "ESCALATION": "content_filter",
        "IMAGE_OTHER": "content_filter",
        "IMAGE_PROHIBITED_CONTENT": "content_filter",
        "IMAGE_RECITATION": "content_filter",
        "IMAGE_SAFETY": "content_filter",
        "LANGUAGE": "content_filter",
        "MODEL_ARMOR": "content_filter",
        "PROHIBITED_CONTENT": "content_filter",
        "RECITATION": "content_filter",
        "SAFETY": "content_filter",
        "SPII": "content_filter",
    }
)

# Whether the same request may succeed later. What the model wrote wrongly it may write rightly when it is
# sampled again; a missing signature is missing in every request, and an account stays closed.
_FAILURES: Mapping[str, bool] = MappingProxyType(
    {
        "MALFORMED_FUNCTION_CALL": True,
        "MALFORMED_RESPONSE": True,
        "MISSING_THOUGHT_SIGNATURE": False,
        "PUP_LIMITED_DISABLED": False,
        "TOO_MANY_TOOL_CALLS": True,
        "UNEXPECTED_TOOL_CALL": True,
    }
)


def normalized_reason(reason: str, *, has_calls: bool) -> FinishReason:
    """The finish reason in the library's words; an ordinary end after function calls is `tool_calls`.

    Args:
        reason: The provider's word.
        has_calls: Whether the response holds function calls.
    """
    normalized = _FINISH_REASONS.get(reason, "other")
    return "tool_calls" if has_calls and normalized in ("stop", "other") else normalized


def failed_response(reason: str, message: str | None) -> ResponseFailed | None:
    """The failure that a finish reason stands for; None when it stands for none.

    Args:
        reason: The provider's word.
        message: What the provider says about it.
    """
    if reason not in _FAILURES:
        return None
    return ResponseFailed(
        message=_explained(f"The provider ended the response with the finish reason {reason}", message),
        error_type=reason,
        is_transient=_FAILURES[reason],
    )


def blocked_prompt(reason: str, message: str | None) -> ResponseFailed:
    """The failure of a request whose prompt was blocked.

    Args:
        reason: The provider's word.
        message: What the provider says about it.
    """
    said = _explained(f"The provider blocked the prompt: {excerpt(reason, limit=100)}", message)
    return ResponseFailed(message=said, error_type=excerpt(reason, limit=100))


def _explained(sentence: str, message: str | None) -> str:
    return f"{sentence}: {excerpt(message)}" if message else f"{sentence}."
