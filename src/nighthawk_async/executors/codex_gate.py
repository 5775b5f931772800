"""The gate before the tools that Codex has of its own: it asks the library before each call of one.

Codex runs a command before a tool (the hook `PreToolUse`). Ours passes the question on through a socket in
a directory that only the user can enter, and fails closed: without an answer, the call is blocked. The path
of a socket may be short only, so the command enters the directory, and `serve_gate` goes through a link. An
approval policy of Codex would not do: after an approval it repeats a command that fails without the sandbox.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from anyio.abc import SocketStream
from msgspec import Struct

from ..line_process import GONE

_MATCHER = "^([^n]|n[^h]|nh[^_]).*"  # all but the library's own tools, whose names begin with nh_
_TIMEOUT_SECONDS = 30 * 86_400
_MAX_QUESTION_BYTES = 64 * 1024 * 1024
_SOCKET = "gate"
_MAX_PATH_BYTES = 100
_SCRIPT = f"""import os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.connect({_SOCKET!r})
s.sendall(sys.stdin.buffer.read())
s.shutdown(socket.SHUT_WR)
answer = b"".join(iter(lambda: s.recv(65536), b""))
sys.stdout.buffer.write(answer)
sys.exit(0 if answer else 2)
"""


class Question(Struct, frozen=True):
    """A question before a call, whether it may be made, or after it, whether its result is to be shown."""

    session_id: str
    tool_name: str
    tool_use_id: str
    hook_event_name: str
    tool_input: Any = None
    tool_response: Any = None

    @property
    def has_ended(self) -> bool:
        """Whether the call has been carried out."""
        return self.hook_event_name == "PostToolUse"


class GateAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a question.

    Args:
        refusal: The reason against the call; None to allow it.
        arguments: Other arguments for the call; None to leave them.
        shown: Another result of a call that has been carried out; None to leave it.
    """

    refusal: str | None = None
    arguments: Mapping[str, Any] | None = None
    shown: str | None = None

    def encode(self, event: str) -> bytes:
        """The answer as Codex reads it.

        Args:
            event: The name of the hook that asks.
        """
        fields: dict[str, Any] = {"hookEventName": event}
        if event == "PostToolUse":
            return (
                b"{}"
                if self.shown is None
                else msgspec.json.encode({"decision": "block", "reason": self.shown})
            )
        if self.refusal is not None:
            fields |= {"permissionDecision": "deny", "permissionDecisionReason": self.refusal}
        elif self.arguments is not None:
            fields |= {"permissionDecision": "allow", "updatedInput": self.arguments}
        else:
            return b"{}"
        return msgspec.json.encode({"hookSpecificOutput": fields})


def hooks_configuration(directory: str) -> dict[str, Any]:
    """The configuration `hooks` of Codex that makes it ask.

    Args:
        directory: The directory of the socket on which `serve_gate` listens.
    """
    command = shlex.join([sys.executable, "-I", "-S", "-c", _SCRIPT, directory]) + " 2>/dev/null || exit 2"
    hook = {"type": "command", "command": command, "timeout": _TIMEOUT_SECONDS}
    hooks = [{"matcher": _MATCHER, "hooks": [hook]}]
    return {"PreToolUse": hooks, "PostToolUse": hooks}


async def serve_gate(
    directory: str,
    answer: Callable[[Question], Awaitable[GateAnswer]],
    *,
    task_status: anyio.abc.TaskStatus[None],
) -> None:
    """Answer questions until it is cancelled.

    Args:
        directory: The directory in which the socket is made.
        answer: Answers one question.
        task_status: Is told when questions can be asked.
    """

    async def serve(stream: SocketStream) -> None:
        async with stream:
            received = bytearray()
            try:
                while len(received) <= _MAX_QUESTION_BYTES:
                    received += await stream.receive()
                return
            except anyio.EndOfStream:
                pass
            except anyio.BrokenResourceError:
                return
            try:
                question = msgspec.json.decode(bytes(received), type=Question)
            except msgspec.DecodeError:
                return
            given = await answer(question)
            with suppress(*GONE):  # its turn was interrupted
                await stream.send(given.encode(question.hook_event_name))

    async with await _listen(directory) as listener:
        task_status.started()
        await listener.serve(serve)


async def _listen(directory: str) -> anyio.abc.Listener[SocketStream]:
    path = os.path.join(directory, _SOCKET)
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        return await anyio.create_unix_listener(path, mode=0o600)
    with tempfile.TemporaryDirectory(prefix="nighthawk-", dir="/tmp") as short:
        os.symlink(directory, link := os.path.join(short, "d"))
        return await anyio.create_unix_listener(os.path.join(link, _SOCKET), mode=0o600)
