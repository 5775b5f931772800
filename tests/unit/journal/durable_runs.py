"""What the tests of journals share: a model that answers by the program, and lives of one run."""

import signal
import sqlite3
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .postgresql_server import PostgresqlServer

server: PostgresqlServer | None = None
"""The server of the stores; None for files."""

Answer = Callable[[str, int], ModelResponse]


class AnsweringModel:
    """Answers each request by its prompt and the number of the turn, and keeps the prompts.

    Args:
        answer: Returns the response.
    """

    name = "answering:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.prompts: list[str] = []

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response to a request."""
        prompt = str(request.messages[0])
        self.prompts.append(prompt)
        turn = sum(1 for message in request.messages if isinstance(message, nh.models.AssistantMessage))
        yield ResponseEvents(self._answer(prompt, turn))


class ResponseEvents(AsyncIterator[nh.models.ModelEvent]):
    """The events of a response. No generator, which a cancelled step would leave to the garbage collector."""

    def __init__(self, response: ModelResponse) -> None:
        self._events = iter(response.events)

    async def __anext__(self) -> nh.models.ModelEvent:
        await anyio.lowlevel.checkpoint()
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event


def assigning(target: str, expression: str) -> ModelResponse:
    """A response that assigns one value and ends the block."""
    return model_response(
        tool_call("nh_assign", target_path=target, expression=expression),
        tool_call("nh_outcome", kind="pass"),
    )


@nh.natural_function
async def shout(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


@nh.natural_function
def shout_synchronously(word: str) -> str:
    """Shout a word."""
    loud: str
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


def shouting() -> AnsweringModel:
    """A model that answers `shout`."""
    return AnsweringModel(lambda prompt, turn: assigning("loud", "word.upper()"))


sent: list[str] = []
"""The mails that `send` has sent; tests clear it."""


def send(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return f"sent to {to}"


@nh.natural_function
async def remind(customer: str) -> str:
    """Remind a customer."""
    result: str
    """natural
    Remind <customer> with <send>, and set <:result>.
    """
    return result


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[nh.journal.JournalStore]:
    """The store of a folder: a file in it, or a database of its own; see the fixture `database`."""
    with nh.journal.open(address_of(folder), **options) as store:
        yield store


def address_of(folder: Path) -> str:
    """The address of the store of a folder."""
    return f"sqlite:///{folder}/runs.db" if server is None else server.address_of(folder)


def change_tables(folder: Path, statement: str) -> None:
    """Change the tables of the store of a folder behind its back."""
    if server is not None:
        server.carry_out(folder, f"SET search_path TO nighthawk_async; {statement}")
        return
    connection = sqlite3.connect(folder / "runs.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


async def live(
    store: nh.journal.JournalStore, model: Any, program: Callable[[], Awaitable[Any]], run_id: str = "run-1"
) -> Any:
    """One life of a run."""
    async with nh.run(nh.AgentStepExecutor.from_model(model), journal=store, run_id=run_id):
        return await program()


def places(store: nh.journal.JournalStore, *kinds: str, run_id: str = "run-1") -> list[str]:
    """The places of the records of some kinds, in order."""
    return [record.place for record in store.records(run_id) if record.kind in kinds]


def query(store: nh.journal.JournalStore, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """The rows of a query, as they are stored."""
    return list(
        store.thread.perform(lambda: store.thread.opened().query(statement, *parameters)).wait_in_thread()
    )


def change(store: nh.journal.JournalStore, statement: str, *parameters: object) -> int:
    """Change the tables of an open store behind its back; return the number of changed rows."""

    def carry_out() -> int:
        database = store.thread.opened()
        with database.transaction():
            return database.change(statement, *parameters)

    return store.thread.perform(carry_out).wait_in_thread()


async def stop_between_transactions(process: subprocess.Popen[str], address: str) -> None:
    """Stop a process. One that is stopped while it writes would keep the file of SQLite locked."""
    while True:
        process.send_signal(signal.SIGSTOP)
        while not _has_stopped(process.pid):
            await anyio.lowlevel.checkpoint()
        if not address.startswith("sqlite:") or _is_free(address.removeprefix("sqlite:///")):
            return
        process.send_signal(signal.SIGCONT)
        await anyio.lowlevel.checkpoint()


def _has_stopped(pid: int) -> bool:
    """Whether each thread of a process that was told to stop has stopped, where the system says so."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        return True
    states: list[str] = []
    for each in tasks.glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            states.append(each.read_text().rpartition(") ")[2][0])
    return all(state in "TtZX" for state in states)


def _is_free(path: str) -> bool:
    """Whether nobody writes to a SQLite file."""
    connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True
