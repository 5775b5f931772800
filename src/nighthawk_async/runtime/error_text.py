"""An error of user code as one text for the model. Floor 3."""

from pydantic import ValidationError

from ..errors import ToolBoundaryError

__all__ = ["describe_error", "describe_validation_error"]

_MAX_REPORTED_ERRORS = 5


def describe_error(error: BaseException) -> str:
    """The type and the message of an error; of one that is meant for the model, the message. Never raises.

    Args:
        error: What the program's or the model's code raised.
    """
    if isinstance(error, ToolBoundaryError):
        return error.message
    return f"{type(error).__name__}: {_message(error)}".removesuffix(": ")


def describe_validation_error(error: ValidationError) -> str:
    """The first few problems of a validation error on one line, without the values."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    parts = [
        f"at {'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
        if detail["loc"]
        else detail["msg"]
        for detail in details[:_MAX_REPORTED_ERRORS]
    ]
    if len(details) > _MAX_REPORTED_ERRORS:
        parts.append(f"and {len(details) - _MAX_REPORTED_ERRORS} more")
    return "; ".join(parts)


def _message(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"{error.title}: {describe_validation_error(error)}"
    try:
        return str(error)
    except Exception:  # `__str__` of the user's exception may raise anything, and nothing else is lost
        return "its message cannot be shown"
