"""Asking a model by hand: one prompt, one JSON answer, which the program applies itself."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.agent.model_call import load_price, open_stream, report_request, unreported_usage
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models import ModelRequest, ResponseFormat, TextDelta, UsageReported, UserMessage

__all__ = ["Chat"]

AnswerModel = TypeVar("AnswerModel", bound=BaseModel)


class Chat:
    """A model without a conversation: each call is one request.

    The usage counts in the current run, as that of blocks does.

    Args:
        model: The model.
        settings: Settings of its requests.

    Attributes:
        calls: The number of calls so far.
    """

    def __init__(self, model: nh.models.Model, settings: Mapping[str, Any]) -> None:
        self._model = model
        self._settings = settings
        self.calls = 0

    @classmethod
    def of_run(cls) -> "Chat":
        """A chat with the model of the current run, and the settings of its configuration.

        Raises:
            ConfigurationError: The run has an executor without a model.
        """
        executor = nh.get_step_executor()
        if not isinstance(executor, nh.AgentStepExecutor) or executor.model is None:
            raise ConfigurationError(f"a chat call needs a run with a model, not with {executor!r}")
        return cls(executor.model, executor.configuration.model_settings)

    async def ask(self, prompt: str, answer: type[AnswerModel]) -> AnswerModel:
        """Send a prompt, and return the answer.

        Args:
            prompt: The prompt.
            answer: The type of the answer. An endpoint that enforces schemas gets its JSON Schema; for others
                it is a part of the prompt.

        Raises:
            pydantic.ValidationError: The answer is not of the type.
            ModelError: The request failed.
        """
        self.calls += 1
        schema = answer.model_json_schema()
        is_enforced = self._model.capabilities.structured_output
        if not is_enforced:
            prompt = f"{prompt}\n\nAnswer with a JSON object that follows this JSON Schema:\n{schema}"
        request = ModelRequest(
            messages=(UserMessage(content=(prompt,)),),
            response_format=ResponseFormat(name="answer", schema=schema) if is_enforced else None,
            settings=self._settings,
        )
        return answer.model_validate_json(_without_fence(await self._text(request)))

    async def _text(self, request: ModelRequest) -> str:
        parts: list[str] = []
        usage = unreported_usage()
        await load_price(self._model)
        stream = open_stream(self._model, request)
        try:
            async with stream as events:
                async for event in events:
                    match event:
                        case TextDelta():
                            parts.append(event.text)
                        case UsageReported():
                            usage = event.usage
                        case _:
                            pass
        finally:
            report_request(nh.get_usage_meter().add, self._model, stream, usage)
        return "".join(parts)


def _without_fence(text: str) -> str:
    """The answer without the Markdown fence that some models put around it."""
    return text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
