"""The command line: its commands, their exit codes and their one-line errors."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import nighthawk_async as nh

from ..causes import leaves_of
from ..errors import ConfigurationError, NighthawkError
from .answer_command import answer
from .check_command import check
from .dashboard_command import dashboard
from .demo_command import demo
from .eval_command import evaluate
from .eval_history_command import eval_history
from .journal_care_commands import add_care_commands
from .journal_commands import journal
from .journal_question_commands import add_question_commands
from .journal_replays import add_replays
from .journal_views import add_views
from .mcp_command import mcp
from .models_commands import models
from .new_command import new
from .run_command import CONTEXT_SETTINGS, run
from .skills_command import skills
from .top_command import top
from .view_command import view
from .worker_command import worker

EXIT_FAILURE = 1
EXIT_CONFIGURATION = 2
EXIT_INTERRUPTED = 130


class _Commands(TyperGroup):
    """All commands; turns the exception that ends one into an exit code and a line on standard error."""

    def invoke(self, ctx: Any) -> Any:  # the context class depends on the version of typer
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(_interrupted()) from None
        except NighthawkError as error:
            raise typer.Exit(_failed([error])) from error
        except BaseExceptionGroup as group:
            raise typer.Exit(_group_failed(group)) from group


application = typer.Typer(
    cls=_Commands,
    name="nighthawk-async",
    help="Natural-language blocks inside Python functions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
add_views(journal)
add_replays(journal)
add_question_commands(journal)
add_care_commands(journal)
application.add_typer(journal, name="journal")
application.add_typer(mcp, name="mcp")
application.add_typer(models, name="models")
application.add_typer(skills, name="skills")
application.command(short_help="Be the model: answer requests by files.")(answer)
application.command()(check)
application.command(short_help="Run natural functions on a model on this machine.")(demo)
application.command(short_help="Serve an application with a dashboard.")(dashboard)
application.command("eval", short_help="Evaluate functions, with gates for continuous integration.")(evaluate)
application.command("eval-history", short_help="Show an evaluation over commits.")(eval_history)
application.command(short_help="Write a small project that passes its own checks.")(new)
application.command(context_settings=CONTEXT_SETTINGS, short_help="Run a script, and show its tree.")(run)
application.command(short_help="Watch a service, or a store of durable runs.")(top)
application.command(short_help="Show a recording, in the terminal or as a page.")(view)
application.command()(worker)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"nighthawk-async {nh.__version__}")
        raise typer.Exit


@application.callback()
def _describe(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Natural-language blocks inside Python functions."""


def run_command_line(arguments: Sequence[str]) -> int:
    """Run a command line.

    Args:
        arguments: The command line without the program's name.

    Returns:
        The exit code: 0 for success, 1 when something failed, 2 when the command line or a setting is wrong,
        130 when Ctrl-C ended it.
    """
    try:
        get_command(application).main(args=list(arguments), prog_name="nighthawk-async")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _group_failed(group: BaseExceptionGroup[BaseException]) -> int:
    """Handle errors of several tasks at once; errors of other origin propagate unchanged.

    rich ends a task with `SystemExit` when its output is no longer read: then nothing is reported.
    """
    leaves = list(leaves_of(group))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return _interrupted()
    known = [leaf for leaf in leaves if isinstance(leaf, NighthawkError)]
    exits = [leaf for leaf in leaves if isinstance(leaf, SystemExit)]
    if len(known) + len(exits) < len(leaves):
        raise group
    return EXIT_FAILURE if exits else _failed(known)


def _interrupted() -> int:
    typer.echo("interrupted", err=True)
    return EXIT_INTERRUPTED


def _failed(errors: Sequence[NighthawkError]) -> int:
    """One line for each different message."""
    for message in dict.fromkeys(" ".join(str(error).split()) for error in errors):
        typer.echo(f"nighthawk-async: {message}", err=True)
    is_configuration = all(isinstance(error, ConfigurationError) for error in errors)
    return EXIT_CONFIGURATION if is_configuration else EXIT_FAILURE
