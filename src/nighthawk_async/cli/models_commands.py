"""`nighthawk-async models`: the weights on this machine. Floor 5."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..catalog.local import LOCAL_MODELS, WeightsSource
from ..errors import UnknownModelError
from ..models.weights import are_weights_whole, pull_weights, weights_path
from .pull_view import showing_pull

__all__ = ["models"]

models = typer.Typer(help="The weights of models that run on this machine.", no_args_is_help=True)


@models.command()
def pull(
    name: Annotated[str, typer.Argument(help="The model's name, for example smollm2-135m.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read and check weights that are there already.")
    ] = False,
) -> None:
    """Fetch a model's weights, unless they are there. Prints the file's path."""
    source = _weights_source(name)
    path = weights_path(source)
    with showing_pull(Console(stderr=True), name) as report:
        pull_weights(source, path, verify=verify, report=report)
    typer.echo(str(path))


@models.command("list")
def list_models() -> None:
    """List the models that `local:NAME` knows by name."""
    table = Table(box=None, pad_edge=False)
    for heading in ("NAME", "WEIGHTS", "SIZE", "DESCRIPTION"):
        table.add_column(heading, no_wrap=heading != "DESCRIPTION")
    for name, facts in LOCAL_MODELS.items():
        if facts.weights is not None:
            is_here = are_weights_whole(facts.weights, weights_path(facts.weights))
            size = f"{facts.weights.file_bytes / 1e6:.0f} MB"
            table.add_row(name, "here" if is_here else "not pulled", size, facts.description)
    Console().print(table)


def _weights_source(name: str) -> WeightsSource:
    facts = LOCAL_MODELS.get(name.removeprefix("local:"))
    if facts is None or facts.weights is None:
        known = ", ".join(LOCAL_MODELS)
        raise UnknownModelError(f"There are no weights to pull for {name!r}. Known: {known}.")
    return facts.weights
