"""The direct outcome transport: no tools, the model answers with one JSON object, with corrections.

A model gets the full prompt and answers once, with the values of all write bindings and the outcome. A small
model is asked one short thing at a time: the program is the system prompt, and the variables it reads are the
user prompt. Write bindings come first, then the outcome when there is a choice left. `question_groups` says
which bindings are asked together.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..agent import outcome_codec
from ..agent.answer_form import (
    RETURN_VALUE,
    object_schema,
    wrapped_schema,
)
from ..agent.made_media import answer_of_media, with_made_media
from ..agent.model_call import find_partial_answer, load_price, report_request, stream_in, unreported_usage
from ..agent.outcome_codec import answer_from_mapping, parse_json_object
from ..agent.policies import active_fitting
from ..agent.prompt import StepPrompt
from ..agent.readings import read_variables
from ..agent.refusals import (
    ANSWER_AGAIN,
    CONTEXT_IS_FULL,
    CUT_OFF,
    Refusals,
    cause_of,
    context_error,
    count_correction,
    count_readings,
    quote,
    refusal_error,
    refusal_text,
)
from ..agent.schemas import Endpoint
from ..agent.task import Conversation
from ..agent.toolbox import AnswerBindings
from ..errors import (
    AnnotationError,
    ConfigurationError,
    CorrectionCause,
    ExecutionError,
    ModelError,
    StepRejectedError,
    ToolValidationError,
    VerificationError,
)
from ..kernel.conclude import OutcomeRefusedError
from ..kernel.context import StepContext
from ..kernel.declared_types import return_type
from ..kernel.environment import find_environment
from ..kernel.reports import write_note
from ..kernel.step import Step
from ..lazy_exports import LazyModule
from ..ports import HasSettings, Model
from ..types.messages import (
    AssistantMessage,
    BinaryContent,
    Citation,
    FileUrl,
    Message,
    UserContent,
    UserMessage,
)
from ..types.model import (
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    UsageReported,
)
from ..types.model_output import CitationAdded, MediaCompleted
from ..types.outcomes import PassStepOutcome, Reading, StepOutcome
from ..types.usage import Usage
from ..values.plain_data import data_schemas, validate_data
from ..values.validation import type_name
from ..wire.loose_json import NotOneMeaningError, read_object
from .outcome_questions import outcome_of_answer, outcome_schemas_of

if TYPE_CHECKING:
    from . import small_calls
    from .small_calls import SmallCalls
else:
    small_calls = LazyModule(f"{__package__}.small_calls")  # few blocks for small models name functions
    SmallCalls = object

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


_NO_END = ResponseFinished(reason="other")


@dataclass(slots=True, kw_only=True)
class _Response:
    """The content of one response so far."""

    parts: list[str] = field(default_factory=list[str])
    media: list[BinaryContent | FileUrl] = field(default_factory=list[BinaryContent | FileUrl])
    citations: list[Citation] = field(default_factory=list[Citation])
    end: ResponseFinished = _NO_END
    usage: Usage | None = None

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(
            text=self.text,
            media=tuple(self.media),
            citations=tuple(self.citations),
            provider_content=self.end.provider_content,
        )


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
        is_strict: Whether answers with faults are refused; see `readings`.
        media: The media that the model made so far.
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
    is_strict: bool = False
    media: list[BinaryContent | FileUrl] = field(default_factory=list[BinaryContent | FileUrl])

    async def ask(
        self,
        question: Question,
        check: Callable[[Mapping[str, Any]], Awaitable[Answer]],
        check_media: Callable[[], Awaitable[Answer | None]] | None = None,
    ) -> Answer:
        """Ask until the answer is acceptable.

        A message for the model that arrives meanwhile makes it answer once more.

        Args:
            question: The question.
            check: Makes the result of an answer; raises `ExecutionError` or `ToolValidationError` to refuse
                it. `OutcomeRefusedError` is not counted as a correction.
            check_media: Makes the result of an answer that holds media and no object; None for an answer that
                needs one.

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
            if response.end.reason == "content_filter":  # asking again would change nothing
                raise refusal_error(self.step_id, response.end.refusal, quote(response.text))
            if response.end.provider_reason in CONTEXT_IS_FULL:
                raise context_error(self.step_id, quote(response.text))
            answer = response.message
            self.media.extend(response.media)
            self.asked.append(answer)
            self.conversation.add_response(answer, response.usage, 0)
            try:
                if response.end.reason == "length":
                    raise ExecutionError(CUT_OFF).caused_by("cut_off")
                made = None
                if response.media and check_media is not None and "{" not in response.text:
                    made = await check_media()
                accepted = await check(self._object_in(response)) if made is None else made
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

    def _object_in(self, response: _Response) -> Mapping[str, Any]:
        """The object of an answer; one that was cut off may be a part of another."""
        if self.is_strict:
            return parse_json_object(response.text)
        readings: list[Reading] = []
        try:
            found = read_object(response.text, readings)
        except NotOneMeaningError:
            return parse_json_object(response.text)
        count_readings(readings)
        return found

    def _add(self, message: UserMessage) -> None:
        self.asked.append(message)
        self.conversation.add(message)

    def _format_of(self, question: Question) -> ResponseFormat | None:
        """The response format; None for an endpoint that has none: the words of the prompt must do."""
        capabilities = self.model.capabilities
        if (
            not capabilities.structured_output
            and not capabilities.is_small
            and isinstance(self.model, HasSettings)
        ):
            return None
        return ResponseFormat(name=question.name, schema=question.schema)

    async def _ask_once(self, question: Question) -> _Response:
        request = ModelRequest(
            system_prompt=question.system_prompt,
            messages=tuple(self.conversation.sent),
            response_format=self._format_of(question),
            settings=self.settings,
            site=self.site,
        )
        if self.conversation.may_be_due(request) and await self.conversation.find_excess(request) is not None:
            active_fitting().check_size(self.step_id, self.conversation, self.model, request)
        response = _Response()
        failure: ModelError | None = None
        stream: object = None
        environment = find_environment()
        partial_answer = find_partial_answer(environment)
        try:
            stream = opened = stream_in(environment, self.model, request)
            await load_price(self.model, opened)
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
            response.end = event
        case MediaCompleted():
            response.media.append(event.content)
        case CitationAdded():
            response.citations.append(event.citation)
        case _:
            pass


def refuse_native_tools(settings: Mapping[str, Any]) -> None:
    """Refuse native tools in the transport that asks once, for JSON alone: a provider may pause, or cite.

    Raises:
        ConfigurationError: The settings ask for some.
    """
    if settings.get("native_tools"):
        raise ConfigurationError(
            "outcome_transport='direct' has no tools, so not those of the model setting 'native_tools' "
            "either; choose 'tool' or 'native', or leave them out."
        )


async def answer_directly(
    model: Model,
    step: Step,
    prompt: StepPrompt,
    bindings: AnswerBindings,
    report: Callable[[str, Usage], None],
    *,
    site: str = "",
    calls: SmallCalls | None = None,
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for all values and the outcome in one request, or a small model for one short thing at a time.

    Args:
        model: The model.
        step: The step.
        prompt: Its prompt.
        bindings: Sets the write bindings to the values of an answer.
        report: Counts the usage of one model request, by model id.
        site: The address of the block; see `ModelRequest.site`.
        calls: The functions that a small model can call; None for none.

    Returns:
        The outcome and the values of the write bindings.

    Raises:
        AnnotationError: A type has no JSON Schema. Nothing was sent.
        ExecutionError: The model's answers stayed unacceptable.
        ContextWindowError: A request is too large for the context of the model. It was not sent.
        ModelError: A model request failed.
    """
    asker = Asker(
        model=model,
        step_id=step.context.step_id,
        settings=prompt.configuration.model_settings,
        max_corrective_turns=prompt.configuration.max_corrective_turns,
        turn_boundary=step.actor.turn_boundary,
        may_end=step.actor.may_end,
        report_usage=report,
        refusals=bindings.refusals,
        conversation=Conversation.of_step(prompt.configuration, model, prompt.counter, ()),
        past=() if step.opening is None else step.opening.messages_for(model, has_tools=False),
        site=site,
        is_strict=prompt.configuration.resolved_answers == "strict",
    )
    try:
        if model.capabilities.is_small:
            return await _answer_piecemeal(asker, step, prompt, calls)
        return await _answer_at_once(asker, step, prompt, bindings)
    finally:
        system_prompt = asker.system_prompts[-1] if asker.system_prompts else ""
        step.keep_conversation(
            model.name, system_prompt, (), (*asker.past, *asker.asked), past=len(asker.past)
        )


async def _answer_at_once(
    asker: Asker, step: Step, prompt: StepPrompt, bindings: AnswerBindings
) -> tuple[StepOutcome, dict[str, object]]:
    context = step.context
    form = prompt.answer_form("direct", Endpoint.of(asker.model.name, "response"))
    types = prompt.types(form)
    question = Question(
        name="step",
        schema=wrapped_schema(form),
        system_prompt=prompt.system(
            tools="",
            outcome=prompt.answer_instructions("direct", form, has_tools=False),
            types=types,
        ),
        user_prompt=prompt.user(types=types),
    )

    async def check(data: Mapping[str, Any]) -> tuple[StepOutcome, dict[str, object]]:
        answer = answer_from_mapping(data, form, is_strict=asker.is_strict)
        count_readings(answer.readings)
        return await take(with_made_media(answer, form, asker.media) if form.media else answer)

    async def check_media() -> tuple[StepOutcome, dict[str, object]] | None:
        answer = answer_of_media(form, asker.media)
        return None if answer is None else await take(answer)

    async def take(answer: outcome_codec.Answer) -> tuple[StepOutcome, dict[str, object]]:
        await bindings.set(answer.bindings)
        changed = context.changed_bindings()
        await step.conclude(answer.outcome, changed)
        return answer.outcome, changed

    return await asker.ask(question, check, check_media if form.media else None)


_PLAIN_TYPES = ("boolean", "integer", "number", "string")
_MOST_TOGETHER = 4  # larger numbers were never measured
_LONGEST_NAME = 64  # of a schema, as OpenAI allows


async def _answer_piecemeal(
    asker: Asker, step: Step, prompt: StepPrompt, calls: SmallCalls | None
) -> tuple[StepOutcome, dict[str, object]]:
    """Ask for one short thing at a time.

    When a check refuses the outcome, everything but the calls is asked again, with its feedback.
    """
    _schemas_of(_asked_types(step.context, *step.context.write_names, is_outcome_asked=True), step.context)
    if calls is not None:
        question = _short_question(step.context, prompt, calls.schema, {}, calls.question)
        made = await asker.ask(question, calls.read)
        prompt = small_calls.with_results(prompt, await calls.results(made))
    while True:
        try:
            return await _answer_piecemeal_once(asker, step, prompt)
        except OutcomeRefusedError as refused:
            prompt = prompt.with_feedback(refused.feedback)


async def _answer_piecemeal_once(
    asker: Asker, step: Step, prompt: StepPrompt
) -> tuple[StepOutcome, dict[str, object]]:
    context = step.context
    listeners = step.partial_listeners
    attempt = 0 if listeners is None else listeners.begin_attempt()
    bindings: dict[str, object] = {}
    for names in question_groups(context):
        answered = await _ask_bindings(asker, context, prompt, names)
        context.converted.update(answered)
        bindings |= answered
        if listeners is not None and listeners.are_wanted:
            listeners.deliver(bindings, attempt)
    if "pass" in context.allowed_kinds and (bindings or len(context.allowed_kinds) == 1):
        outcome = PassStepOutcome()
        await step.conclude(outcome, bindings)
        return outcome, bindings
    typed, definitions = _schemas_of(_asked_types(context, is_outcome_asked=True), context)
    schemas = outcome_schemas_of(context, typed)
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
    question = _short_question(context, prompt, {"outcome": schema}, definitions)

    async def check(answer: Mapping[str, Any]) -> StepOutcome | OutcomeRefusedError:
        outcome = outcome_of_answer(context, answer, is_strict=asker.is_strict)
        try:
            await step.conclude(outcome, bindings)
        except OutcomeRefusedError as refused:
            return refused  # asking for the outcome again would not change the bindings
        return outcome

    answered = await asker.ask(question, check)
    if isinstance(answered, OutcomeRefusedError):
        raise answered
    return answered, bindings


def question_groups(context: StepContext) -> list[tuple[str, ...]]:
    """The write bindings, in the order of the program, grouped by question.

    Flags, numbers and texts are asked together, and choices behind them. A choice that would come first is
    asked by itself, and so are all other types. `benchmarks/cases/small_models.py` shows why: with others
    behind it, such a choice is less often right; all else is as right together, and numbers more often.
    """
    schemas, definitions = _schemas_of(_asked_types(context, *context.write_names), context)
    groups: list[tuple[str, ...]] = []
    is_open = False
    for name in context.write_names:
        kind = _kind(schemas[_binding_subject(name)], definitions.get("$defs", {}))
        if is_open and kind != "other" and len(groups[-1]) < _MOST_TOGETHER:
            groups[-1] = (*groups[-1], name)
        else:
            groups.append((name,))
            is_open = kind == "plain"
    return groups


def _kind(
    schema: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]
) -> Literal["plain", "choice", "other"]:
    """A flag, a number or a text; one of several values; or anything else."""
    reference: object = schema.get("$ref")
    if isinstance(reference, str):
        schema = definitions.get(reference.rpartition("/")[2], {})
    if "enum" in schema or "const" in schema:
        return "choice"
    return "plain" if schema.get("type") in _PLAIN_TYPES else "other"


async def _ask_bindings(
    asker: Asker, context: StepContext, prompt: StepPrompt, names: Sequence[str]
) -> dict[str, object]:
    schemas, definitions = _schemas_of(_asked_types(context, *names), context)
    asked = {name: schemas[_binding_subject(name)] for name in names}
    question = _short_question(context, prompt, asked, definitions)

    async def check(answer: Mapping[str, Any]) -> dict[str, object]:
        readings: list[Reading] = []
        if not asker.is_strict:
            types = {name: context.binding_types.get(name, object) for name in names}
            answer = read_variables(answer, types, readings)
        checked = {name: _checked(answer, name, context.binding_types.get(name, object)) for name in names}
        count_readings(readings)
        return checked

    return await asker.ask(question, check)


def _checked(answer: Mapping[str, Any], name: str, annotation: object) -> object:
    """The value that an answer gives to a binding."""
    if name not in answer:
        raise ExecutionError(f"the answer has no field '{name}'").caused_by("binding_missing")
    try:
        return validate_data(answer[name], annotation, subject=_binding_subject(name))
    except ToolValidationError as error:
        refused = ExecutionError(str(error)).without_content(error.message_without_content)
        raise refused.caused_by("binding_value") from error


def _short_question(
    context: StepContext,
    prompt: StepPrompt,
    asked: Mapping[str, Mapping[str, Any]],
    definitions: dict[str, Any],
    ending: str = "",
) -> Question:
    """The program alone as the system prompt, and the variables it reads alone as the user prompt.

    Small models attend to little: with the full prompt they classify markedly worse. One thing among several
    is named at the end; to name several there makes answers worse.

    Args:
        context: The state of the step.
        prompt: The prompts of the step.
        asked: The fields of the answer, by name, with their schemas.
        definitions: The `$defs` of the schemas.
        ending: The end of the user prompt; by default the name of what is asked.
    """
    values = [name for name, value in context.referenced_globals.items() if not callable(value)]
    shown = prompt.section("locals", only=_read_roots(context)).parts
    if values:
        shown = (*shown, "\n" if shown else "", *prompt.section("globals", only=values).parts)
    if ending:
        shown = (*shown, ending)
    elif len(asked) == 1 and len(context.write_names) > 1:
        shown = (*shown, f"\n\n{next(iter(asked))}?")
    if all(isinstance(part, str) for part in shown):
        shown = ("".join(map(str, shown)),)
    return Question(
        name="_".join(asked)[:_LONGEST_NAME],
        schema=object_schema(asked) | definitions,
        system_prompt=prompt.with_system_fragments(prompt.program.strip()),
        user_prompt=prompt.with_user_fragments(shown),
    )


def _read_roots(context: StepContext) -> list[str]:
    """The names that the program reads; write bindings only if they are read as well."""
    roots = dict.fromkeys(reference.partition(".")[0] for reference in context.references)
    return [name for name in roots if name in context.read_names or name not in context.write_names]


def _binding_subject(name: str) -> str:
    """The name of a write binding in errors."""
    return f"write binding '{name}'"


def _asked_types(context: StepContext, *names: str, is_outcome_asked: bool = False) -> dict[str, object]:
    """The types of write bindings and of the return value, by their names in errors."""
    types = {_binding_subject(name): context.binding_types.get(name, object) for name in names}
    if is_outcome_asked and "return" in context.allowed_kinds:
        types[RETURN_VALUE] = return_type(context)
    return types


def _schemas_of(
    types: Mapping[str, object], context: StepContext
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schemas of types, and the `$defs` they refer to, which belong at the root of the whole schema."""
    for subject, annotation in types.items():
        try:
            data_schemas((annotation,))
        except Exception as error:  # code of the user's types may raise anything
            raise AnnotationError(
                f"step {context.step_id}: {subject} has the type {type_name(annotation)}, which has no JSON "
                "Schema, so the direct outcome transport cannot ask for it; use another type or "
                "outcome_transport='tool'"
            ) from error
    together = data_schemas(tuple(types.values()))
    definitions = {"$defs": together.definitions} if together.definitions else {}
    return dict(zip(types, together.schemas, strict=True)), definitions
