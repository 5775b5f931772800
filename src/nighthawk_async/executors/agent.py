"""The built-in step executor: asks a model (specification 14.2)."""

from collections import ChainMap
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

import anyio.to_thread

from ..agent.answer_form import AnswerForm
from ..agent.policies import Offering
from ..agent.prompt import StepPrompt, check_mentioned_tools
from ..agent.refusals import GuardedCalls, Refusals, RepeatedCalls
from ..agent.schemas import Endpoint, check_tools, endpoint_of
from ..agent.task import AgentTask, Conversation, StepExecutionAgent, foreign_task, objection_to_agent
from ..agent.toolbox import AnswerBindings, ResultRoom, Toolbox
from ..configuration import Answers, StepExecutorConfiguration, StepPromptTemplates
from ..errors import ConfigurationError, StepLimitError
from ..kernel.context import StepContext
from ..kernel.environment import Environment, get_current_step, get_environment, run_on_own_loop
from ..kernel.reports import AgentActivity
from ..kernel.step import Step
from ..kernel.tool_calls import ToolResultRenderingPolicy
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..lazy_exports import LazyModule
from ..parallel.decided_limits import run_within
from ..pickling import checked_picklable
from ..ports import Model
from ..prompt.tokens import TokenCounter
from ..threads import thread_limiter
from ..tracing import Span, traced
from ..types.messages import Message, ToolCall, ToolDefinition, ToolResult
from ..types.model import OutcomeTransport, UsageReported
from ..types.outcomes import StepOutcome
from ..types.usage import Usage
from .model_agent import ModelAgent

if TYPE_CHECKING:
    from ..agent import named_tools, observed_calls, tool_search
    from . import direct, managed_agent, small_calls, text_calls
else:
    direct = LazyModule(f"{__package__}.direct")  # most models take tools
    text_calls = LazyModule(f"{__package__}.text_calls")  # likewise
    small_calls = LazyModule(f"{__package__}.small_calls")  # few blocks for small models name functions
    managed_agent = LazyModule(f"{__package__}.managed_agent")  # models of the program's own need no HTTP
    named_tools = LazyModule("nighthawk_async.agent.named_tools")  # most steps evaluate code
    observed_calls = LazyModule("nighthawk_async.agent.observed_calls")  # few agents have tools of their own
    tool_search = LazyModule("nighthawk_async.agent.tool_search")  # few steps have deferred tools


class AgentStepExecutor:
    """Runs steps with an agent: by default, the model loop over the configuration's model.

    Make one with `from_configuration`, `from_model` or `from_agent`. It holds no connection and no event-loop
    object, so it may be made once and used by many runs. Made from a configuration, its pickle is that
    configuration, keys in its settings included, and it is made again from it; otherwise its model or agent
    must be one that can be pickled.
    """

    def __init__(
        self,
        *,
        agent: StepExecutionAgent,
        configuration: StepExecutorConfiguration,
        agent_is_managed: bool,
    ) -> None:
        self.configuration = configuration
        self.agent = agent
        self.agent_is_managed = agent_is_managed
        compaction = configuration.compaction
        if self.model is not None and compaction is not None and compaction.model is not None:
            from ..models.other_model import other_model  # here, because few configurations name one

            other_model(compaction.model, self.model, configuration.model_settings)  # raises if it is unknown
        self.token_encoding = TokenCounter.resolve(
            encoding_name=configuration.tokenizer_encoding,
            model_name=self.model.name if self.model is not None else configuration.model,
        )
        self.tool_result_rendering_policy = ToolResultRenderingPolicy(
            counter=self.token_encoding,
            tool_result_max_tokens=configuration.context_limits.tokens_of_tool_result(self._context_window),
            json_renderer_style=configuration.json_renderer_style,
            show_secrets=configuration.show_secrets,
            shows_texts=configuration.profile != "specification",
        )

    @classmethod
    def from_configuration(cls, configuration: StepExecutorConfiguration) -> "AgentStepExecutor":
        """An executor for the configuration's model.

        Args:
            configuration: The configuration.

        Raises:
            UnknownModelError: There is no such provider or model.
            MissingCredentialError: The provider's API key is not set.
            ConfigurationError: Another setting is wrong.
        """
        if not isinstance(cast("object", configuration), StepExecutorConfiguration):
            raise ConfigurationError(
                f"from_configuration takes a StepExecutorConfiguration, not {type(configuration).__name__!r}."
            )
        agent = managed_agent.managed_agent(configuration)
        executor = cls(agent=agent, configuration=configuration, agent_is_managed=True)
        managed_agent.check_transport(executor.outcome_transport, executor.model, configuration)
        return executor

    @classmethod
    def from_model(
        cls, model: Model, *, configuration: StepExecutorConfiguration | None = None
    ) -> "AgentStepExecutor":
        """An executor for a model object: a model of your own, or `nighthawk_async.testing.ScriptedModel`.

        Args:
            model: The model.
            configuration: The configuration; its `model` is not used.

        Raises:
            ConfigurationError: The object is no model, or cannot do what the configuration asks for.
        """
        if not isinstance(cast("object", model), Model):
            raise ConfigurationError(
                f"{model!r} is no model: it has no stream(request), name and capabilities."
            )
        return cls.from_agent(agent=ModelAgent(model), configuration=configuration)

    @classmethod
    def from_agent(
        cls, agent: StepExecutionAgent, *, configuration: StepExecutorConfiguration | None = None
    ) -> "AgentStepExecutor":
        """An executor for an agent of your own. Another configuration does not rebuild the agent.

        Args:
            agent: The agent.
            configuration: The configuration of prompts, tools and limits; the default one when None.

        Raises:
            ConfigurationError: The object is no agent, or one of another library that takes a prompt.
        """
        if (objection := objection_to_agent(agent)) is not None:
            raise ConfigurationError(
                f"{agent!r} is no agent: {objection}. An agent has `async def run(self, "
                "task: nighthawk_async.executors.AgentTask) -> nighthawk_async.executors.StepOutcome`; wrap "
                "an agent of another library in such a class, or give its model to "
                "AgentStepExecutor.from_configuration."
            )
        return cls(
            agent=agent, configuration=configuration or StepExecutorConfiguration(), agent_is_managed=False
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its model, agent or configuration.

        Raises:
            TypeError: It was made from a model or an agent that cannot be pickled.
        """
        if self.agent_is_managed:
            return AgentStepExecutor._remade, (self.configuration,)
        made_from = self.agent if self.model is None else self.model
        advice = (
            f"an executor made from the object {type(made_from).__name__} cannot be pickled, because the "
            "object cannot; send its configuration, and make an executor from it there"
        )
        return AgentStepExecutor._remade, (self.configuration, checked_picklable(self.agent, advice))

    def __copy__(self) -> "AgentStepExecutor":
        return AgentStepExecutor(
            agent=self.agent, configuration=self.configuration, agent_is_managed=self.agent_is_managed
        )

    @classmethod
    def _remade(
        cls, configuration: StepExecutorConfiguration, agent: StepExecutionAgent | None = None
    ) -> "AgentStepExecutor":
        if agent is None:
            return cls.from_configuration(configuration=configuration)
        return cls.from_agent(agent=agent, configuration=configuration)

    @property
    def model(self) -> Model | None:
        """The model that is asked; None for an agent of your own."""
        return self.agent.model if isinstance(self.agent, ModelAgent) else None

    @property
    def outcome_transport(self) -> OutcomeTransport:
        """The transport of outcomes."""
        chosen = self.configuration.outcome_transport
        if chosen != "auto":
            return chosen
        if self.model is None:
            return "tool"
        capabilities = self.model.capabilities
        default = capabilities.default_transport
        return "direct" if default == "tool" and not capabilities.tools else default

    @cached_property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(self.model, self.configuration.model_settings, "tool")

    @cached_property
    def _templates(self) -> StepPromptTemplates:
        return self.configuration.templates

    @cached_property
    def _answers(self) -> Answers:
        return self.configuration.resolved_answers

    @property
    def _context_window(self) -> int | None:
        return None if self.model is None else self.model.capabilities.context_window

    def with_configuration(self, configuration: StepExecutorConfiguration) -> "AgentStepExecutor":
        """The executor with another configuration; a managed agent is rebuilt for its model.

        Raises:
            ConfigurationError: The configuration's model cannot be had.
        """
        if self.agent_is_managed:
            return AgentStepExecutor.from_configuration(configuration=configuration)
        return AgentStepExecutor.from_agent(agent=self.agent, configuration=configuration)

    def run_step(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Run a step from a worker thread of its event loop; see `run_step_async`.

        Raises:
            NighthawkError: The current thread is no worker thread of an event loop.
        """
        return run_on_own_loop(
            lambda: self.run_step_async(
                processed_natural_program=processed_natural_program,
                step_context=step_context,
                binding_names=binding_names,
                allowed_step_kinds=allowed_step_kinds,
            )
        )

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Run a step (specification 14.1). The step must be the current one.

        Raises:
            StepLimitError: A limit on turns, tool calls or seconds was reached.
            ExecutionError: There is no acceptable outcome.
            ModelError: A model request failed.
        """
        step_context.max_code_seconds = self.configuration.max_code_seconds
        seconds = self.configuration.step_timeout
        if seconds is None:
            return await self._carry_out(processed_natural_program)
        done = await run_within(
            seconds, lambda: self._carry_out(processed_natural_program), kind="step_timeout"
        )
        if done is not None:
            return done[0]
        raise StepLimitError(
            f"step {step_context.step_id}: no outcome after {seconds:g} seconds (step_timeout)"
        )

    async def _carry_out(self, program: str) -> tuple[StepOutcome, dict[str, object]]:
        environment = get_environment()
        settings = self.configuration.model_settings
        if environment.tracing is None:
            return await self._carry_out_in(environment, program, None)
        activity = AgentActivity(address=environment.step_path[-1], model=self.model, settings=settings)
        with traced(activity) as span:
            return await self._carry_out_in(environment, program, span)

    async def _carry_out_in(
        self, environment: Environment, program: str, span: Span | None
    ) -> tuple[StepOutcome, dict[str, object]]:
        step = environment.step or get_current_step()
        step.agent_span = span
        step.rejections_left = self.configuration.max_corrective_turns
        _check_visibility(self.configuration, step.context)
        transport, agent = self.outcome_transport, self.agent
        if transport == "direct" and isinstance(agent, ModelAgent):
            direct.refuse_native_tools(self.configuration.model_settings)
            if text_calls.are_due(agent.model, step.context, environment.tool_scope):
                transport, agent = "native", text_calls.TextCallAgent(agent.model, step.context)
        has_text_calls = agent is not self.agent
        offering = () if transport == "direct" else environment.policies.all_of(Offering)
        prompt = StepPrompt(
            configuration=self.configuration,
            templates=self._templates,
            counter=self.token_encoding,
            context=step.context,
            program=program,
            tool_result_max_tokens=self.tool_result_rendering_policy.tool_result_max_tokens,
            system_fragments=environment.system_prompt_suffix_fragments,
            user_fragments=environment.user_prompt_suffix_fragments,
            offered=await self._listed(environment, offering) if offering else "",
            **_of_level(step, transport, has_text_calls=has_text_calls),
        )
        await self._prepare(prompt)
        if transport == "direct":
            _check_mentioned_tools(step, (), transport)
            return await self._answer_directly(environment, step, prompt, span)
        await environment.tool_scope.prepare()
        task = self._task(environment, step, prompt, transport, offering, span)
        if not isinstance(agent, ModelAgent):  # each request of that one is reported and budgeted
            task = await foreign_task(task, step.actor.node)
        outcome = await agent.run(task)
        return outcome, step.context.changed_bindings()

    async def _listed(self, environment: Environment, offering: Sequence[Offering]) -> str:
        """The part of the system prompt about what policies offer."""
        limits, counter = self.configuration.context_limits, self.token_encoding
        texts = [await policy.listed(environment, limits, counter) for policy in offering]
        return "\n\n".join(filter(None, texts))

    async def _prepare(self, prompt: StepPrompt) -> None:
        """Do in a worker thread what takes long: writing large values, and loading a tokenizer for others."""
        if prompt.takes_long:
            await anyio.to_thread.run_sync(prompt.write_values, limiter=thread_limiter())
        elif not self.token_encoding.is_loaded and prompt.needs_counting:
            await anyio.to_thread.run_sync(self.token_encoding.load, limiter=thread_limiter())

    async def _answer_directly(
        self,
        environment: Environment,
        step: Step,
        prompt: StepPrompt,
        span: Span | None,
    ) -> tuple[StepOutcome, dict[str, object]]:
        if self.model is None:
            raise ConfigurationError("The direct outcome transport needs a model, not an agent of your own.")
        refusals = Refusals(step_id=step.context.step_id, names=prompt.names)
        bindings = AnswerBindings(step.actor, environment, self.tool_result_rendering_policy, refusals)
        report = _usage_report(environment, step, span)
        calls = None
        if text_calls.are_asked_for(self.model, step.context):
            policy = self.tool_result_rendering_policy
            calls = small_calls.calls_of_step(environment, step, self.configuration, policy, refusals, span)
        return await direct.answer_directly(
            self.model, step, prompt, bindings, report, site=environment.step_path[-1], calls=calls
        )

    def _task(
        self,
        environment: Environment,
        step: Step,
        prompt: StepPrompt,
        transport: OutcomeTransport,
        offering: Sequence[Offering],
        span: Span | None,
    ) -> AgentTask:
        configuration, context, model = self.configuration, step.context, self.model
        policy = self.tool_result_rendering_policy
        refusals = Refusals(step_id=context.step_id, names=prompt.names)
        conversation = Conversation.of_step(configuration, model, self.token_encoding, context.write_names)
        offered = prompt.offered_tools(transport)
        room = ResultRoom(policy, conversation)
        toolbox = self._toolbox(environment, step, room, refusals, offering, span, prompt, provided=offered)
        model_name = "" if model is None else model.name
        endpoint = self._endpoint
        tools = toolbox.definitions(are_strict=endpoint.enforces_strict_schemas)
        form = prompt.answer_form(
            transport, endpoint if transport == "tool" else Endpoint.of(model_name, "response")
        )
        _check_mentioned_tools(step, tools, transport)
        has_tools = bool(tools) or model is None  # an agent of the user's own may have others
        types = prompt.types(form)
        system_prompt = _system_prompt(prompt, transport, form, offered, types, has_tools=has_tools)
        has_calls = bool(tools) or transport == "tool"
        opening = step.opening
        past = () if opening is None else opening.messages_for(model, has_tools=has_calls)
        return AgentTask(
            step_id=context.step_id,
            system_prompt=system_prompt,
            user_prompt=prompt.user(types=types),
            tools=tools,
            begin_tool_call=partial(_begin_counted, step, toolbox),
            outcome_transport="native" if transport == "native" else "tool",
            allowed_kinds=context.allowed_kinds,
            raise_error_types=form.raise_error_types,
            conclude=partial(_conclude, step),
            settings=configuration.model_settings,
            site=environment.step_path[-1],
            max_turns=configuration.max_turns,
            max_tool_calls=configuration.max_tool_calls,
            max_tool_argument_bytes=configuration.max_tool_argument_bytes,
            max_corrective_turns=configuration.max_corrective_turns,
            turn_boundary=step.actor.turn_boundary,
            watch_messages=step.actor.watch_messages,
            may_end=step.actor.may_end,
            report_usage=_usage_report(environment, step, span),
            answer_form=form,
            set_bindings=AnswerBindings(step.actor, environment, policy, refusals).set,
            word_refusal=refusals.text,
            found_tools=toolbox.offer_found,
            conversation=conversation,
            past=past,
            keep_messages=partial(_keep_conversation, step, model_name, system_prompt, toolbox, len(past)),
            begin_native_call=partial(_begin_native, step, environment, span),
            answers=self._answers,
        )

    def _toolbox(
        self,
        environment: Environment,
        step: Step,
        room: ResultRoom,
        refusals: Refusals,
        offering: Sequence[Offering],
        span: Span | None,
        prompt: StepPrompt,
        *,
        provided: Sequence[str],
    ) -> Toolbox:
        configuration, offered = self.configuration, environment.tool_scope.offered()
        finder, functions = None, offered.listed
        if offered.deferred and offered.search == "native":
            tool_search.check_native_search(self.model, offered.searches)
            functions = {**offered.listed, **offered.deferred}
        elif offered.deferred:
            finder = tool_search.ToolFinder(offered.deferred, self.model, offered.searches)
        if functions:
            check_tools(tuple(functions.values()), self.model)
        offered_tools = [policy.provided_tool(environment, room, self.model) for policy in offering]
        guard = configuration.loop_guard
        return Toolbox(
            actor=step.actor,
            environment=environment,
            provided=provided,
            functions=functions,
            withheld=("nh_exec",) if configuration.provided_tools == "auto" and prompt.evaluates else (),
            carried_out=("nh_eval", "nh_assign") if configuration.provided_tools and prompt.evaluates else (),
            named=named_tools.tools_of(step.context, functions, is_in_text=self.outcome_transport == "direct")
            if prompt.takes_results
            else None,
            is_strict=self._answers == "strict",
            deferred=offered.deferred if finder is None else {},
            finder=finder,
            offered=filter(None, offered_tools),
            room=room,
            shows_secrets=configuration.show_secrets,
            max_argument_bytes=configuration.max_tool_argument_bytes,
            guarded=guard and GuardedCalls(environment, RepeatedCalls(guard)),
            refusals=refusals,
            agent=span,
        )


class _OfLevel(TypedDict, total=False):
    """The arguments of a prompt that follow from the level of code of its step."""

    evaluates: bool
    takes_results: bool
    code_note: str


def _of_level(step: Step, transport: OutcomeTransport, *, has_text_calls: bool) -> _OfLevel:
    coding = step.actor.coding
    if not has_text_calls:  # calls as text are the same at every level: nothing is evaluated
        if coding is None:
            return {}
        if coding.evaluates:
            return {"code_note": coding.note(step.context)}
    takes_results = transport != "direct" and named_tools.has_functions(step.context)
    note = "" if coding is None or coding.evaluates else coding.note(step.context)
    return {"evaluates": False, "takes_results": takes_results, "code_note": note}


def _system_prompt(
    prompt: StepPrompt,
    transport: OutcomeTransport,
    form: AnswerForm,
    offered: Sequence[str],
    types: str,
    *,
    has_tools: bool,
) -> str:
    if prompt.is_concise(transport):
        return prompt.system(
            tools=prompt.cell_instructions(offered),
            outcome=prompt.concise_instructions(form, has_tools=has_tools),
            types=types,
        )
    is_as_specified = prompt.configuration.profile == "specification"
    return prompt.system(
        tools=prompt.tool_instructions(has_tools=has_tools)
        if is_as_specified
        else prompt.cell_instructions(offered),
        outcome=prompt.answer_instructions(transport, form, has_tools=has_tools, offered=offered),
        types=types,
    )


def _usage_report(environment: Environment, step: Step, span: Span | None) -> Callable[[str, Usage], None]:
    """Return what counts usage for the run or scope, for the step, and for the span of the agent."""

    def report(model_name: str, usage: Usage) -> None:
        if span is not None:
            span.note(UsageReported(usage=usage))
        environment.usage_meter.add(model_name, usage, step.actor.progress.usage_meter)

    return report


def _begin_counted(step: Step, toolbox: Toolbox, call: ToolCall) -> Callable[[], Awaitable[ToolResult]]:
    """Begin a tool call that counts as in flight until its result is there."""
    result = toolbox.begin(call)

    async def finish() -> ToolResult:
        with step.actor.progress.in_flight(call):
            return await result()

    return finish


def _begin_native(
    step: Step,
    environment: Environment,
    span: Span | None,
    call: ToolCall,
    execute: "observed_calls.ExecuteCall",
) -> Callable[[], Awaitable[ToolResult]]:
    return observed_calls.NativeCalls(step, environment, span).begin(call, execute)


async def _conclude(step: Step, outcome: StepOutcome) -> None:
    await step.conclude(outcome, step.context.changed_bindings())


def _keep_conversation(
    step: Step, model_name: str, system_prompt: str, toolbox: Toolbox, past: int, messages: Sequence[Message]
) -> None:
    step.keep_conversation(model_name, system_prompt, toolbox.names, messages, past=past)


def _check_mentioned_tools(step: Step, tools: Sequence[ToolDefinition], transport: OutcomeTransport) -> None:
    if step.is_interpolated or "nh_" not in step.program:
        return  # an interpolated text may mention data
    context = step.context
    known = ChainMap(context.step_locals, context.step_globals)
    offered = [*(tool.name for tool in tools), *((OUTCOME_TOOL_NAME,) if transport == "tool" else ())]
    check_mentioned_tools(step.program, step_id=context.step_id, offered=offered, known=known)


def _check_visibility(configuration: StepExecutorConfiguration, context: StepContext) -> None:
    """Refuse to show everything when a wrapping executor hides that names are restricted.

    Raises:
        ConfigurationError: The step sees more than the configuration allows.
    """
    if configuration.context_limits.visible_names == "named" and context.visible_builtins is None:
        raise ConfigurationError(
            "visible_names='named' is not active, because the run's executor is another one: give it the "
            "attribute `configuration` of the AgentStepExecutor that it calls."
        )
