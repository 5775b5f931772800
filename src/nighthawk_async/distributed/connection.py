"""The program's side of one worker: what is sent to it, what it keeps, and what it asks."""

import os
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import msgspec

from ..actors import BareTaskGroup
from . import messages
from .contents import HeldContent
from .crossing_errors import encode_error
from .errors import WorkerStartError
from .job import RemoteJob
from .link import KilledFromOutside, WorkerLink
from .log_records import log_levels
from .main_module import describe_main, import_paths
from .messages import Answer, Ask, Begin, Call, Content, Drop, FromWorker, Keep, Ready, Stop, ToWorker
from .outbox import Outbox
from .services import ProgramPart

_LOOK_SECONDS = 10.0
"""The time between looks whether a worker was suspended."""
_MOST_SUSPENDED_LOOKS = 3
"""The looks after which a suspended worker is ended. Looks, no time: the program may be suspended, too."""

_MOST_KEPT_BYTES = 512 * 1024 * 1024
"""The size of all contents that a worker keeps, in bytes."""


class WorkerConnection:
    """One worker that is connected.

    Args:
        name: Its name.
        link: The link to it.
        log_levels: The levels of log records that it begins with.

    Attributes:
        writer: Its name as a writer of journals; empty for none.
        answering: The questions of the worker that are being answered, by number.
        log_levels: The levels of log records that it was told; see `log_records`.
        had_call: Whether a call was sent to it.
    """

    def __init__(self, name: str, link: WorkerLink, log_levels: dict[str, int]) -> None:
        self.name = name
        self.writer = ""
        self.log_levels = log_levels
        self.answering: dict[int, tuple[int, anyio.CancelScope]] = {}
        self._link = link
        self._outbox = Outbox()
        self._kept: OrderedDict[bytes, int] = OrderedDict()
        self._kept_bytes = 0
        self._end = ""  # why it was ended
        self.had_call = False

    async def serve(self, take: Callable[[FromWorker], None]) -> str:
        """Send and receive until the worker ends; return why, if it does not end by itself.

        Args:
            take: Takes each message of the worker.
        """
        async with BareTaskGroup() as group:
            group.start_soon(self._send)
            group.start_soon(self._watch)
            try:
                while True:
                    take(await self.receive())
            except anyio.EndOfStream:
                pass
            except msgspec.DecodeError as error:
                self._kill(f"it sent something that is no message: {error}")
            group.cancel_scope.cancel()
        return self._end

    async def receive(self) -> FromWorker:
        """Wait for the next message.

        Raises:
            EndOfStream: The worker has ended.
            msgspec.DecodeError: What it sends is no message.
        """
        return messages.decode_from_worker(await self._link.receive())

    async def close(self) -> str:
        """Wait until the worker has ended, ending it if necessary; return how it has ended."""
        for _, scope in self.answering.values():
            scope.cancel()
        with anyio.CancelScope(shield=True):
            return await self._link.close()
        raise AssertionError("unreachable")  # nothing cancels the scope

    def put(self, message: ToWorker) -> None:
        """Send a message soon."""
        self._outbox.put(messages.encode(message))

    def place(self, job: RemoteJob, attempt: int, seconds: float | None) -> None:
        """Send a call.

        Args:
            job: The call.
            attempt: The number of times that it was placed before.
            seconds: The seconds until its deadline; None for none.
        """
        self.had_call = True
        if self.writer:
            for part in job.parts.values():
                part.note_writer(self.writer)
        call = Call(
            number=job.number,
            function=job.function.name,
            args=[self._content(each) for each in job.args],
            keywords={name: self._content(each) for name, each in job.keywords.items()},
            scope=self._content(job.scope),
            seconds=seconds,
            place=job.place,
            task_values=job.task_values,
            trace_parent=job.trace_parent,
            services={topic: job.context.run(part.setup) for topic, part in job.parts.items()},
            attempt=attempt,
            counted=job.counted.numbers(),
        )
        self.put(call)

    def kill(self) -> None:
        """End the worker at once, because it does not end a call."""
        self._kill("it did not end a cancelled call")

    def _kill(self, reason: str) -> None:
        self._end = self._end or reason
        self._link.kill()

    async def _watch(self) -> None:
        """End the worker when it is suspended for long: its calls would never end.

        A worker in the same process can be suspended by nothing, and a clock of tests must not run for it.
        """
        if self._link.is_suspended() is None:
            return
        looks = 0
        while looks < _MOST_SUSPENDED_LOOKS:
            await anyio.sleep(_LOOK_SECONDS)
            looks = looks + 1 if self._link.is_suspended() else 0
        seconds = looks * _LOOK_SECONDS
        self._kill(KilledFromOutside(f"it was stopped by a signal for {seconds:g} seconds"))

    def stop(self) -> None:
        """Ask the worker to end."""
        self.put(Stop())

    def forget_call(self, number: int) -> None:
        """Cancel the answers to questions of a call that has ended."""
        for call, scope in tuple(self.answering.values()):
            if call == number:
                scope.cancel()

    def forget_all_calls(self) -> None:
        """Cancel the answers to all questions, because the worker has ended."""
        for _, scope in tuple(self.answering.values()):
            scope.cancel()

    async def answer(self, part: ProgramPart, question: Ask, scope: anyio.CancelScope) -> None:
        """Answer a question of a call.

        Args:
            part: The part of the service that is asked.
            question: The question.
            scope: The scope that cancels the answer.
        """
        try:
            with scope:
                try:
                    body = await part.answer(question.body)
                    answer = Answer(number=question.number, body=body)
                except Exception as error:
                    answer = Answer(number=question.number, error=encode_error(error, "the program"))
                self.put(answer)
        finally:
            del self.answering[question.number]

    async def _send(self) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # `receive` tells its end
            await self._outbox.send_all(self._link.send)

    def _content(self, held: HeldContent) -> Content:
        """Return a content as it is sent: a large one by its digest, once the worker keeps it."""
        body, digest = held.body, held.digest
        if not digest:
            return Content(body=body)
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return Content(digest=digest)
        self.put(Keep(digest=digest, body=body))
        self._kept[digest] = len(body)
        self._kept_bytes += len(body)
        while self._kept_bytes > _MOST_KEPT_BYTES and len(self._kept) > 1:
            dropped, size = self._kept.popitem(last=False)
            self._kept_bytes -= size
            self.put(Drop(digest=dropped))
        return Content(digest=digest)


async def connect_worker(
    open_link: Callable[[str, Begin], Awaitable[WorkerLink]],
    name: str,
    start_timeout: float,
    grace_seconds: float,
) -> WorkerConnection:
    """Start a worker and wait until it is ready.

    Args:
        open_link: Starts it, and gives the link to it.
        name: Its name.
        start_timeout: The seconds within which it must be ready.
        grace_seconds: The seconds that its calls get to end when the program has ended.

    Raises:
        WorkerStartError: It cannot be started, or is not ready in time.
    """
    main, main_file = describe_main()
    begin = Begin(
        worker=name,
        path=import_paths(),
        main=main,
        main_file=main_file,
        arguments=sys.argv,
        folder=os.getcwd(),
        grace_seconds=grace_seconds,
        log_levels=log_levels(),
    )
    link = await open_link(name, begin)
    connection = WorkerConnection(name, link, begin.log_levels)
    how = ""
    problem = f"it was not ready within {start_timeout:g} seconds"
    try:
        with anyio.move_on_after(start_timeout):
            await link.send([messages.encode(begin)])
            ready = await connection.receive()
            if isinstance(ready, Ready):
                problem, connection.writer = ready.error, ready.writer
            else:
                problem = "it sent something else first"
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        how = await connection.close()
        problem = f"it has ended: {how}"
    except msgspec.DecodeError as error:
        problem = f"it sent something that is no message: {error}"
    except BaseException:
        await connection.close()
        raise
    if problem:
        was_suspended = bool(link.is_suspended())
        await connection.close()
        stopped = ", and was stopped by a signal" if was_suspended else ""
        error = WorkerStartError(f"worker {name} did not start: {problem}{stopped}")
        error.was_killed = was_suspended or isinstance(how, KilledFromOutside)
        raise error
    return connection
