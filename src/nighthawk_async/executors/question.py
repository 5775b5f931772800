"""Asking a model for one JSON object, with corrections. Floor 4."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ExecutionError, ToolValidationError
from ..ports import Model
from ..types.content import UserContent
from ..types.messages import AssistantMessage, Message, UserMessage
from ..types.model import ModelRequest, ResponseFinished, ResponseFormat, TextDelta, UsageReported
from ..types.usage import Usage
from .outcome_codec import parse_json_object
from .quotation import quote

__all__ = ["Asker", "Question"]

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What to ask.

    Args:
        name: A short name of the schema.
        schema: The JSON Schema of the answer, an object schema.
        system_prompt: The system prompt.
        user_prompt: The user prompt.
    """

    name: str
    schema: Mapping[str, Any]
    system_prompt: str
    user_prompt: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asker:
    """Asks questions for one step.

    Args:
        model: The model.
        step_id: The step, for errors.
        settings: Settings of the model's endpoint.
        max_corrective_turns: Unacceptable answers allowed for each question.
        report_usage: Counts the usage of one model request, by model id.
    """

    model: Model
    step_id: str
    settings: Mapping[str, Any]
    max_corrective_turns: int
    report_usage: Callable[[str, Usage], None]

    async def ask(
        self, question: Question, check: Callable[[Mapping[str, Any]], Awaitable[Answer]]
    ) -> Answer:
        """Ask until the answer is acceptable.

        Args:
            question: The question.
            check: Makes the result of an answer; raises `ExecutionError` or `ToolValidationError` to refuse
                it.

        Raises:
            ExecutionError: The answers stayed unacceptable; quotes the last one.
            ModelError: A model request failed.
        """
        messages: tuple[Message, ...] = (UserMessage(content=question.user_prompt),)
        corrections = 0
        while True:
            text, is_cut_off = await self._stream_text(question, messages)
            try:
                if is_cut_off:
                    raise ExecutionError("the answer was cut off at its length limit")
                return await check(parse_json_object(text))
            except (ExecutionError, ToolValidationError) as error:
                if corrections >= self.max_corrective_turns:
                    raise ExecutionError(
                        f"step {self.step_id}: no acceptable answer after {corrections} corrections: "
                        f"{error}; the model said: {quote(text)}"
                    ) from error
                corrections += 1
                refusal = UserMessage(
                    content=(f"That answer was refused: {error}. Answer again with JSON only.",)
                )
                messages = (*messages, AssistantMessage(text=text), refusal)

    async def _stream_text(self, question: Question, messages: tuple[Message, ...]) -> tuple[str, bool]:
        """The text of one response, and whether it was cut off at the length limit."""
        request = ModelRequest(
            system_prompt=question.system_prompt,
            messages=messages,
            response_format=ResponseFormat(name=question.name, schema=question.schema),
            settings=self.settings,
        )
        parts: list[str] = []
        is_cut_off = False
        usage = Usage(requests=1, is_complete=False)
        try:
            async with self.model.stream(request) as events:
                async for event in events:
                    match event:
                        case TextDelta():
                            parts.append(event.text)
                        case UsageReported():
                            usage = event.usage
                        case ResponseFinished():
                            is_cut_off = event.reason == "length"
                        case _:
                            pass
        finally:
            self.report_usage(self.model.name, usage)
        return "".join(parts), is_cut_off
