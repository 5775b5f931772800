"""`nighthawk-async models`: what there is, what it can do, whether it works, and its weights."""

import json
import os
from typing import Annotated

import typer
from rich.console import Console

from ..catalog.local import LOCAL_MODELS, WeightsSource
from ..errors import UnknownModelError
from ..models.weights import pull_weights, weights_path
from .capability_view import run_capability_check
from .model_check_view import run_check
from .model_description import describe_model, print_description
from .model_list import list_as_json, print_list, providers_to_list
from .model_settings import parse_settings
from .pull_view import showing_pull

__all__ = ["models"]

models = typer.Typer(
    help="Models: what there is, what they can do, and whether they work.", no_args_is_help=True
)

_ModelArgument = Annotated[
    str, typer.Argument(metavar="PROVIDER:NAME", help="The model, for example anthropic:claude-haiku-5-5.")
]
_BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="The URL below which the protocol's paths lie.")
]
_SettingOption = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="NAME=JSON", help="A model setting; may be given several times."),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
def list_models(
    provider: Annotated[
        str | None, typer.Option(help="One provider, for example google, or local for this machine.")
    ] = None,
    as_json: _JsonOption = False,
) -> None:
    """List the providers, the models that the library knows there, and those of this machine.

    Other models work too: the library then assumes that they call tools and take text only.
    """
    providers = providers_to_list(provider)
    if as_json:
        typer.echo(json.dumps(list_as_json(providers), indent=2))
    else:
        print_list(providers)


@models.command()
def show(
    model: _ModelArgument,
    base_url: _BaseUrlOption = None,
    setting: _SettingOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Show what the library knows of a model, and where requests to it would go. Sends nothing."""
    description = describe_model(model, parse_settings(setting or (), base_url=base_url), os.environ)
    if as_json:
        typer.echo(json.dumps(description.as_json(), indent=2))
    else:
        print_description(description)


@models.command()
def check(
    model: _ModelArgument,
    base_url: _BaseUrlOption = None,
    setting: _SettingOption = None,
    asks_all: Annotated[
        bool, typer.Option("--all", help="One request for each thing that the model is said to do.")
    ] = False,
    finds_capabilities: Annotated[
        bool,
        typer.Option(
            "--capabilities",
            help="Find what the model can do, and print the settings to write; for your own servers.",
        ),
    ] = False,
    as_json: _JsonOption = False,
) -> None:
    """Send one tiny request and say what works. Costs a few tokens.

    Ends with exit code 1 when something does not work that the model is said to do.
    """
    settings = parse_settings(setting or (), base_url=base_url)
    if finds_capabilities:
        if not run_capability_check(model, settings, as_json=as_json):
            raise typer.Exit(1)
    elif not run_check(model, settings, asks_all=asks_all, as_json=as_json):
        raise typer.Exit(1)


def _weights_source(name: str) -> WeightsSource:
    facts = LOCAL_MODELS.get(name.removeprefix("local:"))
    if facts is None or facts.weights is None:
        known = ", ".join(LOCAL_MODELS)
        raise UnknownModelError(f"There are no weights to pull for {name!r}. Known: {known}.")
    return facts.weights
