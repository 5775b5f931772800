"""`models list`: the providers, the families of models, and the models of this machine."""

import os
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ..catalog.local import LOCAL_MODELS, LocalModelFacts
from ..catalog.models import MODELS, ModelFacts
from ..catalog.providers import PROVIDERS
from ..errors import UnknownModelError
from ..models.settings import TransportSettings
from ..models.weights import are_weights_whole, weights_path
from ..types.model import ModelCapabilities, ModelPrice
from .consoles import wide_console
from .endpoint_in_force import base_url_in_force, key_in_force, shown_url
from .model_description import LOCAL
from .model_words import capabilities_as_json, media_in_words, short_count

__all__ = ["list_as_json", "print_list", "providers_to_list"]

_HEADINGS = ("NAME", "TOOLS", "SCHEMA", "TAKES", "REASONING", "CONTEXT", "$ IN", "$ OUT")


def providers_to_list(chosen: str | None) -> list[str]:
    """The names of the providers to list.

    Args:
        chosen: The one that is asked for; None for all.

    Raises:
        UnknownModelError: There is no such provider.
    """
    known = [*PROVIDERS, LOCAL]
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
    return [_local_as_json() if name == LOCAL else _provider_as_json(name) for name in providers]


def print_list(providers: list[str]) -> None:
    """Print the list as tables.

    Args:
        providers: The names of the providers.
    """
    console = wide_console()
    for position, name in enumerate(providers):
        if position:
            console.print()
        if name == LOCAL:
            _print_local(console)
        else:
            _print_provider(console, name)


def _print_provider(console: Console, name: str) -> None:
    base_url, key = _endpoint_in_words(name, os.environ)
    console.print(f"{name}: {base_url}; key {key}", markup=False, soft_wrap=True)
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


def _is_here(facts: LocalModelFacts) -> bool:
    return facts.weights is not None and are_weights_whole(facts.weights, weights_path(facts.weights))


def _endpoint_in_words(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    provider, settings = PROVIDERS[name], TransportSettings()
    url, _ = base_url_in_force(provider, settings, environment)
    return shown_url(url), key_in_force(provider, settings, environment, url)[1]


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
