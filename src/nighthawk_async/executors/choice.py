"""Step executors from what a program names: a model id, a configuration, a model object or an executor."""

from typing import TYPE_CHECKING, TypeAlias, cast

from ..configuration import StepExecutorConfiguration, parse_model_id
from ..errors import NighthawkError, UnknownModelError
from ..kernel.context import ConfigurableStepExecutor, StepExecutor, check_executor
from ..lazy_exports import LazyModule
from ..ports import Model

if TYPE_CHECKING:
    from ..kernel import other_models
else:
    other_models = LazyModule("nighthawk_async.kernel.other_models")  # few functions have models of their own

ExecutorChoice: TypeAlias = str | StepExecutorConfiguration | Model | StepExecutor
"""A model id, a configuration, a model object or an executor."""


def given_model(model: ExecutorChoice | None, step_executor: ExecutorChoice | None) -> ExecutorChoice:
    """Return the model of a run, which the specification names `step_executor`.

    Args:
        model: `model=`; None when it was not given.
        step_executor: `step_executor=`; None when it was not given.

    Raises:
        NighthawkError: Both were given, or none.
    """
    if model is not None and step_executor is not None:
        raise NighthawkError("nighthawk_async.run has both model=… and step_executor=…; give model=… alone.")
    choice = step_executor if model is None else model
    if choice is None:
        raise NighthawkError(
            "None is no step executor. nighthawk_async.run needs a model: a model id, as in "
            'run("provider:name"), a StepExecutorConfiguration, a Model, or a step executor.'
        )
    return choice


def chosen_executor(choice: ExecutorChoice) -> StepExecutor:
    """Return the executor of a run.

    Args:
        choice: A model id, `provider:model`; a configuration; a model object; or an executor, which is
            returned as it is.

    Raises:
        UnknownModelError: There is no such provider or model.
        MissingCredentialError: The provider's API key is not set.
        ConfigurationError: A setting is wrong, or the model object cannot do what the defaults ask for.
        NighthawkError: It is none of these.
    """
    if isinstance(choice, str):
        choice = StepExecutorConfiguration(model=checked_model_id(choice))
    if not isinstance(choice, StepExecutorConfiguration) and not _is_model(choice):
        check_executor(choice)
        return cast("StepExecutor", choice)
    from .agent import AgentStepExecutor  # here, because an executor of the program's own needs no agent

    if isinstance(choice, StepExecutorConfiguration):
        return AgentStepExecutor.from_configuration(choice)
    return AgentStepExecutor.from_model(cast("Model", choice))


def chosen_inner_executor(choice: ExecutorChoice, current: StepExecutor) -> StepExecutor:
    """Return the executor of a function or scope inside a run.

    A model id or a configuration changes the configuration of the run's executor. An executor that was made
    from a model or agent object keeps it, as in a scope with another configuration. An executor that takes no
    configuration stays as it is. So a test runs every function on its scripted model or executor, whatever
    model the function is declared with.

    Args:
        choice: See `chosen_executor`. With a model id, everything but the model stays as configured, except
            for settings of one model or provider, keys among them.
        current: The executor of the run or scope.

    Raises:
        ConfigurationError: The model cannot be had; see `chosen_executor`.
        NighthawkError: It is none of these.
    """
    if not isinstance(choice, str | StepExecutorConfiguration):
        return chosen_executor(choice)
    if isinstance(choice, str):
        checked_model_id(choice)
    if not isinstance(current, ConfigurableStepExecutor):
        return current
    if isinstance(choice, StepExecutorConfiguration):
        return current.with_configuration(choice)
    if other_models.model_of(current) is None:
        return current
    return other_models.executors_for(current, (choice,))[choice]


class FunctionExecutor:
    """The executor of the steps of a function with a model of its own, made once for the executor of a run.

    Args:
        choice: The model of the function; see `chosen_inner_executor`.
    """

    def __init__(self, choice: ExecutorChoice) -> None:
        self._choice = choice
        self._made: tuple[StepExecutor, StepExecutor] | None = None

    def inside(self, current: StepExecutor) -> StepExecutor:
        """Return the executor inside a run or scope; for the same one as before, the same as before.

        Args:
            current: The executor of the run or scope.

        Raises:
            ConfigurationError: The model cannot be had.
            NighthawkError: The choice is none.
        """
        made = self._made  # read once: other threads make executors too
        if made is None or made[0] is not current:
            self._made = made = (current, chosen_inner_executor(self._choice, current))
        return made[1]


def checked_model_id(text: str) -> str:
    """Return a text that is a model id.

    Raises:
        UnknownModelError: It is none.
    """
    try:
        parse_model_id(text)
    except UnknownModelError as error:
        raise UnknownModelError(f"{text!r} is no step executor and no model id: {error}") from None
    return text


def _is_model(choice: object) -> bool:
    is_executor = hasattr(choice, "run_step") or hasattr(choice, "run_step_async")
    return isinstance(choice, Model) and not isinstance(choice, type) and not is_executor
