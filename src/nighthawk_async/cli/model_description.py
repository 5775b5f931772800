"""`models show`: the known facts of one model and the way to reach it, in words and as JSON.

Nothing is sent.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import SplitResult, parse_qsl

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..catalog.coding_agents import CODING_AGENTS
from ..catalog.local import GGUF_FILE, LOCAL_MODELS, LocalModelFacts
from ..catalog.models import UNKNOWN_MODEL, ModelFacts, find_model_facts
from ..catalog.providers import PROVIDERS, ProviderFacts, providers_in_words
from ..configuration import parse_model_id
from ..errors import UnknownModelError
from ..models.default_credentials import is_available
from ..models.endpoint import is_loopback, parse_base_url, with_version
from ..models.pricing import CurrentPrice, library_version
from ..models.time_limits import TransportSettings, overridden_capabilities
from ..models.weights import are_weights_whole, weights_path
from ..suggestions import did_you_mean
from ..types.model import ModelCapabilities, ModelPrice
from ..wire.redaction import is_secret_name


def active_base_url(
    provider: ProviderFacts, transport: TransportSettings, environment: Mapping[str, str]
) -> tuple[SplitResult, str, tuple[str, ...]]:
    """Return the address of a provider's requests, the setting that gives it, and the variables it misses.

    Args:
        provider: The provider.
        transport: The model settings of the transport.
        environment: Environment variables.

    Raises:
        ConfigurationError: It is no URL.
    """
    variable = environment.get(provider.base_url_variable, "").strip()
    missing: tuple[str, ...] = ()
    if transport.base_url:
        text, origin = transport.base_url, "the setting base_url"
    elif variable:
        text, origin = variable, f"the variable {provider.base_url_variable}"
    else:
        text, missing = provider.own_base_url(environment)
        text, origin = text if "://" in text else f"https://{text}", "the provider's own"
    return with_version(parse_base_url(text), provider.version_path), origin, missing


def base_url_in_words(url: SplitResult, missing: tuple[str, ...]) -> str:
    """The address of requests, or the way to set it.

    Args:
        url: The address.
        missing: The environment variables that it misses.
    """
    if not missing:
        return shown_url(url)
    return f"not set; set the variable {' and '.join(missing)}, or the setting base_url"


def active_key(
    provider: ProviderFacts,
    transport: TransportSettings,
    environment: Mapping[str, str],
    base_url: SplitResult,
) -> tuple[bool, str]:
    """Whether requests carry a key or a credential, and its source or the way to set it.

    Args:
        provider: The provider.
        transport: The model settings that steer the transport.
        environment: Environment variables.
        base_url: The address of requests.
    """
    if transport.credentials is not None:
        return True, "set (the setting credentials)"
    if transport.api_key is not None and transport.api_key.get_secret_value().strip():
        return True, "set (the setting api_key)"
    for variable in provider.key_variables:
        if environment.get(variable, "").strip():
            return True, f"set (the variable {variable})"
    query_names = [name for name, _ in parse_qsl(base_url.query)]
    for name in (*transport.extra_headers, *query_names):
        if is_secret_name(name):
            return True, f"set ({name})"
    if is_loopback(base_url.hostname):
        return False, "not set; a server on this machine needs none"
    if provider.credentials and is_available(provider):
        return True, f"nh.credentials.{provider.credentials}()"
    if not provider.is_key_required:
        return False, "not set"
    return False, f"not set; {_ways_to_key(provider)}"


def _ways_to_key(provider: ProviderFacts) -> str:
    ways = [f"set the variable {' or '.join(provider.key_variables)}"] if provider.key_variables else []
    ways.append("the setting api_key" if ways else "set the setting api_key")
    if provider.credentials:
        ways.append(f"install the extra {provider.credentials}")
    return ", or ".join(ways)


def active_headers(
    provider: ProviderFacts, transport: TransportSettings, environment: Mapping[str, str]
) -> dict[str, str]:
    """The headers of a provider's requests that identify the caller, credentials included.

    Args:
        provider: The provider.
        transport: The model settings that steer the transport.
        environment: Environment variables.
    """
    keys = [environment.get(variable, "").strip() for variable in provider.key_variables]
    if transport.api_key is not None:
        keys.insert(0, transport.api_key.get_secret_value().strip())
    key = next(filter(None, keys), "")
    own = {name.strip().lower(): value for name, value in transport.extra_headers.items()}
    return {**({provider.key_header: provider.key_prefix + key} if key else {}), **own}


def shown_url(url: SplitResult) -> str:
    """A URL without its query, which may hold a credential.

    Args:
        url: The URL.
    """
    return url._replace(query="…" if url.query else "").geturl()


_WIDTH_OF_PIPES = 100


def wide_console() -> Console:
    """The terminal on standard output; without a terminal, lines are wide."""
    console = Console(highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, width=_WIDTH_OF_PIPES)


_NOT_WITH_TOOLS = "not in a request that offers tools"


def tools_in_words(capabilities: ModelCapabilities) -> str:
    """Whether the model calls tools.

    Args:
        capabilities: The capabilities of the model.
    """
    if not capabilities.tools:
        return "no"
    count = "several in one response" if capabilities.parallel_tool_calls else "one in a response"
    return f"yes, {count}" if capabilities.forced_tool_choice else f"yes, {count}, never on demand"


def schemas_in_words(capabilities: ModelCapabilities) -> str:
    """Whether the endpoint enforces a JSON Schema on answers.

    Args:
        capabilities: The capabilities of the model.
    """
    if not capabilities.structured_output:
        return "no"
    return "yes" if capabilities.structured_output_with_tools else f"yes, {_NOT_WITH_TOOLS}"


def media_in_words(capabilities: ModelCapabilities) -> str:
    """The kinds of media that the model takes.

    Args:
        capabilities: The capabilities of the model.
    """
    kinds = [name for name in ("images", "audio", "video", "documents") if getattr(capabilities, name)]
    return ", ".join(kinds) or "text only"


def reasoning_in_words(capabilities: ModelCapabilities) -> str:
    """Whether, and how, the amount of reasoning can be set.

    Args:
        capabilities: The capabilities of the model.
    """
    if not capabilities.reasoning:
        return "not adjustable"
    way = "by a word (reasoning_effort)"
    if capabilities.reasoning_control == "budget":
        way = "by a number of tokens (thinking_budget_tokens, or reasoning_effort)"
    if capabilities.reasoning_efforts is not None:
        way = f"{way}: {', '.join(capabilities.reasoning_efforts)}"
    return way if capabilities.reasoning_with_tools else f"{way}; {_NOT_WITH_TOOLS}"


def sampling_in_words(capabilities: ModelCapabilities) -> str:
    """Whether sampling can be controlled.

    Args:
        capabilities: The capabilities of the model.
    """
    return "adjustable" if capabilities.sampling else "not adjustable (temperature, top_p, top_k)"


def price_in_words(price: ModelPrice | None) -> str:
    """A price in US dollars per million tokens.

    Args:
        price: The price; None when it is unknown.
    """
    if price is None:
        return "unknown"
    if not price.input and not price.output:
        return "free"
    parts = [f"{dollars(price.input)} sent", f"{dollars(price.output)} received"]
    if price.cache_read is not None:
        parts.append(f"{dollars(price.cache_read)} read from the cache")
    if price.cache_write is not None:
        parts.append(f"{dollars(price.cache_write)} written to the cache")
    if price.cache_write_1h is not None:
        parts.append(f"{dollars(price.cache_write_1h)} written to it for an hour")
    return f"{', '.join(parts)} per million tokens"


def searches_in_words(capabilities: ModelCapabilities) -> str:
    """The prices of searches by the provider, in US dollars; empty for none.

    Args:
        capabilities: The capabilities of the model.
    """
    price = capabilities.price
    if price is None:
        return ""
    prices = {"web_search": price.web_search, "file_search": price.file_search}
    parts = [
        f"{dollars(amount)} per thousand {name.replace('_', ' ')}es"
        for name, amount in prices.items()
        if amount is not None and name in capabilities.native_tools
    ]
    return ", ".join(parts)


def dollars(amount: Decimal) -> str:
    """An amount of US dollars, cents at least.

    Args:
        amount: The amount.
    """
    plain = f"{amount.normalize():f}"
    whole, _, fraction = plain.partition(".")
    return f"${whole}.{fraction.ljust(2, '0')}"


def short_count(count: int | None) -> str:
    """A number of tokens in few characters; a dash when it is unknown.

    Args:
        count: The number.
    """
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1_000:.3g}K"


def capabilities_as_json(capabilities: ModelCapabilities) -> dict[str, Any]:
    """Return the capabilities of a model as JSON; prices are texts, since they are decimal numbers.

    Args:
        capabilities: The capabilities of the model.
    """
    fields = asdict(capabilities)
    if capabilities.price is not None:
        fields["price"] = _price_as_json(asdict(capabilities.price))
    return fields


def _price_as_json(prices: Mapping[str, Any]) -> dict[str, Any]:
    amounts: dict[str, Any] = {
        name: str(each) if isinstance(each, Decimal) else each for name, each in prices.items()
    }
    if amounts["long_request"] is not None:
        amounts["long_request"] = _price_as_json(amounts["long_request"])
    return amounts


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
        base_url: The URL that requests go to, or the way to set it; empty for models on this machine.
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
            "base URL": f"{self.base_url} ({self.base_url_origin})"
            if self.base_url_origin
            else self.base_url,
            "key": self.key,
            "weights": self.weights,
            "tools": tools_in_words(capabilities),
            "structured output": schemas_in_words(capabilities),
            "takes": media_in_words(capabilities),
            "reasoning": reasoning_in_words(capabilities),
            "sampling": sampling_in_words(capabilities),
            "prompt caching": "requests mark what to cache" if capabilities.prompt_caching else "",
            "tool search": "the provider searches deferred tools" if capabilities.tool_search else "",
            "native tools": ", ".join(capabilities.native_tools),
            "outcome transport": capabilities.default_transport,
            "context": "unknown" if context is None else f"{context:,} tokens",
            "longest response": "unknown" if longest is None else f"{longest:,} tokens",
            "price": price_in_words(capabilities.price),
            "searches": searches_in_words(capabilities),
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
        raise UnknownModelError(
            f"No provider is called {parsed.provider!r}; {providers_in_words()}."
            f"{did_you_mean(parsed.provider, [*PROVIDERS, *CODING_AGENTS, LOCAL])}"
        )
    facts = find_model_facts(model_id)
    url, origin, missing = active_base_url(provider, transport, environment)
    has_key, key = active_key(provider, transport, environment, url)
    capabilities = overridden_capabilities(facts.capabilities, transport.capabilities)
    listed = CurrentPrice(url, parsed.name, facts.capabilities.price).find_listed()
    is_listed = listed is not None and "price" not in transport.capabilities
    return ModelDescription(
        model_id=model_id,
        row=_DEFAULTS if facts is UNKNOWN_MODEL else facts.pattern,
        protocol=provider.protocol,
        base_url=base_url_in_words(url, missing),
        base_url_origin="" if missing else origin,
        has_key=has_key,
        key=key,
        capabilities=replace(capabilities, price=listed) if is_listed else capabilities,
        price_source=library_version() if is_listed else "",
        note=_note(facts),
        source="; ".join(filter(None, (facts.source, provider.source))),
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
