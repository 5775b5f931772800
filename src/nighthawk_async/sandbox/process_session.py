"""A process that runs the code of one step in Bubblewrap; see `process_program` for the messages."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process, TaskGroup

from ..actors import BareTaskGroup
from ..errors import SandboxUnavailableError
from ..types.unset import UNSET
from .bubblewrap import filtered_system_calls, find_bubblewrap, process_command
from .crossing import Reference, kind_of
from .host_calls import as_caught
from .process_wire import WireError, decode, encode
from .sessions import Cell, CellEnd, CodeFailure, Crossed, Host, HostError
from .settings import SandboxSettings

_PROGRAM = Path(__file__).with_name("process_program.py")
_GRACE_SECONDS = 1.0
_END_SECONDS = 5.0
_START_SECONDS = 30.0
_LARGE_BYTES = 100_000
_CHUNK = 65_536
_OUT_OF_TIME = "nighthawk: out of time"


class ProcessSession:
    """The session of one step.

    Args:
        sandbox: The limits of the code.
    """

    def __init__(self, sandbox: SandboxSettings) -> None:
        self._sandbox = sandbox
        self._process: Process | None = None
        self._buffer = bytearray()
        self._references: dict[int, Reference] = {}
        self._calls_left = sandbox.calls
        self._is_new = True
        self._sending = anyio.Lock()

    async def run(self, cell: Cell, host: Host) -> CellEnd:
        """Run code; see `Session.run`."""
        if self._process is None:
            await self._begin()
        try:
            return await self._run(cell, host)
        except _EndedError as ended:
            await self.aclose()
            failure = CodeFailure(type_name=ended.type_name, message=ended.message, loses_names=True)
            return CellEnd(failure=failure)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await _read_to_end(process)
            await process.aclose()

    async def _begin(self) -> None:
        """Start the process.

        Raises:
            SandboxUnavailableError: It cannot be started.
        """
        program = find_bubblewrap()
        source = await anyio.to_thread.run_sync(_PROGRAM.read_text)
        limits = (str(self._sandbox.memory_bytes), str(self._sandbox.recursion))
        with filtered_system_calls() as descriptor:
            python = [sys.executable, "-I", "-c", source, *limits]
            command = process_command(program, python, filter_descriptor=descriptor)
            with anyio.CancelScope(shield=True):  # a cancellation meanwhile would leave its pipes behind
                self._process = await anyio.open_process(
                    command, stderr=subprocess.PIPE, env={}, cwd="/", pass_fds=(descriptor,)
                )
        self._buffer.clear()
        self._references.clear()
        self._calls_left = self._sandbox.calls
        self._is_new = True

    async def _run(self, cell: Cell, host: Host) -> CellEnd:
        def given(value: Crossed) -> Any:
            return encode(self._noted(value), lambda each: host.is_async(each, None))

        message = {
            "op": "run",
            "text": cell.text,
            "is_expression": cell.is_expression,
            "inputs": {name: given(value) for name, value in cell.inputs.items()},
            "modules": dict(cell.modules),
            "reads": list(cell.reads),
            "binds": list(cell.binds),
            "seconds": self._sandbox.seconds,
        }
        await self._send(message)
        async with BareTaskGroup() as calls:
            try:
                end = await self._serve(host, calls, given)
            finally:
                calls.cancel_scope.cancel()
            return self._end(end)
        raise AssertionError("a group that is cancelled by its own code returns")

    def _noted(self, value: Any) -> Any:
        """Note the references in a value that is sent."""
        if type(value) is Reference:
            self._references[value.key] = value
            for each in (value.fields or {}).values():
                self._noted(each)
            if value.class_key:
                self._references.setdefault(
                    value.class_key, Reference(key=value.class_key, kind="class", name=value.name)
                )
        elif kind_of(value) is dict:
            for each in value.values():
                self._noted(each)
        elif kind_of(value) in (list, tuple):
            for each in value:
                self._noted(each)
        return value

    async def _serve(self, host: Host, calls: TaskGroup, given: Callable[[Crossed], Any]) -> dict[str, Any]:
        """Answer what the code needs until it ends; only the time in which it runs is limited."""
        running = self._sandbox.seconds + _GRACE_SECONDS + (_START_SECONDS if self._is_new else 0.0)
        answering = _Answering(self, host, calls, given)
        while True:
            before = anyio.current_time()
            with anyio.move_on_after(running) as limit:
                message = await self._receive()
            if limit.cancelled_caught:
                if answering.in_flight:  # it may wait for the program
                    await answering.wait()
                    continue
                raise _EndedError(
                    "TimeoutError", f"the code was stopped after {self._sandbox.seconds:g} seconds"
                )
            self._is_new = False
            if not answering.in_flight:
                running = max(_GRACE_SECONDS, running - (anyio.current_time() - before))
            if message.get("op") == "end":
                return message
            self._calls_left -= 1
            if self._calls_left < 0:
                most = self._sandbox.calls
                raise _EndedError("RuntimeError", f"the code has made more than {most} calls of the program")
            await answering.answer(message)

    def decoded(self, value: Any) -> Crossed:
        """Return what the process has sent as it crosses."""
        try:
            return decode(value, self._references.get)
        except WireError as error:
            raise _EndedError("RuntimeError", f"the sandbox has sent what is no value: {error}") from error

    def find(self, key: object) -> Reference | None:
        """The reference with a number; None for one that was not sent."""
        return self._references.get(key) if isinstance(key, int) else None

    def _end(self, end: dict[str, Any]) -> CellEnd:
        failed: Any = end.get("failure")
        values: Any = end.get("values")
        failure = None
        if kind_of(failed) is list and len(failed) == 3:
            line = failed[2] if type(failed[2]) is int else 0
            failure = self._failure(str(failed[0]), str(failed[1]), line)
        return CellEnd(
            value=self.decoded(end["value"]) if "value" in end else UNSET,
            printed=str(end.get("printed", "")),
            values={str(k): self.decoded(v) for k, v in values.items()} if kind_of(values) is dict else {},
            failure=failure,
        )

    def _failure(self, type_name: str, text: str, line: int) -> CodeFailure:
        if type_name == "TimeoutError" and text == _OUT_OF_TIME:
            text = f"the code was stopped after {self._sandbox.seconds:g} seconds"
        if type_name == "MemoryError":
            text = f"the code needs more than {self._sandbox.memory_bytes:,} bytes of memory"
        return CodeFailure(type_name=type_name, message=text, line=line)

    async def send_reply(self, number: object, content: dict[str, Any]) -> None:
        """Send a reply to the process."""
        await self._send({"op": "reply", "id": number, **content})

    async def _send(self, message: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise _EndedError("RuntimeError", "the process of the sandbox has ended")
        data = json.dumps(message).encode() + b"\n"
        try:
            async with self._sending:
                await process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            await self._raise_ended(error)

    async def _receive(self) -> dict[str, Any]:
        """Receive the next message.

        Raises:
            _EndedError: The process has ended, or sends no messages.
        """
        process = self._process
        assert process is not None
        assert process.stdout is not None
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._sandbox.memory_bytes:
                raise _EndedError("MemoryError", "the code has sent too much to the program")
            try:
                self._buffer += await process.stdout.receive(_CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                await self._raise_ended(error)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message: Any = await _in_thread_if_large(line, json.loads, _LARGE_BYTES)
        except (ValueError, RecursionError) as error:
            raise _EndedError("RuntimeError", "the sandbox has sent what is no message") from error
        if kind_of(message) is not dict:
            raise _EndedError("RuntimeError", "the sandbox has sent what is no message")
        return message

    async def _raise_ended(self, error: BaseException) -> None:
        process = self._process
        assert process is not None
        status = await process.wait()
        if self._is_new:
            said = await _text_of(process.stderr)
            raise SandboxUnavailableError(
                "Sandbox(kind='process') does not work here, and no code is run: "
                f"{said or f'exit status {status}'}"
            ) from error
        raise _EndedError(
            "RuntimeError", f"the process of the sandbox has ended (exit status {status})"
        ) from error


class _Answering:
    """Answers the calls of one piece of code."""

    def __init__(
        self, session: ProcessSession, host: Host, calls: TaskGroup, given: Callable[[Crossed], Any]
    ) -> None:
        self._session = session
        self._host = host
        self._calls = calls
        self._given = given
        self._ended = anyio.Event()
        self.in_flight = 0

    async def wait(self) -> None:
        """Wait until a call has ended."""
        await self._ended.wait()
        self._ended = anyio.Event()

    async def answer(self, message: dict[str, Any]) -> None:
        """Begin a call, in the order of the messages, and have it answered."""
        number, name = message.get("id"), message.get("name")
        target = self._session.find(message.get("key"))
        try:
            if target is None:
                raise HostError(AttributeError("an object that was not sent"))
            if message.get("op") == "attribute":
                self._start(number, lambda: self._host.attribute(target, str(name)))
                return
            args: Any = self._session.decoded({"t": "l", "v": message.get("args")})
            kwargs: Any = self._session.decoded(
                {"t": "d", "v": list(dict(message.get("kwargs") or {}).items())}
            )
            self._start(number, await self._host.begin(target, None, args, kwargs))
        except HostError as failed:
            await self._session.send_reply(number, {"error": as_caught(failed.error)})

    def _start(self, number: object, finish: Callable[[], Awaitable[Crossed]]) -> None:
        async def run() -> None:
            try:
                content: dict[str, Any] = {"value": self._given(await finish())}
            except HostError as failed:
                content = {"error": as_caught(failed.error)}
            finally:
                self.in_flight -= 1
                self._ended.set()
            await self._session.send_reply(number, content)

        self.in_flight += 1
        self._calls.start_soon(run)


class _EndedError(Exception):
    """The process has ended, or has to be ended."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name, self.message = type_name, message


async def _read_to_end(process: Process) -> None:
    """Wait until what a killed process has started has ended too, which holds its pipes.

    Before that, asyncio cannot close a pipe in which something was left to write.
    """
    if process.stdout is None:
        return
    ends = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError)
    with anyio.move_on_after(_END_SECONDS), suppress(*ends):
        while True:
            await process.stdout.receive()
    for _ in range(3):  # turns in which asyncio notices, and closes
        await anyio.lowlevel.checkpoint()


async def _text_of(stream: ByteReceiveStream | None) -> str:
    text = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while stream is not None and len(text) < _CHUNK:
            text += await stream.receive(_CHUNK)
    return text.decode(errors="replace").strip()[-500:]


async def _in_thread_if_large(data: bytes, function: Callable[[bytes], Any], most: int) -> Any:
    if len(data) < most:
        return function(data)
    return await anyio.to_thread.run_sync(function, data)
