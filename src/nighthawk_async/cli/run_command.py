"""`nighthawk-async run`: a script, and a live view of what goes on in it."""

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TextIO, cast

import typer
from pydantic import TypeAdapter
from rich.console import Console

import nighthawk_async as nh

from ..configuration import StepExecutorConfiguration, parse_model_id
from ..observe import TaskTree
from ..types.json import JsonableValue
from .demo_command import DEMO_MODEL
from .live_tree import LiveTree, TreeDisplay
from .live_tree_json import JsonTree
from .live_tree_lines import PlainTree
from .live_tree_screen import Screen
from .live_tree_streams import printing_above
from .live_tree_terminal import TerminalTree
from .run_arguments import ArgumentError
from .run_ending import EXIT_ARGUMENTS, status_after
from .run_interrupts import Interrupts
from .run_model import ExecutorOnDemand
from .run_script import Backend, Script, call_function, parse_script, run_as_main

__all__ = ["CONTEXT_SETTINGS", "run"]

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
"""What follows the script belongs to the script."""

_ANY: TypeAdapter[Any] = TypeAdapter(Any)
_MAX_FINISHED_TREES = 20_000  # between two looks, nothing is dropped that was not told


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
    """Run a script, or call a function of it, and show live what goes on.

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
        """Carry it out; what a function returns is taken."""
        if self.script.function is None:
            run_as_main(self.script)
            return
        make = partial[nh.StepExecutor](ExecutorOnDemand, self.configuration)
        take(call_function(self.script, backend=self.backend, executor=make))


def _run_watched(call: _Call, tree: TaskTree, display: TreeDisplay | None) -> int:
    live = None if display is None else LiveTree(tree, display)
    take = partial(_take_result, display)
    status = 1
    with Interrupts(lambda: None if live is None else live.interrupted()) as interrupts:
        if live is not None:
            live.start()
        try:
            with tree.recording(everywhere=True):
                status = status_after(partial(call, take), file=call.script.file)
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
    """Print; what the encoding of standard output lacks is escaped."""
    encoding = sys.stdout.encoding
    print(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def _display(as_json: bool) -> Generator[TreeDisplay | None]:
    """Return the display of the tree that suits standard error."""
    if as_json:
        with _output_of_its_own() as output:
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
def _output_of_its_own() -> Generator[TextIO]:
    """Standard output for the tree alone: what the script prints goes to standard error meanwhile."""
    if cast("TextIO | None", sys.stdout) is None or cast("TextIO | None", sys.stderr) is None:
        raise ArgumentError("--json needs standard output and standard error: one of them is closed")
    sys.stdout.flush()
    own, shared = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), own)
    output = open(os.dup(shared), "w", encoding="utf-8", newline="\n")  # noqa: SIM115  (closing it may fail)
    try:
        yield output
    finally:
        with suppress(BrokenPipeError):  # nobody reads it any more
            output.close()
        sys.stdout.flush()
        os.dup2(shared, own)
        os.close(shared)
