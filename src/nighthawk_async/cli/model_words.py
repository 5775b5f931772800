"""Capabilities and prices of a model, in words and as JSON. Pure."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from rich.console import Console

from ..types.model import ModelCapabilities, ModelPrice

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
    return f"{', '.join(parts)} per million tokens"


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
