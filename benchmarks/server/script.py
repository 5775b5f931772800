"""What the server answers: a script, as JSON. No input or output here."""

from typing import Any

import msgspec

__all__ = ["SENT_AT", "Call", "Script", "Turn", "read_script"]

SENT_AT = "{sent_at}"
"""In a string among a call's arguments, stands for the server's `time.monotonic()` when it sends them."""


class Call(msgspec.Struct, forbid_unknown_fields=True):
    """One tool call of a turn."""

    name: str
    arguments: dict[str, Any]


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    """What the model says in one response: a text, calls, or both."""

    text: str = ""
    calls: list[Call] = msgspec.field(default_factory=list[Call])


class Script(msgspec.Struct, forbid_unknown_fields=True):
    """What the model says in one conversation.

    Which turn comes is told by the request: as many as it holds of the assistant's already. A request beyond
    the last turn is an error of the subject.

    Args:
        turns: What it says, response by response.
        response_fields: What the object of each response holds in place of the usual or besides it, for
            clients that check what the provider repeats. The chunks of Chat Completions go without.
        first_byte_seconds: How long after a request its response begins.
        after_calls_seconds: How long a response goes on once its calls are complete. One in one piece is held
            back for as long.
    """

    turns: list[Turn]
    response_fields: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    first_byte_seconds: float = 0.0
    after_calls_seconds: float = 0.0


def read_script(body: bytes) -> Script:
    """A script from its JSON.

    Raises:
        msgspec.MsgspecError: It is no script, or it asks for what no response can hold.
    """
    script = msgspec.json.decode(body, type=Script)
    if not script.turns:
        raise msgspec.ValidationError("a script has at least one turn")
    for turn in script.turns:
        stamped = [call for call in turn.calls if SENT_AT in str(call.arguments)]
        if stamped and stamped != turn.calls[-1:]:
            raise msgspec.ValidationError(f"only the last call of a turn may hold {SENT_AT}")
        if not turn.text and not turn.calls:
            raise msgspec.ValidationError("a turn says something")
    return script
