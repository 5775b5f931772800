"""An executor that can be given another model, and answers for each as it is told."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse

__all__ = ["AnswerForModel", "ModelsExecutor"]

AnswerForModel: TypeAlias = Callable[[str, StepCall], StepResponse | Awaitable[StepResponse]]
"""Answers a step that is carried out with a model."""


class ModelsExecutor(CallbackExecutor):
    """Answers every step with what a function says of the step and of the model.

    Args:
        answer: Gives the answer.
        configuration: The configuration.
        without_key: The models whose key is not set.
        made: Takes the models for which an executor was made.
    """

    def __init__(
        self,
        answer: AnswerForModel,
        *,
        configuration: nh.StepExecutorConfiguration | None = None,
        without_key: Sequence[str] = (),
        made: list[str] | None = None,
    ) -> None:
        self.configuration = configuration or nh.StepExecutorConfiguration(model="test:own")
        self.made: list[str] = [] if made is None else made
        self._answer = answer
        self._without_key = without_key
        super().__init__(partial(answer, self.configuration.model))

    def with_configuration(self, configuration: nh.StepExecutorConfiguration) -> "ModelsExecutor":
        if configuration.model in self._without_key:
            raise nh.errors.MissingCredentialError(f"{configuration.model} needs a key")
        self.made.append(configuration.model)
        return ModelsExecutor(
            self._answer, configuration=configuration, without_key=self._without_key, made=self.made
        )
