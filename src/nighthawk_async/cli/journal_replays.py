"""`nighthawk-async journal replay` and `fork`: a run again from its records, or a new one from them."""

import json
from bdb import BdbQuit
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
import typer

import nighthawk_async as nh

from ..configuration import StepExecutorConfiguration
from ..errors import ConfigurationError
from ..journal import Record, Replay, ReplayEndError
from ..kernel.environment import using_policy
from ..models import ModelCapabilities
from ..parallel import is_async_callable
from ..recording.exchange import RecordedExchange
from ..recording.file import dump_exchanges, write_atomically
from ..recording.recorder import Recorder
from ..recording.redaction import Redactor
from .journal_commands import RUN, STORE, check_run
from .journal_store import open_store
from .run_command import CONTEXT_SETTINGS
from .run_script import ArgumentError, Backend, Script, bind_arguments, import_script, load_function


def add_replays(journal: typer.Typer) -> None:
    """Add the commands to the group.

    Args:
        journal: The group `nighthawk-async journal`.
    """
    journal.command("replay", context_settings=CONTEXT_SETTINGS)(replay_run)
    journal.command("fork")(fork_run)


def replay_run(
    store: STORE,
    run: RUN,
    function: Annotated[
        str,
        typer.Argument(
            help="The function to call: module:function, or file.py:function.", metavar="FUNCTION"
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Its arguments, as JSON or text, or --name value.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="The place to stop before, run/…", metavar="PLACE")
    ] = None,
    pdb: Annotated[bool, typer.Option("--pdb", help="With --until: open the debugger there.")] = False,
    to_cassette: Annotated[
        Path | None,
        typer.Option("--cassette", help="Record the responses of the run in a new cassette.", metavar="FILE"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model that the run had, provider:name; by default the first recorded."),
    ] = None,
    backend: Annotated[Backend, typer.Option(help="What async def runs on.")] = Backend.trio,
) -> None:
    """Run the program of a run again, without models, without effects, and without writing.

    Options stand before STORE. The function may begin the run itself, or be what runs in it. The
    replay ends with the function, where the records end, or before the place given with --until.
    """
    with open_store(store) as opened:
        check_run(opened, run)
        records = opened.records(run)
        replay = nh.journal.replay(opened, run, until=until, pdb=pdb)
    called = _load_function(function, arguments or [])
    call = _bound(called, arguments or [])
    if to_cassette is not None and to_cassette.exists():
        raise ConfigurationError(f"{to_cassette} exists already; a run is recorded in a new cassette")
    with nullcontext() if to_cassette is None else _recording(to_cassette):
        try:
            with replay:
                executor = _executor(model, records)
                result = _call_in_run(call, replay, executor, backend)
        except ReplayEndError as end:
            typer.echo(str(end))
            return
        except BdbQuit:
            typer.echo("the debugger was left")
            return
    if until is not None and not replay.has_stopped:
        raise ConfigurationError(f"the program has ended, and did not come to {until}")
    typer.echo(f"the program has ended as recorded: {result!r}")


@contextmanager
def _recording(path: Path) -> Generator[None, None, None]:
    """Record the exchanges of the body in a cassette, however it ends."""
    recorder = Recorder((), records=True, redactor=Redactor(), label=str(path))
    try:
        with using_policy(recorder):
            yield
    finally:
        recorder.close()
        write_atomically(path, dump_exchanges(recorder.without_late_secrets()))


def _call_in_run(
    call: Callable[[], Any], replay: Replay, executor: nh.executors.StepExecutor, backend: Backend
) -> object:
    run = nh.run(executor, journal=replay, run_id=replay.run_id, sync_backend=backend.value)
    if not is_async_callable(call):
        with run:
            return call()

    async def call_async() -> object:
        async with run:
            return await call()

    options = {"restrict_keyboard_interrupt_to_checkpoints": True} if backend is Backend.trio else {}
    return anyio.run(call_async, backend=backend.value, backend_options=options)


class _UnknownModel:
    """A model of which only the id is known, and which is not asked."""

    capabilities = ModelCapabilities()

    def __init__(self, name: str) -> None:
        self.name = name

    def stream(self, request: nh.models.ModelRequest) -> Any:
        """Refuse."""
        raise ReplayEndError(f"a replay asks no model, and {self.name} is asked", place="")


def _executor(model: str | None, records: Sequence[Record]) -> nh.executors.StepExecutor:
    """An executor with the model of the run, which is not asked."""
    responses = (record for record in records if record.kind == "response")
    first = next(responses, None)
    if model is None and first is not None:
        model = msgspec.msgpack.decode(first.body, type=RecordedExchange).model
    if model is not None:
        try:
            configuration = StepExecutorConfiguration(model=model)
            return nh.AgentStepExecutor.from_configuration(configuration=configuration)
        except (ConfigurationError, ValueError):  # a model object of the program
            pass
    return nh.AgentStepExecutor.from_model(_UnknownModel(model or "replay:none"))


def _load_function(target: str, arguments: Sequence[str]) -> Callable[..., Any]:
    """Import a function of a module, or of a file, which sees the arguments as a script does."""
    place, _, name = target.rpartition(":")
    if not place.endswith(".py"):
        return load_function(target)
    if not Path(place).is_file():
        raise ArgumentError(f"there is no file {place!r}")
    module = import_script(Script(given=place, function=name, arguments=arguments))
    function = getattr(module, name, None)
    if not callable(function) or isinstance(function, type):
        raise ArgumentError(f"{place} has no function {name!r}")
    return function


def _bound(function: Callable[..., Any], arguments: Sequence[str]) -> Callable[[], Any]:
    bound = bind_arguments(function, arguments)
    return partial(function, *bound.args, **bound.kwargs)


def fork_run(
    store: STORE,
    run: RUN,
    at: Annotated[str, typer.Option(help="The place from which the new run is live, run/…", metavar="PLACE")],
    to: Annotated[
        str | None, typer.Option(help="The id of the new run; by default that of the run with -fork-1.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A value to replace there: result, value, message, answer or a binding; JSON or text.",
            metavar="NAME=VALUE",
        ),
    ] = None,
) -> None:
    """Copy the beginning of a run to a new run, which the next process with its id continues."""
    with open_store(store) as opened:
        check_run(opened, run)
        new_id = opened.fork(run, at=at, to=to, set=dict(map(_parse_value, values or [])))
    typer.echo(new_id)


def _parse_value(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ArgumentError(f"{text!r} is no value; write name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
