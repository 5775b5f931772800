"""Tool errors of the kind `oversight` for calls that are not permitted."""

from ...errors import NighthawkError, ToolBoundaryError
from ..people.errors import ArgumentsChangedError
from .call import PermissionCall
from .permissions import PermissionDecision

__all__ = [
    "refusal_after_asking",
    "refusal_of_asking",
    "refusal_of_call",
    "refusal_of_change",
    "refusal_of_disguise",
    "refusal_of_handing_over",
]

_GO_ON = "Do not reach it in another way; go on without it, or end the block."


def refusal_of_call(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """The call is denied."""
    return _refusal(f"{call.name} is not permitted ({decision})", _GO_ON)


def refusal_of_asking(call: PermissionCall) -> ToolBoundaryError:
    """People have to be asked, but the code cannot wait for them where the call stands."""
    return _refusal(
        f"{call.name} needs an approval, which cannot be waited for inside a lambda, a function that is not "
        "async, a class or a generator expression",
        f"Call {call.name} directly.",
    )


def refusal_of_handing_over(call: PermissionCall, decision: PermissionDecision) -> ToolBoundaryError:
    """The function would be called by others."""
    return _refusal(
        f"{call.name} is not permitted to be handed to something that calls it ({decision})",
        _GO_ON if decision.verdict == "deny" else f"Call {call.name} directly.",
    )


def refusal_of_disguise(attribute: str, owner: object) -> ToolBoundaryError:
    """Another value of the attribute would make a function pass for another one."""
    return _refusal(
        f"{attribute} of a {type(owner).__name__} is not assigned: permissions know functions by it", _GO_ON
    )


def refusal_after_asking(call: PermissionCall, error: NighthawkError) -> ToolBoundaryError:
    """People were asked, in vain."""
    text = str(error)
    message = text if text.startswith(f"{call.action}: ") else f"{call.action}: {text}"
    return _refusal(message, _ask_again(call) if isinstance(error, ArgumentsChangedError) else _GO_ON)


def refusal_of_change(call: PermissionCall) -> ToolBoundaryError:
    """The object shows itself in another way than when people were asked."""
    return _refusal(f"{call.action}: the object is no longer what was approved", _ask_again(call))


def _ask_again(call: PermissionCall) -> str:
    return f"Call {call.name} again to ask for another approval."


def _refusal(message: str, guidance: str) -> ToolBoundaryError:
    return ToolBoundaryError(kind="oversight", message=message, guidance=guidance)
