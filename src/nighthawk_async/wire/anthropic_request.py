"""A model request as the body of an Anthropic Messages request.

What stays the same during a conversation comes first in the body and always in the same order, so that the
bodies of successive requests share a prefix byte for byte, cache marks aside (`anthropic_caching`).
"""

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities, ModelRequest, NamedToolChoice, ToolChoice
from ..types.settings import AnthropicSettings
from ..types.tools import ToolDefinition
from .anthropic_caching import mark_breakpoints
from .anthropic_content import text_block
from .anthropic_messages import encode_messages
from .anthropic_schema import supported_schema
from .anthropic_thinking import ThinkingPlan, plan_thinking
from .request_json import request_json
from .setting_checks import checked_settings, refuse_reserved_settings, refuse_settings
from .tool_choices import check_tool_choice
from .transport_settings import merge_extra_body

__all__ = ["encode_body"]

_RESERVED = frozenset({"messages", "model", "stop_sequences", "system", "tool_choice", "tools"})
_REFUSED = frozenset({"seed"})

# Settings that the body holds under another name, or not at all.
_TRANSLATED = frozenset(
    {
        "betas",
        "max_tokens",
        "output_config",
        "parallel_tool_calls",
        "prompt_caching",
        "reasoning_effort",
        "stop",
        "stream",
        "thinking",
        "thinking_budget_tokens",
    }
)


def encode_body(request: ModelRequest, *, model_name: str, capabilities: ModelCapabilities) -> bytes:
    """The body of an Anthropic Messages request.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: What the model can do.

    Raises:
        ConfigurationError: A setting is bad, not JSON, or has a name that only the library writes; the tool
            choice does not fit the tools, the thinking or the model; the response format's schema leaves the
            subset of the endpoint; or a message holds content that the protocol cannot carry.
    """
    refuse_reserved_settings(request.settings, _RESERVED)
    refuse_settings(request.settings, _REFUSED, protocol="Anthropic Messages")
    settings = checked_settings(request.settings, AnthropicSettings)
    plan = plan_thinking(settings, capabilities)
    body: dict[str, Any] = {"model": model_name, "max_tokens": plan.max_tokens}
    body |= _encode_settings(settings, plan)
    if output_config := _encode_output_config(request, settings, plan):
        body["output_config"] = output_config
    body |= _encode_tools(request, settings, plan, capabilities)
    if system := text_block(request.system_prompt):
        body["system"] = system
    body["messages"] = encode_messages(request.messages)
    mark_breakpoints(body, settings.get("prompt_caching"), capabilities)
    return request_json(merge_extra_body(body, request.settings))


def _encode_settings(settings: Mapping[str, Any], plan: ThinkingPlan) -> dict[str, Any]:
    encoded: dict[str, Any] = {"stream": settings.get("stream", True)}
    encoded |= {name: value for name, value in settings.items() if name not in _TRANSLATED}
    if (stop := settings.get("stop")) is not None:
        encoded["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if plan.config is not None:
        encoded["thinking"] = plan.config
    return encoded


def _encode_output_config(
    request: ModelRequest, settings: Mapping[str, Any], plan: ThinkingPlan
) -> dict[str, Any]:
    own: object = settings.get("output_config", {})
    if not isinstance(own, Mapping):
        raise ConfigurationError("Model setting 'output_config' must be a mapping.")
    if "format" in own:
        raise ConfigurationError(
            "Model setting 'output_config.format' is written by the library; leave it out."
        )
    encoded: dict[str, Any] = {**own}
    if plan.effort is not None:
        encoded["effort"] = plan.effort
    if request.response_format is not None:
        schema = supported_schema(request.response_format.schema)
        encoded["format"] = {"type": "json_schema", "schema": schema}
    return encoded


def _encode_tools(
    request: ModelRequest, settings: Mapping[str, Any], plan: ThinkingPlan, capabilities: ModelCapabilities
) -> dict[str, Any]:
    check_tool_choice(request)
    choice = _encode_tool_choice(request.tool_choice, plan, capabilities)
    if not request.tools:
        return {}
    if settings.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    encoded: dict[str, Any] = {"tools": [_encode_tool(tool) for tool in request.tools]}
    # "auto" is the default, and not every compatible server takes the field.
    return encoded if choice == {"type": "auto"} else encoded | {"tool_choice": choice}


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    # Nothing claims `strict`: the endpoint compiles all strict schemas of a request into one grammar, and
    # refuses the request when that becomes too large, at a size it does not tell.
    schema = tool.parameters if "type" in tool.parameters else {"type": "object", **tool.parameters}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _encode_tool_choice(
    choice: ToolChoice, plan: ThinkingPlan, capabilities: ModelCapabilities
) -> dict[str, Any]:
    """The tool choice as the endpoint takes it.

    Some models can never be forced to call a tool, and none while it is asked to think.
    """
    if isinstance(choice, NamedToolChoice):
        _refuse_unless_forced(choice, plan, capabilities)
        return {"type": "tool", "name": choice.name}
    if choice == "required":
        can_be_forced = capabilities.forced_tool_choice and not plan.is_asked_to_think
        return {"type": "any" if can_be_forced else "auto"}
    return {"type": choice}


def _refuse_unless_forced(
    choice: NamedToolChoice, plan: ThinkingPlan, capabilities: ModelCapabilities
) -> None:
    if not capabilities.forced_tool_choice:
        raise ConfigurationError(
            f"The model cannot be made to call a tool, so not {choice.name!r}; leave the choice to it."
        )
    if plan.is_asked_to_think:
        raise ConfigurationError(
            f"The Anthropic Messages protocol cannot demand the tool {choice.name!r} while the model thinks; "
            "leave the choice to the model, or turn thinking off with reasoning_effort='none'."
        )
