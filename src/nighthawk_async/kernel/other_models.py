"""Executors that ask another model, with everything else as it is configured."""

from collections.abc import Iterable
from typing import Protocol, cast, runtime_checkable

from ..catalog.coding_agents import CODING_AGENTS
from ..catalog.providers import PROVIDERS
from ..configuration import StepExecutorConfiguration, parse_model_id
from ..errors import ConfigurationError
from .context import ConfigurableStepExecutor, StepExecutor

_OF_ONE_MODEL = frozenset({"capabilities", "extra_body"})
_OF_ONE_PROVIDER = frozenset(
    ("api_key", "base_url", "context_management", "credentials", "extra_headers", "idempotency_header")
)


def executors_for(executor: StepExecutor, models: Iterable[str]) -> dict[str, StepExecutor]:
    """Return an executor for each of these models, with everything else as configured. Nothing is sent.

    Settings of one model are not passed to another model, and keys and URLs not to another provider.

    Args:
        executor: The executor whose configuration is used.
        models: The model ids.

    Raises:
        MissingCredentialError: The key of a provider is not set.
        ConfigurationError: The executor takes no configuration, keeps its model regardless of the
            configuration, or a model is not available.
    """
    check_model_can_change(executor)
    configurable = cast("ConfigurableStepExecutor", executor)
    return {model: _executor_for(model, configurable) for model in models}


def check_model_can_change(executor: StepExecutor) -> None:
    """Check that an executor can have another model.

    Raises:
        ConfigurationError: It takes no configuration, or keeps its model regardless of the configuration.
    """
    if not isinstance(executor, ConfigurableStepExecutor):
        raise ConfigurationError(
            f"{type(executor).__name__} takes no StepExecutorConfiguration, so it can have no other model; "
            "use an executor that does, as AgentStepExecutor.from_configuration gives."
        )
    if _keeps_its_model(executor):
        raise ConfigurationError(
            "The executor was made of a model or an agent object and keeps it, whatever its configuration "
            "says; use one made with AgentStepExecutor.from_configuration."
        )


def model_of(executor: StepExecutor) -> str | None:
    """Return the id of the model in an executor's configuration; None when its model cannot be changed.

    Args:
        executor: The executor.
    """
    if not isinstance(executor, ConfigurableStepExecutor) or _keeps_its_model(executor):
        return None
    return executor.configuration.model


@runtime_checkable
class _WithAgent(Protocol):
    """An executor whose model or agent may have been given as an object."""

    @property
    def agent_is_managed(self) -> bool: ...


def _keeps_its_model(executor: ConfigurableStepExecutor) -> bool:
    return isinstance(executor, _WithAgent) and not executor.agent_is_managed


def _executor_for(model: str, executor: ConfigurableStepExecutor) -> StepExecutor:
    configuration = executor.configuration
    return executor.with_configuration(
        configuration if configuration.model == model else _configuration_for(model, configuration)
    )


def _configuration_for(model: str, configuration: StepExecutorConfiguration) -> StepExecutorConfiguration:
    if _agent_of(model) != _agent_of(configuration.model):  # they have no settings in common
        return configuration.model_copy(update={"model": model, "model_settings": {}})
    left_out = _OF_ONE_MODEL
    if _endpoint_of(model) != _endpoint_of(configuration.model):
        left_out |= _OF_ONE_PROVIDER
    settings = {name: value for name, value in configuration.model_settings.items() if name not in left_out}
    return configuration.model_copy(update={"model": model, "model_settings": settings})


def _agent_of(model: str) -> str | None:
    """Return the coding agent of a model; None for a model that is asked directly."""
    facts = CODING_AGENTS.get(parse_model_id(model).provider)
    return None if facts is None else facts.title


def _endpoint_of(model: str) -> str:
    """Return the provider of a model. A provider with several protocols serves them with the same key."""
    if (agent := _agent_of(model)) is not None:
        return agent
    provider = parse_model_id(model).provider
    facts = PROVIDERS.get(provider)
    return provider if facts is None else facts.base_url_variable or provider
