"""`models show`: the known facts of one model and the way to reach it. Nothing is sent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..catalog.local import GGUF_FILE, LOCAL_MODELS, LocalModelFacts
from ..catalog.models import UNKNOWN_MODEL, ModelFacts, find_model_facts
from ..catalog.providers import PROVIDERS
from ..configuration import parse_model_id
from ..errors import UnknownModelError
from ..models.current_price import CurrentPrice, library_version
from ..models.time_limits import TransportSettings, overridden_capabilities
from ..models.weights import are_weights_whole, weights_path
from ..suggestions import did_you_mean
from ..types.model import ModelCapabilities
from .active_endpoint import active_base_url, active_key, shown_url
from .model_words import (
    capabilities_as_json,
    media_in_words,
    price_in_words,
    reasoning_in_words,
    sampling_in_words,
    schemas_in_words,
    tools_in_words,
    wide_console,
)

LOCAL = "local"
"""The provider of models on this machine."""

_DEFAULTS = "unknown: conservative defaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The known facts of one model.

    Args:
        model_id: The model, `provider:name`.
        row: The row of the catalog that covers it.
        protocol: The wire protocol; empty for models on this machine.
        base_url: The URL that requests go to; empty for models on this machine.
        base_url_origin: The origin of the address.
        has_key: Whether requests carry a key.
        key: The origin of the key, or that it is missing. Never the key.
        weights: The place of the weights, for models on this machine.
        capabilities: Its capabilities, the setting `capabilities` included.
        price_source: The source of the price, where it is neither the catalog nor a setting.
        note: The note of the catalog.
        source: The source of the catalog.
    """

    model_id: str
    row: str
    protocol: str = ""
    base_url: str = ""
    base_url_origin: str = ""
    has_key: bool = False
    key: str = ""
    weights: str = ""
    capabilities: ModelCapabilities
    price_source: str = ""
    note: str = ""
    source: str = ""

    def lines(self) -> Iterator[tuple[str, str]]:
        """The description as names and values, in the order in which to show them; empty values left out."""
        capabilities = self.capabilities
        context, longest = capabilities.context_window, capabilities.max_output_tokens
        named = {
            "model": self.model_id,
            "catalog row": self.row,
            "protocol": self.protocol,
            "base URL": self.base_url and f"{self.base_url} ({self.base_url_origin})",
            "key": self.key,
            "weights": self.weights,
            "tools": tools_in_words(capabilities),
            "structured output": schemas_in_words(capabilities),
            "takes": media_in_words(capabilities),
            "reasoning": reasoning_in_words(capabilities),
            "sampling": sampling_in_words(capabilities),
            "prompt caching": "requests mark what to cache" if capabilities.prompt_caching else "",
            "outcome transport": capabilities.default_transport,
            "context": "unknown" if context is None else f"{context:,} tokens",
            "longest response": "unknown" if longest is None else f"{longest:,} tokens",
            "price": price_in_words(capabilities.price),
            "price from": self.price_source,
            "note": self.note,
            "source": self.source,
        }
        yield from ((name, value) for name, value in named.items() if value)

    def as_json(self) -> dict[str, Any]:
        """The description as JSON."""
        return {
            "model": self.model_id,
            "row": self.row,
            "protocol": self.protocol or None,
            "base_url": self.base_url or None,
            "base_url_origin": self.base_url_origin or None,
            "has_key": self.has_key,
            "key": self.key or None,
            "weights": self.weights or None,
            "capabilities": capabilities_as_json(self.capabilities),
            "price_source": self.price_source or None,
            "note": self.note or None,
            "source": self.source or None,
        }


def describe_model(
    model_id: str, settings: Mapping[str, Any], environment: Mapping[str, str]
) -> ModelDescription:
    """Return the known facts of a model.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings.
        environment: Environment variables.

    Raises:
        UnknownModelError: The id is malformed, or there is no such provider or local model.
        ConfigurationError: A setting has a bad value.
    """
    parsed = parse_model_id(model_id)
    transport = TransportSettings.from_settings(settings)
    if parsed.provider == LOCAL:
        return _describe_local(parsed.name, transport, environment)
    provider = PROVIDERS.get(parsed.provider)
    if provider is None:
        known = sorted([*PROVIDERS, LOCAL])
        raise UnknownModelError(
            f"No provider is called {parsed.provider!r}; known are {', '.join(known)}."
            f"{did_you_mean(parsed.provider, known)}"
        )
    facts = find_model_facts(model_id)
    url, origin = active_base_url(provider, transport, environment)
    has_key, key = active_key(provider, transport, environment, url)
    capabilities = overridden_capabilities(facts.capabilities, transport.capabilities)
    listed = CurrentPrice(url, parsed.name, facts.capabilities.price).find_listed()
    is_listed = listed is not None and "price" not in transport.capabilities
    return ModelDescription(
        model_id=model_id,
        row=_DEFAULTS if facts is UNKNOWN_MODEL else facts.pattern,
        protocol=provider.protocol,
        base_url=shown_url(url),
        base_url_origin=origin,
        has_key=has_key,
        key=key,
        capabilities=replace(capabilities, price=listed) if is_listed else capabilities,
        price_source=library_version() if is_listed else "",
        note=_note(facts),
        source=facts.source,
    )


def _note(facts: ModelFacts) -> str:
    if facts.only_through:
        return f"It is reached through {facts.only_through} only. {facts.note}".strip()
    if facts.more_through:
        return f"It can do more through {facts.more_through}. {facts.note}".strip()
    return facts.note


def print_description(description: ModelDescription) -> None:
    """Print a description, one line for each thing.

    Args:
        description: The description.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in description.lines():
        table.add_row(name, escape(value))
    wide_console().print(table)


def _describe_local(
    name: str, transport: TransportSettings, environment: Mapping[str, str]
) -> ModelDescription:
    facts = _local_facts(name)
    weights = "the file itself"
    if facts.weights is not None:
        path = weights_path(facts.weights, environment=environment)
        is_here = are_weights_whole(facts.weights, path)
        weights = str(path) if is_here else f"not here; fetch them with: nighthawk-async models pull {name}"
    return ModelDescription(
        model_id=f"{LOCAL}:{name}",
        row=f"{LOCAL}:{name}" if name in LOCAL_MODELS else f"{LOCAL}:*.gguf",
        weights=weights,
        capabilities=overridden_capabilities(facts.capabilities, transport.capabilities),
        note=facts.description[0].upper() + facts.description[1:] + ".",
    )


def _local_facts(name: str) -> LocalModelFacts:
    if name in LOCAL_MODELS:
        return LOCAL_MODELS[name]
    if name.lower().endswith(".gguf"):
        return GGUF_FILE
    raise UnknownModelError(
        f"No local model is called {name!r}; known are {', '.join(LOCAL_MODELS)}, and the path of any GGUF "
        "file."
    )
