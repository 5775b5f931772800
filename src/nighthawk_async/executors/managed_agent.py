"""The agents that an executor makes from its configuration."""

from typing import get_args

from ..agent.task import StepExecutionAgent
from ..catalog.coding_agents import is_coding_agent
from ..catalog.models import remedy
from ..configuration import StepExecutorConfiguration, parse_model_id
from ..errors import ConfigurationError
from ..models.providers import create_model
from ..ports import Model
from ..types.model import OutcomeTransport
from .model_agent import ModelAgent


def managed_agent(configuration: StepExecutorConfiguration) -> StepExecutionAgent:
    """Return the agent of a configuration's model. Nothing is sent or started.

    Args:
        configuration: The configuration.

    Raises:
        UnknownModelError: There is no such provider or model.
        MissingCredentialError: The provider's API key is not set.
        ConfigurationError: Another setting is wrong.
    """
    model_id, settings = configuration.model, configuration.model_settings
    if not is_coding_agent(model_id):
        return ModelAgent(create_model(model_id, settings=settings))
    parsed = parse_model_id(model_id)
    if parsed.provider == "codex":
        from ..coding_agents.codex import CodexAgent  # here, like the other one, because few programs use it

        return CodexAgent.from_settings(parsed, settings)
    from ..coding_agents.claude_code import ClaudeCodeAgent

    return ClaudeCodeAgent.from_settings(parsed, settings)


def check_transport(
    transport: OutcomeTransport, model: Model | None, configuration: StepExecutorConfiguration
) -> None:
    """Refuse a transport that the model cannot serve, before anything is sent.

    Args:
        transport: The transport of outcomes.
        model: The model; None for a coding agent.
        configuration: The configuration.

    Raises:
        ConfigurationError: The model lacks the capability.
    """
    if model is None:
        if transport == "direct":
            raise ConfigurationError(
                f"{configuration.model}: outcome_transport='direct' asks a model once, and this is a coding "
                f"agent; leave it out, or choose another one of {', '.join(get_args(OutcomeTransport))}."
            )
        return
    if transport == "direct":
        from .direct import refuse_native_tools  # here, because most models take tools

        refuse_native_tools(configuration.model_settings)
    needed = ["tools"] if transport == "tool" else ["structured_output"] if transport == "native" else []
    if transport == "native" and configuration.provided_tools:
        needed.append("structured_output_with_tools")
    for capability in needed:
        if not getattr(model.capabilities, capability):
            raise ConfigurationError(
                f"{model.name}: outcome_transport={transport!r} needs a model with the capability "
                f"{capability!r}.{remedy(model.name, capability)} Or choose another outcome_transport."
            )
