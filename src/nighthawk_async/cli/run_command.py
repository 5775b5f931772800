"""`nighthawk-async run`: a script, and a live view of its activities."""

import json
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, TextIO, cast

import anyio.to_thread
import typer
from pydantic import TypeAdapter
from rich.console import Console

import nighthawk_async as nh

from ..causes import leaves_of
from ..configuration import StepExecutorConfiguration, parse_model_id
from ..observe import TaskTree
from ..types.json import JsonableValue
from .demo_command import DEMO_MODEL, prepare_local_model
from .live_tree import JsonTree, LiveTree, PlainTree, TreeDisplay
from .live_tree_terminal import Screen, TerminalTree, printing_above
from .run_interrupts import EXIT_INTERRUPTED, Interrupts
from .run_script import ArgumentError, Backend, Script, call_function, parse_script, run_as_main

EXIT_ARGUMENTS = 2
"""The script has no such function, or cannot be called like this."""


def status_after(script: Callable[[], None], *, file: str) -> int:
    """Run a script.

    Args:
        script: The script to run.
        file: The file of the script; in tracebacks, its callers are left out.

    Returns:
        The exit status.

    Raises:
        ArgumentError: The script has no such function, or cannot be called like this.
    """
    try:
        script()
    except SystemExit as end:
        return _status_of_exit(end)
    except ArgumentError:
        raise
    except BaseException as error:
        if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves_of(error)):
            return EXIT_INTERRUPTED
        sys.excepthook(type(error), error.with_traceback(_traceback_from(error, file)), error.__traceback__)
        return 1
    return 0


def _status_of_exit(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _traceback_from(error: BaseException, file: str) -> TracebackType | None:
    """The traceback from the script on; all of it for an error in compiling the script."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    if traceback is None and not isinstance(error, SyntaxError):
        return error.__traceback__
    return traceback


class ExecutorOnDemand:
    """Runs steps with a model that is made for the first of them.

    Args:
        configuration: Names the model.
    """

    def __init__(self, configuration: StepExecutorConfiguration) -> None:
        self.configuration = configuration
        self._lock = threading.Lock()
        self._executor: nh.AgentStepExecutor | None = None

    def with_configuration(self, configuration: StepExecutorConfiguration) -> "ExecutorOnDemand":
        """The same with another configuration."""
        return ExecutorOnDemand(configuration)

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: nh.StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        """Run a step."""
        executor = self._executor or await anyio.to_thread.run_sync(self._make)
        return await executor.run_step_async(
            processed_natural_program=processed_natural_program,
            step_context=step_context,
            binding_names=binding_names,
            allowed_step_kinds=allowed_step_kinds,
        )

    def _make(self) -> nh.AgentStepExecutor:
        with self._lock:
            if self._executor is None:
                # Lines instead of a bar: a tree may be drawn meanwhile.
                lines = Console(file=sys.stderr, force_terminal=False)
                try:
                    prepare_local_model(self.configuration.model, lines)
                    self._executor = nh.AgentStepExecutor.from_configuration(configuration=self.configuration)
                except nh.ConfigurationError as error:  # of the command line, not of the script
                    raise ArgumentError(str(error)) from error
            return self._executor


CONTEXT_SETTINGS = {"allow_interspersed_args": False}
"""Context settings: arguments after the script belong to the script."""

_ANY: TypeAdapter[Any] = TypeAdapter(Any)
_MAX_FINISHED_TREES = 20_000  # nothing is dropped before it is reported


def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT.py[:function]", help="What to run.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments of the script; of a function, as JSON or text, or --name value."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help=f"With a function: the model, provider:name. [default: {DEMO_MODEL}]")
    ] = None,
    backend: Annotated[Backend, typer.Option(help="With a function: what async def runs on.")] = Backend.trio,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print changes as lines of JSON; the script prints to stderr.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing of what goes on.")] = False,
) -> None:
    """Run a script, or call a function of it, and show its activities live.

    On a terminal, a tree on standard error; elsewhere, lines. The script's own output stays as it is. Ctrl-C
    ends the script as it always does; a second Ctrl-C ends it at once. The exit status is the script's.
    """
    parsed = parse_script(script, arguments or [])
    if model is not None and parsed.function is None:
        raise ArgumentError("--model is for a function: a script chooses its model itself")
    configuration = StepExecutorConfiguration(model=str(parse_model_id(model or DEMO_MODEL)))
    call = _Call(script=parsed, configuration=configuration, backend=backend)
    tree = TaskTree(max_finished_trees=_MAX_FINISHED_TREES)
    with ExitStack() as stack:
        display = None if quiet else stack.enter_context(_display(as_json))
        status = _run_watched(call, tree, display)
    if status:
        raise typer.Exit(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A function to run, and its arguments."""

    script: Script
    configuration: StepExecutorConfiguration
    backend: Backend

    def __call__(self, take: Callable[[object], None]) -> None:
        """Run it; the result of a function is kept."""
        if self.script.function is None:
            run_as_main(self.script)
            return

        def make() -> nh.executors.StepExecutor:
            return ExecutorOnDemand(self.configuration)

        take(call_function(self.script, backend=self.backend, executor=make))


def _run_watched(call: _Call, tree: TaskTree, display: TreeDisplay | None) -> int:
    live = None if display is None else LiveTree(tree, display)

    def take(result: object) -> None:
        _take_result(display, result)

    status = 1
    with Interrupts(lambda: None if live is None else live.interrupted()) as interrupts:
        if live is not None:
            live.start()
        try:
            with tree.recording(everywhere=True):
                status = status_after(lambda: call(take), file=call.script.file)
        except ArgumentError:
            status = EXIT_ARGUMENTS
            raise
        finally:
            interrupts.finish()
            if live is not None:
                live.finish(status)
    return status


def _take_result(display: TreeDisplay | None, result: object) -> None:
    """Print what a function returned: a text as it is, another value as JSON; nothing for None."""
    if isinstance(display, JsonTree):
        display.result = _as_json(result)
    elif isinstance(result, str):
        _print(result)
    elif result is not None:
        _print(json.dumps(_as_json(result), indent=2, ensure_ascii=False))


def _as_json(result: object) -> JsonableValue:
    if isinstance(result, str):
        return result
    try:
        return json.loads(_ANY.dump_json(result, fallback=repr))
    except ValueError:  # bytes that are no text, a cycle
        return repr(result)


def _print(text: str) -> None:
    """Print a text; characters that the encoding of standard output lacks are escaped."""
    encoding = sys.stdout.encoding
    print(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def _display(as_json: bool) -> Generator[TreeDisplay | None]:
    """Return the display of the tree that suits standard error."""
    if as_json:
        with output_of_its_own() as output:
            yield JsonTree(output)
        return
    errors: Any = sys.stderr
    try:
        descriptor = errors.fileno()
    except (AttributeError, OSError, ValueError):  # none at all, or no file of the system
        yield None
        return
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal and errors.isatty():
        screen = Screen(descriptor)
        with printing_above(screen):
            yield TerminalTree(screen, Console(file=errors))
        return
    yield PlainTree(descriptor, errors.encoding)


@contextmanager
def output_of_its_own() -> Generator[TextIO]:
    """Reserve standard output for the tree: the script's output goes to standard error meanwhile."""
    if cast("TextIO | None", sys.stdout) is None or cast("TextIO | None", sys.stderr) is None:
        raise ArgumentError("--json needs standard output and standard error: one of them is closed")
    sys.stdout.flush()
    own, shared = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), own)
    output = open(os.dup(shared), "w", encoding="utf-8", newline="\n")  # noqa: SIM115  (closing it may fail)
    try:
        yield output
    finally:
        with suppress(BrokenPipeError):  # it is no longer read
            output.close()
        sys.stdout.flush()
        os.dup2(shared, own)
        os.close(shared)
