"""`models check`: whether a model can be reached and matches the catalog.

connection ─ key ─ answer ─┬─ tool call          one request that offers a tool; for models without
                           ├─ structured output   tools a direct question; all three requests on demand
                           ├─ native tools        named, not tried
                           └─ usage

Each finding is shown as soon as it is available.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import anyio
import typer

import nighthawk_async as nh

from ..credentials.errors import CredentialError
from ..errors import (
    ConnectTimeoutError,
    ModelConnectionError,
    ModelError,
    ModelStatusError,
    ModelTimeoutError,
)
from ..models.providers import create_model
from ..ports import Model
from ..types.json import is_json_object
from ..types.usage import Usage
from ..wire.json_text import NOT_JSON, decode_json
from .model_description import ModelDescription, describe_model, dollars
from .model_probes import DIRECT_QUESTION, FORM_REQUEST, TOOL_NAME, TOOL_REQUEST, Exchange, ask_model

FindingState: TypeAlias = Literal["ok", "failed", "skipped"]

_UNAUTHORIZED = (401, 403)
_BAD_REQUEST = 400  # Google's answer to an unknown key
_LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding.

    Args:
        name: The name of the check.
        state: Whether it works; `skipped` when that was not, or could not be, determined.
        detail: The reason, or a figure.
    """

    name: str
    state: FindingState
    detail: str


async def check_model(
    model: Model, *, key_sent: bool, asks_all: bool, report: Callable[[Finding], None]
) -> None:
    """Send one tiny request, or one for each capability in the catalog.

    Args:
        model: The model.
        key_sent: Whether requests carry a key.
        asks_all: Whether to send them all.
        report: Called with each finding as soon as it is available.

    Raises:
        ConfigurationError: A request could not be sent as it is.
    """
    calls_tools = model.capabilities.tools
    keeps_to_forms = model.capabilities.structured_output
    is_direct = asks_all or not calls_tools
    first = await ask_model(model, DIRECT_QUESTION if is_direct else TOOL_REQUEST)
    exchanges = [first]
    for finding in judge_endpoint(model, first, key_sent):
        report(finding)
    tool_call = first
    if calls_tools and asks_all and first.error is None:
        tool_call = await ask_model(model, TOOL_REQUEST)
        exchanges.append(tool_call)
    report(_judge_tool_call(model, tool_call, is_claimed=calls_tools, has_answer=first.error is None))
    form: Exchange | None = None
    if keeps_to_forms and asks_all and first.error is None:
        form = await ask_model(model, FORM_REQUEST)
        exchanges.append(form)
    report(_judge_form(model, form, is_claimed=keeps_to_forms, has_answer=first.error is None))
    if asks_all and model.capabilities.native_tools:
        names = ", ".join(model.capabilities.native_tools)
        detail = f"by the catalog it has {names}; not tried, since each use is billed"
        report(Finding(name="native tools", state="skipped", detail=detail))
    report(_judge_usage(exchanges))


def judge_endpoint(model: Model, exchange: Exchange, key_sent: bool) -> Iterator[Finding]:
    """The findings on the connection, the key and the answer from one exchange.

    Args:
        model: The model.
        exchange: The exchange.
        key_sent: Whether the request carried a key.
    """
    error = exchange.error
    if isinstance(error, CredentialError):
        yield Finding(name="connection", state="skipped", detail="nothing was sent")
        yield Finding(name="key", state="failed", detail=_reason(model, error))
        yield Finding(name="answer", state="skipped", detail="nothing was sent")
        return
    if isinstance(error, ModelConnectionError | ConnectTimeoutError):
        yield Finding(name="connection", state="failed", detail=_reason(model, error))
        yield Finding(name="key", state="skipped", detail="no connection")
        yield Finding(name="answer", state="skipped", detail="no connection")
        return
    yield Finding(name="connection", state="ok", detail="the endpoint was reached")
    if error is not None and _is_about_key(error):
        yield Finding(name="key", state="failed", detail=_reason(model, error))
        yield Finding(name="answer", state="skipped", detail="the key was refused")
        return
    yield _judge_key(error, key_sent)
    yield _judge_answer(model, exchange)


def _is_about_key(error: ModelError) -> bool:
    if not isinstance(error, ModelStatusError):
        return False
    is_said = error.status == _BAD_REQUEST and "api key" in error.message.lower()
    return is_said or error.status in _UNAUTHORIZED


def _judge_key(error: ModelError | None, key_sent: bool) -> Finding:
    if not key_sent:
        return Finding(name="key", state="skipped", detail="none was sent")
    if isinstance(error, ModelStatusError | ModelTimeoutError):
        return Finding(name="key", state="skipped", detail="the endpoint said nothing of it")
    return Finding(name="key", state="ok", detail="accepted")


def _judge_answer(model: Model, exchange: Exchange) -> Finding:
    if exchange.error is not None:
        return Finding(name="answer", state="failed", detail=_reason(model, exchange.error))
    if not exchange.text.strip() and not exchange.calls:
        return Finding(name="answer", state="failed", detail=f"it is empty{_cut(exchange)}")
    first = exchange.first_event_seconds or 0.0
    detail = f"first event after {first:.2f} s, complete after {exchange.seconds:.2f} s"
    return Finding(name="answer", state="ok", detail=detail)


def _judge_tool_call(model: Model, exchange: Exchange, *, is_claimed: bool, has_answer: bool) -> Finding:
    if not is_claimed or not has_answer:
        detail = "no answer" if is_claimed else "the model is not said to call tools"
        return Finding(name="tool call", state="skipped", detail=detail)
    if exchange.error is not None:
        return Finding(name="tool call", state="failed", detail=_reason(model, exchange.error))
    for call in exchange.calls:
        if call.name == TOOL_NAME and _has_word(call.arguments):
            return Finding(name="tool call", state="ok", detail=_one_line(f"{call.name} {call.arguments}"))
    if exchange.calls:
        call = exchange.calls[0]
        detail = f"the call does not fit the tool: {call.name} {call.arguments}"
    else:
        detail = f"the model called nothing{_cut(exchange)}, but answered {exchange.text!r}"
    return Finding(name="tool call", state="failed", detail=_one_line(detail))


def _judge_form(model: Model, exchange: Exchange | None, *, is_claimed: bool, has_answer: bool) -> Finding:
    name = "structured output"
    if not is_claimed or not has_answer:
        detail = "no answer" if is_claimed else "the endpoint is not said to keep to a schema"
        return Finding(name=name, state="skipped", detail=detail)
    if exchange is None:
        return Finding(name=name, state="skipped", detail="not asked for; --all does")
    if exchange.error is not None:
        return Finding(name=name, state="failed", detail=_reason(model, exchange.error))
    if _has_word(exchange.text):
        return Finding(name=name, state="ok", detail=_one_line(exchange.text))
    detail = f"the answer does not fit the schema{_cut(exchange)}: {exchange.text!r}"
    return Finding(name=name, state="failed", detail=_one_line(detail))


def _judge_usage(exchanges: list[Exchange]) -> Finding:
    reported = [exchange.usage for exchange in exchanges if exchange.usage is not None]
    if not reported:
        return Finding(name="usage", state="skipped", detail="the endpoint reported none")
    usage = sum(reported, Usage())
    tokens = f"{usage.input_tokens} tokens sent, {usage.output_tokens} received"
    cost = "at an unknown price" if usage.unpriced_requests else f"for {dollars(usage.cost)}"
    requests = "one request" if len(exchanges) == 1 else f"{len(exchanges)} requests"
    return Finding(name="usage", state="ok", detail=f"{tokens}, {requests}, {cost}")


def _has_word(text: str) -> bool:
    """Whether a text is a JSON object that fits the schema; the model may choose the word."""
    try:
        value: object = decode_json(text)
    except NOT_JSON:
        return False
    return is_json_object(value) and isinstance(value.get("word"), str)


def _cut(exchange: Exchange) -> str:
    return ", cut off at its length limit" if exchange.reason == "length" else ""


def _reason(model: Model, error: ModelError) -> str:
    return _one_line(error.message.removeprefix(f"{model.name}: "))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"


CHECK_SETTINGS: Mapping[str, Any] = {"max_retries": 0, "timeout": 60.0}
"""The settings of a check, which should report a failure at once instead of after minutes."""

_NAME_COLUMNS = 19
_STATE_COLUMNS = 9


def run_check(model_id: str, settings: Mapping[str, Any], *, asks_all: bool, as_json: bool) -> bool:
    """Check a model and print the findings.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings.
        asks_all: Whether to send a request for each capability of the model.
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
    anyio.run(_check_in_run, model, key_sent, asks_all, report, backend="trio")
    is_good = all(finding.state != "failed" for finding in findings)
    if as_json:
        found = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"model": model_id, "ok": is_good, "findings": found}, indent=2))
    return is_good


async def _check_in_run(
    model: Model, key_sent: bool, asks_all: bool, report: Callable[[Finding], None]
) -> None:
    """Send the requests in a run, where they share a connection, or the server of a model on this machine."""
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
