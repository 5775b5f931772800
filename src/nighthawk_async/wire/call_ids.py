"""Ids for tool calls that came without one, or with one that is taken."""

from uuid import uuid4

__all__ = ["new_call_id"]


def new_call_id(prefix: str = "call") -> str:
    """An id that no other call has, in this conversation or any other.

    Args:
        prefix: What the ids of the protocol begin with.
    """
    return f"{prefix}_{uuid4().hex}"
