"""A step executor with other models: for ensembles, and for models to fall back to."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from ...catalog.providers import PROVIDERS
from ...configuration import StepExecutorConfiguration, parse_model_id
from ...errors import ConfigurationError
from ...runtime.step_executor import ConfigurableStepExecutor, StepExecutor

__all__ = ["executors_for", "model_of"]

_OF_ONE_MODEL = frozenset({"capabilities", "extra_body"})
_OF_ONE_PROVIDER = frozenset({"api_key", "base_url", "extra_headers", "idempotency_header"})


def executors_for(executor: StepExecutor, models: Iterable[str]) -> dict[str, StepExecutor]:
    """An executor for each of these models, with everything else as configured. Nothing is sent.

    Settings that are about one model do not go to another, nor does a key, or a URL, to another provider.

    Args:
        executor: The executor to have other models.
        models: The model ids.

    Raises:
        MissingCredentialError: The key of a provider is not set.
        ConfigurationError: The executor takes no configuration, keeps its model whatever the configuration
            says, or a model cannot be had.
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
    return {model: _executor_for(model, executor) for model in models}


def model_of(executor: StepExecutor) -> str | None:
    """The id of the model that an executor's configuration says; None when it can have no other model.

    Args:
        executor: The executor.
    """
    if not isinstance(executor, ConfigurableStepExecutor) or _keeps_its_model(executor):
        return None
    return executor.configuration.model


@runtime_checkable
class _WithAgent(Protocol):
    """An executor that may have got its model, or its agent, as an object."""

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
    left_out = _OF_ONE_MODEL
    if _endpoint_of(model) != _endpoint_of(configuration.model):
        left_out |= _OF_ONE_PROVIDER
    settings = {name: value for name, value in configuration.model_settings.items() if name not in left_out}
    return configuration.model_copy(update={"model": model, "model_settings": settings})


def _endpoint_of(model: str) -> str:
    """Return the provider of a model. A provider with several protocols serves them with the same key."""
    provider = parse_model_id(model).provider
    facts = PROVIDERS.get(provider)
    return provider if facts is None else facts.base_url_variable
