"""The process `codex app-server` of a run, and the gate before the tools that Codex has of its own.

Codex runs a command before a tool (the hook `PreToolUse`). Ours passes the question on through a socket in
a directory that only the user can enter, and fails closed: without an answer, the call is blocked. The path
of a socket may be short only, so the command enters the directory, and `serve_gate` goes through a link. An
approval policy of Codex would not do: after an approval it repeats a command that fails without the sandbox.
"""

import logging
import math
import os
import shlex
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import SocketStream, TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..catalog.coding_agents import CODING_AGENTS
from ..line_process import GONE, LineProcess, text_of
from .codex_protocol import (
    OtherRequest,
    RequestId,
    Response,
    ThreadMessage,
    Warned,
    decode,
    notification,
    refusal,
    request,
)
from .errors import (
    CodingAgentCrashedError,
    CodingAgentError,
    CodingAgentProtocolError,
    CodingAgentRequestError,
    CodingAgentVersionError,
)

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


_LOGGER = logging.getLogger("nighthawk.codex")
_FACTS = CODING_AGENTS["codex"]
_NAME = _FACTS.title
_MAX_LINE_BYTES = 256 * 1024 * 1024
_START_SECONDS = 60.0
_LAST_SECONDS = 2.0
_GARBAGE_SECONDS = 0.25
_LEAVE_SECONDS = 0.4
_DOUBT_SECONDS = 10.0
_TOO_LATE = GateAnswer(refusal="the step has ended")


class NativeQuestion:
    """A question of Codex whether it may carry out a call, which waits for its answer.

    Args:
        question: The question.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.given: GateAnswer | None = None
        self._answered = anyio.Event()

    def answer(self, answer: GateAnswer) -> None:
        """Answer it; later answers have no effect."""
        if self.given is None:
            self.given = answer
            self._answered.set()

    async def wait(self) -> GateAnswer:
        """Wait for the answer."""
        await self._answered.wait()
        assert self.given is not None
        return self.given


InboxMessage: TypeAlias = ThreadMessage | NativeQuestion
"""A message for a step."""


class Inbox:
    """The messages of one thread, in the order of their arrival; it ends when it is closed."""

    def __init__(self) -> None:
        self._messages: deque[object] = deque()
        self._asked: set[NativeQuestion] = set()
        self._changed = anyio.Event()
        self._is_closed = False

    def put(self, message: object) -> None:
        """Add a message."""
        self._messages.append(message)
        self._changed.set()

    async def ask(self, question: Question) -> GateAnswer:
        """Add a question, and wait for its answer."""
        asked = NativeQuestion(question)
        self._asked.add(asked)
        self.put(asked)
        try:
            return await asked.wait()
        finally:
            self._asked.discard(asked)

    def close(self) -> None:
        """End it after the messages that it holds. What asks is refused."""
        self._is_closed = True
        for asked in self._asked:
            asked.answer(_TOO_LATE)
        self._changed.set()

    async def get(self) -> object | None:
        """Return the next message; None at the end."""
        await checkpoint()
        while not self._messages:
            if self._is_closed:
                return None
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._messages.popleft()


class PendingCall:
    """A request that waits for its response."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.ready = anyio.Event()
        self.response: Response | None = None


class CodexServer:
    """One process. Made by `CodexHost`.

    Args:
        process: The process.
        gate: The configuration of its gate, without the trust in it.
        task_group: Runs what steps leave behind; it ends with the process.

    Attributes:
        ended: Set when it has ended, or is to end.
        log_ended: Set when its standard error has ended.
        concluded: Set when its failure is known.
        version: Its version.
    """

    def __init__(self, process: LineProcess, gate: Mapping[str, Any], task_group: TaskGroup) -> None:
        self.ended = anyio.Event()
        self.log_ended = anyio.Event()
        self.concluded = anyio.Event()
        self.version: tuple[int, ...] = ()
        self.gate = gate
        self._process = process
        self._task_group = task_group
        self._error: str | None = None
        self._is_hung = False
        self._exit_code: int | None = None
        self._pending: dict[RequestId, PendingCall] = {}
        self._threads: set[PendingCall] = set()
        self._inboxes: dict[str, Inbox] = {}
        self._lines, self._to_write = anyio.create_memory_object_stream[bytes](math.inf)
        self._requests = 0

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it cannot be used any more."""
        return self.ended.is_set() or self._process.has_ended

    def send(self, line: bytes) -> None:
        """Have a line written, by a task of its own: a step that is cancelled must not leave half a line."""
        with suppress(*GONE):  # those that wait for an answer get its failure
            self._lines.send_nowait(line)

    def begin_call(self, method: str, parameters: Mapping[str, Any]) -> PendingCall:
        """Send a request, whose `result` can be awaited."""
        self._requests += 1
        pending = PendingCall(method)
        if self.ended.is_set():
            pending.ready.set()
        else:
            self._pending[self._requests] = pending
            self.send(request(self._requests, method, parameters))
        return pending

    async def result(self, pending: PendingCall) -> Mapping[str, Any]:
        """Wait for the result of a request.

        Raises:
            CodingAgentRequestError: It refuses the request.
            CodingAgentError: It has ended.
        """
        await pending.ready.wait()
        if pending.response is None:
            raise await self.failure()
        if (error := pending.response.error) is not None:
            raise CodingAgentRequestError(
                f"{_NAME} refused {pending.method}: {error.message.strip()}", agent=_NAME
            )
        return pending.response.result

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and wait for its result.

        Raises:
            CodingAgentRequestError: It refuses the request.
            CodingAgentError: It has ended.
        """
        return await self.result(self.begin_call(method, parameters))

    def begin_thread(self, parameters: Mapping[str, Any]) -> PendingCall:
        """Start a thread, to be left with `leave`."""
        thread = self.begin_call("thread/start", parameters)
        self._threads.add(thread)
        return thread

    async def leave(self, thread: PendingCall, turn: PendingCall | None, *, is_urgent: bool) -> None:
        """Leave a thread: interrupt its turn, end what it runs, and forget it.

        Returns within half a second, also when the caller is cancelled; what is not done by then is done
        behind it. A server that does not answer is ended: at once if it is urgent and no other thread uses
        the server, and later otherwise, as it may be only busy.

        Args:
            thread: The request that started the thread.
            turn: The request that started its turn, if it is running.
            is_urgent: Whether the step was cancelled.
        """
        self._threads.discard(thread)
        if self.ended.is_set():
            return
        left = anyio.Event()
        self._task_group.start_soon(self._leave, thread, turn, left)
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            await left.wait()
        if is_urgent and not left.is_set() and not self._threads:
            self._end_hung()

    async def _leave(self, thread: PendingCall, turn: PendingCall | None, left: anyio.Event) -> None:
        with anyio.move_on_after(_DOUBT_SECONDS) as limit:
            await self._end_thread(thread, turn)
        left.set()
        if limit.cancelled_caught:
            self._end_hung()

    def _end_hung(self) -> None:
        _LOGGER.warning("%s does not answer, and is ended", _NAME)
        self._error, self._is_hung = self._error or f"{_NAME} did not answer", True
        self.close()

    async def _end_thread(self, thread: PendingCall, turn: PendingCall | None) -> None:
        with suppress(CodingAgentError):
            named = {"threadId": (await self.result(thread))["thread"]["id"]}
            if turn is not None:
                with suppress(CodingAgentRequestError):  # it has ended meanwhile
                    turn_id = (await self.result(turn))["turn"]["id"]
                    await self.call("turn/interrupt", {**named, "turnId": turn_id})
            await self.call("thread/backgroundTerminals/clean", named)
            self.begin_call("thread/unsubscribe", named)

    def open_inbox(self, thread_id: str) -> Inbox:
        """Return the messages of a thread from now on; they end when the server ends."""
        inbox = Inbox()
        if self.ended.is_set():
            inbox.close()
        else:
            self._inboxes[thread_id] = inbox
        return inbox

    def close_inbox(self, thread_id: str) -> None:
        """End the messages of a thread."""
        if (inbox := self._inboxes.pop(thread_id, None)) is not None:
            inbox.close()

    async def watch(self) -> None:
        """Wait until it has ended, or is to end, and then for its last words and its exit code."""
        await self.ended.wait()
        if not self._is_hung:
            with anyio.move_on_after(_LAST_SECONDS if self._error is None else _GARBAGE_SECONDS):
                await self.log_ended.wait()
                await self._process.wait(_LAST_SECONDS)
        self.conclude()

    def conclude(self) -> None:
        """Have all that wait for it get its failure."""
        self.close()
        if not self.concluded.is_set():
            self._exit_code = self._process.returncode
            self.concluded.set()

    async def failure(self) -> CodingAgentError:
        """Return the error of its end, once the last words of its standard error are there."""
        await self.concluded.wait()
        lines = self._process.last_lines
        if self._error is not None:
            return CodingAgentProtocolError(self._error, agent=_NAME, last_lines=lines)
        code = self._exit_code
        how = "closed its output" if code is None else f"ended with exit code {code}"
        return CodingAgentCrashedError(
            f"{_NAME} {how} before it had a result", agent=_NAME, exit_code=code, last_lines=lines
        )

    async def initialize(self, api_key: str | None) -> None:
        """Begin the conversation.

        Raises:
            CodingAgentError: It is too old, or does not work.
        """
        with anyio.move_on_after(_START_SECONDS) as limit:
            client = {"name": "nighthawk-async", "title": "nighthawk-async", "version": "1"}
            capabilities = {"experimentalApi": True, "requestAttestation": False}
            greeting = await self.call("initialize", {"clientInfo": client, "capabilities": capabilities})
            self._check_version(str(greeting.get("userAgent", "")))
            self.send(notification("initialized"))
            if api_key is not None:
                await self.call("account/login/start", {"type": "apiKey", "apiKey": api_key})
            await self._trust_gate()
        if limit.cancelled_caught:
            raise CodingAgentCrashedError(
                f"{_NAME} did not answer within {_START_SECONDS:g} seconds",
                agent=_NAME,
                exit_code=None,
                last_lines=self._process.last_lines,
            )

    def _check_version(self, user_agent: str) -> None:
        found = user_agent.partition("/")[2].partition(" ")[0]
        numbers = found.partition("-")[0].split(".")
        if not all(number.isdecimal() for number in numbers):
            raise CodingAgentProtocolError(
                f"{_NAME} reports no version, but {user_agent!r}",
                agent=_NAME,
                last_lines=self._process.last_lines,
            )
        self.version = tuple(map(int, numbers))
        if self.version < _FACTS.minimum_version:
            needed = ".".join(map(str, _FACTS.minimum_version))
            raise CodingAgentVersionError(
                f"{_NAME} {found} is too old: version {needed} is needed; update it, for example with "
                f"`npm install -g {_FACTS.package}`",
                agent=_NAME,
                found=found,
                needed=needed,
            )

    async def _trust_gate(self) -> None:
        """Find out under which key and digest Codex wants our gate to be trusted."""
        listed = await self.call("hooks/list", {"cwds": [os.sep]})
        state = {
            hook["key"]: {"trusted_hash": hook["currentHash"]}
            for entry in listed.get("data", ())
            for hook in entry.get("hooks", ())
            if hook.get("command") == self.gate["PreToolUse"][0]["hooks"][0]["command"]
        }
        if not state:
            raise CodingAgentProtocolError(f"{_NAME} does not list the hook of the library", agent=_NAME)
        self.gate = {**self.gate, "state": state}

    async def check_gate(self, thread_id: str) -> None:
        """Make sure that Codex asks before native calls of a thread.

        Raises:
            CodingAgentProtocolError: It would not ask.
        """
        listed = await self.call("hooks/list", {"threadId": thread_id})
        command = self.gate["PreToolUse"][0]["hooks"][0]["command"]
        trusted = {
            hook.get("eventName")
            for entry in listed.get("data", ())
            for hook in entry.get("hooks", ())
            if hook.get("command") == command
            and hook.get("trustStatus") in ("trusted", "managed")
            and hook.get("enabled", True)
        }
        if {"preToolUse", "postToolUse"} <= trusted:
            return
        raise CodingAgentProtocolError(
            f"{_NAME} {'.'.join(map(str, self.version))} would not ask before it uses its own tools; "
            "leave out native_tools, or use another version",
            agent=_NAME,
        )

    async def answer_question(self, question: Question) -> GateAnswer:
        """Pass a question on to the step that it belongs to."""
        inbox = self._inboxes.get(question.session_id)
        return _TOO_LATE if inbox is None else await inbox.ask(question)

    async def read(self) -> None:
        """Read its messages until it ends."""
        try:
            async for line in self._process.lines(_MAX_LINE_BYTES):
                if line.strip() and not self._take(line):
                    return
        except GONE:
            pass
        finally:
            self.close()

    async def write(self) -> None:
        """Write the lines that are sent until it ends."""
        try:
            with self._lines, self._to_write:
                async for line in self._to_write:
                    await self._process.send(line)
        except GONE:
            await anyio.sleep(_LAST_SECONDS)  # its output may tell why
            self.close()

    async def read_log(self) -> None:
        """Read its standard error until it ends."""
        try:
            await self._process.read_log()
        finally:
            self.log_ended.set()

    def _take(self, line: bytes) -> bool:
        """Process a line; return whether the conversation goes on."""
        try:
            message = decode(line)
        except (ValueError, RecursionError):  # nested too deeply
            text = text_of(line)[:200]
            self._error = f"{_NAME} wrote a line that is no message: {text}"
            return False
        match message:
            case None:
                pass
            case Response():
                if (pending := self._pending.pop(message.id, None)) is not None:
                    pending.response = message
                    pending.ready.set()
            case OtherRequest():
                self.send(refusal(message.id, message.method))
            case Warned():
                _LOGGER.info("%s: %s", _NAME, message.text)
            case _:
                if (inbox := self._inboxes.get(message.thread_id)) is not None:
                    inbox.put(message)
        return True

    def close(self) -> None:
        """Have it ended: nothing is sent to it any more."""
        self.ended.set()
        for pending in self._pending.values():
            pending.ready.set()
        self._pending.clear()
        for inbox in self._inboxes.values():
            inbox.close()
        self._inboxes.clear()
