"""`models check --capabilities`: find the capabilities of a model, and print the settings for them."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import anyio
import typer

import nighthawk_async as nh

from ..catalog.models import find_model_facts
from ..catalog.providers import PROVIDERS
from ..configuration import parse_model_id
from ..models.providers import create_model
from ..models.time_limits import TransportSettings
from ..ports import Model
from ..types.json import is_json_mapping
from .model_check import CHECK_SETTINGS, Finding, judge_endpoint, print_row
from .model_description import LOCAL, active_base_url, active_headers, describe_model, shown_url
from .model_probes import ALL_CAPABILITIES, DIRECT_QUESTION, Ability, ask_model, find_abilities
from .server_facts import ServerFacts, ask_server

_NAME_COLUMNS = 30
_UNWRITTEN_SETTINGS = frozenset({"api_key", "base_url", "credentials", "extra_headers", "capabilities"})
"""Settings that are not printed: credentials, and those printed in another form."""


_PARTS: Mapping[str, str] = {
    "parallel_tool_calls": "tools",
    "forced_tool_choice": "tools",
    "structured_output_with_tools": "structured_output",
}
"""Capabilities that mean nothing if the model lacks another one."""


@dataclass(slots=True, kw_only=True)
class _Found:
    """All findings so far.

    Args:
        report: Called with each finding and each ability as soon as it is available.
    """

    report: Callable[[Finding | Ability], None]
    findings: list[Finding] = field(default_factory=list[Finding])
    abilities: list[Ability] = field(default_factory=list[Ability])

    def add(self, found: Finding | Ability) -> None:
        if isinstance(found, Finding):
            self.findings.append(found)
        else:
            self.abilities.append(found)
        self.report(found)

    @property
    def is_good(self) -> bool:
        return all(finding.state != "failed" for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The model that is checked.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings that the command line gives.
        base_url: The URL that requests go to; empty for models on this machine.
        key_sent: Whether requests carry a key.
        model: The model, ready for everything.
        ask_facts: Asks the server for its own statements.
    """

    model_id: str
    settings: Mapping[str, Any] = field(repr=False)
    base_url: str
    key_sent: bool
    model: Model
    ask_facts: Callable[[], Any]


def run_capability_check(model_id: str, settings: Mapping[str, Any], *, as_json: bool) -> bool:
    """Find the capabilities of a model, and print them with the settings to write.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings.
        as_json: Whether to print JSON.

    Returns:
        Whether the model answers.

    Raises:
        ConfigurationError: The model cannot be had, or a setting is wrong; nothing was sent.
    """
    subject = _subject(model_id, settings)
    found = _Found(report=_ignore if as_json else _print_found)
    if not as_json:
        typer.echo(f"{model_id}, {subject.base_url or 'on this machine'}")
    facts = anyio.run(_check_in_run, subject, found, backend="trio")
    written = _settings_to_write(subject, found.abilities) if found.is_good else None
    if as_json:
        typer.echo(json.dumps(_as_json(subject, facts, found, written), indent=2))
    elif written is not None:
        typer.echo(f"\nsettings to write:\n\n{_as_python(subject, written)}")
    return found.is_good


def _subject(model_id: str, settings: Mapping[str, Any]) -> _Subject:
    description = describe_model(model_id, settings, os.environ)
    transport = TransportSettings.from_settings(settings)
    capable = {**transport.capabilities, **ALL_CAPABILITIES}
    model = create_model(
        model_id, settings={**CHECK_SETTINGS, "max_retries": 1, **settings, "capabilities": capable}
    )
    parsed = parse_model_id(model_id)
    base_url, ask_facts = "", _no_facts
    if parsed.provider != LOCAL:
        provider = PROVIDERS[parsed.provider]
        url, _, _ = active_base_url(provider, transport, os.environ)
        headers = active_headers(provider, transport, os.environ)
        base_url = shown_url(url)

        async def ask_facts() -> ServerFacts:
            return await ask_server(url, headers, parsed.name)

    return _Subject(
        model_id=model_id,
        settings=settings,
        base_url=base_url,
        key_sent=description.has_key,
        model=model,
        ask_facts=ask_facts,
    )


async def _no_facts() -> ServerFacts:
    return ServerFacts(trouble="the library runs it")


async def _check_in_run(subject: _Subject, found: _Found) -> ServerFacts:
    """Send the probes in a run. They share a connection, which the server may close meanwhile: hence a retry.

    The first request loads the model if needed.
    """
    async with nh.run(nh.AgentStepExecutor.from_model(model=subject.model)):
        exchange = await ask_model(subject.model, DIRECT_QUESTION)
        for finding in judge_endpoint(subject.model, exchange, subject.key_sent):
            found.add(finding)
        facts = await subject.ask_facts()
        for finding in _judge_server(facts, parse_model_id(subject.model_id).name, found.is_good, subject):
            found.add(finding)
        if found.is_good:
            is_limited = subject.settings.get("max_tokens") is not None
            await find_abilities(subject.model, facts, found.add, is_limited=is_limited)
            for finding in _judge_use(found.abilities):
                found.add(finding)
    return facts


def _judge_use(abilities: list[Ability]) -> Iterator[Finding]:
    values = {each.name: each.value for each in abilities}
    if values["tools"] is False and values["structured_output"] is False:
        detail = "steps need tools or structured output; perhaps another protocol of the server has them"
        yield Finding(name="use", state="failed", detail=detail)


def _judge_server(
    facts: ServerFacts, model_name: str, is_answering: bool, subject: _Subject
) -> Iterator[Finding]:
    if not facts.server:
        yield Finding(name="server", state="skipped", detail=facts.trouble)
    else:
        yield Finding(name="server", state="ok", detail=f"{facts.server} {facts.version}".strip())
    if not facts.serves(model_name):
        detail = f"the server has no {model_name!r}; it has {', '.join(facts.models)}"
        yield Finding(name="model", state="skipped" if is_answering else "failed", detail=detail)
    if facts.server and not is_answering and not subject.base_url.rstrip("/").endswith("/v1"):
        detail = f"is it {subject.base_url.rstrip('/')}/v1?"
        yield Finding(name="base URL", state="skipped", detail=detail)


def _settings_to_write(subject: _Subject, abilities: list[Ability]) -> dict[str, Any]:
    """The model settings for the findings that differ from the library's assumptions."""
    assumed = find_model_facts(subject.model_id).capabilities
    given: Mapping[str, Any] = subject.settings.get("capabilities") or {}
    found = {each.name: each.value for each in abilities if each.value is not None}
    found = {name: value for name, value in found.items() if found.get(_PARTS.get(name, "")) is not False}
    if found.get("tools") is False and found.get("structured_output"):
        found["default_transport"] = "direct"
    corrected = {name: value for name, value in found.items() if getattr(assumed, name) != value}
    capabilities = {**{name: value for name, value in given.items() if name not in found}, **corrected}
    others = {name: value for name, value in subject.settings.items() if name not in _UNWRITTEN_SETTINGS}
    url = {"base_url": subject.base_url} if subject.base_url else {}
    return {**url, **others, **({"capabilities": capabilities} if capabilities else {})}


def _as_python(subject: _Subject, settings: Mapping[str, Any]) -> str:
    written = _python(settings, "    ")
    key = '    # and the key as "api_key", or in its environment variable\n' if subject.key_sent else ""
    return (
        f"nh.StepExecutorConfiguration(\n    model={subject.model_id!r},\n{key}"
        f"    model_settings={written},\n)"
    )


def _python(value: object, indent: str) -> str:
    """A value as Python source, each entry of a mapping on its own line."""
    if not is_json_mapping(value):
        return repr(value)
    if not value:
        return "{}"
    deeper = f"{indent}    "
    entries = "".join(f"{deeper}{name!r}: {_python(each, deeper)},\n" for name, each in value.items())
    return f"{{\n{entries}{indent}}}"


def _as_json(
    subject: _Subject, facts: ServerFacts, found: _Found, settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "model": subject.model_id,
        "ok": found.is_good,
        "server": {"name": facts.server, "version": facts.version} if facts.server else None,
        "findings": [asdict(finding) for finding in found.findings],
        "abilities": [asdict(ability) for ability in found.abilities],
        "configuration": settings and {"model": subject.model_id, "model_settings": settings},
    }


def _ignore(found: Finding | Ability) -> None:
    pass


def _print_found(found: Finding | Ability) -> None:
    if isinstance(found, Finding):
        print_row(found.name, found.state, found.detail, name_columns=_NAME_COLUMNS)
    else:
        detail = " ".join(found.detail.split())
        print_row(found.name, _in_words(found.value), detail, name_columns=_NAME_COLUMNS)


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value)))
    return "unknown" if value is None else str(value)
