"""Asking a model for one JSON object, with corrections."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import (
    AnnotationError,
    CorrectionCause,
    ExecutionError,
    ModelError,
    StepRejectedError,
    ToolValidationError,
    VerificationError,
)
from ..ports import Model
from ..runtime.conclude import OutcomeRefusedError
from ..runtime.step_node import write_note
from ..types.messages import AssistantMessage, Message, ProviderContent, UserContent, UserMessage
from ..types.model import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    UsageReported,
)
from ..types.usage import Usage
from .conversation import Conversation
from .model_stream import find_partial_answer, load_price, open_stream, report_request, unreported_usage
from .outcome_codec import parse_json_object
from .refusals import ANSWER_AGAIN, CUT_OFF, Refusals, cause_of, count_correction, quote, refusal_text

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question to a model.

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


@dataclass(slots=True, kw_only=True)
class _Response:
    """The content of one response so far."""

    parts: list[str] = field(default_factory=list[str])
    finish_reason: FinishReason | None = None
    provider_content: ProviderContent | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asker:
    """Asks questions for one step.

    Args:
        model: The model.
        step_id: The step, for errors.
        settings: Settings of the model's endpoint.
        max_corrective_turns: Unacceptable answers allowed for each question.
        turn_boundary: Waits before each request, and gives the messages that arrived for the model.
        may_end: Waits before an answer counts; False when messages wait for the model.
        report_usage: Counts the usage of one model request, by model id.
        refusals: Phrases the refusals of answers for the model.
        conversation: The messages of the current question; they are not compacted.
        past: The messages that each conversation begins with.
        asked: The messages of all questions so far, without those of the past.
        system_prompts: The system prompts of the questions so far.
        site: The address of the block; see `ModelRequest.site`.
    """

    model: Model
    step_id: str
    settings: Mapping[str, Any] = field(repr=False)  # may hold a key
    max_corrective_turns: int
    turn_boundary: Callable[[], Awaitable[tuple[UserContent, ...]]]
    may_end: Callable[[], Awaitable[bool]]
    report_usage: Callable[[str, Usage], None]
    refusals: Refusals
    conversation: Conversation
    past: tuple[Message, ...] = ()
    asked: list[Message] = field(default_factory=list[Message])
    system_prompts: list[str] = field(default_factory=list[str])
    site: str = ""

    async def ask(
        self, question: Question, check: Callable[[Mapping[str, Any]], Awaitable[Answer]]
    ) -> Answer:
        """Ask until the answer is acceptable.

        A message for the model that arrives meanwhile makes it answer once more.

        Args:
            question: The question.
            check: Makes the result of an answer; raises `ExecutionError` or `ToolValidationError` to refuse
                it. `OutcomeRefusedError` is not counted as a correction.

        Raises:
            ExecutionError: The answers stayed unacceptable, or the provider withheld one; quotes the last.
            VerificationError: A check refused too many answers.
            StepRejectedError: Oversight, or a hook, rejected too many.
            ContextWindowError: The question is too large for the context of the model. It was not sent.
            ModelError: A model request failed.
        """
        corrections, program = 0, UserMessage(content=question.user_prompt)
        self.conversation.begin(question.system_prompt, program, past=self.past)
        self.asked.append(program)
        self.system_prompts.append(question.system_prompt)
        while True:
            steered = await self.turn_boundary()
            if steered:
                self._add(UserMessage(content=steered))
            response = await self._ask_once(question)
            if response.finish_reason == "content_filter":  # asking again would change nothing
                what = f"step {self.step_id}: the provider's content filter withheld the answer"
                raise ExecutionError(f"{what}: {quote(response.text)}").without_content(what)
            answer = AssistantMessage(text=response.text, provider_content=response.provider_content)
            self.asked.append(answer)
            self.conversation.add_response(answer, response.usage, 0)
            try:
                if response.finish_reason == "length":
                    raise ExecutionError(CUT_OFF).caused_by("cut_off")
                accepted = await check(parse_json_object(response.text))
            except OutcomeRefusedError as error:
                refusal = f"That answer was not accepted yet: {error.feedback}\n{ANSWER_AGAIN}"
                cause: CorrectionCause = "oversight"
            except (AnnotationError, VerificationError, StepRejectedError):
                raise
            except (ExecutionError, ToolValidationError) as error:
                if corrections >= self.max_corrective_turns:
                    what = f"step {self.step_id}: no acceptable answer after {corrections} corrections"
                    message = f"{what}: {error}; the model said: {quote(response.text)}"
                    raise ExecutionError(message).without_content(what) from error
                corrections += 1
                reason = self.refusals.text(error)
                refusal = refusal_text("That answer was refused: ", reason, ANSWER_AGAIN)
                cause = cause_of(error)
            else:
                if await self.may_end():
                    return accepted
                continue
            write_note(refusal)
            count_correction(cause)
            self._add(UserMessage(content=(refusal,)))

    def _add(self, message: UserMessage) -> None:
        self.asked.append(message)
        self.conversation.add(message)

    async def _ask_once(self, question: Question) -> _Response:
        request = ModelRequest(
            system_prompt=question.system_prompt,
            messages=tuple(self.conversation.sent),
            response_format=ResponseFormat(name=question.name, schema=question.schema),
            settings=self.settings,
            site=self.site,
        )
        if self.conversation.may_be_due(request) and await self.conversation.find_excess(request) is not None:
            from .compaction import check_size  # here, because most questions are short

            check_size(self.step_id, self.conversation, self.model, request)
        await load_price(self.model)
        response = _Response()
        failure: ModelError | None = None
        stream: object = None
        partial_answer = find_partial_answer()
        try:
            stream = opened = open_stream(self.model, request)
            async with opened as events:
                async for event in events:
                    _take(response, event)
                    if partial_answer is not None:
                        partial_answer.feed(event)
        except ModelError as error:
            failure = error
            raise
        finally:
            reported = response.usage or unreported_usage(failure)
            report_request(self.report_usage, self.model, stream, reported)
        return response


def _take(response: _Response, event: ModelEvent) -> None:
    match event:
        case TextDelta():
            response.parts.append(event.text)
        case UsageReported():
            response.usage = event.usage
        case ResponseFinished():
            response.finish_reason = event.reason
            response.provider_content = event.provider_content
        case _:
            pass
