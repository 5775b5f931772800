"""The messages between the program and a worker, as bytes.

The program sends `Begin`, `Call`, `Withdraw`, `Keep`, `Drop`, `Answer`, `Order`, `LogLevels` and `Stop`; a
worker sends `Ready`, `Ended`, `Ask`, `Forget`, `Tell` and `Logged`. `Ask` is a question of a call to the
program that gets an `Answer`; `Tell` a report that gets none; `Answer` and `Order` go the other way. The
services of the program (budgets, the live tree, questions to people) each have topics of their own for these.
"""

from typing import TypeAlias

import msgspec
from msgspec import Struct


class Begin(Struct, frozen=True, tag=True, kw_only=True):
    """The first message to a worker.

    Args:
        worker: The name of the worker.
        path: The places from which modules are imported.
        main: The name of the program's main module for imports; None for none.
        main_file: The file of the main module, if it has no such name; None for none.
        arguments: The arguments of the program: `sys.argv`.
        folder: The working directory.
        grace_seconds: The seconds that calls get to end when the program has ended.
        log_levels: The least levels of log records that the program handles; see `log_records`.
    """

    worker: str
    path: list[str]
    main: str | None
    main_file: str | None
    arguments: list[str]
    folder: str
    grace_seconds: float
    log_levels: dict[str, int] = {}


class Ready(Struct, frozen=True, tag=True, kw_only=True):
    """The answer to `Begin`.

    Args:
        process: The id of the worker's process.
        host: The name of its machine.
        error: Why it cannot work; empty if it can.
        writer: Its name as a writer of journals; empty if it has no address of a store. See `worker_store`.
    """

    process: int
    host: str
    error: str = ""
    writer: str = ""


class Keep(Struct, frozen=True, tag=True, kw_only=True):
    """A large content that calls refer to by its digest, until it is dropped."""

    digest: bytes
    body: bytes


class Drop(Struct, frozen=True, tag=True, kw_only=True):
    """A content that no later call refers to."""

    digest: bytes


class Content(Struct, frozen=True, array_like=True):
    """A content of a call: the bytes, or the digest of a kept one."""

    body: bytes = b""
    digest: bytes = b""


class Call(Struct, frozen=True, tag=True, kw_only=True):
    """A call to make.

    Args:
        number: Its number, given once in the life of the placement.
        function: Its function, as `module:name`.
        args: The positional arguments.
        keywords: The keyword arguments.
        scope: The scope of the caller, encoded; see `caller_scope`.
        seconds: The seconds until its deadline; None for none.
        place: The place of the call in its run.
        task_values: The task-local values of the caller, encoded one by one.
        trace_parent: The trace context of the caller, as the header `traceparent`; None without a trace.
        services: What the counterparts of the program's services are made from, by topic.
        attempt: The number of times that it was placed before.
        counted: How often each key has counted in budgets and usage; see `counting`.
    """

    number: int
    function: str
    args: list[Content]
    keywords: dict[str, Content]
    scope: Content
    seconds: float | None
    place: str
    task_values: dict[str, bytes]
    trace_parent: str | None
    services: dict[str, bytes]
    attempt: int = 0
    counted: dict[str, int] = {}


class Withdraw(Struct, frozen=True, tag=True, kw_only=True):
    """Cancel a call."""

    number: int


class Ended(Struct, frozen=True, tag=True, kw_only=True):
    """The end of a call.

    Args:
        number: The call.
        is_cancelled: Whether it was cancelled.
        is_late: Whether it was cancelled because its deadline was over.
        value: The result, encoded.
        error: The error, encoded; see `crossing_errors`. None for none.
    """

    number: int
    is_cancelled: bool = False
    is_late: bool = False
    value: bytes = b""
    error: bytes | None = None


class Ask(Struct, frozen=True, tag=True, kw_only=True):
    """A question of a call to the program.

    Args:
        call: The call.
        number: The number of the question in the life of the worker.
        topic: The service that answers.
        body: The question, encoded by the service.
    """

    call: int
    number: int
    topic: str
    body: bytes


class Forget(Struct, frozen=True, tag=True, kw_only=True):
    """The asking code was cancelled: the answer is not wanted any more."""

    number: int


class Answer(Struct, frozen=True, tag=True, kw_only=True):
    """The answer to a question, or the error that the service raised."""

    number: int
    body: bytes = b""
    error: bytes | None = None


class Tell(Struct, frozen=True, tag=True, kw_only=True):
    """A report of a call to a service of the program, in the order of reporting."""

    call: int
    topic: str
    body: bytes


class Order(Struct, frozen=True, tag=True, kw_only=True):
    """An order of a service of the program to its counterpart in a call, in the order of giving."""

    call: int
    topic: str
    body: bytes


class LogLevels(Struct, frozen=True, tag=True, kw_only=True):
    """The least levels of log records that the program handles now."""

    levels: dict[str, int]


class Logged(Struct, frozen=True, tag=True, kw_only=True):
    """Log records of a worker, of calls and of others."""

    records: bytes


class Stop(Struct, frozen=True, tag=True, kw_only=True):
    """Cancel all calls, and end."""


ToWorker: TypeAlias = Begin | Keep | Drop | Call | Withdraw | Answer | Order | LogLevels | Stop
FromWorker: TypeAlias = Ready | Ended | Ask | Forget | Tell | Logged

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
