"""The tools of a step, and answers that came as data.

Results keep within the room left in the model's context. Source: specification 8.3.

Each value passes the same checks as in `nh_assign`: hooks, oversight, permissions, the guards of the step's
actor, validation. It is part of an answer, not a call: it counts against no limit or budget of calls, and is
no node of the tree.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace as dataclass_replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import ExecutionError, HookError, NighthawkError, ToolBoundaryError
from ..kernel.actor import Pending, StepActor
from ..kernel.calls import current_place, in_call_place
from ..kernel.commands import Assign, Command, Evaluate
from ..kernel.context import are_statements
from ..kernel.environment import Environment
from ..kernel.fold import ToolCallFold
from ..kernel.reports import ToolCallActivity, ToolCallFailed
from ..kernel.tool_calls import (
    ToolError,
    ToolOutcome,
    ToolResultRenderingPolicy,
    check_size,
    outcome_of_failure,
    render_outcome,
)
from ..kernel.tools import FIND_TOOL_NAME, Tool
from ..lazy_exports import LazyModule
from ..observation import NodeState, find_node_writer
from ..secret_names import hides_value
from ..tracing import Span
from ..types.messages import ToolCall, ToolDefinition, ToolResult, UserContent
from ..types.outcomes import Reading
from .outcome_codec import BindingExpression, MadeValue
from .provided_tools import (
    ASSIGN,
    PROVIDED_TOOLS,
    ProvidedTool,
    describe_reply,
    find_tool,
    is_plain_assignment,
)
from .refusals import GuardedCalls, Refusals, count_correction, count_readings, find_host_error
from .task import Conversation

if TYPE_CHECKING:
    from . import readings as lenient
    from .tool_search import ToolFinder
else:
    lenient = LazyModule(f"{__package__}.readings")  # a plain assignment is read as it is
    ToolFinder = object

_Begun: TypeAlias = Callable[[], Awaitable[ToolResult]]


_PART_OF_REST = 4
"""A result takes at most 1/n of the room left, where n is this number, to leave room for later ones."""

_LEAST_TOKENS = 100
"""The number of tokens that a result may always have."""


class ResultRoom(Struct, eq=False):
    """Renders the results of one step within the room left in its model's context.

    Args:
        policy: The form of results and their greatest length.
        conversation: The conversation of the step. If the size of its context is not known, every result has
            the length that the policy allows.
    """

    policy: ToolResultRenderingPolicy
    conversation: Conversation

    @property
    def max_tokens(self) -> int:
        """The greatest number of tokens of the next result."""
        most = self.policy.tool_result_max_tokens
        window = self.conversation.context_window
        if window is None:
            return most
        left = window - self.conversation.estimate
        return min(most, max(_LEAST_TOKENS, left // _PART_OF_REST))

    def render(self, outcome: ToolOutcome) -> tuple[UserContent, ...]:
        """Render a result, within the room there is."""
        policy, max_tokens = self.policy, self.max_tokens
        if max_tokens < policy.tool_result_max_tokens:
            policy = replace(policy, tool_result_max_tokens=max_tokens)
        content = render_outcome(outcome, policy)
        self.conversation.hold(content)
        return content


class Toolbox:
    """The tools of one step.

    A call passes, in this order: the limit on its size, the loop guard, the active policies. A call that
    waits for one of them holds back the later calls of its response, because calls reach the step's state in
    the order in which they were begun. If no policy checks calls, a call reaches it at once.

    Args:
        actor: The actor of the step.
        environment: The environment of the step.
        provided: Names of the provided tools on offer.
        withheld: Names of those that a model gets in the next turn when it calls them.
        carried_out: Names of those that are executed though they are not on offer.
        functions: The user's tools, without deferred ones.
        room: Renders results, within the room left in the model's context.
        shows_secrets: Whether results show values with secret names.
        max_argument_bytes: The number of bytes that the arguments of a call may have.
        guarded: Guards against repeated calls; None for no guard.
        refusals: Phrases the failures of calls for the model.
        deferred: The names of those functions that the model's provider finds for it.
        finder: Finds deferred tools; None for none.
        offered: The tools that policies offer.
        is_strict: Whether calls with faults are refused; see `readings`.
        named: The functions that the block names, as tools: the results are kept under names.
        agent: The span of the agent; None without tracing.
    """

    def __init__(
        self,
        *,
        actor: StepActor,
        environment: Environment,
        provided: Sequence[str],
        functions: Mapping[str, Tool],
        withheld: Sequence[str] = (),
        carried_out: Sequence[str] = (),
        deferred: Collection[str] = (),
        room: ResultRoom,
        shows_secrets: bool,
        max_argument_bytes: int,
        guarded: GuardedCalls | None,
        refusals: Refusals,
        finder: ToolFinder | None = None,
        offered: Iterable[ProvidedTool] = (),
        is_strict: bool = False,
        named: Mapping[str, Tool] | None = None,
        agent: Span | None = None,
    ) -> None:
        self._actor = actor
        self._provided = {name: PROVIDED_TOOLS[name] for name in provided}
        self._withheld = {name: PROVIDED_TOOLS[name] for name in withheld}
        self._carried_out = {name: PROVIDED_TOOLS[name] for name in carried_out}
        self._handed_over: dict[str, ProvidedTool] = {}
        self._finder = finder
        if finder is not None:
            self._provided[FIND_TOOL_NAME] = find_tool(finder)
        self._provided |= {tool.definition.name: tool for tool in offered}
        self._functions = {**named, **functions} if named else functions
        self._named = named
        self._deferred = deferred
        self._room = room
        self._shows_secrets = shows_secrets
        self._max_argument_bytes = max_argument_bytes
        self._guarded = guarded
        self._refusals = refusals
        self._is_strict = is_strict
        self._agent = agent
        self._journal = environment.journal
        self._policies = environment.policies
        self._governing = self._policies.overriding["around_tool_call"]
        self._last_posted: anyio.Event | None = None
        self._failure: Exception | None = None

    def definitions(self, *, are_strict: bool) -> tuple[ToolDefinition, ...]:
        """The tools as a model sees them, provided ones first, in a stable order.

        Args:
            are_strict: Whether the endpoint enforces the schemas of those that are closed.
        """
        return (
            *(tool.strict_definition if are_strict else tool.definition for tool in self._provided.values()),
            *(
                dataclass_replace(function.definition, is_deferred=True)
                if name in self._deferred
                else function.definition
                for name, function in self._functions.items()
            ),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools on offer, with the deferred ones that were found."""
        return (*self._provided, *self._functions)

    def offer_found(self) -> tuple[ToolDefinition, ...]:
        """Offer the deferred tools that were found so far, and return all of them; see `AgentTask`.

        Raises:
            ToolRegistrationError: The provider would refuse one of them.
        """
        self._provided |= self._handed_over
        handed_over = tuple(tool.definition for tool in self._handed_over.values())
        if self._finder is None:
            return handed_over
        found = self._finder.offer()
        self._functions = {**self._functions, **found}
        return (*handed_over, *(function.definition for function in found.values()))

    def begin(self, call: ToolCall) -> _Begun:
        """Begin a call, or the one that was meant by it; return an awaitable of its result.

        Calls reach the step's state in the order in which they were begun, whatever the order of awaiting.
        The result has the name of the call as the model wrote it.

        Args:
            call: The call.

        Raises (on awaiting):
            ExecutionError: A synchronous natural function met an awaitable, or the step has ended.
            RepeatedToolCallError: The model made the same call again and again.
            StepAbortedError: Oversight, or a hook, ended the step.
            HookError: A hook or oversight failed, or rewrites to data that JSON cannot hold.
            BudgetExceededError: A budget of the step has no room for the call, or for work that it started.
        """
        if self._is_strict or is_plain_assignment(call, self._actor.context):
            return self._begin_placed(call, ())
        provided = (*self._carried_out, *self._withheld, *self._provided)
        read = lenient.read_call(
            call, provided, self._functions, self._actor.context, self._max_argument_bytes
        )
        begun = self._begin_placed(read.call, read.readings)
        if read.call.name == call.name:
            return begun

        async def named_as_written() -> ToolResult:
            return dataclass_replace(await begun(), name=call.name)

        return named_as_written

    def _begin_placed(self, call: ToolCall, readings: Sequence[Reading]) -> _Begun:
        if self._journal is not None:
            return in_call_place(partial(self._begin_observed, call, readings))
        return self._begin_observed(call, readings)

    def _begin_observed(self, call: ToolCall, readings: Sequence[Reading]) -> _Begun:
        parent, agent = find_node_writer(), self._agent

        def begin(call: ToolCall) -> _Begun:
            if readings:
                count_readings(readings)
            return self._begin_checked(call)

        if parent is None and agent is None:
            return begin(call)
        from .observed_calls import ObservedCall  # here, because most steps have no observers

        activity = None if agent is None else self._activity(call, agent)
        state: NodeState = "waiting" if self._governing else "running"
        return ObservedCall(parent, self._actor, call, activity, state).begin(begin)

    def _activity(self, call: ToolCall, agent: Span) -> ToolCallActivity:
        tool = self._provided.get(call.name) or self._functions.get(call.name)
        description = "" if tool is None else tool.definition.description
        return ToolCallActivity(call=call, description=description, agent=agent)

    def _begin_checked(self, call: ToolCall) -> _Begun:
        try:
            check_size(call, self._max_argument_bytes)
        except ToolBoundaryError as error:
            return partial(self._failed, call, error)
        if self._guarded is None:
            return self._begin_allowed(call)
        return self._guarded.begin(call, self._actor.progress.turns, self._begin_allowed, self._failed)

    def _begin_allowed(self, call: ToolCall) -> _Begun:
        if self._governing:
            posted = anyio.Event()
            previous, self._last_posted = self._last_posted, posted
            return partial(self._gated, call, previous, posted)
        try:
            pending = self._post(call)
        except ToolBoundaryError as error:
            return partial(self._failed, call, error)
        return partial(self._finish, call, pending)

    async def _gated(self, call: ToolCall, previous: anyio.Event | None, posted: anyio.Event) -> ToolResult:
        """Let a call pass the policies, and reach the step's state after the one that was begun before."""

        async def execute(passed: ToolCall) -> ToolResult:
            try:
                pending = self._post(passed)
            except ToolBoundaryError as error:
                return await self._failed(call, error)
            finally:
                posted.set()
            node = find_node_writer()  # the node of the call, which was waiting so far
            if node is not None:
                node.change_state("running")
            return await self._finish(call, pending)

        async def refuse(error: ToolBoundaryError) -> ToolResult:
            return await self._failed(call, error)

        try:
            if previous is not None:
                await previous.wait()
            if self._failure is not None:
                raise self._failure
            return await ToolCallFold(self._governing, self._functions, execute, refuse).ask(0, call)
        except Exception as error:
            if not posted.is_set():
                self._failure = error  # no later call reaches the step
            raise
        finally:
            posted.set()

    def _post(self, call: ToolCall) -> Pending[object]:
        if call.name in self._provided:
            return self._provided[call.name].post(self._actor, call.arguments)
        function = self._functions.get(call.name)
        if function is None and call.name in self._carried_out:
            return self._carried_out[call.name].post(self._actor, call.arguments)
        if function is None:
            self._hand_over(call.name)
            if self._finder is not None:
                self._finder.check_found(call.name)
            names = ", ".join(self.names) or "none"
            raise ToolBoundaryError(
                kind="resolution",
                message=f"there is no tool named {call.name!r}",
                guidance=f"Tools: {names}.",
            )
        bound = function.bind(call.arguments, context=self._actor.context, tool_call_id=call.id)
        if self._journal is not None:
            bound = self._journal.wrap_tool(current_place(), function.function, bound)
        return self._actor.post_call(call.name, bound)

    def _hand_over(self, name: str) -> None:
        """Offer a withheld tool from the next turn on, and refuse this call of it.

        Raises:
            ToolBoundaryError: The tool is a withheld one.
        """
        if (tool := self._withheld.get(name)) is not None:
            self._handed_over[name] = tool
            raise ToolBoundaryError(
                kind="resolution",
                message=f"{name} was not on offer, and nothing was run; from your next response on it is",
                guidance=f"Call {name} again if you need it.",
            )

    async def _finish(self, call: ToolCall, pending: Pending[object]) -> ToolResult:
        try:
            value = await self._actor.settle(pending)
        except ExecutionError:
            raise  # the contract with the host is broken; the model cannot fix it
        except NighthawkError as error:
            if (host_error := find_host_error(error)) is not None:
                raise host_error from host_error.__cause__
            return self._result(call, self._outcome_of_failure(pending.command, error))
        shown = describe_reply(pending.command, value, self._actor.context, hides=self._hides)
        if self._named and call.name in self._named:
            shown = {"result": self._keep(call.name, value), "value": shown}
        return self._result(call, ToolOutcome(payload=shown))

    def _keep(self, tool: str, value: object) -> str:
        """Keep a result for the outcome, and return its name."""
        context = self._actor.context
        number = 1
        while (name := f"{tool}_{number}") in context.step_locals or name in context.write_names:
            number += 1
        context.step_locals[name] = value
        context.helper_names.add(name)
        return name

    def _outcome_of_failure(self, command: Command, error: NighthawkError) -> ToolOutcome:
        outcome = self._refusals.of_call(error)
        if not isinstance(command, Assign | Evaluate) or not isinstance(error.__cause__, SyntaxError):
            return outcome
        if outcome.error is None or "nh_exec" not in self._provided or not are_statements(command.expression):
            return outcome
        return ToolOutcome(
            error=replace(outcome.error, guidance="These are statements: run them with nh_exec.")
        )

    def _hides(self, name: str, value: object) -> bool:
        """Whether the value of a name is hidden: a secret that the program does not mention."""
        if self._shows_secrets or name in self._actor.context.references:
            return False
        return hides_value(name, value)

    async def _failed(self, call: ToolCall, error: ToolBoundaryError) -> ToolResult:
        return self._result(call, self._refusals.of_call(error))

    def _result(self, call: ToolCall, outcome: ToolOutcome) -> ToolResult:
        if outcome.error is not None:
            count_correction(outcome.error.kind)
            if self._agent is not None:
                self._agent.note(ToolCallFailed(call=call, kind=outcome.error.kind))
        return ToolResult(
            call_id=call.id,
            name=call.name,
            content=self._room.render(outcome),
            is_error=outcome.error is not None,
        )


class AnswerBindings(Struct, frozen=True, eq=False):
    """Sets write bindings of one step to data.

    Args:
        actor: The actor of the step.
        environment: The environment of the step.
        policy: The form in which hooks are shown a value's outcome.
        refusals: Phrases the refusals of values for the model.
        answered: The values that answers have set last, by the names of their write bindings.
        kept: The write bindings that calls have changed since.
    """

    actor: StepActor
    environment: Environment
    policy: ToolResultRenderingPolicy
    refusals: Refusals
    answered: dict[str, object] = field(default_factory=dict[str, object])
    kept: set[str] = field(default_factory=set[str])

    async def set(self, bindings: Mapping[str, object]) -> None:
        """Set write bindings, in order.

        Null leaves a variable that calls have set or changed in the step, unless an answer gave it another
        value since: it hardly means to undo them, and some models write null for whatever they have nothing
        to say about.

        Args:
            bindings: Decoded JSON values, `BindingExpression`s or `MadeValue`s, by the names of the write
                bindings.

        Raises:
            ExecutionError: Some were refused; the message names them and the reasons. The others are set.
            StepAbortedError: Oversight, or a hook, ended the step.
            HookError: A hook or oversight failed, or rewrites to data that JSON cannot hold.
        """
        self._note_changed()
        bindings = {
            name: each
            for name, each in bindings.items()
            if name not in self.kept or not (each is None or isinstance(each, MadeValue))
        }
        await self._set(bindings)

    def _note_changed(self) -> None:
        """Note the variables that calls have changed since the last answer."""
        context, missing = self.actor.context, object()
        for name, value in context.changed_bindings().items():
            if self.answered.get(name, missing) is not value:
                self.kept.add(name)
        self.kept.update(name for name, _ in context.changes.changed())

    async def _set(self, bindings: Mapping[str, object]) -> None:
        if self.environment.policies.overriding["around_tool_call"]:
            ends = [await self._set_governed(name, value) for name, value in bindings.items()]
        else:
            posted = [self._post(name, value) for name, value in bindings.items()]
            ends = [await self._outcome(pending) for pending in posted]
        errors = {name: end.error for name, (end, _) in zip(bindings, ends, strict=True) if end.error}
        changed = self.actor.context.changed_bindings()
        self.answered.update({name: changed[name] for name in bindings if name in changed.keys() - errors})
        self.kept.difference_update(bindings.keys() - errors)
        if not errors:
            return
        stubs = (stub for _, stub in ends)
        problems = "; ".join(_at_field(name, error) for name, error in errors.items())
        kept = [name for name in bindings if name not in errors]
        note = f"; these are set already: {', '.join(kept)}" if kept else ""
        what = f"values in the answer's bindings were refused: {', '.join(errors)}"
        first = next(iter(errors.values()))
        cause = "binding_value" if first.kind == "invalid_input" else first.kind
        shown = "\n".join(dict.fromkeys(filter(None, stubs)))
        message = f"{problems}{note}" + (f"\n{shown}" if shown else "")
        raise ExecutionError(message).without_content(what).caused_by(cause)

    def _post(self, name: str, value: object) -> Pending[object]:
        if isinstance(value, BindingExpression):
            return self.actor.post_assign(name, value.text)
        if isinstance(value, MadeValue):
            return self.actor.post_made(name, value.value)
        return self.actor.post_assign(name, data=value)

    async def _set_governed(self, name: str, value: object) -> tuple[ToolOutcome, str]:
        given = {"expression": value.text} if isinstance(value, BindingExpression) else {"value": value}
        if isinstance(value, MadeValue):
            given = {"value": f"[made by the model: {value.value!r}]"}
        arguments = json.dumps({"target_path": name, **given})
        call = ToolCall(id=f"bindings.{name}", name=ASSIGN, arguments=arguments)
        ends: list[tuple[ToolOutcome, str]] = []

        async def execute(passed: ToolCall) -> ToolResult:
            if passed.name != ASSIGN:
                raise HookError(f"a value of an answer is set by {ASSIGN} alone", hook="around_tool_call")
            try:
                if isinstance(value, MadeValue) and passed.arguments == arguments:
                    pending = self.actor.post_made(name, value.value)
                else:
                    pending = PROVIDED_TOOLS[ASSIGN].post(self.actor, passed.arguments)
            except ToolBoundaryError as error:
                return await refuse(error)
            return shown(*await self._outcome(pending))

        async def refuse(error: ToolBoundaryError) -> ToolResult:
            return shown(outcome_of_failure(error), "")

        def shown(outcome: ToolOutcome, stub: str) -> ToolResult:
            ends.append((outcome, stub))
            content = render_outcome(outcome, self.policy)
            is_error = outcome.error is not None
            return ToolResult(call_id=call.id, name=call.name, content=content, is_error=is_error)

        governing = self.environment.policies.overriding["around_tool_call"]
        await ToolCallFold(governing, {}, execute, refuse, is_answer=True).ask(0, call)
        if not ends:
            raise HookError(f"a value of an answer is set by {ASSIGN} alone", hook="around_tool_call")
        return ends[-1]

    async def _outcome(self, pending: Pending[object]) -> tuple[ToolOutcome, str]:
        """Return the result of an assignment, with the stub of the type where the value does not match."""
        try:
            value = await self.actor.settle(pending)
        except ExecutionError:
            raise
        except NighthawkError as error:
            if (host_error := find_host_error(error)) is not None:
                raise host_error from host_error.__cause__
            return outcome_of_failure(error), self.refusals.stub(error)
        context = self.actor.context
        return ToolOutcome(payload=describe_reply(pending.command, value, context, hides=_hides_nothing)), ""


def _at_field(name: str, error: ToolError) -> str:
    """Return the error of a write binding's value, by the name of its field."""
    subject = f"write binding '{name}'"
    if error.message.startswith(subject):
        return f"bindings.{name}{error.message.removeprefix(subject)}"
    guidance = f" ({error.guidance})" if error.guidance and error.kind == "oversight" else ""
    return f"bindings.{name}: {error.message}{guidance}"


def _hides_nothing(name: str, value: object) -> bool:
    return False  # the model wrote the value itself
