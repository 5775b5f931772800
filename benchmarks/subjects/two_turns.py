"""Scripts for steps of two round trips: the calls in the first response, the end in the second.

It knows no subject. What the tools of a subject are called, what they want and how its model ends differ, and
are the arguments here.
"""

from typing import Any, TypeAlias

from .harness import TOOL_RESULT

__all__ = ["SENT_AT", "TEXT_END", "Call", "Turn", "call", "two_turns"]

Call: TypeAlias = dict[str, Any]
"""A tool's name and its arguments, as a script has them."""

Turn: TypeAlias = dict[str, Any]
"""One response of the model, as a script has it."""

SENT_AT = "{sent_at}"
"""What the server replaces by its clock when it sends the end of a call's arguments."""

TEXT_END: Turn = {"text": TOOL_RESULT}
"""The end of a conversation with a model that ends by saying something."""

TALK = "The note is taken down now, and while that goes on there is a little more to say about it. " * 3
"""What the model goes on saying after the call in a step of the kind "tool-start"."""


def call(tool: str, **arguments: object) -> Call:
    """One tool call."""
    return {"name": tool, "arguments": arguments}


def two_turns(*, assign: Call, wait: Call, note: Call, end: Turn = TEXT_END) -> dict[str, dict[str, Any]]:
    """The scripts of a subject that does every kind of step.

    Args:
        assign: The call that sets the variable.
        wait: The call of the tool that takes a while.
        note: The call of the tool that notes when it was started; it holds `SENT_AT`.
        end: The last response.
    """
    return {
        "assign": {"turns": [{"calls": [assign]}, end]},
        "one-tool": {"turns": [{"calls": [wait]}, end]},
        "eight-tools": {"turns": [{"calls": [wait] * 8}, end]},
        "tool-start": {"turns": [{"calls": [note], "text": TALK}, end]},
    }
