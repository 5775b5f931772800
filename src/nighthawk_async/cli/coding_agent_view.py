"""Coding agents, as `models list` and `models show` print them."""

import shutil
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ..catalog.coding_agents import CODING_AGENTS, CodingAgentFacts
from ..configuration import parse_model_id
from ..errors import ConfigurationError
from ..suggestions import did_you_mean
from .model_description import wide_console


def agent_as_json(provider: str) -> dict[str, Any]:
    """Return a coding agent as JSON, with the place of its command line.

    Args:
        provider: The name of its provider.
    """
    facts = CODING_AGENTS[provider]
    return {
        "provider": provider,
        "agent": facts.title,
        "command": shutil.which(facts.command),
        "minimum_version": _version(facts),
        "package": facts.package,
        "names": list(facts.models),
        "models": [],  # no rows of the catalog: the agent knows its models
    }


def agent_in_words(provider: str) -> str:
    """Return a coding agent in one line.

    Args:
        provider: The name of its provider.
    """
    facts = CODING_AGENTS[provider]
    return (
        f"{provider}: {facts.title}, a coding agent; {_command(facts)}; models {', '.join(facts.models)}, …"
    )


def show_agent(model_id: str) -> dict[str, Any]:
    """Return what is known of a model id that names a coding agent, as JSON.

    Args:
        model_id: The model id.
    """
    parsed = parse_model_id(model_id)
    facts = agent_as_json(parsed.provider)
    del facts["models"], facts["names"]
    sent = None if parsed.name == "default" else parsed.name
    return {"model": model_id, **facts, "model_sent": sent}


def print_agent(model_id: str) -> None:
    """Print what is known of a model id that names a coding agent, one line for each thing.

    Args:
        model_id: The model id.
    """
    parsed = parse_model_id(model_id)
    facts = CODING_AGENTS[parsed.provider]
    chosen = "none: the agent chooses" if parsed.name == "default" else parsed.name
    close = did_you_mean(parsed.name, facts.models) if parsed.name not in facts.models else ""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (
        ("model", model_id),
        ("agent", f"{facts.title}, a coding agent"),
        ("command", _command(facts)),
        ("needs", f"version {_version(facts)} or later"),
        ("install", f"npm install -g {facts.package}"),
        ("model sent", f"{chosen}{close}"),
    ):
        table.add_row(name, escape(value))
    wide_console().print(Padding(table, 0))


def check_is_model(model_id: str) -> None:
    """Refuse a coding agent, where only a model can be asked.

    Args:
        model_id: The model id.

    Raises:
        ConfigurationError: It names a coding agent.
    """
    if (facts := CODING_AGENTS.get(model_id.partition(":")[0])) is not None:
        raise ConfigurationError(
            f"{model_id} is a coding agent, which is asked by a step and not by one request. See that it "
            f"is installed with: {facts.command} --version"
        )


def _command(facts: CodingAgentFacts) -> str:
    found = shutil.which(facts.command)
    return f"command {facts.command}, " + ("not found on PATH" if found is None else f"found: {found}")


def _version(facts: CodingAgentFacts) -> str:
    return ".".join(map(str, facts.minimum_version))
