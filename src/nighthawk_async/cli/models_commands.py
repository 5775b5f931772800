"""`nighthawk-async models`: list models, show their capabilities, check them, and fetch weights."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ..catalog.coding_agents import CODING_AGENTS, is_coding_agent
from ..catalog.local import LOCAL_MODELS, LocalModelFacts, WeightsSource
from ..catalog.models import MODELS, ModelFacts
from ..catalog.providers import PROVIDERS
from ..errors import ConfigurationError, UnknownModelError
from ..models.time_limits import TransportSettings
from ..models.weights import are_weights_whole, pull_weights, weights_path
from ..types.model import ModelCapabilities, ModelPrice
from .capability_view import run_capability_check
from .coding_agent_view import agent_as_json, agent_in_words, check_is_model, print_agent, show_agent
from .model_check import run_check
from .model_description import (
    LOCAL,
    active_base_url,
    active_key,
    base_url_in_words,
    capabilities_as_json,
    describe_model,
    media_in_words,
    print_description,
    short_count,
    wide_console,
)
from .pull_view import showing_pull
from .rule_probes import run_rule_check

_HEADINGS = ("NAME", "TOOLS", "SCHEMA", "TAKES", "REASONING", "CONTEXT", "$ IN", "$ OUT")


def providers_to_list(chosen: str | None) -> list[str]:
    """The names of the providers to list.

    Args:
        chosen: The requested one; None for all.

    Raises:
        UnknownModelError: There is no such provider.
    """
    known = [*PROVIDERS, *CODING_AGENTS, LOCAL]
    if chosen is None:
        return known
    if chosen not in known:
        raise UnknownModelError(f"No provider is called {chosen!r}; known are {', '.join(known)}.")
    return [chosen]


def list_as_json(providers: list[str]) -> list[dict[str, Any]]:
    """The list as JSON.

    Args:
        providers: The names of the providers.
    """
    return [_as_json(name) for name in providers]


def _as_json(provider: str) -> dict[str, Any]:
    if provider in CODING_AGENTS:
        return agent_as_json(provider)
    return _local_as_json() if provider == LOCAL else _provider_as_json(provider)


def print_list(providers: list[str]) -> None:
    """Print the list as tables.

    Args:
        providers: The names of the providers.
    """
    console = wide_console()
    for position, name in enumerate(providers):
        if position and not (_is_plain(name) and _is_plain(providers[position - 1])):
            console.print()
        if name == LOCAL:
            _print_local(console)
        elif name in CODING_AGENTS:
            console.print(agent_in_words(name), markup=False, soft_wrap=True)
        else:
            _print_provider(console, name)


def _print_provider(console: Console, name: str) -> None:
    base_url, key = _endpoint_in_words(name, os.environ)
    console.print(f"{name}: {base_url}; key {key}", markup=False, soft_wrap=True)
    if _is_plain(name):
        return
    table = _table(*_HEADINGS, right=("CONTEXT", "$ IN", "$ OUT"), folds="NAME")
    elsewhere: dict[str, list[str]] = {}
    for facts in _rows_of(name):
        family = facts.pattern.partition(":")[2]
        if facts.only_through:
            elsewhere.setdefault(facts.only_through, []).append(family)
        else:
            table.add_row(escape(family), *_cells(facts.capabilities))
    console.print(_indented(table))
    for provider, families in elsewhere.items():
        console.print(_indented(escape(f"through {provider} only: {', '.join(families)}")))


def _print_local(console: Console) -> None:
    console.print(f"{LOCAL}: models that run on this machine; the path of any GGUF file is one too")
    table = _table("NAME", "WEIGHTS", "SIZE", "DESCRIPTION", folds="DESCRIPTION")
    for name, facts in LOCAL_MODELS.items():
        size = f"{facts.weights.file_bytes / 1e6:.0f} MB" if facts.weights else "-"
        table.add_row(name, "here" if _is_here(facts) else "not pulled", size, facts.description)
    console.print(_indented(table))


def _indented(content: Table | str) -> Padding:
    return Padding(content, (0, 0, 0, 2), expand=False)


def _table(*headings: str, right: tuple[str, ...] = (), folds: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        justify = "right" if heading in right else "left"
        table.add_column(heading, no_wrap=heading != folds, justify=justify, overflow="fold")
    return table


def _cells(capabilities: ModelCapabilities) -> tuple[str, ...]:
    takes = media_in_words(capabilities)
    return (
        "yes" if capabilities.tools else "no",
        "yes" if capabilities.structured_output else "no",
        "all media" if takes == "images, audio, video, documents" else takes,
        capabilities.reasoning_control if capabilities.reasoning else "-",
        short_count(capabilities.context_window),
        *_prices(capabilities.price),
    )


def _prices(price: ModelPrice | None) -> tuple[str, str]:
    return ("-", "-") if price is None else (f"{price.input:f}", f"{price.output:f}")


def _rows_of(provider: str) -> list[ModelFacts]:
    return [facts for facts in MODELS if facts.pattern.partition(":")[0] == provider]


def _is_plain(provider: str) -> bool:
    """Whether a provider has no rows of models, so that it takes a single line."""
    return provider != LOCAL and not _rows_of(provider)


def _is_here(facts: LocalModelFacts) -> bool:
    return facts.weights is not None and are_weights_whole(facts.weights, weights_path(facts.weights))


def _endpoint_in_words(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    provider, settings = PROVIDERS[name], TransportSettings()
    url, _, missing = active_base_url(provider, settings, environment)
    return base_url_in_words(url, missing), active_key(provider, settings, environment, url)[1]


def _provider_as_json(name: str) -> dict[str, Any]:
    base_url, key = _endpoint_in_words(name, os.environ)
    return {
        "provider": name,
        "protocol": PROVIDERS[name].protocol,
        "base_url": base_url,
        "key": key,
        "models": [
            {
                "pattern": facts.pattern,
                "capabilities": capabilities_as_json(facts.capabilities),
                "only_through": facts.only_through or None,
                "more_through": facts.more_through or None,
                "note": facts.note or None,
                "source": facts.source or None,
            }
            for facts in _rows_of(name)
        ],
    }


def _local_as_json() -> dict[str, Any]:
    return {
        "provider": LOCAL,
        "models": [
            {
                "pattern": f"{LOCAL}:{name}",
                "capabilities": capabilities_as_json(facts.capabilities),
                "description": facts.description,
                "weights_are_here": _is_here(facts),
                "weights_bytes": facts.weights.file_bytes if facts.weights else None,
            }
            for name, facts in LOCAL_MODELS.items()
        ],
    }


def parse_settings(texts: Sequence[str], *, base_url: str | None = None) -> dict[str, Any]:
    """The settings from options.

    Args:
        texts: Each `NAME=VALUE`, the value as JSON, otherwise as a text.
        base_url: The value of the setting `base_url`, when given by its own option.

    Raises:
        ConfigurationError: A text has no name or no `=`. The message does not show the value.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ConfigurationError("A model setting is given as NAME=VALUE, for example temperature=0.2.")
        settings[name.strip()] = _parse_value(value)
    return settings if base_url is None else {**settings, "base_url": base_url}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


models = typer.Typer(help="List models, and check what they can do.", no_args_is_help=True)

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
    """Show the library's facts about a model, and the address of its requests. Sends nothing."""
    if is_coding_agent(model):
        if as_json:
            typer.echo(json.dumps(show_agent(model), indent=2))
        else:
            print_agent(model)
        return
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
    tries_rules: Annotated[
        bool,
        typer.Option("--rules", help="Try what the endpoint is said to refuse, one small request each."),
    ] = False,
    as_json: _JsonOption = False,
) -> None:
    """Send one tiny request and say what works. Costs a few tokens.

    Ends with exit code 1 when something does not work that the model is said to do.
    """
    check_is_model(model)
    settings = parse_settings(setting or (), base_url=base_url)
    if finds_capabilities:
        if not run_capability_check(model, settings, as_json=as_json):
            raise typer.Exit(1)
    elif tries_rules:
        if not run_rule_check(model, settings, as_json=as_json):
            raise typer.Exit(1)
    elif not run_check(model, settings, asks_all=asks_all, as_json=as_json):
        raise typer.Exit(1)


def _weights_source(name: str) -> WeightsSource:
    facts = LOCAL_MODELS.get(name.removeprefix("local:"))
    if facts is None or facts.weights is None:
        known = ", ".join(LOCAL_MODELS)
        raise UnknownModelError(f"There are no weights to pull for {name!r}. Known: {known}.")
    return facts.weights
