"""One step in progress: its actor, its program, how it ended, and its control by handles and attempts.

A step can be steered through the handle of its task from the moment it waits for admission until its executor
has its outcome, when the step is past its last turn boundary.
"""

import logging
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from math import inf
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..errors import ExecutionError, NighthawkError
from ..executions import Execution
from ..journal_ports import RecordedAnswer
from ..natural.blocks import NaturalBlock
from ..parallel.task_current import find_node, find_place, find_positions
from ..parallel.task_node import TaskNode, get_task_hooks
from ..pickling import PicklableError, set_public_module
from ..ports import Model
from ..tracing import Span
from ..types.execution import RETURN_NAME, ExecutionRef, PartialSink, PartialValues
from ..types.messages import Message, UserContent
from ..types.outcomes import RaiseStepOutcome, ReturnStepOutcome, StepOutcome
from ..types.unset import UNSET
from .actor import Steering, StepActor
from .commit import AroundCommit, CommitFold, Conclude
from .conclude import OutcomeRefusedError, StepResult, done_note, evaluated_value, exception_of, propose
from .context import StepContext
from .run_state import Slot, StepAdmission
from .usage_meter import KeptConversation, LastStep

_LOGGER = logging.getLogger("nighthawk")

Chosen = TypeVar("Chosen", bound="StepPolicies")
Result = TypeVar("Result")


class StepPolicies(Protocol):
    """The policies of a step; each method returns others. `policy.Policies` is the only such class."""

    @property
    def overriding(self) -> Mapping[Any, Sequence[Any]]:
        """The policies that override a method, outermost first, by method."""
        ...

    def find(self, kind: type[Any]) -> Any:
        """The policy of a class that has at most one; None for none."""
        ...

    def with_policy(self: Chosen, policy: Any) -> Chosen:
        """Return a copy with a policy that replaces the one of its class."""
        ...

    def without(self: Chosen, kind: type[Any]) -> Chosen:
        """Return a copy without the policies of a class."""
        ...

    def adding(self: Chosen, policies: Iterable[Any]) -> Chosen:
        """Return a copy with more of the program's own policies, each object once."""
        ...


class Verify(Protocol):
    """Runs the checks on a step's end; returns if all accept it."""

    async def __call__(self, outcome: StepOutcome, result: StepResult, *, is_last: bool) -> None:
        """Raise `VerificationError` if one refuses."""
        ...


class PartialListeners:
    """Those who receive the values of one step while its model's answer streams.

    Args:
        execution_ref: The identity of the step.
    """

    __slots__ = ("_attempts", "_execution_ref", "_is_closed", "_latest", "_sinks")

    def __init__(self, execution_ref: ExecutionRef) -> None:
        self._execution_ref = execution_ref
        self._sinks: list[PartialSink] = []
        self._attempts = 0
        self._latest: PartialValues | None = None
        self._is_closed = False

    @property
    def are_wanted(self) -> bool:
        """Whether anyone is listening now."""
        return any(sink.is_listening for sink in self._sinks)

    def add(self, sink: PartialSink) -> None:
        """Add a receiver, beginning with the latest values."""
        if self._latest is not None:
            sink.put(self._latest)
        if self._is_closed:
            sink.step_ended(self._execution_ref.execution_id or "")
        else:
            self._sinks.append(sink)

    def remove(self, sink: PartialSink) -> None:
        """Remove a receiver."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def begin_attempt(self) -> int:
        """Begin another answer of the model; return its number."""
        self._attempts += 1
        return self._attempts

    def deliver(self, values: Mapping[str, object], attempt: int, *, is_final: bool = False) -> None:
        """Deliver new values, without waiting.

        Args:
            values: All values so far, by name.
            attempt: The number of the answer that they belong to.
            is_final: Whether they are the last ones: the step is about to commit.
        """
        self._latest = partial = PartialValues(
            execution_ref=self._execution_ref,
            values=MappingProxyType(dict(values)),
            attempt=attempt,
            is_final=is_final,
        )
        for sink in tuple(self._sinks):
            sink.put(partial)

    def end(self, result: StepResult) -> None:
        """Deliver the last values: the step is about to commit."""
        if not self.are_wanted:
            return
        values = dict(result.bindings)
        if result.kind == "return":
            values[RETURN_NAME] = result.return_value
        self.deliver(values, max(1, self._attempts), is_final=True)

    def close(self) -> None:
        """End delivery: the step has ended."""
        self._is_closed = True
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.step_ended(self._execution_ref.execution_id or "")


class Opening(Protocol):
    """The beginning of a step's conversation, before its program."""

    def messages_for(self, model: Model | None, *, has_tools: bool) -> tuple[Message, ...]:
        """Return the messages in a form that a model takes.

        Args:
            model: The model that is asked; None for an agent of the program's own.
            has_tools: Whether the requests of the step offer tools.
        """
        ...


FindHostError: TypeAlias = Callable[[BaseException], NighthawkError | None]
"""Returns the error behind an error that no model can fix; None for none."""


class LimitWait(Protocol):
    """Limits the time that a step waits before it begins."""

    def __call__(self, execute: Callable[[Callable[[], None]], Awaitable[Result]], /) -> Awaitable[Result]:
        """Execute the step.

        Args:
            execute: Executes it; it gets a function to call when the step begins.
        """
        ...


class BlockPart:
    """A value that takes part in the steps whose blocks name it, instead of being read as data."""

    __slots__ = ()

    def __join_step__(self, step: "Step", name: str) -> None:
        """Take part in a step, before policies prepare it.

        Args:
            step: The step.
            name: The name in the block.
        """
        raise NotImplementedError


class _Conclusion(Struct, frozen=True, kw_only=True):
    outcome: StepOutcome
    result: StepResult


class _Evaluation(Struct, frozen=True, kw_only=True):
    """The evaluated expression of an outcome: a value, or a failure."""

    outcome: ReturnStepOutcome | RaiseStepOutcome
    value: object = None
    failure: ExecutionError | None = None


class Step:
    """One step in progress.

    Until it begins, a policy may set what belongs to it in `Policy.prepare`: `policies`, `verify`,
    `host_errors`, `opening`, the names in `context`, the guards of `actor`.

    An executor may conclude the step itself, so that it can show the model why an outcome was refused. The
    runner then uses that conclusion, and evaluates and verifies nothing a second time.

    Args:
        block: The block.
        actor: The actor that owns the step's state.
        program: The program text as the model sees it.
        is_interpolated: Whether the program text holds more than the author of the block wrote: rendered
            values, as that of an f-string does, or skills.
        execution: The execution of the step.
        policies: The policies that are active in it, and in everything that it causes.

    Attributes:
        context: The state of the step.
        verify: The check that the outcome must pass; None for none.
        host_errors: Find errors that concern the host only: no model is shown them, they leave the step.
        limit_wait: Limits the time until it begins; None for no limit.
        agent_span: The span of the agent that works on it; None for none.
        reviewers: The policies around its commit, outermost first.
        rejections_left: The number of commits that may still be rejected before the step fails. An executor
            that can send a rejection back to its model sets it.
        alongside: What is entered while its executor works and it concludes; None for nothing.
        partial_listeners: The listeners to its values while the model's answer streams; None for none.
        place: Its place in a run with a journal; None without one.
        record: What the journal is to record when it begins to ask; None if that is recorded.
        opening: The beginning of its conversation, before the program; None for none.
        kept: Its facts that are kept for its task; None for none.
    """

    __slots__ = (
        "_conclusion",
        "_evaluation",
        "actor",
        "agent_span",
        "alongside",
        "block",
        "context",
        "execution",
        "host_errors",
        "is_interpolated",
        "kept",
        "limit_wait",
        "opening",
        "partial_listeners",
        "place",
        "policies",
        "program",
        "record",
        "rejections_left",
        "reviewers",
        "verify",
    )

    def __init__(
        self,
        *,
        block: NaturalBlock,
        actor: StepActor,
        program: str,
        is_interpolated: bool = False,
        execution: Execution,
        policies: StepPolicies,
    ) -> None:
        self.block = block
        self.actor = actor
        self.context: StepContext = actor.context
        self.agent_span: Span | None = None
        self.execution = execution
        self.program = program
        self.is_interpolated = is_interpolated
        self.policies = policies
        self.verify: Verify | None = None
        self.host_errors: tuple[FindHostError, ...] = ()
        self.limit_wait: LimitWait | None = None
        self._conclusion: _Conclusion | None = None
        self._evaluation: _Evaluation | None = None
        self.reviewers: Sequence[AroundCommit] = ()
        self.rejections_left = 0
        self.alongside: AbstractAsyncContextManager[None] | None = None
        self.partial_listeners: PartialListeners | None = None
        self.place: str | None = None
        self.record: bytes | None = None
        self.opening: Opening | None = None
        self.kept: LastStep | None = None

    def listen(self, sink: PartialSink) -> PartialListeners:
        """Have a receiver get its values while the model's answer streams; return all receivers."""
        if self.partial_listeners is None:
            self.partial_listeners = PartialListeners(self.context.execution_ref)
        self.partial_listeners.add(sink)
        return self.partial_listeners

    def keep_conversation(
        self,
        model: str,
        system_prompt: str,
        tools: tuple[str, ...],
        messages: Sequence[Message],
        *,
        past: int = 0,
    ) -> None:
        """Keep the conversation of the step for its task.

        Args:
            model: The id of the model; empty for an agent of the program's own.
            system_prompt: The system prompt.
            tools: The names of the tools that were offered, without the one that delivers the outcome.
            messages: All messages, oldest first. The last calls may lack results.
            past: The number of the first messages that are an earlier conversation.
        """
        if self.kept is not None:
            self.kept.conversation = KeptConversation(
                model=model,
                system_prompt=system_prompt,
                messages=tuple(messages),
                tools=tools,
                past=past,
            )

    def converted_names(self, answer: object) -> list[str]:
        """Return the names of the values in an executor's answer that have their types already."""
        if not isinstance(answer, tuple) or len(cast("tuple[object, ...]", answer)) != 2:
            return []  # refused later
        outcome, bindings = cast("tuple[object, Mapping[str, object]]", answer)
        is_converted = self.context.is_converted
        names = [name for name in self.context.converted if is_converted(name, bindings.get(name, UNSET))]
        if isinstance(outcome, ReturnStepOutcome) and is_converted("return", outcome.return_value):
            names.append("return")
        return names

    def accept_recorded(self, recorded: RecordedAnswer) -> tuple[object, Mapping[str, object]]:
        """Return the recorded answer of an executor, whose values are not converted a second time."""
        for name in recorded.converted:
            if name in recorded.bindings:
                self.context.converted[name] = recorded.bindings[name]
            elif isinstance(recorded.outcome, ReturnStepOutcome):
                self.context.converted[name] = recorded.outcome.return_value
        return recorded.outcome, recorded.bindings

    def warn_of_lost(self, warn_once: Callable[[str], bool]) -> None:
        """Warn the author of the block that its model has assigned what the block does not set.

        Args:
            warn_once: Returns whether this is the first warning of the run about a subject.
        """
        names = sorted(self.context.lost_names)
        marks = ", ".join(f"<:{name}>" for name in names)
        text = (
            f"step {self.context.step_id}: the model has assigned {', '.join(names)}, which the block "
            f"does not set, so the values are lost; if they should be kept, write {marks} in the block"
        )
        if self.actor.node is not None:
            self.actor.node.write("note", f"{text}\n")
        if warn_once(text):  # a loop may run the block many times
            _LOGGER.warning(text)

    async def conclude(
        self, outcome: StepOutcome, bindings: Mapping[str, object], *, is_last: bool = False
    ) -> StepResult:
        """Validate, verify and inspect the end of the step; the same outcome object is concluded once.

        An expression is inspected before it is evaluated, and evaluated at most once, even if the outcome is
        refused. Checks need the value of a return expression, so they run after it; other outcomes are
        checked first.

        Args:
            outcome: The outcome.
            bindings: The values of the write bindings to commit.
            is_last: Whether there will be no other outcome.

        Raises:
            ExecutionError: The outcome, a binding or the return value is not acceptable.
            OutcomeRefusedError: A check refused it, or a hook or oversight rejected the commit.
            VerificationError: A check refused it, and there will be no other one.
            StepRejectedError: The commit was rejected, and there will be no other one.
            StepAbortedError: A hook or oversight ended the step.
            HookError: A check, a hook or oversight failed.
        """
        if self._conclusion is not None and self._conclusion.outcome is outcome:
            return self._conclusion.result
        result = propose(self.context, outcome, bindings)
        try:
            result = await self._conclude(outcome, result, is_last=is_last)
        except OutcomeRefusedError as refused:
            if self._evaluation is not None and self._evaluation.outcome is outcome:
                refused.feedback += done_note(outcome)
            raise
        self._conclusion = _Conclusion(outcome=outcome, result=result)
        return result

    async def _conclude(self, outcome: StepOutcome, result: StepResult, *, is_last: bool) -> StepResult:
        accept = _Acceptance(self, outcome, is_last=is_last)
        if isinstance(outcome, ReturnStepOutcome):  # its checks need the value
            result = await self._reviewed(outcome, result, accept, is_last=is_last)
        else:
            result = await self._reviewed(outcome, await accept(result), accept, is_last=is_last)
        if isinstance(outcome, RaiseStepOutcome):
            result = replace(result, exception=await self._exception(outcome, result))
        return result

    async def _reviewed(
        self, outcome: StepOutcome, result: StepResult, accept: Conclude, *, is_last: bool
    ) -> StepResult:
        """The result after all policies around the commit."""
        if not self.reviewers:
            return await accept(result)
        return await CommitFold(self.reviewers, self, outcome, accept, is_last=is_last).run(result)

    async def with_value(self, outcome: ReturnStepOutcome, result: StepResult) -> StepResult:
        """The result with its return value, evaluated if there is none yet."""
        if result.return_value is not UNSET:  # from the outcome, or from oversight
            return result
        return replace(result, return_value=await self._evaluated(outcome, result))

    async def _exception(self, outcome: RaiseStepOutcome, result: StepResult) -> Exception:
        if not outcome.raise_expression:
            return exception_of(self.context, outcome)
        return cast("Exception", await self._evaluated(outcome, result))

    async def _evaluated(self, outcome: ReturnStepOutcome | RaiseStepOutcome, result: StepResult) -> object:
        if self._evaluation is None or self._evaluation.outcome is not outcome:
            self._evaluation = await self._evaluate(outcome, result)
        if self._evaluation.failure is not None:
            raise self._evaluation.failure
        return self._evaluation.value

    async def _evaluate(
        self, outcome: ReturnStepOutcome | RaiseStepOutcome, result: StepResult
    ) -> _Evaluation:
        try:
            return _Evaluation(outcome=outcome, value=await evaluated_value(self.actor, outcome, result))
        except ExecutionError as error:
            return _Evaluation(outcome=outcome, failure=error)


class _Acceptance:
    """Accepts an outcome: its return expression is evaluated, and the checks are called, once."""

    __slots__ = ("_is_checked", "_is_last", "_outcome", "_step")

    def __init__(self, step: Step, outcome: StepOutcome, *, is_last: bool) -> None:
        self._step = step
        self._outcome = outcome
        self._is_last = is_last
        self._is_checked = False

    async def __call__(self, result: StepResult) -> StepResult:
        if isinstance(self._outcome, ReturnStepOutcome):
            result = await self._step.with_value(self._outcome, result)
        verify = self._step.verify
        if verify is not None and not self._is_checked:
            await verify(self._outcome, result, is_last=self._is_last)
        self._is_checked = True  # what a policy changes afterwards is validated, not verified
        return result


class StepAttempt:
    """One of several attempts at a step.

    Args:
        number: Its number, from 1.
        begins_at: The earliest time of its beginning, in seconds of the event loop's clock.
        before: The steering of the previous attempt; None for none.

    Attributes:
        execution_id: The id of its execution; None until it is prepared.
        steered: The latest steering.
    """

    __slots__ = ("_before", "_begins_at", "execution_id", "number", "steered")

    def __init__(self, *, number: int, begins_at: float = -inf, before: Steering | None = None) -> None:
        self.number = number
        self.execution_id: str | None = None
        self.steered = before
        self._begins_at = begins_at
        self._before = before

    def prepare(self, actor: StepActor) -> None:
        """Set the actor of the step, and pass on to it what was asked of the previous attempts."""
        if self._before is not None:
            actor.steer(*self._before.accepted)
            if self._before.is_to_park:
                actor.suspend()
        self.steered, self._before = actor, None
        self.execution_id = actor.context.execution_ref.execution_id

    async def wait(self, actor: StepActor, *, is_skipped: bool) -> None:
        """Wait, before admission, until it may begin; the step can be steered meanwhile.

        Args:
            actor: The actor of the step.
            is_skipped: Whether it may begin at once, because an earlier life of the run has begun it.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await actor.begin()
        if is_skipped:
            return
        while (seconds := self._begins_at - anyio.current_time()) > 0:
            await actor.interruptible(anyio.sleep(seconds))
            await actor.begin()


class ExecuteAttempt(Protocol):
    """Executes a block once, in the environment that is active when it is called."""

    def __call__(self, attempt: StepAttempt | None = None, /) -> Awaitable[StepResult]:
        """Execute the block.

        Args:
            attempt: The attempt, if there may be several; None otherwise.
        """
        ...


class UndeliveredSteeringWarning(PicklableError, RuntimeWarning):  # noqa: N818  (not an error)
    """A step has succeeded, and messages that it had accepted never reached a model.

    The executor or agent has no turns, or its last allowed turn had ended.
    """


class SteerableStep:
    """Lets a step be steered during the `with` statement, or until `end`.

    After that the step accepts nothing more. It warns about undelivered messages, unless it failed.

    Args:
        actor: The actor of the step.
    """

    __slots__ = ("_actor", "_has_ended", "_node")

    def __init__(self, actor: StepActor) -> None:
        self._actor = actor
        self._has_ended = False
        self._node: TaskNode | None = None

    def __enter__(self) -> "SteerableStep":
        if not find_place().is_elsewhere:
            node = find_node()
            node.add_control(self._actor)
            self._actor.task_node = node.writer
            self._actor.on_suspended = node.on_suspended
            self._node = node
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._has_ended:
            self._close()

    async def end(self) -> None:
        """Pass the last turn boundary, when the executor has its outcome: wait while the step is suspended.

        Raises:
            ExecutionError: The step was stopped.
        """
        await self._actor.may_end()
        undelivered = self._close()
        if undelivered:
            said = ", ".join(map(repr, undelivered))
            text = f"step {self._actor.context.step_id} has ended, its model never saw these messages: {said}"
            if self._actor.node is not None:
                self._actor.node.write("note", f"{text}\n")
            warnings.warn(text, UndeliveredSteeringWarning, stacklevel=1)

    def _close(self) -> tuple[UserContent, ...]:
        self._has_ended = True
        if self._node is not None:
            self._node.remove_control(self._actor)
            self._node = None
        return self._actor.end_steering()


class admitted(AbstractAsyncContextManager[None]):  # noqa: N801  (it reads as a function at its call)
    """Wait until a step may begin, and free its slot when it has ended.

    A step that waits for a slot can be steered like one in flight, with immediate effect. While it is
    suspended it does not wait for a slot; when it is resumed, it queues again.

    Args:
        actor: The actor of the step.
        admission: The admission of the run; None when any number of steps may be in flight.
        parent_slot: The slot of the parent step; None for none.

    Raises (on entering):
        ExecutionError: The step was stopped before it began.
        TaskCancelledError: The task of the step was asked to end.
    """

    __slots__ = ("_actor", "_admission", "_parent_slot", "_slot")

    def __init__(self, actor: StepActor, admission: StepAdmission | None, parent_slot: Slot | None) -> None:
        self._actor = actor
        self._admission = admission
        self._parent_slot = parent_slot
        self._slot: Slot | None = None

    async def __aenter__(self) -> None:
        await self._actor.begin()
        if self._admission is not None:
            decisions = get_task_hooks().find_decisions()
            with nullcontext() if decisions is None else decisions.depending(find_positions().path):
                await self._enter(self._admission)

    async def _enter(self, admission: StepAdmission) -> None:
        actor = self._actor
        while (slot := await actor.interruptible(admission.enter(self._parent_slot))) is None:
            await actor.begin()
        try:
            await actor.begin()  # it may have been asked to stop or park at the moment of admission
        except BaseException:
            admission.leave(slot)
            raise
        actor.slot = self._slot = slot

    async def __aexit__(self, *exc_details: object) -> None:
        if self._admission is not None and self._slot is not None:
            self._admission.leave(self._slot)


set_public_module("runtime", globals())
