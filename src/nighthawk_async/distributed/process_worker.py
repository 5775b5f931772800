"""`python -m nighthawk_async.distributed.process_worker`: a worker process. `Processes` starts it."""

import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio

from ..process_marks import signal_marked
from . import messages
from .log_records import LogForwarder, apply_levels
from .main_module import load_main
from .messages import Begin
from .socket_endpoint import SocketEndpoint
from .worker import Worker, find_call


def main() -> None:
    """Connect with the program over an inherited socket, and make its calls until it has ended."""
    number, backend, mark = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the program, which ends its workers
    # A process that a call starts must not hold the connection: its end tells the program of the worker's.
    os.set_inheritable(number, False)
    os.register_at_fork(after_in_child=lambda: _close_inherited(number))
    is_stopped = anyio.run(_serve, socket.socket(fileno=number), mark, backend=backend)
    if not is_stopped:
        _end_processes(mark)


def _close_inherited(number: int) -> None:
    with suppress(OSError):  # the call has closed it already
        os.close(number)


async def _serve(connection: socket.socket, mark: str) -> bool:
    """Make calls; return whether the program has stopped the worker, and is there to end what it has left."""
    endpoint = SocketEndpoint(connection)
    try:
        begin = messages.decode_to_worker(await endpoint.receive())
        if not isinstance(begin, Begin):
            return False
        logs = LogForwarder(find_call)
        worker = Worker(begin.worker, endpoint, logs)
        arguments = (connection.fileno(), worker, begin.grace_seconds, mark)
        threading.Thread(target=_end_with_program, args=arguments, daemon=True).start()
        with logs.installed():
            return await _work(endpoint, begin, worker)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return False  # the program has ended
    finally:
        await endpoint.aclose()


async def _work(endpoint: SocketEndpoint, begin: Begin, worker: Worker) -> bool:
    try:
        _prepare(begin)
    except Exception as error:
        await endpoint.send([messages.encode(messages.Ready(process=0, host="", error=str(error)))])
        return True
    await endpoint.send([messages.encode(worker.ready_message())])
    return await worker.serve()


def _prepare(begin: Begin) -> None:
    """Import modules from the places of the program, and load its main module."""
    if Path(begin.folder).is_dir():
        os.chdir(begin.folder)
    sys.path[:] = begin.path
    load_main(begin.main, begin.main_file, begin.arguments)
    apply_levels(begin.log_levels)


def _end_with_program(number: int, worker: Worker, grace_seconds: float, mark: str) -> None:
    """End the process when the program has ended, even if a call blocks the event loop or a thread.

    Calls of a run with a journal get no time to end: the next life of the run must not meet them.
    """
    poll = select.poll()
    poll.register(number, 0)  # only the end of the connection is reported
    while not poll.poll():
        pass
    if not worker.has_durable_calls:
        time.sleep(min(grace_seconds, threading.TIMEOUT_MAX))
    _end_processes(mark)


def _end_processes(mark: str) -> None:
    """End this process, and all that its calls have started, in place of the program."""
    with suppress(Exception):  # what calls have printed
        sys.stdout.flush()
    signal_marked(mark, signal.SIGKILL, spared=os.getpid())
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
