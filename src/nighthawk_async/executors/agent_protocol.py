"""The small protocol of agents behind `AgentStepExecutor.from_agent`, and the usage that they report.

Their requests cannot be measured before they are sent: a task or a turn is refused when a budget has nothing
left, and reported usage is charged afterwards, so that one turn can exceed a budget.
"""

import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from ..errors import ExecutionError, NighthawkError
from ..observation import NodeWriter
from ..parallel import is_async_callable
from ..runtime.environment import find_environment
from ..runtime.policy import Position
from ..signatures import read_signature
from ..types.messages import Message, ToolCall, ToolDefinition, ToolResult, UserContent
from ..types.outcomes import OutcomeKind, StepOutcome
from ..types.quick_init import quick_init
from ..types.usage import Usage
from .answer_form import AnswerForm, flat_schema
from .conversation import Conversation
from .outcome_codec import answer_from_mapping

_OTHERS = re.compile(r"\b(?:str|bytes|int|float|bool|list|dict|tuple|None)\b")


def _keep_nothing(messages: Sequence[Message]) -> None:
    """Do nothing: the task is not that of a step."""


async def _refuse_bindings(bindings: Mapping[str, object]) -> None:
    raise ExecutionError(f"this task takes no values of write bindings as data: {', '.join(bindings)}")


def _begin_freely(
    call: ToolCall, execute: Callable[[ToolCall], Awaitable[ToolResult]]
) -> Callable[[], Awaitable[ToolResult]]:
    """Begin a call that nothing checks: the task is not that of a step."""
    return partial(execute, call)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentTask:
    """One step, as an agent sees it.

    Args:
        step_id: The block.
        system_prompt: The rendered system prompt.
        user_prompt: The rendered user prompt, text and media in order.
        tools: The tools on offer, without the one that delivers the outcome.
        begin_tool_call: Begins a tool call, in order; returns an awaitable of its result.
        outcome_transport: The transport of the outcome.
        allowed_kinds: The outcome kinds the block may end with.
        raise_error_types: The names a `raise` outcome may give as `raise_error_type`.
        conclude: Validates an outcome, and passes it to checks, hooks and oversight; raises `ExecutionError`
            with the reason when it is refused, `VerificationError` when a check refuses it,
            `StepRejectedError` when a hook or oversight rejects the commit. A check that has refused too
            often refuses every further outcome.
        settings: Settings of the model's endpoint.
        max_turns: Model requests allowed.
        max_tool_calls: Tool calls allowed.
        max_corrective_turns: Malformed answers allowed.
        max_tool_argument_bytes: Bytes allowed in an outcome; `begin_tool_call` limits those of tool calls.
        turn_boundary: Await it before each model request, or, without a model, wherever the work may pause.
            It waits while the step is suspended, and raises when the step was stopped or its task was asked
            to end: let that propagate. It returns the messages that arrived for the model since the last
            call; put them into the request. Each call begins a turn.
        may_end: Await it before returning an outcome. It waits and raises likewise. False means that messages
            wait for the model: take another turn if one is left. An outcome returned nevertheless counts, and
            the messages are reported as undelivered.
        report_usage: Counts the usage of one model request, by model id.
        answer_form: The ways to answer the block; None for outcomes without data. Agents of your own use
            `answer_schema` and `take_answer`.
        set_bindings: Sets write bindings to values that are data, decoded JSON, as `nh_assign` would; call it
            before `conclude`. It raises `ExecutionError` naming the bad ones and their faults; the others are
            set.
        word_refusal: Phrases an error that refuses an answer for the model, with the allowed values.
        found_tools: Returns the deferred tools that the model has found so far, in the order in which they
            were found. Call it before each model request, and append them to the tools of the request: only
            then can they be called. Empty where no tools are deferred.
        site: The address of the block, `python_module:function:number`, for `ModelRequest.site`.
        conversation: The messages of the step, for the library's own agent. Agents of your own keep theirs as
            they like.
        past: The messages that the conversation begins with, before the user prompt; see
            `nighthawk_async.scope`.
        keep_messages: Keeps all messages of the conversation, those of the past included, for
            `nighthawk_async.transcript`. Call it when the work ends, in whatever way.
        begin_native_call: Begins a call of a tool that the agent has of its own and carries out by itself,
            such as a shell. Like other calls it passes permissions, approvals, hooks, oversight and budgets,
            under the name in the call, best of the form `Agent.Tool`. The second argument is a function that
            gets the call once it is allowed, lets the agent carry it out, and returns its result. Returns an
            awaitable of the result that the agent's model is to see; for a refused call, the function is
            never called, and the result is the reason, an error.
    """

    step_id: str
    system_prompt: str
    user_prompt: tuple[UserContent, ...]
    tools: tuple[ToolDefinition, ...]
    begin_tool_call: Callable[[ToolCall], Callable[[], Awaitable[ToolResult]]]
    outcome_transport: Literal["tool", "native"]
    allowed_kinds: tuple[OutcomeKind, ...]
    raise_error_types: tuple[str, ...]
    conclude: Callable[[StepOutcome], Awaitable[object]]
    settings: Mapping[str, Any] = field(repr=False)  # may hold a key
    max_turns: int
    max_tool_calls: int
    max_corrective_turns: int
    max_tool_argument_bytes: int
    turn_boundary: Callable[[], Awaitable[tuple[UserContent, ...]]]
    may_end: Callable[[], Awaitable[bool]]
    report_usage: Callable[[str, Usage], None]
    answer_form: AnswerForm | None = None
    set_bindings: Callable[[Mapping[str, object]], Awaitable[None]] = _refuse_bindings
    word_refusal: Callable[[NighthawkError], str] = str
    found_tools: Callable[[], tuple[ToolDefinition, ...]] = tuple
    site: str = ""
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    past: tuple[Message, ...] = ()
    keep_messages: Callable[[Sequence[Message]], None] = _keep_nothing
    begin_native_call: Callable[
        [ToolCall, Callable[[ToolCall], Awaitable[ToolResult]]], Callable[[], Awaitable[ToolResult]]
    ] = _begin_freely

    @property
    def form(self) -> AnswerForm:
        """The ways to answer the block."""
        return self.answer_form or AnswerForm(
            allowed_kinds=self.allowed_kinds, raise_error_types=self.raise_error_types
        )

    @property
    def answer_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of an answer: the outcome, and values of write bindings as data."""
        return flat_schema(self.form)

    async def take_answer(self, answer: Mapping[str, Any]) -> StepOutcome:
        """Set the write bindings that an answer gives as data.

        Args:
            answer: The decoded JSON of an answer, as `answer_schema` describes it.

        Returns:
            The outcome that the answer gives, to be concluded or returned.

        Raises:
            ExecutionError: It is no answer to this block; the message names the fault and its place.
        """
        parsed = answer_from_mapping(answer, self.form)
        if parsed.bindings:
            await self.set_bindings(parsed.bindings)
        return parsed.outcome


@runtime_checkable
class StepExecutionAgent(Protocol):
    """Produces the outcome of one step, by any means.

    An agent that never calls `turn_boundary` has no turns: its step can be suspended and stopped only before
    it begins and at its end, before anything is committed; when its task is asked to end it finishes, and its
    outcome counts. Messages for its model are reported as undelivered.
    """

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step.

        Args:
            task: The step.

        Returns:
            The outcome. The write bindings are those that tool calls assigned and `set_bindings` set.

        Raises:
            ExecutionError: There is no acceptable outcome.
            ModelError: A model request failed.
        """
        ...


def objection_to_agent(agent: object) -> str | None:
    """Return the reason why an object is no agent; None when it may be one.

    Agents of other libraries also have a method `run`, which takes a prompt instead of a task.

    Args:
        agent: Any object.
    """
    run = getattr(agent, "run", None)
    if isinstance(agent, type) or not callable(run):
        return "it has no method run(task)"
    try:
        signature = read_signature(run)
    except (TypeError, ValueError):  # of a function that is not written in Python
        return None
    if not _takes_a_task([*signature.parameters.values()]):
        return f"its method run takes {signature}, not a task"
    is_async = is_async_callable(run) or is_async_callable(inspect.unwrap(run))
    if not is_async and not re.search("Awaitable|Coroutine", str(signature.return_annotation)):
        return "its method run is not `async def`"
    return None


def _takes_a_task(parameters: list[Parameter]) -> bool:
    """Whether parameters fit a call with an `AgentTask` alone, and are meant for one."""
    if not parameters or any(_is_required(each) for each in parameters[1:]):
        return False
    first = parameters[0]
    if first.kind is Parameter.VAR_POSITIONAL:
        return True
    if first.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    if first.default is not Parameter.empty and first.name != "task":
        return False
    annotation = first.annotation if isinstance(first.annotation, str) else _text_of(first.annotation)
    return "AgentTask" in annotation or _OTHERS.search(annotation) is None


def _text_of(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _is_required(parameter: Parameter) -> bool:
    variadic = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and parameter.kind not in variadic


class _BudgetedTurns(Struct, frozen=True, eq=False):
    """Begins turns that are charged."""

    plain: Callable[[], Awaitable[tuple[UserContent, ...]]]
    begin: Callable[[], Awaitable[None]]

    async def __call__(self) -> tuple[UserContent, ...]:
        messages = await self.plain()
        await self.begin()
        return messages


class _ChargedUsage(Struct, frozen=True, eq=False):
    """Counts usage and charges it."""

    plain: Callable[[str, Usage], None]
    charge: Callable[[str, Usage], Usage]

    def __call__(self, model_name: str, usage: Usage) -> None:
        counted = usage
        try:
            counted = self.charge(model_name, usage)
        finally:
            self.plain(model_name, counted)


class _ReportedUsage:
    """Counts usage and reports it to observers of the step. The requests have no nodes of their own."""

    def __init__(self, plain: Callable[[str, Usage], None], node: NodeWriter) -> None:
        self.plain = plain
        self._node = node
        self._usage: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def __call__(self, model_name: str, usage: Usage) -> None:
        self.plain(model_name, usage)
        with self._lock:
            so_far = self._usage.get(model_name, Usage()) + usage.credible()
            self._usage[model_name] = so_far
            self._node.set_usage(so_far, model=model_name)


async def foreign_task(task: AgentTask, node: NodeWriter | None) -> AgentTask:
    """The task as the user's own agent gets it.

    Args:
        task: The task.
        node: The node of the step; None without observers.

    Raises:
        BudgetExceededError: A budget allows no turn, or has nothing left; the agent may never ask.
        ConfigurationError: Under a budget of cost, an agent used a model of unknown price.
    """
    if node is not None:
        task = replace(task, report_usage=_ReportedUsage(task.report_usage, node))
    return await _budgeted_task(task)


async def _budgeted_task(task: AgentTask) -> AgentTask:
    """The task, its turns and usage charged to the active budgets; the same one without budgets."""
    environment = find_environment()
    if environment is None or not environment.policies.has(Position.BUDGETS):
        return task
    from ..policies.budgets.policy import active_accounts  # here, because few programs have a budget
    from ..policies.budgets.request import charge_foreign_usage
    from ..policies.budgets.steps import begin_foreign_turn, check_foreign_turn

    accounts = active_accounts()
    if not accounts:
        return task
    await check_foreign_turn(accounts)
    return replace(
        task,
        turn_boundary=_BudgetedTurns(task.turn_boundary, partial(begin_foreign_turn, accounts)),
        report_usage=_ChargedUsage(task.report_usage, partial(charge_foreign_usage, accounts)),
    )


def plain_task(task: AgentTask) -> AgentTask:
    """The original task: the user's own agent passed it on to one whose requests are reported and charged.

    Args:
        task: The task.
    """
    if isinstance(task.turn_boundary, _BudgetedTurns):
        task = replace(task, turn_boundary=task.turn_boundary.plain)
    while isinstance(task.report_usage, _ChargedUsage | _ReportedUsage):
        task = replace(task, report_usage=task.report_usage.plain)
    return task
