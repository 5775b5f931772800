"""A worker of pydantic-monty that runs the code of one step.

The code runs until it has ended or needs something of the program: a call, an attribute, the results of calls
that it awaits. Each of these turns is waited for in a thread, and answered on the event loop.
"""

import ast
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from ..actors import BareTaskGroup
from ..types.unset import UNSET
from .host_calls import as_caught
from .monty_pool import MontyPool, kill, package
from .monty_values import PRELUDE, Doubtful, MontyValues
from .sessions import Cell, CellEnd, CodeFailure, Crossed, Host, HostError, Inside
from .settings import SandboxSettings

_LAST = "_nh_last"
_QUOTED_CHARACTERS = 200


class MontySession:
    """The session of one step.

    Args:
        pool: The workers.
        limits: The limits of the code.
    """

    def __init__(self, pool: MontyPool, limits: SandboxSettings) -> None:
        self._pool = pool
        self._limits = limits
        self._session: Any = None
        self._process: int | None = None
        self._values = MontyValues()
        self._has_prelude = False

    async def run(self, cell: Cell, host: Host) -> CellEnd:
        """Run code; see `Session.run`."""
        if self._session is None:
            await self._begin()
        try:
            return await self._run(cell, host)
        except BaseException:
            kill(self._process)
            await self.aclose()
            raise

    async def _run(self, cell: Cell, host: Host) -> CellEnd:
        output = package.CollectString()
        code, has_value = with_kept_value(cell)
        if cell.may_await:
            code += "".join(map(_awaiting, (*cell.binds, *((_LAST,) if has_value else ()))))
        turn = await self._turn(lambda: self._start(cell, code, output))
        names = (*cell.reads, *((_LAST,) if has_value else ()))
        values: dict[str, Crossed] = {}
        try:
            failure = await self._drive(turn, host)
            if failure is None or not failure.loses_names:
                values = await self._read(names if failure is None else cell.reads)
        except _Lost as lost:
            failure = lost.failure
        if failure is not None and failure.loses_names:
            await self.aclose()
        value = values.pop(_LAST, UNSET)
        return CellEnd(value=value, printed=output.output, values=values, failure=failure)

    async def aclose(self) -> None:
        """Give the worker back."""
        session, self._session = self._session, None
        if session is not None:
            with anyio.CancelScope(shield=True):
                await self._pool.in_thread(lambda: self._pool.check_in(session, self._process))

    async def _begin(self) -> None:
        self._session = await self._pool.in_thread(lambda: self._pool.check_out(self._limits))
        self._process = self._session.worker_pid
        self._values = MontyValues()
        self._has_prelude = False

    async def _turn(self, function: Callable[[], Any]) -> Any:
        return await self._pool.in_thread(function, on_cancel=lambda: kill(self._process))

    def _start(self, cell: Cell, code: str, output: Any) -> Any:
        """Feed the names and the code, in a thread; return the first snapshot, or the error."""
        try:
            inputs = {name: self._values.given(value) for name, value in cell.inputs.items()}
            if cell.may_await:
                self._load_prelude()
            for name, module in cell.modules.items():
                with suppress(package.MontyError):  # then the name has no value
                    self._feed(f"import {module} as {name}")
            return self._session.feed_start(code, inputs=inputs, print_callback=output)
        except _Lost as lost:
            return lost
        except package.MontyError as error:
            return error

    async def _drive(self, turn: Any, host: Host) -> CodeFailure | None:
        """Answer what the code needs until it ends; return its failure."""
        async with BareTaskGroup() as calls:
            driver = _Driver(self, host, calls)
            try:
                failure = await driver.drive(turn)
                if failure is None:
                    failure = await driver.finish()
            finally:
                calls.cancel_scope.cancel()
            return failure
        raise AssertionError("a group that is cancelled by its own code returns")

    async def _read(self, names: tuple[str, ...]) -> dict[str, Crossed]:
        """Read the wanted names, exactly those whose values are doubtful."""
        if not names:
            return {}
        values: dict[str, Crossed] = {}
        for name, value in (await self._turn(lambda: self._read_names(names))).items():
            try:
                values[name] = self._values.taken(value)
            except Doubtful:
                values[name] = await self._described(name)
        return values

    def _read_names(self, names: tuple[str, ...]) -> dict[str, Any]:
        # One by one: a worker crashes that gives a class and its instance at once.
        return {name: value for name in names if (value := self._feed(name, missing=UNSET)) is not UNSET}

    async def _described(self, name: str) -> Crossed:
        """Describe the value of a name exactly."""
        found = await self._turn(lambda: self._described_value(name, self._values.fields))
        return self._values.described(found) if isinstance(found, tuple) else found

    def _load_prelude(self) -> None:
        if not self._has_prelude:
            self._feed(PRELUDE)
            self._has_prelude = True

    def _described_value(self, name: str, fields: dict[str, tuple[str, ...]]) -> Any:
        self._load_prelude()
        try:
            return self._feed(f"_nh_described({name}, {fields!r})")
        except _Lost as lost:
            if lost.failure.loses_names:
                raise
            return Inside(kind="value", text=lost.failure.message)  # it contains itself, for example

    def _feed(self, code: str, *, missing: object = None) -> Any:
        """Run code of the library, in a thread.

        Args:
            code: The code.
            missing: The result if a name has no value.
        """
        try:
            turn = self._session.feed_start(code)
            if isinstance(turn, package.MontyComplete):
                return turn.output
            while not isinstance(turn, package.MontyComplete):
                turn = turn.resume_not_handled() if hasattr(turn, "resume_not_handled") else turn.resume()
            return turn.output
        except package.MontyRuntimeError as error:
            if missing is UNSET and isinstance(error.exception(), NameError):
                return missing
            raise _Lost(self.failure_of(error)) from error
        except package.MontyError as error:
            raise _Lost(self.failure_of(error)) from error

    def failure_of(self, error: Any) -> CodeFailure:
        """Return an error of a turn as the model reads it; other errors are raised."""
        if isinstance(error, _Lost):
            return error.failure
        if isinstance(error, package.MontyCrashedError):
            return self._crash(error)
        if not isinstance(error, package.MontyError):
            raise error
        inner: BaseException = error.exception()
        type_name, message = error.display("type-msg").partition(": ")[::2]
        frames: Any = () if isinstance(error, package.MontyConversionError) else error.traceback()
        lines = [int(each.line) for each in frames if each.filename.startswith("<python-input")]
        line = lines[-1] if lines else 0
        if type(inner) is TimeoutError and "time limit" in message:
            return self._limited("TimeoutError", self._too_slow(), line)
        if type(inner) is MemoryError:
            return self._limited("MemoryError", self._too_large(), line)
        return CodeFailure(type_name=type_name, message=message, line=line)

    def _crash(self, error: Any) -> CodeFailure:
        if error.timed_out:
            return self._limited("TimeoutError", self._too_slow())
        if "memory" in str(error):
            return self._limited("MemoryError", self._too_large())
        reason = str(error).partition(": panicked")[0][:_QUOTED_CHARACTERS]
        return self._limited("RuntimeError", f"the sandbox has crashed ({reason})")

    def _too_slow(self) -> str:
        return f"the code was stopped after {self._limits.seconds:g} seconds"

    def _too_large(self) -> str:
        return f"the code needs more than {self._limits.memory_bytes:,} bytes of memory"

    def _limited(self, type_name: str, message: str, line: int = 0) -> CodeFailure:
        return CodeFailure(type_name=type_name, message=message, line=line, loses_names=True)

    @property
    def most_seconds(self) -> float:
        """The most time for one piece of code, and for one sleep in it."""
        return self._limits.seconds

    @property
    def values(self) -> MontyValues:
        """The values of the session."""
        return self._values

    async def resume(self, function: Callable[[], Any]) -> Any:
        """Resume the code, in a thread; return the next snapshot, or the error."""

        def resumed() -> Any:
            try:
                return function()
            except package.MontyError as error:
                return error

        return await self._turn(resumed)


class _Lost(Exception):  # noqa: N818
    def __init__(self, failure: CodeFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class _Driver:
    """Answers what one piece of code needs."""

    def __init__(self, session: MontySession, host: Host, calls: Any) -> None:
        self._session = session
        self._host = host
        self._calls = calls
        self._running = 0
        self._results: dict[int, dict[str, Any]] = {}
        self._ended = anyio.Event()

    async def drive(self, turn: Any) -> CodeFailure | None:
        while not isinstance(turn, package.MontyComplete):
            if isinstance(turn, Exception):
                return self._session.failure_of(turn)
            if isinstance(turn, package.FutureSnapshot):
                results = await self._settled(turn.pending_call_ids)
                turn = await self._resume(turn, results)
            elif isinstance(turn, package.NameLookupSnapshot):
                turn = await self._look_up(turn)
            else:
                turn = await self._call(turn)
        return None

    async def finish(self) -> CodeFailure | None:
        """Wait for calls that the code has made and not awaited."""
        while self._running:
            await self._ended.wait()
            self._ended = anyio.Event()
        errors = [each["exception"] for each in self._results.values() if "exception" in each]
        if not errors:
            return None
        return CodeFailure(type_name=type(errors[0]).__name__, message=str(errors[0]))

    async def _resume(self, turn: Any, answer: Any) -> Any:
        return await self._session.resume(lambda: turn.resume(answer))

    async def _settled(self, wanted: list[int]) -> dict[int, Any]:
        while not (ready := [each for each in wanted if each in self._results]):
            if not self._running:
                return {each: _exception(RuntimeError("the call was lost")) for each in wanted}
            await self._ended.wait()
            self._ended = anyio.Event()
        return {each: self._results.pop(each) for each in ready}

    async def _look_up(self, turn: Any) -> Any:
        target = self._session.values.find(turn.object_id)
        if target is None:  # a name without a value
            return await self._session.resume(turn.resume)
        try:
            value = await self._host.attribute(target, turn.variable_name)
        except HostError as failed:
            if isinstance(failed.error, AttributeError):
                return await self._session.resume(turn.resume)
            return await self._session.resume(lambda: turn.resume(value=None))
        given = self._session.values.given(value)
        return await self._session.resume(lambda: turn.resume(value=given))

    async def _call(self, turn: Any) -> Any:
        if turn.is_os_function:
            return await self._of_system(turn)
        name: str = turn.function_name
        values = self._session.values
        method: str | None = None
        target = values.find(turn.object_id)
        if target is None:
            target = values.find_function(name)
        elif name != "__call__":
            method = name
        if target is None:
            return await self._resume(turn, _exception(NameError(f"name '{name}' is not defined")))
        try:
            args = [values.taken_argument(each) for each in turn.args]
            kwargs = {key: values.taken_argument(each) for key, each in turn.kwargs.items()}
            finish = await self._host.begin(target, method, args, kwargs)
        except HostError as failed:
            return await self._resume(turn, _exception(failed.error))
        except Doubtful as doubt:
            return await self._resume(turn, _exception(TypeError(str(doubt))))
        if not self._host.is_async(target, method):
            return await self._resume(turn, await self._answer(finish))
        self._start(turn.call_id, finish)
        return await self._resume(turn, {"future": ...})

    def _start(self, call_id: int, finish: Callable[[], Any]) -> None:
        async def run() -> None:
            try:
                self._results[call_id] = await self._answer(finish)
            finally:
                self._running -= 1
                self._ended.set()

        self._running += 1
        self._calls.start_soon(run)

    async def _answer(self, finish: Callable[[], Any]) -> dict[str, Any]:
        try:
            return {"return_value": self._session.values.given(await finish())}
        except HostError as failed:
            return _exception(failed.error)

    async def _of_system(self, turn: Any) -> Any:
        if turn.function_name not in ("time.sleep", "asyncio.sleep"):
            return await self._session.resume(turn.resume_not_handled)
        seconds = float(turn.args[0])

        async def sleep() -> None:
            await anyio.sleep(seconds)

        if seconds > self._session.most_seconds:
            most = self._session.most_seconds
            return await self._resume(
                turn, _exception(TimeoutError(f"no sleep is longer than {most:g} seconds"))
            )
        if turn.function_name == "time.sleep":
            await sleep()
            return await self._resume(turn, {"return_value": None})
        self._start(turn.call_id, sleep)
        return await self._resume(turn, {"future": ...})


def _exception(error: BaseException) -> dict[str, Any]:
    """An error of the program, as the package raises it in the code."""
    type_name, message = as_caught(error)
    return {"exc_type": type_name, "message": message}


def _awaiting(name: str) -> str:
    """Code after a cell that awaits the calls in the value of a name."""
    return f"\ntry:\n    {name}\nexcept NameError:\n    pass\nelse:\n    {name} = await _nh_awaited({name})\n"


def with_kept_value(cell: Cell) -> tuple[str, bool]:
    """The code of a cell that keeps the value of its last line under a name, and whether there is one.

    Positions in the code stay as they are on every other line.
    """
    if cell.is_expression:
        return f"{_LAST} = ({cell.text}\n)", True
    text = cell.text.replace("\r\n", "\n").replace("\r", "\n")
    body = ast.parse(text).body
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr) or last.end_lineno is None or last.end_col_offset is None:
        return text, False
    lines = [line.encode() for line in text.split("\n")]
    end, start = last.end_lineno - 1, last.lineno - 1
    lines[end] = lines[end][: last.end_col_offset] + b")" + lines[end][last.end_col_offset :]
    lines[start] = lines[start][: last.col_offset] + f"{_LAST} = (".encode() + lines[start][last.col_offset :]
    return b"\n".join(lines).decode(), True
