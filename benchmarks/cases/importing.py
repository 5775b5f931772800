"""What a program pays at its start: the import, and all that comes before its first request."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ..measure import Benchmark

__all__ = ["BENCHMARKS", "program_of", "seconds_to_first_request"]

PROGRAM = """
import anyio
import nighthawk_async as nh

async def main():
    settings = {{"base_url": "{scheme}://127.0.0.1:{port}/v1", "api_key": "none"}}
    configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
    async with nh.run(nh.AgentStepExecutor.from_configuration(configuration=configuration)):
        await answer("What is six times seven?")

@nh.natural_function
async def answer(question: str) -> str:
    '''natural
    Compute <:result>, the answer to <question>.
    '''
    return result

anyio.run(main, backend="{backend}")
"""

USED = ("natural_function", "run", "AgentStepExecutor", "StepExecutorConfiguration")
"""What nearly every program uses."""

LIMIT_SECONDS = 30.0


def import_the_package(names: Sequence[str], operations: int) -> float:
    """Import the package in fresh interpreters; count what exceeds one that imports nothing.

    What the package exports is loaded when it is first used, so the bare import alone says little: whatever
    it puts off, a program pays for with the first names that it uses.

    Args:
        names: The exported names that are used at once.
        operations: How many interpreters.
    """
    program = "; ".join(["import nighthawk_async as nh", *(f"nh.{name}" for name in names)])
    return _run_interpreters(program, operations) - _run_interpreters("pass", operations)


def send_first_request(scheme: str, backend: str, operations: int) -> Mapping[str, float]:
    """Start programs whose first request is awaited here; with TLS, its first bytes are a handshake's."""
    program = partial(program_of, scheme, backend)
    seconds = [seconds_to_first_request(program) for _ in range(operations)]
    return {"ready": sum(seconds) / operations}


def _run_interpreters(program: str, operations: int) -> float:
    # An interpreter that takes down what it has loaded would be measured too.
    command = [sys.executable, "-c", f"{program}; import os; os._exit(0)"]
    began = time.perf_counter()
    for _ in range(operations):
        subprocess.run(command, check=True)
    return time.perf_counter() - began


def program_of(scheme: str, backend: str, port: int) -> str:
    """A program of this project that sends its first request to a port of this machine."""
    return PROGRAM.format(scheme=scheme, port=port, backend=backend)


def seconds_to_first_request(
    program_at: Callable[[int], str], interpreter: Path = Path(sys.executable)
) -> float:
    """Start a program and wait for the first bytes that it sends.

    Args:
        program_at: Gives the program for a port of this machine.
        interpreter: Runs it.

    Returns:
        Seconds from its start.

    Raises:
        RuntimeError: It ended before, or sends nothing.
    """
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        server.settimeout(0.5)
        file = Path(folder) / "program.py"
        file.write_text(program_at(server.getsockname()[1]))
        began = time.perf_counter()
        with subprocess.Popen([str(interpreter), str(file)], env=environment) as process:
            try:
                with _accept(server, process) as connection:
                    connection.settimeout(LIMIT_SECONDS)
                    assert connection.recv(1), "the program has closed its connection"
                    return time.perf_counter() - began
            finally:
                process.kill()


def _accept(server: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
    """The program's connection.

    Raises:
        RuntimeError: The program has ended without any, or does not come to it.
    """
    limit = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        with suppress(TimeoutError):
            return server.accept()[0]
    raise RuntimeError(f"the program sent no request; its exit status is {process.poll()}")


BENCHMARKS = (
    Benchmark(
        name="import",
        what="the bare import in a fresh interpreter, beyond that itself; exports load on first use",
        run=partial(import_the_package, ()),
        operations=5,
        quick_operations=1,
    ),
    Benchmark(
        name="import-used",
        what="the same, and loading the names that nearly every program uses: compare others with this",
        run=partial(import_the_package, USED),
        operations=3,
        quick_operations=1,
    ),
    *(
        Benchmark(
            name=f"ready-{scheme}-{backend}",
            what=f"a fresh interpreter until its first request is sent, over {scheme} on {backend}",
            run=partial(send_first_request, scheme, backend),
            operations=2,
            quick_operations=1,
            smallest_suite="quick" if backend == "trio" else "default",
        )
        for scheme in ("http", "https")
        for backend in ("trio", "asyncio")
    ),
)
