"""`models check --rules`: which rules of an endpoint hold today, by requests that break them.

Each request is sent as if the endpoint had one rule less. The rule holds if the endpoint refuses the request,
or answers it with nothing; if it gives an answer, the rule is out of date.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import anyio
import typer
from msgspec import structs

import nighthawk_async as nh

from ..errors import ConfigurationError, ModelStatusError
from ..models.fitting import RequestRules
from ..models.http_model import HttpModel
from ..models.providers import create_model
from ..ports import Model
from ..types.endpoint_rules import NO_RULES, EndpointRules, SettingRule
from ..types.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from ..types.model import ModelRequest
from .model_check import CHECK_SETTINGS, Finding, judge_endpoint, print_row
from .model_description import describe_model
from .model_probes import ALL_CAPABILITIES, DIRECT_QUESTION, TOOL_NAME, TOOL_REQUEST, Exchange, ask_model

RuleState: TypeAlias = Literal["holds", "gone", "unknown"]

_REFUSALS = (400, 404, 413, 422)
_NAME_COLUMNS = 34
_LONGEST_DETAIL = 200
_CALL_ID = "nighthawk_" + "0" * 90
_SETTINGS: Mapping[str, Any] = {
    "seed": 1,
    "max_tokens": 2_000,
    "stop": "END",
    "temperature": 0.5,
    "top_k": 5,
    "top_p": 0.5,
}
_BESIDE: Mapping[str, Mapping[str, Any]] = {
    "thinking": {"reasoning_effort": "low"},
    "top_p": {"top_p": 0.99},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """One finding.

    Args:
        name: The name of the rule.
        state: Whether it holds.
        detail: The words of the endpoint, or a reason.
    """

    name: str
    state: RuleState
    detail: str


def each_rule(rules: EndpointRules) -> Iterator[tuple[str, EndpointRules, SettingRule | None]]:
    """The names of all rules of an endpoint, each with the rules without it, and itself for a setting.

    Two rules may be of the same setting, so all of these are left out together.

    Args:
        rules: The rules.
    """
    for name in rules.__struct_fields__:
        value: Any = getattr(rules, name)
        if name in ("hosts", "sources", "websocket") or value == getattr(NO_RULES, name):
            continue
        if name != "refused_settings":
            yield name, structs.replace(rules, **{name: getattr(NO_RULES, name)}), None
            continue
        for rule in rules.refused_settings:
            title = f"{rule.setting} beside {rule.beside[0]}" if rule.beside else rule.setting
            yield title, structs.replace(rules, refused_settings=()), rule


def probe_of(name: str, rules: EndpointRules, rule: SettingRule | None) -> ModelRequest | None:
    """A request that breaks a rule; None where that takes more than a request.

    Args:
        name: The name of the rule.
        rules: All rules of the endpoint.
        rule: The rule, if it is about a setting.
    """
    if rule is not None:
        return _setting_probe(rule)
    match name:
        case "forces_tools":
            return TOOL_REQUEST
        case "setting_names":
            # In the body as they are: the table of models may have another name for some of them, too.
            named = {each: _SETTINGS[each] for each in rules.setting_names}
            return replace(DIRECT_QUESTION, settings={"extra_body": named})
        case "max_tools":
            return replace(TOOL_REQUEST, tools=_tools((rules.max_tools or 0) + 1), tool_choice="auto")
        case "has_stream_options":
            return DIRECT_QUESTION
        case _:
            return _conversation(name)


def _setting_probe(rule: SettingRule) -> ModelRequest | None:
    value: Any = _SETTINGS.get(rule.setting)
    if rule.most is not None:
        value = [f"END{number}" for number in range(rule.most + 1)]
    elif rule.above is not None:
        value = rule.above + 0.1
    elif rule.below is not None:
        value = rule.below - 1 if rule.below >= 2 else rule.below / 2
        value = int(value) if rule.setting == "max_tokens" else value
    beside: Mapping[str, Any] = {}
    for name in rule.beside:
        beside = beside or _BESIDE.get(name, {})
    if value is None or (rule.beside and not beside):
        return None
    return replace(DIRECT_QUESTION, settings={rule.setting: value, **beside})


def _tools(count: int) -> tuple[ToolDefinition, ...]:
    (tool,) = TOOL_REQUEST.tools
    return (tool, *(replace(tool, name=f"{TOOL_NAME}_{number}") for number in range(1, count)))


def _conversation(name: str) -> ModelRequest:
    """A conversation with a call that another model has made, and what an endpoint may not take in it."""
    call_id = _CALL_ID if name == "call_ids" else "nh0000001"
    call = ToolCall(id=call_id, name=TOOL_NAME, arguments='{"word": "ready"}')
    fields: dict[str, Any] = {}
    if name == "ignores_unknown_fields":
        fields["provider_content"] = ProviderContent(protocol="openai-chat", items=(_foreign_message(call),))
    reasoning = "It is ready." if name == "reasoning_form" else ""
    turn = AssistantMessage(reasoning=reasoning, tool_calls=(call,), **fields)
    result = ToolResult(call_id=call_id, name=TOOL_NAME, content=("said",))
    messages: tuple[Message, ...] = (*TOOL_REQUEST.messages, turn, ToolResultsMessage(results=(result,)))
    if name in ("has_user_after_results", "has_text_beside_results"):
        messages = (*messages, UserMessage(content=("What did you say?",)))
    settings = {"replay_reasoning": True} if name == "reasoning_form" else {}
    return ModelRequest(messages=messages, tools=TOOL_REQUEST.tools, settings=settings)


def _foreign_message(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    sent = {"id": call.id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [sent], "reasoning_details": []}


def run_rule_check(model_id: str, settings: Mapping[str, Any], *, as_json: bool) -> bool:
    """Try the rules of a model's endpoint, and print which of them hold.

    Args:
        model_id: The model, `provider:name`.
        settings: Model settings.
        as_json: Whether to print JSON.

    Returns:
        Whether the endpoint answers.

    Raises:
        ConfigurationError: The model cannot be had, a setting is wrong, or the endpoint has no rules; nothing
            was sent.
    """
    description = describe_model(model_id, settings, os.environ)
    settings = {**CHECK_SETTINGS, **settings}
    model = create_model(model_id, settings=settings)
    if not isinstance(model, HttpModel) or not any(each_rule(model.codec.rules)):
        raise ConfigurationError(f"{model_id}: no rules of this endpoint are known that could be tried.")
    found: list[Finding | RuleFinding] = []

    def report(finding: Finding | RuleFinding) -> None:
        found.append(finding)
        if not as_json:
            print_row(finding.name, finding.state, finding.detail, name_columns=_NAME_COLUMNS)

    if not as_json:
        typer.echo(f"{model_id}, {description.base_url}")
    anyio.run(_check_in_run, model, settings, description.has_key, report, backend="trio")
    is_good = all(finding.state != "failed" for finding in found)
    if as_json:
        written = [asdict(finding) for finding in found]
        typer.echo(json.dumps({"model": model_id, "ok": is_good, "findings": written}, indent=2))
    return is_good


async def _check_in_run(
    model: HttpModel,
    settings: Mapping[str, Any],
    key_sent: bool,
    report: Callable[[Finding | RuleFinding], None],
) -> None:
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        exchange = await ask_model(model, DIRECT_QUESTION)
        for finding in judge_endpoint(model, exchange, key_sent):
            report(finding)
        if exchange.error is not None:
            return
        rules = model.codec.rules
        holding = RequestRules.of_model(rules, model.name.partition(":")[2]).refused_settings
        for name, rest, rule in each_rule(rules):
            if rule is None or rule in holding:
                report(await _try_rule(name, rest, rule, model, settings))


async def _try_rule(
    name: str,
    rest: EndpointRules,
    rule: SettingRule | None,
    model: HttpModel,
    settings: Mapping[str, Any],
) -> RuleFinding:
    probe = probe_of(name, model.codec.rules, rule)
    if probe is None:
        return RuleFinding(name=name, state="unknown", detail="not tried: a request alone does not show it")
    own: Mapping[str, Any] = settings.get("capabilities") or {}
    without = {**settings, "capabilities": {**ALL_CAPABILITIES, **own}}
    tried: Model = create_model(model.name, settings=without, rules=rest)
    try:
        exchange = await ask_model(tried, probe)
    except ConfigurationError as error:
        return RuleFinding(name=name, state="unknown", detail=_one_line(str(error)))
    return _judge(name, exchange)


def _judge(name: str, exchange: Exchange) -> RuleFinding:
    error = exchange.error
    if isinstance(error, ModelStatusError) and error.status in _REFUSALS:
        return RuleFinding(name=name, state="holds", detail=_one_line(error.message))
    if error is not None:
        return RuleFinding(name=name, state="unknown", detail=_one_line(error.message))
    if not exchange.text.strip() and not exchange.calls:
        return RuleFinding(name=name, state="holds", detail="the answer is empty")
    return RuleFinding(name=name, state="gone", detail="the endpoint answered a request that breaks it")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"
