"""`models check`: make the model, check it, and show each finding as soon as it is there."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import typer

import nighthawk_async as nh

from ..models.providers import create_model
from ..ports import Model
from .model_check import Finding, check_model
from .model_description import ModelDescription, describe_model

__all__ = ["CHECK_SETTINGS", "print_row", "run_check"]

CHECK_SETTINGS: Mapping[str, Any] = {"max_retries": 0, "timeout_seconds": 60.0}
"""Who checks wants to hear of a failure at once, and not to wait for minutes."""

_NAME_COLUMNS = 19
_STATE_COLUMNS = 9


def run_check(model_id: str, settings: Mapping[str, Any], *, asks_all: bool, as_json: bool) -> bool:
    """Check a model and print what was found out.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings.
        asks_all: Whether to send a request for each thing that the model is said to do.
        as_json: Whether to print JSON.

    Returns:
        Whether nothing failed.

    Raises:
        ConfigurationError: The model cannot be had, or a setting is wrong; nothing was sent.
    """
    description = describe_model(model_id, settings, os.environ)
    model = create_model(model_id, settings={**CHECK_SETTINGS, **settings})
    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            _print_finding(finding)

    if not as_json:
        _print_heading(description)
    key_sent = description.has_key
    anyio.run(partial(_check_in_run, model, key_sent, asks_all, report), backend="trio")
    is_good = all(finding.state != "failed" for finding in findings)
    if as_json:
        found = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"model": model_id, "ok": is_good, "findings": found}, indent=2))
    return is_good


async def _check_in_run(
    model: Model, key_sent: bool, asks_all: bool, report: Callable[[Finding], None]
) -> None:
    """Within a run, all requests share a connection, or the server of a model on this machine."""
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await check_model(model, key_sent=key_sent, asks_all=asks_all, report=report)


def _print_heading(description: ModelDescription) -> None:
    place = description.base_url or "on this machine"
    typer.echo(f"{description.model_id}, {place}")
    if description.note:
        typer.echo(f"note: {description.note}")


def _print_finding(finding: Finding) -> None:
    print_row(finding.name, finding.state, finding.detail)


def print_row(name: str, state: str, detail: str, *, name_columns: int = _NAME_COLUMNS) -> None:
    """Print one line: a name, its state, and a detail.

    Args:
        name: The name.
        state: The state.
        detail: The detail.
        name_columns: The width of the first column.
    """
    typer.echo(f"{name.ljust(name_columns)}{state.ljust(_STATE_COLUMNS)}{detail}")
